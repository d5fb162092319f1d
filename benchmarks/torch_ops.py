"""How fast are the operators, next to other neighbor lists and to training without compilation?

    python benchmarks/torch_ops.py [--quick]

``apt.neighbor_list`` with vectors, of one structure of 50,000 atoms (13.1 Å³ an atom, 5 Å, 40
neighbors an atom), periodic, by ours, vesin, matscipy and ASE; ours for 10,000 to a million atoms,
each in a separate process, with the memory by which that grows; a training step on forces from
stored derivatives, compiled and not, over batches of different sizes, with the number of graphs;
batches of 64 from a ``ResidentDataset`` compared with ``index_select`` of the same tensors, by rows
that are known before, and with ``Loader`` over the file; and the share of padding in batches of
eight static shapes, for the structures of the demo and for sizes from 5 to 500 atoms. Other sides
take turns in one process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import ase.neighborlist
import numpy as np
import torch
import vesin
from edge_peers import make_atp
from results import Result, note
from torch._dynamo.testing import CompileCounterWithBackend
from turns import best, in_own_process, parser_of, peak_bytes, take_turns

import atompack_torch as apt

try:
    import matscipy.neighbours
except ImportError:  # not in the extra: it has no wheels for every Python
    matscipy = None

sys.path.append(str(Path(__file__).parent.parent / "examples"))
import alloys

CUTOFF = 5.0
BATCH = 64


def main() -> None:
    quick = parser_of(__doc__).parse_args().quick
    report_neighbors(5_000 if quick else 50_000, 1 if quick else 5)
    report_sizes((1_000, 10_000) if quick else (10_000, 100_000, 1_000_000))
    report_training(3 if quick else 40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "molecules.atp"
        make_atp(path, 640 if quick else 12_800, volume=20.0)
        for neighbors in (None, apt.NeighborList(CUTOFF)):
            report_resident(path, neighbors, 1 if quick else 7)
    report_padding(200 if quick else 4_800)


def structure(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and cell of random atoms, 13.1 Å³ each."""
    length = (13.1 * n) ** (1 / 3)
    return np.random.default_rng(0).random((n, 3)) * length, np.eye(3) * length


def report_neighbors(n: int, rounds: int) -> None:
    positions, cell = structure(n)
    atoms = ase.Atoms(np.full(n, 6), positions, cell=cell, pbc=True)
    tensors = (torch.from_numpy(positions), torch.from_numpy(cell))
    search = vesin.NeighborList(cutoff=CUTOFF, full_list=True, n_threads=1)

    def ours() -> int:
        return apt.neighbor_list(*tensors, cutoff=CUTOFF).edge_index.shape[1]

    def step() -> int:
        given = tensors[0].clone().requires_grad_()
        vector = apt.neighbor_list(given, tensors[1], cutoff=CUTOFF).edge_vector
        vector.pow(2).sum().backward()
        return len(vector)

    sides: dict[str, Callable[[], int]] = {
        "ours": on_threads(1, ours),
        "ours, two threads": on_threads(2, ours),
        "ours, with backward": on_threads(1, step),
        "vesin": lambda: len(search.compute(positions, cell, True, "ijSD")[0]),
    }
    if matscipy is not None:
        sides["matscipy"] = lambda: len(
            matscipy.neighbours.neighbour_list("ijSD", atoms, CUTOFF)[0]
        )
    if rounds == 1:
        sides["ASE"] = lambda: len(ase.neighborlist.neighbor_list("ijSD", atoms, CUTOFF)[0])
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


def report_sizes(sizes: tuple[int, ...]) -> None:
    print("one thread, by the size of the structure")
    for n in sizes:
        seconds, grown, result = in_own_process(measure_size, n)
        print(
            f"  {n:>9,} atoms: {1e6 * seconds / n:5.2f} µs an atom; a process grows by "
            f"{grown / 1e6:,.0f} MB, {grown / result:.2f}x its result"
        )
        note(Result("torch_ops", f"neighbor list of {n:,} atoms", 1e6 * seconds / n, "µs an atom"))


