"""DistributedMoleculeSampler: what it takes, and that size costs nothing."""

from __future__ import annotations

import time
import tracemalloc
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from atompack_torch import DistributedMoleculeSampler


def test_what_it_takes() -> None:
    expected = list(DistributedMoleculeSampler(10))
    sources: tuple[Any, ...] = (range(10), [1] * 10, np.ones(10), torch.ones(10), np.int64(10))
    for source in (*sources, torch.tensor(10), SimpleNamespace(n_atoms=torch.ones(10))):
        assert list(DistributedMoleculeSampler(source)) == expected
    assert all(type(number) is int for number in expected)
    for wrong in (None, 1.5, True):
        with pytest.raises(TypeError, match="expected a count, numbers of atoms, or a dataset"):
            DistributedMoleculeSampler(wrong)
    with pytest.raises(ValueError, match="expected a count of at least 0, got -1"):
        DistributedMoleculeSampler(-1)


def test_ranks_that_are_not_padded_differ_by_one() -> None:
    lengths = [len(DistributedMoleculeSampler(10, num_replicas=4, rank=rank)) for rank in range(4)]
    assert lengths == [3, 3, 2, 2]


def test_many_molecules_cost_nothing() -> None:
    """Neither memory, nor time to a place far inside."""
    tracemalloc.start()
    start = time.thread_time()
    sampler = DistributedMoleculeSampler(10**10, num_replicas=7, rank=3)
    state = sampler.state_dict()
    sampler.load_state_dict({**state, "position": 7 * 10**9})
    numbers = list(islice(iter(sampler), 20_000))
    assert time.thread_time() - start < 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7
    assert len(set(numbers)) == 20_000
    assert max(numbers) > 9 * 10**9
    assert len(sampler) == 1_428_571_429
