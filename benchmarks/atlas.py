"""ATLAS stores: how fast are columns and random batches read, and stores written?

    python benchmarks/atlas.py [--rounds N] [--quick | --full] [--cases NAME ...]

Next to atlas-python (the quickest of its bulk read, its stacked bulk read and a loop, on the same
store unless arrays have several chunks), to one stacked Zarr array a variable, and to one NetCDF
file a dataset. ``--full`` makes ``grid-48`` of 1,000 datasets, as the original's benchmark does:
7.7 GB of values in each of the stores. Every measurement is a separate process. ``first`` includes
opening the store; ``again`` is the best repeat on the same handle, or the only one where the first
use took more than a second. Files are in the page cache in both. ``quarter`` is a quarter of each
axis.

``share`` is the speed next to the bare work on one thread: decoding the same values in blocks of
8 MiB with the codec's own Python package, or copying them; above 100 % where two cores help, or
where a repeat finds blocks decoded already. Batches are 64 random datasets with all variables,
through ``DataLoader(num_workers=0)``. Writing ends when the library says that all is flushed.
``durable``: in that case ours waits for the disk, which the original does not.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import lz4.block
import numpy as np
import zstandard
from atlas_cases import DURABLE, WIDE, Case, Scale, cases
from atlas_sides import SLOW, measured
from results import Result, note
from turns import best, in_own_process

BLOCK_BYTES = 8 << 20
PEERS = {"atlas": "atlas-python", "zarr": "Zarr", "netcdf": "NetCDF"}
MORE_PEERS = PEERS | {"zarr-each": "Zarr per dataset"}  # of the shapes of the original
WAYS = {"atlas": ("atlas", "atlas across", "atlas loop")}
LIMITS = {
    "none": "bare copy into fresh memory",
    **{codec: f"bare decoder of {codec}, 1 thread" for codec in ("zstd", "lz4")},
}


say = functools.partial(print, flush=True)  # rows appear when they are measured


class Runner:
    """Runs measurements of one case in separate processes."""

    def __init__(self, case: Case, folder: Path, rounds: int) -> None:
        self.case, self.folder, self.rounds = case, folder, rounds

    def run(self, side: str, measure: str, rounds: int | None = None) -> list[float]:
        """Seconds; ``rounds``: repeats, if not the usual number."""
        library = side.split()[0]
        # A store of the original, so that both have the same blocks; but in the shapes of its own
        # benchmarks, and where arrays have several chunks, everybody reads what they wrote.
        reads_own = self.case.is_of_original or self.case.chunks != self.case.shape
        written_by = "atlas" if library == "ours" and not reads_own else library
        if measure == "write":
            written_by = side
        place = self.folder / written_by
        rounds = self.rounds if rounds is None else rounds
        return in_own_process(measured, side, self.case, place, measure, rounds)

    def best(self, library: str, measure: str) -> list[float]:
        """First and best repeat (or the only number), of the quickest way a library has."""
        ways = WAYS.get(library, (library,)) if measure in ("quarter", "full") else (library,)
        runs = [self.run(way, measure) for way in ways]
        first = min(times[0] for times in runs)
        return [first, min(min(times[1:]) for times in runs)] if len(runs[0]) > 1 else [first]


def bare_seconds(case: Case, rounds: int) -> float:
    """Decoding one variable of all datasets, or copying it into fresh memory."""
    column = case.column(case.variables[0])
    repeats = case.n / len(column)
    raw = memoryview(column.reshape(-1).view(np.uint8))
    if case.codec == "none":
        return repeats * best(lambda: column.copy(), rounds)
    blocks = [bytes(raw[i : i + BLOCK_BYTES]) for i in range(0, len(raw), BLOCK_BYTES)]
    if case.codec == "lz4":
        packed = [lz4.block.compress(block) for block in blocks]
        return repeats * best(lambda: [lz4.block.decompress(b) for b in packed], rounds)
    packed = [zstandard.compress(block, 3) for block in blocks]
    decoder = zstandard.ZstdDecompressor()
    return repeats * best(lambda: [decoder.decompress(b) for b in packed], rounds)


def report_sizes(runner: Runner) -> None:
    """Bytes on disk of everybody."""
    sizes = {
        side: sum(f.stat().st_size for f in (runner.folder / side).rglob("*") if f.is_file())
        for side in ("ours", *MORE_PEERS)
    }
    say(f"{runner.case.name + ': size, MB':30}", *(f"{n / 1e6:9.2f}" for n in sizes.values()))
    for side, peer in MORE_PEERS.items():
        what = f"{runner.case.name}: size"
        note(Result("ATLAS store", what, sizes["ours"] / 1e6, "MB", peer, sizes[side] / 1e6))


def report_loop(runner: Runner) -> None:
    """Opening one xarray dataset after the other; a stacked Zarr array has none to open."""
    for peer in ("atlas", "netcdf", "zarr-each"):
        what, name = f"{runner.case.name}: quarter, xarray of each", MORE_PEERS[peer]
        ours, theirs = (min(runner.run(side, "xarray loop")) for side in ("ours", peer))
        say(f"{what:30} {1e3 * ours:9.2f} {1e3 * theirs:9.2f} {theirs / ours:6.1f}x {name}")
        note(Result("ATLAS store", what, 1e3 * ours, "ms", name, 1e3 * theirs))


def report_blocks(runner: Runner) -> None:
    """Reads everything, alternating with a store in blocks of 8 MiB."""
    runner.run(WIDE, "write")
    turns = [[runner.run(side, "full", 0)[0] for side in ("ours", WIDE)] for _ in range(5)]
    ours, wide = (statistics.median(times) for times in zip(*turns, strict=True))
    what = f"{runner.case.name}: full, first"
    say(f"{what + ', blocks of 8 MiB':30} {1e3 * ours:9.2f} {1e3 * wide:9.2f} {wide / ours:6.2f}x")
    note(Result("ATLAS store", what, 1e3 * ours, "ms", "blocks of 8 MiB", 1e3 * wide, None, True))


def report(what: str, spent: Sequence[float], share: str = "") -> None:
    """One row: milliseconds of everybody, and how many times longer the others take."""
    ours, *others = spent
    cells = [f"{1e3 * s:9.2f}" for s in spent] + [f"{s / ours:6.1f}x" for s in others]
    say(f"{what:30}", *cells, share)
    for peer, theirs in zip(MORE_PEERS.values(), others, strict=False):
        note(Result("ATLAS store", what, 1e3 * ours, "ms", peer, 1e3 * theirs))


def measure_case(runner: Runner) -> None:
    case = runner.case
    sides = ("ours", *(MORE_PEERS if case.is_of_original else PEERS))
    ours, *peers = (runner.run(side, "write")[0] for side in sides)
    report(f"{case.name}: write", [ours, *peers])
    report(f"{case.name}: write, durable", [runner.run(DURABLE, "write")[0], *peers])
    bare = bare_seconds(case, runner.rounds)
    for measure in ("quarter", "full"):
        both = [runner.best(side, measure) for side in sides]
        for number, when in enumerate(("first", "again")):
            spent = [times[number] for times in both]
            what, is_full = f"{case.name}: {measure}, {when}", measure == "full"
            report(what, spent, f"{bare / spent[0]:7.0%}" if is_full else "")
            if is_full:
                numbers = 1e3 * spent[0], "ms", LIMITS[case.codec], 1e3 * bare
                note(Result("ATLAS store", what, *numbers, reference=True))
    found = {}
    if case.name == "tiny":
        report(f"{case.name}: open", [runner.run(side, "open")[0] for side in sides])
        found["random batch"] = [runner.run(side, "batches") for side in sides]
    if case.is_of_original:
        found["single"] = [runner.run(side, "single") for side in sides]
        found["quarter by xarray"] = [runner.run(side, "xarray") for side in sides]
    for what, runs in found.items():
        report(f"{case.name}: {what}, first", [times[0] for times in runs])
        report(f"{case.name}: {what}, again", [min(times[1:]) for times in runs])
    if case.is_of_original:
        report_loop(runner)
        report_sizes(runner)
    if case.name == "gridded":
        report_blocks(runner)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="repeats; the best one counts")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a tenth of the datasets")
    size.add_argument("--full", action="store_true", help="as large as the original's benchmark")
    parser.add_argument("--cases", nargs="*", help="names; default: all")
    arguments = parser.parse_args()
    titles = [f"{name:>9}" for name in ("ours", *MORE_PEERS)] + [
        f"{name:>7}" for name in MORE_PEERS
    ]
    say(f"best of {arguments.rounds} repeats; only 1 where the first use takes over {SLOW:.0f} s")
    say(f"{'milliseconds':30}", *titles, "  share")
    scale: Scale = "quick" if arguments.quick else "full" if arguments.full else "usual"
    for case in cases(scale):
        if arguments.cases and case.name not in arguments.cases:
            continue
        with tempfile.TemporaryDirectory(prefix="atlas-benchmark-") as folder:
            measure_case(Runner(case, Path(folder), arguments.rounds))


if __name__ == "__main__":
    main()
