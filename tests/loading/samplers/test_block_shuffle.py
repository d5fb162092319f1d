"""BlockShuffleSampler: what stays together, what is mixed, and who reads which block."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atompack_torch import BlockShuffleSampler


def divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


@given(
    sizes=st.lists(st.integers(0, 9), max_size=30),
    window=st.integers(1, 9),
    n_ranks=st.integers(1, 4),
    batch_size=st.integers(1, 12),
    data=st.data(),
)
def test_every_molecule_once(
    sizes: list[int], window: int, n_ranks: int, batch_size: int, data: st.DataObject
) -> None:
    workers = data.draw(st.sampled_from(divisors(window)))
    lanes = data.draw(st.sampled_from(divisors(window // workers)))
    options: dict[str, Any] = {
        "window": window,
        "lanes": lanes,
        "workers": workers,
        "batch_size": batch_size,
        "num_replicas": n_ranks,
    }
    ranks = [list(BlockShuffleSampler(sizes, rank=r, **options)) for r in range(n_ranks)]
    assert sorted(chain.from_iterable(ranks)) == list(range(sum(sizes)))


@pytest.mark.parametrize("lanes", [None, 1, 3, 12])
def test_only_a_window_of_blocks_is_open(lanes: int | None) -> None:
    order = np.array(list(BlockShuffleSampler(240 * 5, block=5, window=12, lanes=lanes)))
    windows = (order // 5).reshape(20, 60)
    for blocks in windows:
        assert len(set(blocks.tolist())) == 12
    mean_blocks = windows.mean(axis=1)
    assert mean_blocks.std() > 5  # 12 blocks from anywhere, not 12 neighbours in stored order
    assert mean_blocks.std() < 60
    # Inside of a window, molecules are mixed: no block comes in one piece or in stored order.
    for window in order.reshape(20, 60):
        if lanes != 12:
            assert np.count_nonzero(np.diff(window) == 1) < 15
        assert window.tolist() != sorted(window.tolist())


@pytest.mark.parametrize("lanes", [1, 4, 12])
def test_every_window_is_mixed_in_its_own_way(lanes: int) -> None:
    order = np.array(list(BlockShuffleSampler(240 * 5, block=5, window=12, lanes=lanes)))
    in_block = (order % 5).reshape(20, 60)
    for lane in range(lanes):
        patterns = {tuple(window[lane::lanes].tolist()) for window in in_block}
        assert len(patterns) > 10


@pytest.mark.parametrize("lanes", [1, 4])
def test_every_place_of_a_window_is_as_likely(lanes: int) -> None:
    sampler = BlockShuffleSampler(32, block=4, window=8, lanes=lanes)
    counts = np.zeros((32, 32))
    for epoch in range(2000):
        sampler.set_epoch(epoch)
        counts[np.arange(32), list(sampler)] += 1
    square = ((counts - 62.5) ** 2 / 62.5).sum()
    assert abs(square - 31 * 31) < 5 * np.sqrt(2 * 31 * 31)


@pytest.mark.parametrize("n_ranks", [2, 4, 8])
def test_no_block_is_read_by_two_ranks(n_ranks: int) -> None:
    blocks_of = [
        {
            number // 5
            for number in BlockShuffleSampler(
                1600 * 5, block=5, window=32, num_replicas=n_ranks, rank=rank
            )
        }
        for rank in range(n_ranks)
    ]
    assert sum(map(len, blocks_of)) == 1600
    assert set().union(*blocks_of) == set(range(1600))


def blocks_by_worker(order: list[int], block: int, batch: int, workers: int) -> list[set[int]]:
    """What the workers of a DataLoader read, which take turns at batches."""
    read: list[set[int]] = [set() for _ in range(workers)]
    for first in range(0, len(order), batch):
        read[first // batch % workers].update(n // block for n in order[first : first + batch])
    return read


@pytest.mark.parametrize(("n_ranks", "workers"), [(1, 2), (1, 4), (2, 2), (4, 2), (2, 3)])
def test_no_block_is_read_by_two_workers(n_ranks: int, workers: int) -> None:
    read: list[set[int]] = []
    for rank in range(n_ranks):
        sampler = BlockShuffleSampler(
            1920 * 5,
            block=5,
            window=8 * workers,
            workers=workers,
            batch_size=16 * n_ranks,
            num_replicas=n_ranks,
            rank=rank,
        )
        read += blocks_by_worker(list(sampler), 5, 16, workers)
    # 9,600 molecules are 600 batches of 16, and each worker's 3,200 or 4,800 whole turns.
    assert sum(map(len, read)) == 1920
    assert set().union(*read) == set(range(1920))


def test_workers_share_but_the_last_blocks() -> None:
    """Of uneven lengths, less than a turn of each worker comes at the end."""
    sampler = BlockShuffleSampler(1001, block=7, window=8, workers=4, batch_size=10)
    order = list(sampler)
    assert sorted(order) == list(range(1001))
    read = blocks_by_worker(order, 7, 10, 4)
    assert sum(map(len, read)) <= 143 + 4 * 3  # 1001 molecules are 143 blocks
    # Where a pass continues at another batch, other workers get what belongs together.
    state = sampler.state_dict(consumed=470)
    sampler.load_state_dict(state)
    rest = list(sampler)
    assert rest == order[470:]
    assert sum(map(len, blocks_by_worker(rest, 7, 10, 4))) <= len({n // 7 for n in rest}) + 4 * 3


def test_workers_mix_the_windows_of_their_blocks() -> None:
    order = np.array(
        list(BlockShuffleSampler(240 * 5, block=5, window=12, workers=2, batch_size=30))
    )
    windows = (order // 5).reshape(20, 2, 30)
    for of_window in windows:
        first, second = (set(of_worker.tolist()) for of_worker in of_window)
        assert len(first) == len(second) == 6
        assert not first & second


def test_one_worker_is_as_good_as_none() -> None:
    expected = list(BlockShuffleSampler(1000, block=7, window=8))
    for workers in (0, 1):
        for batch_size in (None, 3, 100):
            sampler = BlockShuffleSampler(
                1000, block=7, window=8, workers=workers, batch_size=batch_size
            )
            assert list(sampler) == expected


def test_blocks_of_several_sizes() -> None:
    sizes = [3, 0, 50, 2, 7, 1, 1, 20]
    expected = list(BlockShuffleSampler(sizes, window=4))
    assert sorted(expected) == list(range(84))
    others: tuple[Any, ...] = (
        np.array(sizes, np.uint8),
        torch.tensor(sizes),
        SimpleNamespace(block_sizes=sizes),
    )
    for source in others:
        assert list(BlockShuffleSampler(source, window=4)) == expected


def test_blocks_of_one_size() -> None:
    expected = list(BlockShuffleSampler(10, block=4, window=2))
    assert sorted(expected) == list(range(10))
    sources: tuple[Any, ...] = (range(10), np.ones(10), torch.ones(10), [5] * 10, np.int64(10))
    for source in (*sources, SimpleNamespace(n_atoms=torch.ones(10))):
        assert list(BlockShuffleSampler(source, block=4, window=2)) == expected
    assert list(BlockShuffleSampler([4, 4, 2], window=2)) == expected
    for block, window in ((1, 1), (1, 100), (100, 1), (100, 100)):
        order = list(BlockShuffleSampler(50, block=block, window=window))
        assert sorted(order) == list(range(50))
        assert order != list(range(50))


def test_states_of_other_blocks_are_refused() -> None:
    state = BlockShuffleSampler(100, block=5, window=4).state_dict()
    BlockShuffleSampler([5] * 20, window=4).load_state_dict(state)
    with pytest.raises(ValueError, match="expected blocks="):
        BlockShuffleSampler(100, block=10, window=4).load_state_dict(state)
    with pytest.raises(ValueError, match="expected window=8, got 4"):
        BlockShuffleSampler(100, block=5, window=8).load_state_dict(state)
    with pytest.raises(ValueError, match="expected lanes=2, got 4"):
        BlockShuffleSampler(100, block=5, window=4, lanes=2).load_state_dict(state)
    with pytest.raises(ValueError, match="expected workers=2, got 1"):
        BlockShuffleSampler(
            100, block=5, window=8, lanes=4, workers=2, batch_size=8
        ).load_state_dict({**state, "planned": {**state["planned"], "window": 8}})


def test_options_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="window: expected at least 1, got 0"):
        BlockShuffleSampler(10, block=2, window=0)
    with pytest.raises(ValueError, match="block: expected at least 1, got 0"):
        BlockShuffleSampler(10, block=0, window=2)
    with pytest.raises(ValueError, match="lanes: expected a number that divides 6, got 4"):
        BlockShuffleSampler(10, block=2, window=6, lanes=4)
    with pytest.raises(ValueError, match="lanes: expected a number that divides 3, got 2"):
        BlockShuffleSampler(10, block=2, window=6, lanes=2, workers=2, batch_size=4)
    for workers in (4, -1):
        with pytest.raises(ValueError, match=f"workers: expected a number .* got {workers}"):
            BlockShuffleSampler(10, block=2, window=6, workers=workers, batch_size=4)
    with pytest.raises(ValueError, match="batch_size: expected the molecules of a batch, as"):
        BlockShuffleSampler(10, block=2, window=6, workers=2)
    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        BlockShuffleSampler(10, block=2, window=6, batch_size=0)
    with pytest.raises(TypeError, match="block: expected molecules in a block, or the sizes"):
        BlockShuffleSampler(10, window=2)
    with pytest.raises(TypeError, match="block sizes: expected integers, got float64"):
        BlockShuffleSampler(np.ones(10), window=2)
