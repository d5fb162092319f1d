"""How fast does ``Loader`` hand out batches, and next to what?

    python benchmarks/loaders.py [--quick] [--edges] [--rounds N] [--molecules N]

Random epochs of the file of read_atp.py, in batches of 64; rounds are taken as there.

Then batches with edges within 5 Å, of the ways in edge_peers.py, which end with the same tensors.
There one process has them all, which take turns at the same batches of up to 2,048 molecules.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import edge_peers
import peers
import races as bench
import torch
from races.race import Build, Contestant, Entry, Setting, Standing, race, touch
from races.readers import atompack_db, fingerprint, make_atp, ours
from results import noted
from turns import in_own_process

from atompack_torch import AtpDataset, Loader

MOST_WITH_EDGES = 2048  # molecules; making edges takes longer than reading by far


def one_thread(setting: Setting) -> Contestant:
    """``Loader`` with one thread."""
    return _loader(setting, 1)


def two_threads(setting: Setting) -> Contestant:
    """``Loader`` with two threads."""
    return _loader(setting, 2)


def _loader(setting: Setting, threads: int) -> Contestant:
    dataset = AtpDataset(setting.path)
    loader = Loader(dataset, setting.batch_size, shuffle=True, num_threads=threads)
    return Contestant(loader, dataset.batch)


@dataclasses.dataclass(frozen=True)
class Case:
    """One line of the table."""

    title: str
    codec: str
    first: Build
    second: Build
    name: str
    workers: int = 0  # of the second
    both: bool = False  # the first has them too


CASES = (
    Case("2 threads, none", "none", two_threads, atompack_db, "atompack-db, DataLoader"),
    Case("2 threads, none", "none", two_threads, ours, "DataLoader, 2 workers", workers=2),
    Case("2 threads, none", "none", two_threads, ours, "DataLoader, no workers"),
    Case("1 thread, none", "none", one_thread, atompack_db, "atompack-db, DataLoader"),
    Case("2 workers, none", "none", ours, atompack_db, "atompack-db, 2 workers", 2, True),
    Case("2 workers, none", "none", ours, peers.bare_number, "bare number, 2 workers", 2, True),
    Case("2 threads, none", "none", two_threads, peers.memcpy, "memcpy in a DataLoader"),
    Case("2 threads, zstd", "zstd", two_threads, one_thread, "1 thread"),
    Case("2 threads, zstd", "zstd", two_threads, atompack_db, "atompack-db, DataLoader"),
)


# Ours in another way, or the least that anybody does.
REFERENCES = (
    *(case.name for case in CASES if case.second is not atompack_db),
    "Loader, 2 threads",
    "DataLoader(AtpDataset)",
)


def compare(paths: dict[str, Path], options: argparse.Namespace) -> Iterator[bench.Row]:
    """Run the comparison, row by row."""
    for case in CASES:
        bench.progress(f"{case.title} next to {case.name}")
        setting = Setting(paths[case.codec], options.molecules, batch_size=options.batch_size)
        other = dataclasses.replace(setting, workers=case.workers)
        mine = other if case.both else setting
        entries = [Entry("ours", case.first, mine), Entry(case.name, case.second, other)]
        first, second = race(entries, options.rounds, options.seconds)
        title = f"{'DataLoader' if case.both else 'Loader'}, {case.title}"
        yield bench.Row(title, first, second)


def drawn(n_molecules: int, batch_size: int) -> edge_peers.Batches:
    """Draw the batches of an epoch."""
    order = torch.randperm(n_molecules, generator=torch.Generator().manual_seed(0))
    return [part.tolist() for part in order.split(batch_size)]


def timed(side: edge_peers.Side, batches: edge_peers.Batches) -> float:
    """Return the molecules/s of an epoch."""
    start = time.perf_counter()
    for batch in side(batches):
        touch(batch)
    return sum(map(len, batches)) / (time.perf_counter() - start)


def compare_with_edges(folder: Path, options: argparse.Namespace) -> Iterator[bench.Row]:
    """Run the ways of edge_peers.py in turn, each next to the first."""
    n_molecules = min(options.molecules, MOST_WITH_EDGES)
    bench.progress(f"writing {n_molecules} molecules for batches with edges")
    sides = edge_peers.sides(folder, n_molecules)
    batches = drawn(n_molecules, options.batch_size)
    edge_peers.check(sides, batches)
    reference, *_ = sides.values()
    tensors = [batch[name] for batch in reference(batches) for name in edge_peers.NAMES]
    megabytes = sum(tensor.nbytes for tensor in tensors) / n_molecules / 1e6
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(options.rounds):
        bench.progress(f"batches with edges, round {number + 1} of {options.rounds}")
        for name, side in sides.items():
            speeds[name].append(timed(side, batches))
    of_first = next(iter(speeds.values()))
    first, *others = (Standing.of(name, each, of_first, megabytes) for name, each in speeds.items())
    for other in others:
        yield bench.Row(f"edges: {first.name}", first, other)


def compare_without_edges(folder: Path, options: argparse.Namespace) -> Iterator[bench.Row]:
    """Make the files, see that batches are equal, and run the cases."""
    bench.progress(f"writing {options.molecules} molecules with atompack-db")
    paths = in_own_process(make_atp, folder, options.molecules, ("none", "zstd"))
    indices = list(range(0, options.molecules, max(1, options.molecules // 64)))
    setting = Setting(paths["none"], options.molecules)
    found = [in_own_process(fingerprint, side, setting, indices) for side in (ours, two_threads)]
    if found[0] != found[1]:
        raise AssertionError(f"the batches differ: {found}")
    yield from compare(paths, options)


def main() -> None:
    """Run everything and print it."""
    options = bench.script_options(
        __doc__,
        lambda parser: parser.add_argument("--edges", action="store_true", help="with edges alone"),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = () if options.edges else compare_without_edges(folder, options)
        rows = noted(".atp, load", chain(plain, compare_with_edges(folder, options)), REFERENCES)
        bench.print_rows(rows)


if __name__ == "__main__":
    main()
