"""``atompack-torch bench``: speed of batches from ``.atp`` files, compared with atompack-db.

``race.py`` measures, ``readers.py`` holds the data and the contestants. `run` is the command.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atompack_torch import AtpDataset
from atompack_torch.errors import AtompackError
from races.options import add_options as add_options
from races.options import resolve_options as resolve_options
from races.race import Entry, Setting, Standing, in_own_process, race
from races.readers import atompack_db, fingerprint, make_atp, ours


@dataclass(frozen=True)
class Row:
    """One line of the table: our speed, theirs, and the required ratio."""

    case: str
    required: float | None
    ours: Standing
    theirs: Standing

    def text(self) -> str:
        """Format the line, the ratio first."""
        mark = ""
        if self.required is not None:
            mark = f"{self.required:g}x {'ok' if self.theirs.ratio >= self.required else 'SHORT'}"
        spread = f"({self.theirs.ratio_low:.2f}-{self.theirs.ratio_high:.2f})"
        return (
            f"{self.theirs.ratio:8.2f}x {spread:>15} {mark:>9}  {self.case:<32}"
            f"{_speed(self.ours)}  {_speed(self.theirs)}  {self.theirs.name}"
        )


HEADER = (
    f"{'ratio':>9} {'(rounds)':>15} {'at least':>9}  {'case':<32}"
    f"{'ours: molecules/s, MB/s':>24}  {'theirs':>24}"
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
    required: float
    codec: str
    workers: int = 0
    through_loader: bool = True


STANDARD = (
    Case("DataLoader, 0 workers, none", 4, "none"),
    Case("DataLoader, 0 workers, zstd 3", 5, "zstd"),
    Case("DataLoader, 0 workers, lz4", 3, "lz4"),
    Case("DataLoader, 2 workers, none", 4, "none", workers=2),
    Case("ds.batch(indices) alone, none", 8, "none", through_loader=False),
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
        yield Row(case.title, case.required, first, second)


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


def bench_files(paths: Sequence[Path], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure our speed on given files, next to atompack-db's where it can read them."""
    results = []
    for path in paths:
        dataset = AtpDataset(path)
        molecules = len(dataset)
        if molecules == 0:
            raise AtompackError(f"{path}: no molecules to read")
        setting = Setting(path, molecules, options.workers, options.batch_size)
        entries = [Entry("ours", ours, setting)]
        if importlib.util.find_spec("atompack") and path.is_file():
            entries.append(Entry("atompack-db", atompack_db, setting))
        progress(f"{path}: {molecules} molecules")
        results.append({"path": str(path), "standings": _race_files(entries, options)})
    return results


def _race_files(entries: list[Entry], options: argparse.Namespace) -> list[Standing]:
    try:
        return race(entries, options.rounds, options.seconds)
    except ValueError as error:  # raised by atompack-db for sections it cannot concatenate
        if len(entries) == 1:
            raise
        progress(f"ours alone, because a reader refused: {error}")
        return race(entries[:1], options.rounds, options.seconds)


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


def run(options: argparse.Namespace) -> int:
    """Measure the files named, or run the standard comparison; returns the exit status."""
    resolve_options(options)
    warn_if_busy()
    if options.paths:
        _print_files(bench_files(options.paths, options), options.json)
        return 0
    if importlib.util.find_spec("atompack") is None:
        raise ImportError("the standard comparison needs atompack-db: pip install atompack-db")
    with tempfile.TemporaryDirectory() as folder:
        progress(f"writing {options.molecules} molecules with atompack-db")
        paths = in_own_process(make_atp, Path(folder), options.molecules)
        check(paths, options.molecules)
        print_rows(compare(paths, options), options.json)
    return 0


def print_rows(rows: Iterable[Row], as_json: bool) -> None:
    """Print the table line by line, or all of it as JSON."""
    if as_json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
        return
    print(HEADER)
    for row in rows:
        print(row.text(), flush=True)


def _print_files(results: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(results, indent=2, default=dataclasses.asdict))
        return
    for result in results:
        mine, *others = result["standings"]
        for other in others:
            print(HEADER)
            print(Row(Path(result["path"]).name, None, mine, other).text())
        if not others:
            print(
                f"{result['path']}: {mine.molecules_per_s:,.0f} molecules/s,"
                f" {mine.mb_per_s:,.1f} MB/s"
            )
