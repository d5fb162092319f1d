"""How fast are neighbor lists made with the batch, next to vesin's own class for each molecule?

    python benchmarks/neighbors.py [--quick] [--rounds N] [--molecules N] [--cutoff X]

Both sides read the same batches of 64 molecules and end with one ``edge_index`` and one
``edge_shift`` for the whole batch; the sides take turns in one process, medians are compared. The
shortest times are printed too: on a busy machine they alone say what a second thread can do.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import vesin
from edge_peers import make_atp
from results import Result, note
from turns import Spent, parser_of, take_turns

import atompack_torch as apt

BATCH = 64
PEER = "vesin one by one"


def in_batch(path: Path, cutoff: float, threads: int) -> Callable[[list[int]], int]:
    """Ours."""
    neighbors = apt.NeighborList(cutoff)
    dataset = apt.AtpDataset(path, exclude=["forces"], neighbors=neighbors, num_threads=threads)
    return lambda indices: int(dataset.batch(indices).edge_index.shape[1])


def one_by_one(path: Path, cutoff: float) -> Callable[[list[int]], int]:
    """Vesin's class for each molecule, then one tensor of all."""
    dataset = apt.AtpDataset(path, exclude=["forces"], num_threads=1)
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
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--molecules", type=int, default=1280)
    parser.add_argument("--cutoff", type=float, default=5.0)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.molecules = 2, 2 * BATCH
    torch.set_num_threads(min(2, len(os.sched_getaffinity(0))))
    order = np.random.default_rng(1).permutation(options.molecules)
    batches = [order[k : k + BATCH].tolist() for k in range(0, options.molecules, BATCH)]
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("periodic", "open"):
            path = Path(folder) / f"{kind}.atp"
            make_atp(path, options.molecules, periodic=kind == "periodic")
            sides = {
                "ours, 1 thread": in_batch(path, options.cutoff, 1),
                "ours, 2 threads": in_batch(path, options.cutoff, 2),
                PEER: one_by_one(path, options.cutoff),
            }
            passes = {name: partial(count, side, batches) for name, side in sides.items()}
            (n_edges,) = {side() for side in passes.values()}
            report(kind, n_edges, options.molecules, take_turns(passes, options.rounds))


def count(side: Callable[[list[int]], int], batches: list[list[int]]) -> int:
    """Edges of all batches."""
    return sum(map(side, batches))


def report(kind: str, n_edges: int, n_molecules: int, spent: dict[str, Spent]) -> None:
    base = spent[PEER].median
    load = os.getloadavg()[0]
    print(f"{kind}: {n_edges / n_molecules:.0f} edges a molecule; load of the machine {load:.1f}")
    for name, (median, shortest, _) in spent.items():
        each, rate = median / n_molecules * 1e6, n_edges / median / 1e6
        print(
            f"  {name:18} {base / median:5.2f}x  {each:7.1f} us a molecule  {rate:6.1f} M edges/s"
            f"  shortest {shortest / n_molecules * 1e6:7.1f} us"
        )
        if name != PEER:
            theirs = base / n_molecules * 1e6
            case = f"{kind}, {name.removeprefix('ours, ')}"
            note(Result("neighbors", case, each, "µs a molecule", PEER, theirs))


if __name__ == "__main__":
    main()
