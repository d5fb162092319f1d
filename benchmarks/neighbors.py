"""How fast are neighbor lists made with the batch, next to vesin's own class for each molecule?

    python benchmarks/neighbors.py [--quick] [--rounds N] [--molecules N] [--cutoff X]

Both sides read the same batches of 64 molecules and end with one ``edge_index`` and one
``edge_shift`` for the whole batch; the sides take turns in one process, medians are compared. The
shortest times are printed too: on a busy machine they alone say what a second thread can do.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import vesin
from results import Result, note

import atompack_torch as apt

BATCH = 64
PEER = "vesin one by one"


def make(path: Path, n_molecules: int, periodic: bool) -> Path:
    """Molecules of 10 to 60 atoms; 12 Å³ an atom, as in a metal, or the density of a molecule."""
    rng = np.random.default_rng(0)
    with apt.AtpWriter(path, mode="w") as writer:
        for _ in range(n_molecules):
            n = int(rng.integers(10, 61))
            length = (12.0 * n) ** (1 / 3)
            positions = (rng.random((n, 3)) * length).astype(np.float32)
            state = {"cell": np.eye(3) * length, "pbc": np.ones(3, dtype=bool)} if periodic else {}
            writer.write(apt.Molecule(positions, np.full(n, 6), energy=0.0, **state))
    return path


def in_batch(path: Path, cutoff: float, threads: int) -> Callable[[list[int]], int]:
    """Ours."""
    neighbors = apt.NeighborList(cutoff)
    dataset = apt.AtpDataset(path, neighbors=neighbors, num_threads=threads)
    return lambda indices: int(dataset.batch(indices).edge_index.shape[1])


def one_by_one(path: Path, cutoff: float) -> Callable[[list[int]], int]:
    """Vesin's class for each molecule, then one tensor of all."""
    dataset = apt.AtpDataset(path, num_threads=1)
    search = vesin.NeighborList(cutoff=cutoff, full_list=True, n_threads=1)
    none = np.zeros((3, 3))

    def edges(indices: list[int]) -> int:
        batch = dataset.batch(indices)
        positions, ptr = batch.positions.double().numpy(), batch.ptr.tolist()
        cells = batch.cell.numpy() if "cell" in batch else None
        rows, shifts = [], []
        for k, (first, last) in enumerate(itertools.pairwise(ptr)):
            cell, pbc = (none, False) if cells is None else (cells[k], True)
            pairs, shift = search.compute(positions[first:last], cell, pbc, "PS")
            rows.append(pairs.astype(np.int64) + first)
            shifts.append(shift)
        index = torch.from_numpy(np.concatenate(rows)).t().contiguous()
        torch.from_numpy(np.concatenate(shifts)).to(batch.positions.dtype)
        return int(index.shape[1])

    return edges


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--molecules", type=int, default=1280)
    parser.add_argument("--cutoff", type=float, default=5.0)
    parser.add_argument("--quick", action="store_true", help="does it run?")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.molecules = 2, 2 * BATCH
    torch.set_num_threads(min(2, len(os.sched_getaffinity(0))))
    order = np.random.default_rng(1).permutation(options.molecules)
    batches = [order[k : k + BATCH].tolist() for k in range(0, options.molecules, BATCH)]
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("periodic", "open"):
            path = make(Path(folder) / f"{kind}.atp", options.molecules, kind == "periodic")
            sides = {
                "ours, 1 thread": in_batch(path, options.cutoff, 1),
                "ours, 2 threads": in_batch(path, options.cutoff, 2),
                PEER: one_by_one(path, options.cutoff),
            }
            assert len({sum(map(side, batches)) for side in sides.values()}) == 1
            seconds: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(options.rounds):
                for name, side in sides.items():
                    start = time.perf_counter()
                    n_edges = sum(map(side, batches))
                    seconds[name].append(time.perf_counter() - start)
            report(kind, n_edges, options.molecules, seconds)


def report(kind: str, n_edges: int, n_molecules: int, seconds: dict[str, list[float]]) -> None:
    base = statistics.median(seconds[PEER])
    load = os.getloadavg()[0]
    print(f"{kind}: {n_edges / n_molecules:.0f} edges a molecule; load of the machine {load:.1f}")
    for name, times in seconds.items():
        median = statistics.median(times)
        each, rate = median / n_molecules * 1e6, n_edges / median / 1e6
        print(
            f"  {name:18} {base / median:5.2f}x  {each:7.1f} us a molecule  {rate:6.1f} M edges/s"
            f"  shortest {min(times) / n_molecules * 1e6:7.1f} us"
        )
        if name != PEER:
            theirs = base / n_molecules * 1e6
            case = f"{kind}, {name.removeprefix('ours, ')}"
            note(Result("neighbors", case, each, "µs a molecule", PEER, theirs))


if __name__ == "__main__":
    main()
