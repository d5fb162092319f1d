"""What does planning batches cost, and how level are they?

    python benchmarks/samplers.py [--quick] [--molecules N]

Sizes are heavy-tailed, 5 to 500 atoms. Time and memory are those of one rank that goes through a
whole epoch without reading anything; memory is what the process grows by, the caller's array of
sizes aside. Resuming is timed in a fresh process, from loading the state to the first batch.
"""

from __future__ import annotations

import time
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import Result, note
from turns import in_own_process, parser_of, peak_bytes

from atompack_torch import (
    AtomBudgetBatchSampler,
    BlockShuffleSampler,
    DistributedMoleculeSampler,
)

BUDGET = 8192
RANKS = 8


def sizes_of(molecules: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Draw numbers of atoms: a Pareto distribution, cut off."""
    rng = np.random.default_rng(0)
    sizes = np.empty(molecules, np.int32)
    for first in range(0, molecules, 1 << 20):
        part = sizes[first : first + (1 << 20)]
        part[:] = np.clip(8 * (1 - rng.random(len(part))) ** (-1 / 1.2), 5, 500)
    return sizes


def reset_peak() -> int:
    """Forget the largest resident memory so far; returns that of now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def plan(molecules: int) -> dict[str, float]:
    """Go through an epoch of one of eight ranks; counting batches does so, without making lists."""
    sizes = sizes_of(molecules)
    before = reset_peak()
    start = time.perf_counter()
    sampler = AtomBudgetBatchSampler(sizes, BUDGET, num_replicas=RANKS, rank=0)
    count = len(sampler)
    counting = time.perf_counter() - start
    start = time.perf_counter()
    iterated = sum(1 for _ in sampler)
    iterating = time.perf_counter() - start
    if iterated != count:
        raise AssertionError(f"{count} batches were counted, {iterated} came")
    start = time.perf_counter()
    next(iter(sampler))
    return {
        "counting": counting,
        "iterating": iterating,
        "first": time.perf_counter() - start,
        "bytes": (peak_bytes() - before) / molecules,
    }


def place(molecules: int, fraction: float) -> dict[str, Any]:
    """Go to the middle of an epoch and take the state there."""
    sampler = AtomBudgetBatchSampler(sizes_of(molecules), BUDGET, num_replicas=RANKS, rank=0)
    n_steps = int(fraction * molecules * sampler._windows.costs.mean() / BUDGET / RANKS)
    for _ in islice(iter(sampler), n_steps):
        pass
    return sampler.state_dict()


def resume(molecules: int, state: dict[str, Any]) -> float:
    """Seconds from making the sampler to the first batch, on a different number of ranks."""
    sizes = sizes_of(molecules)
    start = time.perf_counter()
    sampler = AtomBudgetBatchSampler(sizes, BUDGET, num_replicas=RANKS - 3, rank=1)
    sampler.load_state_dict(state)
    next(iter(sampler))
    return time.perf_counter() - start


def balance(molecules: int, budget: int, shuffle: bool) -> tuple[float, float, float]:
    """Largest by mean cost of a step: its mean, its worst; and how full the batches are."""
    sizes = sizes_of(molecules)
    ranks = [
        AtomBudgetBatchSampler(sizes, budget, num_replicas=RANKS, rank=rank, shuffle=shuffle)
        for rank in range(RANKS)
    ]
    costs = np.array([[sizes[batch].sum() for batch in sampler] for sampler in ranks])
    even = costs.max(axis=0) / costs.mean(axis=0)
    return float(even.mean()), float(even.max()), float(costs.mean() / budget)


def fixed_batches(molecules: int) -> float:
    """The mean for as many molecules in every batch, as a plain DistributedSampler has it."""
    sizes = sizes_of(molecules)
    size = int(BUDGET / sizes.mean())
    order = np.random.default_rng(1).permutation(molecules)
    steps = sizes[order[: molecules // (size * RANKS) * size * RANKS]].reshape(-1, RANKS, size)
    costs = steps.sum(axis=2)
    return float((costs.max(axis=1) / costs.mean(axis=1)).mean())


def indices_per_second(sampler: Any, count: int) -> float:
    """How fast single molecules come."""
    start = time.perf_counter()
    taken = sum(1 for _ in islice(iter(sampler), count))
    return taken / (time.perf_counter() - start)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--molecules", type=int, default=100_000_000)
    options = parser.parse_args()
    n = 1_000_000 if options.quick else options.molecules
    warnings.simplefilter("ignore")

    planned = in_own_process(plan, n)
    print(f"{n:,} molecules of 5 to 500 atoms, batches of {BUDGET} atoms, {RANKS} ranks")
    print(f"  planning an epoch (len)      {planned['counting']:7.2f} s")
    print(f"  going through it, one rank   {planned['iterating']:7.2f} s")
    print(f"  memory                       {planned['bytes']:7.2f} bytes a molecule")
    print(f"  first batch of an epoch      {planned['first']:7.3f} s")
    state = in_own_process(place, n, 0.5)
    print(f"  resuming in the middle       {in_own_process(resume, n, state):7.3f} s")

    few = min(n, 1_000_000)
    print(f"largest by mean cost of a step, {RANKS} ranks, {few:,} molecules")
    for budget in (2048, BUDGET, 32768):
        mean, worst, fill = balance(few, budget, True)
        print(f"  budget {budget:6}  {mean:.4f} (worst step {worst:.3f}), batches {fill:.1%} full")
    mean, worst, fill = balance(few, BUDGET, False)
    print(f"  stored order   {mean:.4f} (worst step {worst:.3f}), batches {fill:.1%} full")
    print(f"  as many molecules in every batch: {fixed_batches(few):.4f}")

    report_single(n, few)


def report_single(n: int, few: int) -> None:
    """How fast samplers of single molecules are, next to torch's."""
    samplers = {
        "DistributedMoleculeSampler": DistributedMoleculeSampler(n),
        "BlockShuffleSampler": BlockShuffleSampler(n, block=1000, window=64),
        "torch's RandomSampler": torch.utils.data.RandomSampler(range(few)),
    }
    rates = {name: indices_per_second(sampler, few) for name, sampler in samplers.items()}
    print("single molecules a second")
    for name, rate in rates.items():
        print(f"  {name:27}  {rate:12,.0f}")
    *ours, torchs = rates
    for name in ours:
        note(Result("samplers", name, rates[name], "indices/s", torchs, rates[torchs]))


if __name__ == "__main__":
    main()
