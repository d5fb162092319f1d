"""Feature caches: how long do they take to build, and how fast do batches come out of them?

    python benchmarks/torch_cache.py [--rounds N] [--structures N] [--quick]

Periodic molecules of 16 atoms as in ``descriptor.py``. Building is timed with one thread and with
two. Reading makes shuffled batches of 32 on one thread, next to h5py reading the same rows and
``torch.cat``, and next to bare copies of as many bytes: out of memory that no cache of the
processor holds, into memory that was used before. The batches are compared first. Forces and
their gradient are those of ``descriptor.py``. Sides take turns in one process; medians count.
"""

from __future__ import annotations

import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np
import torch
from descriptor import SETTINGS, counted, report_forces, structures
from results import Result, note
from turns import in_own_process, parser_of, peak_bytes, take_turns

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


def build(source: Path, target: Path, threads: int, derivatives: bool = True) -> None:
    """A cache from nothing."""
    target.unlink(missing_ok=True)
    descriptor = apt.ChebyshevDescriptor(*SETTINGS)
    options = {"force_derivatives": derivatives, "num_threads": threads, "progress": False}
    apt.build_cache(apt.AtpDataset(source), descriptor, target, **options)


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
    for derivatives in (False, True):
        sides = {
            n: functools.partial(build, source, target, n, derivatives)
            for n in dict.fromkeys((1, most))
        }
        seconds = {n: spent.median for n, spent in take_turns(sides, rounds).items()}
        size = target.stat().st_size
        what = f"features{' and derivatives' * derivatives}"
        print(f"  build, {what}: {size / n_structures:.0f} bytes")
        for n, each in seconds.items():
            ms, rate = each / n_structures * 1e3, size / each / 1e6
            print(f"    {counted(n)}: {ms:.3f} ms a molecule, {rate:.0f} MB/s")
            note(Result("/torch_cache", f"build, {what}, {counted(n)}", ms, "ms a molecule"))
        print(f"    {most} threads are {seconds[1] / seconds[most]:.2f} times faster than one")


