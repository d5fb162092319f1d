"""Speed of batches from ``.atp`` files, compared with atompack-db.

``race.py`` measures, ``readers.py`` holds the data and the contestants.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from turns import in_own_process

from races.race import Entry, Setting, Standing, race
from races.readers import atompack_db, fingerprint, ours


@dataclass(frozen=True)
class Row:
    """One line of the table: our speed and theirs."""

    case: str
    ours: Standing
    theirs: Standing

    def text(self) -> str:
        """Format the line, the ratio first."""
        spread = f"({self.theirs.ratio_low:.2f}-{self.theirs.ratio_high:.2f})"
        return (
            f"{self.theirs.ratio:8.2f}x {spread:>15}  {self.case:<32}"
            f"{_speed(self.ours)}  {_speed(self.theirs)}  {self.theirs.name}"
        )


HEADER = (
    f"{'ratio':>9} {'(rounds)':>15}  {'case':<32}{'ours: molecules/s, MB/s':>24}  {'theirs':>24}"
)


def _speed(standing: Standing) -> str:
    return f"{standing.molecules_per_s:>15,.0f} {standing.mb_per_s:>8,.1f}"


def progress(text: str) -> None:
    """Print a progress message on stderr."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def warn_if_busy() -> None:
    """Warn if other work shares the processor, which makes the ratios unreliable."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > 0.5 * cores:
        progress(f"the machine is busy (load {load:.1f} on {cores} cores): mind the spread")


@dataclass(frozen=True)
class Case:
    """One line of the standard comparison."""

    title: str
    codec: str
    workers: int = 0
    through_loader: bool = True


STANDARD = (
    Case("DataLoader, 0 workers, none", "none"),
    Case("DataLoader, 0 workers, zstd 3", "zstd"),
    Case("DataLoader, 0 workers, lz4", "lz4"),
    Case("DataLoader, 2 workers, none", "none", workers=2),
    Case("ds.batch(indices) alone, none", "none", through_loader=False),
)


def compare(paths: Mapping[str, Path], options: argparse.Namespace) -> Iterator[Row]:
    """Run the standard comparison on the files of `make_atp`, row by row."""
    for case in STANDARD:
        progress(case.title)
        setting = Setting(
            paths[case.codec],
            options.molecules,
            case.workers,
            options.batch_size,
            case.through_loader,
        )
        entries = [Entry("ours", ours, setting), Entry("atompack-db", atompack_db, setting)]
        first, second = race(entries, options.rounds, options.seconds)
        yield Row(case.title, first, second)


def check(paths: Mapping[str, Path], molecules: int) -> None:
    """Check that both sides deliver the same tensors, else their speeds are not comparable."""
    indices = list(range(0, molecules, max(1, molecules // 64)))
    for codec, path in paths.items():
        mine, other = (
            in_own_process(fingerprint, build, Setting(path, molecules), indices)
            for build in (ours, atompack_db)
        )
        if mine != other:
            raise AssertionError(f"{codec}: the batches differ: ours {mine}, atompack-db {other}")


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {number}")
    return number


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all of these benchmarks take."""
    parser.add_argument("--rounds", type=positive, default=9, help="(default: %(default)s)")
    parser.add_argument("--molecules", type=positive, default=20_000, help="(default: %(default)s)")
    parser.add_argument("--batch-size", type=positive, default=64, help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a smoke run: small and imprecise")
    parser.set_defaults(seconds=0.25)  # of one round of one contestant


def resolve_options(options: argparse.Namespace) -> None:
    """Apply ``--quick`` to the options."""
    if options.quick:
        options.rounds, options.seconds = min(options.rounds, 3), 0.02
        options.molecules = min(options.molecules, 2000)


def script_options(
    description: str | None, add: Callable[[argparse.ArgumentParser], object] | None = None
) -> argparse.Namespace:
    """Parse the options of a benchmark that is a script; ``add`` adds its own."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    if add is not None:
        add(parser)
    options = parser.parse_args()
    resolve_options(options)
    warn_if_busy()
    return options


def print_rows(rows: Iterable[Row]) -> None:
    """Print the table line by line."""
    print(HEADER)
    for row in rows:
        print(row.text(), flush=True)
