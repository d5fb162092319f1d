"""Description, first examples and verification of Atlas shards."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch._native import ShardReader
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import CorruptFileError, printable
from atompack_torch.formats.entry import (
    Compaction,
    CompactOptions,
    Description,
    Head,
    Summary,
    WrongOptionError,
    pieces_of,
)
from atompack_torch.formats.paths import Place, bytes_text
from atompack_torch.formats.text import example_document, example_text, table
from atompack_torch.formats.verification import Verification, check_part

if TYPE_CHECKING:
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset

_STRATEGIES = ("bare", "zstd", "zstd, shared dictionary", "zstd, own dictionary")
_MOST_SHARDS = 20  # of a dataset, in text
_NO_SHARD = ("", 2, 100, 0, 3, False)  # stands for the first of a dataset without shards
_COPIED_AT_ONCE = 1024  # examples


def open_dataset(path: Any, options: Mapping[str, Any]) -> ShardDataset:
    """Opens a dataset."""
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset

    return ShardDataset(path, **options)


def describe(places: Sequence[Place], full: bool, progress: bool | OnProgress) -> Description:
    """Describes datasets; no block is read."""
    sets = [_document(place) for place in places]
    document = {"n_examples": sum(s["n_examples"] for s in sets), "data_sets": sets}
    return Description(document, "\n".join(map(_text, sets)))


def _text(described: dict[str, Any]) -> str:
    rows = [("shard", "examples", "in a block", "stored")]
    for shard in described["shards"][:_MOST_SHARDS]:
        numbers = f"{shard['n_examples']:,}", f"{shard['block_size']:,}"
        stored = _STRATEGIES[shard["strategy"]]
        level = f" (level {shard['level']})" if shard["strategy"] else ""
        rows.append((printable(shard["name"]), *numbers, stored + level))
    lines = [
        f"{printable(described['path'])}: {described['n_examples']:,} examples in "
        f"{len(described['shards']):,} shards, {bytes_text(described['file_bytes'])}",
        table(rows, "  "),
    ]
    if len(described["shards"]) > _MOST_SHARDS:
        lines.append(f"  ... and {len(described['shards']) - _MOST_SHARDS:,} more")
    if described["warning"] is not None:
        lines.append(f"  warning: {printable(described['warning'])}")
    return "\n".join(lines)


def head(places: Sequence[Place], n: int, fields: Sequence[str] | None) -> Head:
    """Reads the first examples; they have no fields to select."""
    if fields is not None:
        raise WrongOptionError("fields: expected none for Atlas shards")
    return Head.of_items(map(_opened, places), n, example_text, example_document, "examples")


def verify(places: Sequence[Place], max_faults: int, progress: bool | OnProgress) -> Verification:
    """Reads every block."""
    from atompack_torch._core import read_example

    readers = [_reader(place, 0) for place in places]
    warned = [reader.shard_sizes_warning() for reader in readers]
    blocks = [
        (place.shown, partial(read_example, reader, first))  # parses its whole block
        for reader, place in zip(readers, places, strict=True)
        for first in _first_examples(_opened(place))
    ]
    counts = Counter(examples=sum(map(len, readers)), blocks=len(blocks))
    found = Verification([place.shown for place in places], counts)
    found.warnings = [warning for warning in warned if warning is not None]
    with reporting(progress, len(blocks), "verifying", "blocks") as report:
        for folder, check in blocks:
            check_part(found, folder, check, max_faults)
            report(1)
    return found


def statistics(
    places: Sequence[Place], options: Mapping[str, Any], progress: bool | OnProgress
) -> Summary:
    """Gathers statistics of every example, of any kind; options are a ``TypeError``."""
    from atompack_torch.formats.atlas_shards.statistics import ExampleCounter

    if options:
        given = ", ".join(options)
        raise TypeError(f"{places[0].shown}: statistics of Atlas shards have no options: {given}")
    datasets = [_opened(place) for place in places]
    counter = ExampleCounter()
    with reporting(progress, sum(map(len, datasets)), "statistics", "examples") as report:
        for dataset in datasets:
            for first in range(0, len(dataset), _COPIED_AT_ONCE):
                last = min(first + _COPIED_AT_ONCE, len(dataset))
                counter.add([dataset[i] for i in range(first, last)])
                report(last - first)
    found = counter.found()
    rows: list[tuple[str, ...]] = [("value", "count", "kind", "mean", "std", "min", "max")]
    for name, one in found.values.items():
        more = len(one.kinds) - 1
        kind = next(iter(one.kinds)) + (f" and {more} more" if more else "")
        spread = one.spread
        numbers = () if spread is None else (spread.mean, spread.std, spread.min, spread.max)
        shown = [f"{number:.6g}" for number in numbers] or [""] * 4
        rows.append((printable(name), f"{one.count:,}", kind, *shown))
    text = f"{found.n_examples:,} examples\n{table(rows, '  ')}"
    return Summary(found, found.as_dict(), text)


def compact(places: Sequence[Place], target: Place, options: CompactOptions) -> Compaction:
    """Writes the examples of datasets to a new one, or instead of the only source.

    Args:
        places: the sources, one after the other.
        target: the new folder, or the source itself.
        options: see ``CompactOptions``.

    Returns:
        Counts and sizes.

    Raises:
        ValueError: an option is out of range.
        IndexError: an index in the order is out of range.
        UnsafePickleError: an example is more than data.
        CorruptFileError: a block is damaged, or shards of a source are missing.
    """
    from atompack_torch._core import resolve_indices
    from atompack_torch.formats.atlas_shards.writer import ShardWriter

    readers = [_reader(place, None) for place in places]
    for reader in readers:
        if (difference := reader.shard_sizes_warning()) is not None:
            raise CorruptFileError(difference)
    sizes = [len(reader) for reader in readers]
    n = sum(sizes)
    order = np.arange(n) if options.order is None else options.order
    numbers = resolve_indices(order, n, None, "example").numpy()
    shard_size, block_size, strategy = options.shards or (None, None, None)
    _, old_strategy, old_block_size, _, old_level, _ = (readers[0].shards() or [_NO_SHARD])[0]
    old_size = max((shard[3] for shard in readers[0].shards()), default=1)
    in_place = [os.path.realpath(one.path) for one in places] == [os.path.realpath(target.path)]
    before = sum(place.stored_bytes() for place in places)
    codec: Any = options.codec
    with (
        reporting(options.progress, len(numbers), "compacting", "examples") as report,
        ShardWriter(
            target.path,
            max(old_size, 1) if shard_size is None else shard_size,
            old_block_size if block_size is None else block_size,
            old_strategy if strategy is None and codec is None else strategy,  # type: ignore[arg-type]
            old_level if options.level is None else options.level,
            num_threads=options.num_threads,
            mode="w" if in_place else "x",
            codec=codec,
        ) as writer,
    ):
        for _, source, examples in pieces_of(sizes, numbers, _COPIED_AT_ONCE):
            writer._copy(readers[source], examples.astype(np.uint64))
            report(len(examples))
    return Compaction(len(numbers), "examples", before, target.stored_bytes())


def _first_examples(dataset: ShardDataset) -> list[int]:
    """Index of the first example of each block."""
    ends: list[int] = dataset.block_sizes.cumsum(0).tolist()
    return [0, *ends[:-1]] if ends else []


def _reader(place: Place, cache_blocks: int | None) -> ShardReader:
    path, store = place.location
    return ShardReader((place.path if store is None else path, store), cache_blocks)


def _opened(place: Place) -> ShardDataset:
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # reported by info and verify
        return ShardDataset(place.path, **place.options)


def _document(place: Place) -> dict[str, Any]:
    reader = _reader(place, None)
    keys = ("name", "strategy", "block_size", "n_examples", "level")
    return {
        "path": place.shown,
        "n_examples": len(reader),
        "file_bytes": place.bytes(),
        "warning": reader.shard_sizes_warning(),
        "shards": [dict(zip(keys, shard[:5], strict=True)) for shard in reader.shards()],
    }