def report_reading(target: Path, n_structures: int, rounds: int) -> None:
    order = np.random.default_rng(2).permutation(n_structures)
    batches = [order[k : k + BATCH].tolist() for k in range(0, n_structures - BATCH + 1, BATCH)]
    theirs = ByH5py(target)
    both = apt.TorchCacheDataset(target, num_threads=1)
    some = apt.TorchCacheDataset(target, fields=["features"], num_threads=1)
    check(both, theirs, batches[0])
    n_bytes = sum(t.nbytes for t in theirs.read(batches[0]).values())
    some_batches = batches[: max(1, len(batches) // 8)]
    sides: dict[str, Callable[[], object]] = {
        "ours": functools.partial(go_through, both.batch, some_batches),
        "h5py": functools.partial(go_through, theirs.read, some_batches),
        "copy": bare_copies(n_bytes, len(some_batches)),
        "mapped": mapped_copies(target, n_structures, some_batches, n_bytes),
    }
    us = microseconds(sides, len(some_batches), rounds)
    ours = us["ours"]
    print(f"  batch of {BATCH}, features and derivatives, {n_bytes / 1e6:.1f} MB: {ours:.0f} us")
    print(f"    h5py {us['h5py'] / ours:.0f} times as long ({us['h5py']:.0f} us)")
    both_read = "read, features and derivatives"
    note(Result("/torch_cache", both_read, ours, "µs a batch", "h5py", us["h5py"]))
    for name, what in (("copy", "one piece of memory"), ("mapped", "pieces of the mapped file")):
        print(
            f"    a bare copy of {what}: {us[name]:.0f} us, ours {ours / us[name]:.2f} times that"
        )
        copy = f"bare copy of {what}"
        note(Result("/torch_cache", both_read, ours, "µs a batch", copy, us[name], reference=True))

    sides = {
        "ours": functools.partial(go_through, some.batch, batches),
        "h5py": functools.partial(go_through, theirs.read_features, batches),
    }
    us = microseconds(sides, len(batches), rounds)
    print(f"  features alone: {us['ours']:.0f} us")
    print(f"    h5py {us['h5py'] / us['ours']:.0f} times as long ({us['h5py']:.0f} us)")
    note(Result("/torch_cache", "read, features", us["ours"], "µs a batch", "h5py", us["h5py"]))


def go_through(make: Callable[[list[int]], object], batches: Sequence[list[int]]) -> None:
    """One batch after the other, as training does: none is kept."""
    for batch in batches:
        make(batch)


def microseconds(
    sides: Mapping[str, Callable[[], object]], n_batches: int, rounds: int
) -> dict[str, float]:
    """Median of each, a batch."""
    for side in sides.values():
        side()  # whatever is done once
    spent = take_turns(sides, rounds)
    return {name: each.median / n_batches * 1e6 for name, each in spent.items()}


def bare_copies(n_bytes: int, n_batches: int) -> Callable[[], object]:
    """So many copies of as many bytes as a batch has."""
    far = torch.ones(max(256 << 20, 4 * n_bytes), dtype=torch.uint8)
    near = torch.empty(n_bytes, dtype=torch.uint8)
    places = itertools.cycle(range(0, len(far) - n_bytes, n_bytes))

    def copy() -> None:
        for _ in range(n_batches):
            start = next(places)
            near.copy_(far[start : start + n_bytes])

    return copy


def mapped_copies(
    path: Path, n_structures: int, batches: Sequence[list[int]], n_bytes: int
) -> Callable[[], object]:
    """The same bytes in pieces of one entry, from where about the entries lie in the file."""
    mapped = np.memmap(path, np.uint8, "r")
    share, stride = n_bytes // BATCH, len(mapped) // n_structures
    near = np.empty((BATCH, share), np.uint8)

    def copy() -> None:
        for batch in batches:
            for row, entry in enumerate(batch):
                start = min(entry * stride, len(mapped) - share)
                near[row] = mapped[start : start + share]

    return copy


def check(ours: apt.TorchCacheDataset, theirs: ByH5py, entries: list[int]) -> None:
    """Both sides make the same tensors."""
    batch = ours.batch(entries)
    for name, expected in theirs.read(entries).items():
        assert torch.equal(batch[name], expected), name


def peak_of_build(source: Path, target: Path, derivatives: bool) -> int:
    build(source, target, 2, derivatives)
    return peak_bytes()


def report_memory(source: Path, target: Path, quick: bool) -> None:
    """Peaks of processes that build, for one size and for several times as much."""
    for derivatives, sizes in ((True, (2_000, 10_000)), (False, (20_000, 100_000))):
        sizes = (100, 200) if quick else sizes
        peaks = []
        for n in sizes:
            write_source(source, n)
            peak = in_own_process(peak_of_build, source, target, derivatives)
            peaks.append(f"{n:,}: {peak / 1e6:.0f} MB")
            target.unlink()
        what = "features and derivatives" if derivatives else "features"
        print(f"  peak memory of a build, mapped files included, {what}: {', '.join(peaks)}")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--structures", type=int, default=2000)
    parser.add_argument("--no-memory", action="store_true", help="omit the peaks")
    options = parser.parse_args()
    n, rounds = (96, 1) if options.quick else (options.structures, options.rounds)
    print(f"load {os.getloadavg()[0]:.1f}; {n} periodic molecules of 16 atoms")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "structures.atp", Path(folder) / "cache.h5"
        write_source(source, n)
        report_building(source, target, n, rounds)
        report_reading(target, n, rounds)
        target.unlink()
        if not options.no_memory:
            report_memory(source, target, options.quick)
    for dtype in ("float32", "float64"):
        report_forces(structures(64), dtype, 4 * rounds, (1, 2))


if __name__ == "__main__":
    main()
