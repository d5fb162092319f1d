"""How fast are the operators, next to other neighbor lists and to training without compilation?

    python benchmarks/torch_ops.py [--quick]

The neighbor list of one structure of 100,000 atoms (12 Å³ an atom, 5 Å, 44 neighbors an atom),
periodic, by ours, vesin, matscipy and ASE; and a training step on forces from stored derivatives,
compiled and not, over batches of different sizes, with the number of graphs. Sides take turns in
one process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import ase.neighborlist
import numpy as np
import torch
import vesin
from results import Result, note
from torch._dynamo.testing import CompileCounterWithBackend
from turns import take_turns

import atompack_torch as apt

try:
    import matscipy.neighbours
except ImportError:  # not in the extra: it has no wheels for every Python
    matscipy = None

CUTOFF = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small data, one round")
    quick = parser.parse_args().quick
    report_neighbors(5_000 if quick else 100_000, 1 if quick else 5)
    report_training(3 if quick else 40)


def report_neighbors(n: int, rounds: int) -> None:
    rng = np.random.default_rng(0)
    length = (12.0 * n) ** (1 / 3)
    positions, cell = rng.random((n, 3)) * length, np.eye(3) * length
    atoms = ase.Atoms(np.full(n, 6), positions, cell=cell, pbc=True)
    tensors = (torch.from_numpy(positions), torch.from_numpy(cell)[None], None)
    ptr = torch.tensor([0, n])
    search = vesin.NeighborList(cutoff=CUTOFF, full_list=True, n_threads=1)

    def ours() -> int:
        index, _ = torch.ops.atompack_torch.neighbor_list(*tensors, ptr, CUTOFF)
        return index.shape[1]

    sides: dict[str, Callable[[], int]] = {
        "ours": on_threads(1, ours),
        "ours, two threads": on_threads(2, ours),
        "vesin": lambda: search.compute(positions, cell, True, "PS")[0].shape[0],
    }
    if matscipy is not None:
        sides["matscipy"] = lambda: len(matscipy.neighbours.neighbour_list("ijS", atoms, CUTOFF)[0])
    if rounds == 1:
        sides["ASE"] = lambda: len(ase.neighborlist.neighbor_list("ijS", atoms, CUTOFF)[0])
    for _ in range(10):  # the number of threads is chosen by what earlier calls took
        sides["ours, two threads"]()
    counts = {name: side() for name, side in sides.items()}
    assert len(set(counts.values())) == 1, counts
    medians = {name: spent.median for name, spent in take_turns(sides, rounds).items()}
    mine = medians["ours"]
    print(f"{n:,} atoms, {counts['ours'] / n:.0f} neighbors each, one structure")
    for name, seconds in medians.items():
        print(f"  {name:<18} {1e6 * seconds / n:6.2f} µs an atom, {seconds / mine:5.2f}x the time")
        note(Result("torch_ops", f"neighbor list, {name}", 1e6 * seconds / n, "µs an atom"))


def on_threads(count: int, body: Callable[[], int]) -> Callable[[], int]:
    def run() -> int:
        torch.set_num_threads(count)
        return body()

    return run


def report_training(n_batches: int) -> None:
    """Energies and forces of a small model on features, one epoch of batches of all sizes."""
    torch.set_num_threads(1)
    descriptor = apt.ChebyshevDescriptor(["Ti", "O"], 10, 5.0, 3, 3.0, dtype="float32")
    batches = [batch_of(descriptor, seed) for seed in range(n_batches)]
    model = torch.nn.Sequential(
        torch.nn.Linear(batches[0].features.shape[1], 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    )

    def loss(features: torch.Tensor, batch: apt.MoleculeBatch) -> torch.Tensor:
        first, last = model[0], model[2]
        hidden = torch.tanh(features @ first.weight.T + first.bias)
        energy = hidden @ last.weight.T + last.bias
        weights = ((1 - hidden**2) * last.weight) @ first.weight  # the derivative
        return energy.pow(2).mean() + apt.contract_forces(batch, weights).pow(2).mean()

    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=counter)

    def epoch(of: Callable[..., torch.Tensor]) -> int:
        for batch in batches:
            model.zero_grad()
            of(batch.features, batch).backward()
        return len(batches)

    epoch(compiled)
    sides = {"eager": lambda: epoch(loss), "compiled": lambda: epoch(compiled)}
    medians = {name: spent.median for name, spent in take_turns(sides, 5).items()}
    print(f"training step, {len(batches)} batches of 16 to 48 structures, one thread")
    print(f"  {counter.frame_count} graphs, of which {counter.frame_count - 1} were compiled anew")
    for name, seconds in medians.items():
        step = 1e3 * seconds / len(batches)
        print(f"  {name:<10} {step:6.2f} ms, {medians['eager'] / seconds:4.2f}x as fast as eager")
        note(Result("torch_ops", f"training step, {name}", step, "ms"))


def batch_of(descriptor: apt.ChebyshevDescriptor, seed: int) -> apt.MoleculeBatch:
    rng = np.random.default_rng(seed)
    molecules = []
    for _ in range(int(rng.integers(16, 49))):
        n = int(rng.integers(4, 13))
        cell = np.eye(3) * (14.0 * n) ** (1 / 3)
        positions = rng.random((n, 3)) * np.diag(cell)
        molecules.append(apt.Molecule(positions, rng.choice([22, 8], n), cell=cell))
    return descriptor.compute(apt.collate(molecules), derivatives=True)


if __name__ == "__main__":
    main()
