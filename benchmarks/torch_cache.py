"""Feature caches: how long do they take to build, and how fast do batches come out of them?

    python benchmarks/torch_cache.py [--rounds N] [--structures N] [--quick]

Periodic structures of 16 atoms as in ``descriptor.py``. Building is timed with one thread and with
two. Reading makes shuffled batches of 32 on one thread, next to h5py reading the same rows and
``torch.cat``, and next to a bare copy of as many bytes: out of memory that no cache of the
processor holds, into memory that was used before. The batches are compared first. Forces and
their gradient are those of ``descriptor.py``. Sides take turns in one process; medians count.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import h5py
import numpy as np
import torch
from descriptor import SETTINGS, report_forces, structures

import atompack_torch as apt
from atompack_torch.fields import ATOM_INDICES, DERIVATIVES

BATCH = 32
COLUMNS = {
    name: "/".join(name.split("_", 1)).replace("triplet/", "triplet_") for name in DERIVATIVES
}


class ByH5py:
    """The rows of a file as h5py gives them, joined by torch."""

    def __init__(self, path: Path) -> None:
        cache = h5py.File(path)["torch_cache"]
        self.index = cache["force_derivatives/index"][:]
        self.n_atoms = cache["features/index"]["n_atoms"]
        self.n_features = int(cache["features/index"]["n_features"][0])
        self.features = cache["features/values"]
        self.columns = {name: cache[f"force_derivatives/{COLUMNS[name]}"] for name in DERIVATIVES}

    def read_features(self, entries: list[int]) -> dict[str, torch.Tensor]:
        """(N, F), one row of the dataset after the other."""
        rows = [torch.from_numpy(self.features[i]).view(-1, self.n_features) for i in entries]
        return {"features": torch.cat(rows)}

    def read(self, entries: list[int]) -> dict[str, torch.Tensor]:
        """Features and derivatives; atoms numbered in the batch."""
        starts = np.concatenate([[0], np.cumsum(self.n_atoms[entries])])
        fields = self.read_features(entries)
        for name, dataset in self.columns.items():
            rows = [torch.from_numpy(dataset[i]) for i in entries]
            if name in ATOM_INDICES:
                rows = [row + int(start) for row, start in zip(rows, starts, strict=False)]
            n_functions = {"radial_dG_drij": SETTINGS[1] + 1}.get(name, SETTINGS[3] + 1)
            is_gradient = name == "radial_dG_drij" or "_grads_" in name
            joined = torch.cat(rows)
            fields[name] = joined.view(-1, n_functions, 3) if is_gradient else joined
        return fields


def take_turns(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def build(source: Path, target: Path, threads: int, derivatives: bool = True) -> None:
    """A cache from nothing."""
    target.unlink(missing_ok=True)
    descriptor = apt.ChebyshevDescriptor(*SETTINGS)
    dataset = apt.AtpDataset(source)
    apt.build_cache(
        dataset,
        descriptor,
        target,
        force_derivatives=derivatives,
        num_threads=threads,
        progress=False,
    )


def write_source(path: Path, n_structures: int) -> None:
    """Structures with labels."""
    rng = np.random.default_rng(1)
    with apt.AtpWriter(path, mode="w") as writer:
        for first in range(0, n_structures, 1000):
            batch = structures(min(1000, n_structures - first))
            n = len(batch.positions)
            batch.set_field("forces", torch.from_numpy(rng.normal(size=(n, 3))), "atom")
            batch.set_field("energy", torch.from_numpy(rng.normal(size=len(batch))), "molecule")
            writer.write(batch)


def report_building(source: Path, target: Path, n_structures: int, rounds: int) -> None:
    most = min(2, len(os.sched_getaffinity(0)))
    sides = {f"{n} threads": lambda n=n: build(source, target, n) for n in dict.fromkeys((1, most))}
    seconds = take_turns(sides, rounds)
    size = target.stat().st_size
    for name, each in seconds.items():
        rate = size / each / 1e6
        print(f"  build, {name}: {each / n_structures * 1e3:.3f} ms a structure, {rate:.0f} MB/s")
    one, *two = seconds.values()
    if two:
        print(f"  two threads are {one / two[0]:.2f} times as fast as one")


def report_reading(target: Path, n_structures: int, rounds: int) -> None:
    order = np.random.default_rng(2).permutation(n_structures)
    batches = [order[k : k + BATCH].tolist() for k in range(0, n_structures - BATCH + 1, BATCH)]
    theirs = ByH5py(target)
    both = apt.TorchCacheDataset(target, num_threads=1)
    some = apt.TorchCacheDataset(target, fields=["features"], num_threads=1)
    check(both, theirs, batches[0])
    n_bytes = sum(t.nbytes for t in theirs.read(batches[0]).values())
    far = torch.ones(max(256 << 20, 4 * n_bytes), dtype=torch.uint8)
    near, place = (
        torch.empty(n_bytes, dtype=torch.uint8),
        itertools.cycle(range(0, len(far) - n_bytes, n_bytes)),
    )

    def copy() -> None:
        start = next(place)
        near.copy_(far[start : start + n_bytes])

    some_batches = batches[: max(1, len(batches) // 8)]
    sides: dict[str, Callable[[], object]] = {
        "ours": lambda: [both.batch(b) for b in some_batches],
        "h5py": lambda: [theirs.read(b) for b in some_batches],
        "copy": lambda: [copy() for _ in some_batches],
        "ours, features": lambda: [some.batch(b) for b in some_batches],
        "h5py, features": lambda: [theirs.read_features(b) for b in some_batches],
    }
    for side in sides.values():
        side()  # whatever is done once
    us = {n: s / len(some_batches) * 1e6 for n, s in take_turns(sides, rounds).items()}
    ours, copied, alone = us["ours"], us["copy"], us["ours, features"]
    print(f"  batch of {BATCH}, features and derivatives, {n_bytes / 1e6:.1f} MB: {ours:.0f} us")
    print(f"    h5py {us['h5py'] / ours:.0f} times as long ({us['h5py']:.0f} us)")
    print(f"    a bare copy {copied:.0f} us: ours takes {ours / copied:.2f} times as long")
    print(f"  features alone: {alone:.0f} us")
    slower = us["h5py, features"]
    print(f"    h5py {slower / alone:.0f} times as long ({slower:.0f} us)")


def check(ours: apt.TorchCacheDataset, theirs: ByH5py, entries: list[int]) -> None:
    """Both sides make the same tensors."""
    batch = ours.batch(entries)
    for name, expected in theirs.read(entries).items():
        assert torch.equal(batch[name], expected), name


def report_memory(source: Path, target: Path, quick: bool) -> None:
    """Peaks of processes that build, for one size and for several times as much."""
    for derivatives, sizes in ((True, (2_000, 10_000)), (False, (20_000, 100_000))):
        sizes = (100, 200) if quick else sizes
        peaks = []
        for n in sizes:
            write_source(source, n)
            command = [sys.executable, __file__, "--build", str(source), str(target)]
            command += ["--derivatives"] * derivatives
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            peaks.append(f"{n:,}: {int(done.stdout) / 1e3:.0f} MB")
            target.unlink()
        what = "features and derivatives" if derivatives else "features"
        print(f"  peak memory of a build, {what}: {', '.join(peaks)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--structures", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="does it run?")
    parser.add_argument("--build", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--derivatives", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        build(*options.build, threads=2, derivatives=options.derivatives)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    n, rounds = (96, 1) if options.quick else (options.structures, options.rounds)
    print(f"load {os.getloadavg()[0]:.1f}; {n} periodic structures of 16 atoms")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "structures.atp", Path(folder) / "cache.h5"
        write_source(source, n)
        report_building(source, target, n, rounds)
        report_reading(target, n, rounds)
        target.unlink()
        report_memory(source, target, options.quick)
    for dtype in ("float32", "float64"):
        report_forces(structures(64), dtype, 4 * rounds, (1, 2))


if __name__ == "__main__":
    main()
