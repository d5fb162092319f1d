"""How long does a training loop wait for batches on a CUDA device, and what do resident ones cost?

    python benchmarks/gpu.py [--quick]

Copies of batches from pageable and pinned memory; the share of an epoch in which the device has
nothing to do, and how long the loop waits for a batch; edges from the device next to the training
loop and in it, and from the threads of the CPU; batches from a ``ResidentDataset`` there; and
``contract_forces``, next to the CPU.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from turns import parser_of, take_turns

import atompack_torch as apt

N_ATOMS, BATCH_SIZE = 32, 64
NEIGHBORS = apt.NeighborList(4.0, vectors=True)


def main() -> None:
    quick = parser_of(__doc__).parse_args().quick
    if not torch.cuda.is_available():
        print("skipped, missing hardware: no CUDA device")
        sys.exit(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    rounds = 1 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.atp"
        write(path, 2_000 if quick else 40_000)
        dataset = apt.AtpDataset(path)
        report_copies(dataset[:BATCH_SIZE], rounds)
        report_epochs(dataset, rounds)
    report_contraction(rounds)


def write(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    positions = rng.random((n, N_ATOMS, 3)).astype(np.float32) * 7
    with apt.AtpWriter(path) as writer:
        writer.write_arrays(
            positions=positions,
            atomic_numbers=np.full(N_ATOMS, 8, np.uint8),
            energy=rng.random(n),
            forces=rng.normal(size=positions.shape).astype(np.float32),
        )


def report_copies(batch: apt.MoleculeBatch, rounds: int) -> None:
    pinned = batch.pin_memory()

    def copy(source: apt.MoleculeBatch, non_blocking: bool) -> Callable[[], object]:
        def run() -> None:
            for _ in range(100):
                source.to("cuda", non_blocking=non_blocking)
            torch.cuda.synchronize()

        return run

    sides = {"pageable": copy(batch, False), "pinned": copy(pinned, True)}
    for name, spent in take_turns(sides, rounds + 1).items():
        print(f"copy of a batch, {name}: {1e4 * spent.best:.1f} µs")


def report_epochs(dataset: apt.AtpDataset, rounds: int) -> None:
    """Epochs with steps of about half a millisecond, next to the same steps without batches."""
    square = torch.randn(2048, 2048, device="cuda")
    resident = apt.ResidentDataset(dataset, "cuda")
    n = -(-len(dataset) // BATCH_SIZE)
    waited: Counter[str] = Counter()

    def epoch(
        name: str,
        batches: Iterable[apt.MoleculeBatch | None],
        step: Callable[[apt.MoleculeBatch], object] = lambda batch: batch.positions.sum(),
    ) -> Callable[[], object]:
        def run() -> None:
            iterator = iter(batches)
            for _ in range(n):
                start = time.perf_counter()
                batch = next(iterator)
                waited[name] += time.perf_counter() - start
                torch.mm(square, square)
                if batch is not None:
                    step(batch)
            torch.cuda.synchronize()

        return run

    def load(source: apt.AtpDataset, **options: Any) -> apt.Loader:
        return apt.Loader(
            source, BATCH_SIZE, shuffle=True, device="cuda", pin_memory=True, **options
        )

    def search(batch: apt.MoleculeBatch) -> torch.Tensor:
        found = apt.neighbor_list(batch.positions.double(), None, None, batch.ptr, NEIGHBORS.cutoff)
        return found.edge_vector.sum()

    pinned = load(dataset)
    on_threads = apt.AtpDataset(dataset.path, neighbors=NEIGHBORS)
    batches: dict[str, Iterable[apt.MoleculeBatch | None]] = {
        "no batches": [None] * n,
        "Loader": apt.Loader(dataset, BATCH_SIZE, shuffle=True, device="cuda"),
        "Loader, pinned": pinned,
        "Loader, pinned, edges of the CPU": load(on_threads),
        "ResidentDataset": apt.Loader(resident, BATCH_SIZE, shuffle=True),
    }
    sides = {name: epoch(name, source) for name, source in batches.items()}
    if find_spec("nvalchemiops") is None:
        print("edges of the device: skipped, nvalchemi-toolkit-ops is not installed")
    else:
        beside, inside = "edges of the device, next to the loop", "edges of the device, in the loop"
        sides[beside] = epoch(
            beside, load(dataset, neighbors=NEIGHBORS), lambda batch: batch.edge_vector.sum()
        )
        sides[inside] = epoch(inside, pinned, search)
    take_turns(sides, 1)
    waited.clear()
    times = {name: spent.median for name, spent in take_turns(sides, rounds).items()}
    for name, seconds in times.items():
        stall = max(0.0, 1 - times["no batches"] / seconds)
        waiting = 1e6 * waited[name] / rounds / n
        print(
            f"epoch, {name}: {1e6 * seconds / n:.1f} µs a batch, {stall:.1%} of it stalled, "
            f"the loop waits {waiting:.1f} µs for a batch"
        )
    for name in ("Loader, pinned", "ResidentDataset"):
        start = time.perf_counter()
        for _ in batches[name]:
            pass
        torch.cuda.synchronize()
        print(f"batches alone, {name}: {1e6 * (time.perf_counter() - start) / n:.1f} µs")


def report_contraction(rounds: int) -> None:
    rng = np.random.default_rng(0)
    descriptor = apt.ChebyshevDescriptor(["O"], 8, 4.0, 3, 3.0, dtype="float32")
    molecules = [apt.Molecule(7 * rng.random((N_ATOMS, 3)), np.full(N_ATOMS, 8)) for _ in range(32)]
    batch = descriptor.compute(apt.collate(molecules), derivatives=True)

    def contract(on: apt.MoleculeBatch) -> Callable[[], object]:
        def run() -> None:
            for _ in range(10):
                apt.contract_forces(on, on.features)
            torch.cuda.synchronize()

        return run

    sides = {"CPU": contract(batch), "CUDA": contract(batch.to("cuda"))}
    take_turns(sides, 1)
    for name, spent in take_turns(sides, rounds).items():
        print(f"contract_forces, {name}: {1e5 * spent.median:.1f} µs")


if __name__ == "__main__":
    main()
