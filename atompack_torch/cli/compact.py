"""The command that rewrites files without dead space."""

from __future__ import annotations

import argparse

from atompack_torch.cli._arguments import (
    JSON,
    STORAGE_OPTIONS,
    Command,
    codec_and_level,
    integer,
    source_and_target,
    storage_options_of,
)
from atompack_torch.cli._output import print_result, shows_progress
from atompack_torch.cli._writing import writing_errors
from atompack_torch.errors import printable
from atompack_torch.options import is_url


class Compact(Command):
    """Writes molecules to a new file, without dead space.

      atompack-torch compact grown.atp compacted.atp
      atompack-torch compact --codec zstd shards/ archive.atp

    TARGET may be SOURCE itself, which is then replaced; no other file is overwritten. Records are
    compared with their source before the new file gets its name. ATLAS stores and array files are
    compacted in place: TARGET is SOURCE. Examples of Atlas shards are written to new shards and blocks:

      atompack-torch compact --block-size 32 --strategy 2 --level 9 --shuffle 0 train/ shuffled/
    """  # noqa: E501

    help = "rewrite files without dead space, or with another codec"
    arguments = (
        source_and_target(
            "an .atp file, a folder of them, Atlas shards, an ATLAS store, an .af file, or a URL",
            "the new file or its URL, or SOURCE itself",
        ),
        codec_and_level("that of the source", "that of the source, or 3", None),
        integer("--shuffle", "write everything in a random order", metavar="SEED"),
        integer("--shard-size", "examples per Atlas shard (default: as in the source)"),
        integer("--block-size", "examples per block of shards (default: as in the source)"),
        integer(
            "--strategy",
            "compression of shards: 0 none, 1 zstd, 2 and 3 zstd with a dictionary for all or for "
            "each (default: as in the source)",
        ),
        JSON,
        STORAGE_OPTIONS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.formats.dispatch import compact_paths
        from atompack_torch.formats.entry import CompactOptions

        shards = (options.shard_size, options.block_size, options.strategy)
        wanted = CompactOptions(
            options.codec,
            options.level,
            _order(options),
            shows_progress(options),
            shards=None if shards == (None, None, None) else shards,
        )
        with writing_errors("only the source itself is replaced: choose another path"):
            found = compact_paths(
                options.source, options.target, wanted, storage_options_of(options)
            )
        sizes = {"bytes_before": found.bytes_before, "bytes_after": found.bytes_after}
        text = (
            f"{printable(options.target)}: {found.n_items:,} {found.unit}, "
            f"{found.bytes_after:,} bytes (before: {found.bytes_before:,})"
        )
        print_result(options, {f"n_{found.unit}": found.n_items, **sizes}, text)
        return 0


def _order(options: argparse.Namespace) -> object:
    """Returns the order of the molecules; None: that of the source."""
    if options.shuffle is None:
        return None
    import numpy as np

    from atompack_torch.formats.dispatch import open as open_path

    given = {"storage_options": storage_options_of(options)} if is_url(options.source[0]) else {}
    n = sum(len(open_path(path, convert=False, **given)) for path in options.source)
    return np.random.default_rng(options.shuffle).permutation(n)
