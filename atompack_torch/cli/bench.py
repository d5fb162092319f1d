"""The command that measures how fast batches are read."""

from __future__ import annotations

import argparse
import random
import statistics
import time
from typing import Any

from atompack_torch.cli._arguments import (
    JSON,
    PATHS,
    URLS,
    Command,
    check_at_least,
    flag,
    integer,
    remote_options,
    threads,
)
from atompack_torch.cli._output import print_json
from atompack_torch.errors import printable
from atompack_torch.options import is_url

_SECONDS = 0.25  # of one round


class Bench(Command):
    """Measures how fast batches of a dataset are read, shuffled.

      atompack-torch bench alloys.atp
      atompack-torch bench --batch-size 256 --threads 4 --json train/ | jq .[0].molecules_per_s

    Each round makes batches of random molecules for a quarter of a second; the median of all rounds is
    shown. All molecules are read once before the first round, so that reading from memory is measured.
    """  # noqa: E501

    name = "bench"
    help = "measure how fast batches are read"
    arguments = (
        PATHS,
        JSON,
        URLS,
        integer("--batch-size", "molecules per batch (default: %(default)s)", 64),
        integer("--rounds", "number of rounds (default: %(default)s)", 9),
        threads("as many as torch uses"),
        flag("--quick", "run one short round"),
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        check_at_least(options, 1, "batch_size", "rounds", "threads")
        found = []
        for path in options.path:
            found.append(_measured(path, options))
            if not options.json:
                _print(found[-1])
        if options.json:
            print_json(found)
        return 0


def _print(one: dict[str, Any]) -> None:
    print(
        f"{printable(one['path'])}: {one['molecules_per_s']:,.0f} molecules/s, "
        f"{one['mb_per_s']:,.1f} MB/s, {one['us_per_batch']:,.1f} µs a batch of "
        f"{one['batch_size']:,}"
    )


def _measured(path: str, options: argparse.Namespace) -> dict[str, Any]:
    from atompack_torch.errors import FieldError
    from atompack_torch.formats.dispatch import open as open_path
    from atompack_torch.remote.urls import shown_url

    given = remote_options(options) if is_url(path) else {}
    if options.threads is not None:
        given["num_threads"] = options.threads
    shown = shown_url(path) if is_url(path) else path
    dataset: Any = open_path(path, **given)
    n = len(dataset)
    if n == 0:
        raise FieldError(f"{shown}: no molecules to read")
    size = min(options.batch_size, n)
    seconds, rounds = (0.02, 1) if options.quick else (_SECONDS, options.rounds)
    numbers = random.Random(0)
    for first in range(0, n, 1024):  # into memory
        _make(dataset, list(range(first, min(first + 1024, n))))
    results = []
    for _ in range(rounds):
        made = n_bytes = 0
        start = time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds or made == 0:
            n_bytes += _make(dataset, numbers.sample(range(n), size))
            made += 1
        results.append((made * size / passed, n_bytes / passed / 1e6, passed / made * 1e6))
    molecules, megabytes, microseconds = (
        statistics.median(each) for each in zip(*results, strict=True)
    )
    return {
        "path": shown,
        "batch_size": size,
        "rounds": rounds,
        "molecules_per_s": molecules,
        "mb_per_s": megabytes,
        "us_per_batch": microseconds,
    }


def _make(dataset: Any, indices: list[int]) -> int:
    """Makes a batch; returns the bytes of its tensors."""
    (batch,) = dataset.__getitems__(indices)
    values = batch.values() if hasattr(batch, "values") else ()
    return sum(getattr(value, "nbytes", 0) for value in values)


COMMANDS = (Bench(),)
