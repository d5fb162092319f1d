"""The command that measures how fast batches are read."""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from atompack_torch.cli._arguments import (
    JSON,
    PATHS,
    URLS,
    Command,
    argument,
    check_at_least,
    flag,
    group,
    integer,
    real,
    remote_options,
    threads,
)
from atompack_torch.cli._output import print_json
from atompack_torch.cli._training import TRAINERS, measured, tables
from atompack_torch.errors import printable
from atompack_torch.options import is_url

_SECONDS = 0.25  # of one round


class Bench(Command):
    """Measures how fast batches of a dataset are read, shuffled.

      atompack-torch bench alloys.atp
      atompack-torch bench --batch-size 256 --threads 4 --json train/ | jq .[0].molecules_per_s

    Each round makes batches of random molecules for a quarter of a second; the median of all rounds is
    shown. All molecules are read once before the first round, so that reading from memory is measured.

      atompack-torch bench --train mace --cutoff 5 alloys.atp

    With --train, training steps of a small model run on some of the molecules, once with the trainer's
    own loader and once with ours. Shown are how long a step waits for its batch, how long an epoch of all
    molecules takes, and how long a step would wait on a faster device.
    """  # noqa: E501

    help = "measure how fast batches are read"
    arguments = (
        PATHS,
        JSON,
        URLS,
        integer("--batch-size", "molecules per batch (default: 64; with --train 16)"),
        integer("--rounds", "number of rounds (default: %(default)s)", 9),
        threads("as many as torch uses"),
        flag("--quick", "run one short round"),
        group(
            "options for training",
            argument(
                "--train", choices=TRAINERS, help="measure steps of this trainer, on a GPU if any"
            ),
            real("--cutoff", "LENGTH", "of the edges, in Å (default: %(default)s)", 5.0),
            integer("--steps", "steps of a pass, two with each loader (default: %(default)s)", 20),
            integer("--workers", "worker processes of the trainer's loader (default: none)", 0),
            real("--step-ms", "MS", "duration of a step of your own model, instead of running one"),
        ),
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        check_at_least(options, 1, "batch_size", "rounds", "threads", "steps")
        check_at_least(options, 0, "cutoff", "workers", "step_ms")
        if options.train is not None:
            return _train(options)
        found = []
        for path in options.path:
            one = _measured(path, options)
            if not options.json:
                _print(one)
            found.append(one)
        if options.json:
            print_json(found)
        return 0


def _train(options: argparse.Namespace) -> int:
    found = []
    for path in options.path:
        shown, dataset = _opened(path, options)
        with contextlib.redirect_stdout(sys.stderr):  # trainers print when imported
            found.append(measured(shown, dataset, options))
        if not options.json:
            print(tables(found[-1]), flush=True)
    if options.json:
        print_json(found)
    return 0


def _print(one: dict[str, Any]) -> None:
    print(
        f"{printable(one['path'])}: {one['molecules_per_s']:,.0f} molecules/s, "
        f"{one['mb_per_s']:,.1f} MB/s, {one['us_per_batch']:,.1f} µs a batch of "
        f"{one['batch_size']:,}"
    )


def _opened(path: str, options: argparse.Namespace) -> tuple[str, Any]:
    """Opens a path; returns also what messages call it."""
    from atompack_torch.errors import FieldError
    from atompack_torch.formats.dispatch import open as open_path
    from atompack_torch.options import redact_path

    given = remote_options(options) if is_url(path) else {}
    if options.threads is not None:
        given["num_threads"] = options.threads
    shown = redact_path(path)
    dataset: Any = open_path(path, **given)
    if len(dataset) == 0:
        raise FieldError(f"{shown}: no molecules to read")
    return shown, dataset


def _measured(path: str, options: argparse.Namespace) -> dict[str, Any]:
    shown, dataset = _opened(path, options)
    n = len(dataset)
    size = min(options.batch_size or 64, n)
    seconds, rounds = (0.02, 1) if options.quick else (_SECONDS, options.rounds)
    numbers = random.Random(0)
    for first in range(0, n, 1024):  # into memory
        _make(dataset, range(first, min(first + 1024, n)))
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


def _make(dataset: Any, indices: Sequence[int]) -> int:
    """Makes a batch; returns the number of bytes of its tensors."""
    (batch,) = dataset.__getitems__(indices)
    values = batch.values() if hasattr(batch, "values") else ()
    return sum(getattr(value, "nbytes", 0) for value in values)
