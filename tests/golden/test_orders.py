"""Orders that a seed gives: checkpoints from the middle of an epoch rely on them."""

from __future__ import annotations

import atompack_torch as apt

SIZES = [3, 1, 2, 5, 1, 4, 2, 2, 1, 3, 2, 6]


def test_orders_of_samplers() -> None:
    batches = [[9, 4, 6], [0, 8, 2], [5, 7], [10, 3], [1, 11]]
    assert [*apt.AtomBudgetBatchSampler(SIZES, 8, seed=1)] == batches
    blocks = [5, 6, 3, 7, 4, 8, 2, 11, 0, 9, 1, 10]
    assert [*apt.BlockShuffleSampler(12, block=3, window=2, seed=1)] == blocks
    dealt = [9, 1, 10, 4, 11, 0, 5, 7, 6, 8, 2, 3]
    for rank in (0, 1):
        sampler = apt.DistributedMoleculeSampler(12, seed=1, num_replicas=2, rank=rank)
        assert [*sampler] == dealt[rank::2]
