"""How long does a training loop wait for batches on a CUDA device, and what do resident ones cost?

    python benchmarks/gpu.py [--quick]

Copies of batches from pageable and pinned memory; the share of an epoch in which the device has
nothing to do; batches from a ``ResidentDataset`` there; and ``contract_forces``, next to the CPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from turns import take_turns

import atompack_torch as apt

N_ATOMS, BATCH_SIZE = 32, 64


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small data, one round")
    quick = parser.parse_args().quick
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

    def epoch(batches: Iterable[apt.MoleculeBatch | None]) -> Callable[[], object]:
        def run() -> None:
            for batch in batches:
                torch.mm(square, square)
                if batch is not None:
                    batch.positions.sum()
            torch.cuda.synchronize()

        return run

    loader = apt.Loader(dataset, BATCH_SIZE, shuffle=True, device="cuda")
    pinned = apt.Loader(dataset, BATCH_SIZE, shuffle=True, device="cuda", pin_memory=True)
    sides = {
        "no batches": epoch([None] * n),
        "Loader": epoch(loader),
        "Loader, pinned": epoch(pinned),
        "ResidentDataset": epoch(apt.Loader(resident, BATCH_SIZE, shuffle=True)),
    }
    take_turns(sides, 1)
    times = {name: spent.median for name, spent in take_turns(sides, rounds).items()}
    for name, seconds in times.items():
        stall = max(0.0, 1 - times["no batches"] / seconds)
        print(f"epoch, {name}: {1e6 * seconds / n:.1f} µs a batch, {stall:.1%} of it stalled")
    for name, batches in (("Loader, pinned", pinned), ("ResidentDataset", None)):
        start = time.perf_counter()
        for _ in batches if batches is not None else apt.Loader(resident, BATCH_SIZE, shuffle=True):
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