def measure_size(n: int) -> tuple[float, int, int]:
    """Best seconds of three searches, and bytes of the first: of the process and of the result."""
    torch.set_num_threads(1)
    positions, cell = (torch.from_numpy(array) for array in structure(n))
    apt.neighbor_list(positions[:100], cell, cutoff=CUTOFF)  # loads
    before = peak_bytes()
    result = sum(tensor.nbytes for tensor in apt.neighbor_list(positions, cell, cutoff=CUTOFF))
    grown = peak_bytes() - before
    return best(lambda: apt.neighbor_list(positions, cell, cutoff=CUTOFF), 3), grown, result


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
    print(f"  {counter.frame_count} graphs, of which {counter.frame_count - 1} were compiled again")
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


def report_resident(path: Path, neighbors: apt.NeighborList | None, rounds: int) -> None:
    """An epoch of shuffled batches from memory, compared with bare gathers and the file."""
    torch.set_num_threads(1)
    dataset = apt.AtpDataset(path, neighbors=neighbors, num_threads=1)
    resident = apt.ResidentDataset(dataset)
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))
    batches = list(order.split(BATCH))
    whole = dataset[:]
    gathers = [rows_of(whole, batch) for batch in batches]

    def select() -> None:
        for of_level in gathers:
            for name in whole.keys():
                rows = of_level.get(whole.level(name))
                if rows is not None and isinstance(whole[name], torch.Tensor):
                    axis = 1 if name == "edge_index" else 0
                    torch.index_select(whole[name], axis, rows)

    def load(source: apt.AtpDataset | apt.ResidentDataset) -> Callable[[], None]:
        def epoch() -> None:
            for _ in apt.Loader(source, batch_sampler=batches, num_threads=1):
                pass

        return epoch

    def gather() -> None:
        for batch in batches:
            resident.batch(batch)

    sides = {
        "ResidentDataset": gather,
        "index_select": select,
        "Loader, ResidentDataset": load(resident),
        "Loader, file": load(dataset),
    }
    spent = take_turns(sides, rounds)
    label = "with edges" if neighbors else "without edges"
    print(f"batches of {BATCH} structures of 10 to 60 atoms, {label}")
    for name, seconds in spent.items():
        batch = 1e6 * seconds.median / len(batches)
        ratio = seconds.median / spent["index_select"].median
        print(f"  {name:<24} {batch:8.1f} µs, {ratio:5.2f}x the time of index_select")
        note(Result("torch_ops", f"batch {label}, {name}", batch, "µs"))


def rows_of(whole: apt.MoleculeBatch, molecules: torch.Tensor) -> dict[str, torch.Tensor]:
    """The rows of some molecules in the tensors of each level."""
    of_level = {"molecule": molecules, "atom": rows_between(whole.ptr, molecules)}
    if "edge_index" in whole:
        centers = torch.searchsorted(whole.edge_index[0].contiguous(), whole.ptr)
        of_level["edge"] = rows_between(centers, molecules)
    return of_level


def rows_between(ptr: torch.Tensor, molecules: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.arange(ptr[i], ptr[i + 1]) for i in molecules.tolist()])


def report_padding(count: int) -> None:
    demo = np.array([len(alloys.label(0, number)["atomic_numbers"]) for number in range(count)])
    wide = np.random.default_rng(0).normal(np.log(50), 0.9, 20_000)
    sets = {
        "the demo": (demo, 1024),
        "5 to 500 atoms": (np.exp(wide).round().clip(5, 500).astype(int), 4096),
    }
    print("padding of BucketBatchSampler, eight shapes")
    for name, (sizes, max_atoms) in sets.items():
        share = apt.BucketBatchSampler(sizes, max_atoms).padding["atoms"]
        print(f"  {name}: {len(sizes):,} structures, {max_atoms} atoms a batch, {share:.1%}")
        note(Result("torch_ops", f"padding, {name}", 100 * share, "%"))


if __name__ == "__main__":
    main()
