"""What all samplers promise: one sequence for any number of ranks, a place that holds for all."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from collections.abc import Callable
from itertools import chain, islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import process_group

from atompack_torch import (
    AtomBudgetBatchSampler,
    BlockShuffleSampler,
    BucketBatchSampler,
    DistributedMoleculeSampler,
    EqualSizeBatchSampler,
)
from atompack_torch.loading.samplers import _windows

Make = Callable[..., Any]


def sizes_of(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(1, 30, n)


def budget(n: int, **options: Any) -> AtomBudgetBatchSampler:
    return AtomBudgetBatchSampler(sizes_of(n), 40, **options)


def blocks(n: int, **options: Any) -> BlockShuffleSampler:
    return BlockShuffleSampler(n, block=3, window=4, **options)


def workers(n: int, **options: Any) -> BlockShuffleSampler:
    return BlockShuffleSampler(n, block=3, window=4, workers=2, batch_size=5, **options)


def buckets(n: int, **options: Any) -> BucketBatchSampler:
    return BucketBatchSampler(sizes_of(n), 64, **options)


def equal(n: int, **options: Any) -> EqualSizeBatchSampler:
    return EqualSizeBatchSampler(sizes_of(n), 4, **options)


MAKERS: dict[str, Make] = {
    "single": DistributedMoleculeSampler,
    "blocks": blocks,
    "workers": workers,
    "budget": budget,
    "buckets": buckets,
    "equal": equal,
}
BATCHES = (budget, buckets, equal)
every_sampler = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
with_endings = pytest.mark.parametrize(
    "make", [DistributedMoleculeSampler, blocks, workers, budget]
)


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs of many windows, of 10 molecules or so."""
    monkeypatch.setattr(_windows, "_WINDOW", 10)
    monkeypatch.setattr(_windows, "_LARGEST_WINDOW", 10)


def molecules(items: list[Any]) -> list[int]:
    return list(chain.from_iterable(items)) if items and isinstance(items[0], list) else items


def all_ranks(make: Make, n: int, n_ranks: int, **options: Any) -> list[list[Any]]:
    return [list(make(n, num_replicas=n_ranks, rank=rank, **options)) for rank in range(n_ranks)]


def in_turn(ranks: list[list[Any]]) -> list[Any]:
    """The items of all ranks in the order of the sequence."""
    return [items[k] for k in range(len(ranks[0])) for items in ranks if k < len(items)]


@every_sampler
@given(n=st.integers(0, 90), n_ranks=st.integers(1, 7), shuffle=st.booleans())
def test_every_molecule_comes_once(make: Make, n: int, n_ranks: int, shuffle: bool) -> None:
    if make in BATCHES and n < 10 * n_ranks:
        return  # too few to split: test_atom_budget.py
    ranks = all_ranks(make, n, n_ranks, shuffle=shuffle)
    assert sorted(molecules(in_turn(ranks))) == list(range(n))
    lengths = {len(items) for items in ranks}
    assert max(lengths) - min(lengths) <= (0 if make in BATCHES else 1)
    for rank, items in enumerate(ranks):
        assert len(make(n, num_replicas=n_ranks, rank=rank, shuffle=shuffle)) == len(items)


@every_sampler
@pytest.mark.parametrize("n_ranks", [2, 3, 8])
def test_the_order_is_the_same_for_any_number_of_ranks(make: Make, n_ranks: int) -> None:
    one = list(make(500))
    many = in_turn(all_ranks(make, 500, n_ranks))
    n_same = len(one) // n_ranks * n_ranks
    assert many[:n_same] == one[:n_same]


@with_endings
@pytest.mark.parametrize("n_ranks", [1, 3, 8])
@pytest.mark.parametrize("n", [1, 5, 123, 500])
def test_drop_last_and_pad(make: Make, n: int, n_ranks: int) -> None:
    one = list(make(n))
    over = len(one) % n_ranks
    dropped = all_ranks(make, n, n_ranks, drop_last=True)
    assert in_turn(dropped) == one[: len(one) - over]
    padded = all_ranks(make, n, n_ranks, pad=True)
    repeated = list(islice(chain.from_iterable([one] * n_ranks), (n_ranks - over) % n_ranks))
    assert in_turn(padded) == one + repeated
    for option, ranks in (("drop_last", dropped), ("pad", padded)):
        assert len({len(items) for items in ranks}) == 1
        assert len(make(n, num_replicas=n_ranks, rank=0, **{option: True})) == len(ranks[0])


@every_sampler
def test_seed_and_epoch_make_the_order(make: Make) -> None:
    sampler = make(200, seed=3)
    first, second = list(sampler), list(sampler)  # each whole pass is followed by the next epoch
    assert sampler.epoch == 2
    left = make(200, seed=3)
    next(iter(left))
    assert list(left) == first  # a pass that was left early is repeated
    sampler.set_epoch(1)
    assert list(sampler) == second
    assert list(sampler) == second  # from now on, until another is chosen
    sampler.set_epoch(0)
    assert list(sampler) == first
    others = [list(make(200, seed=seed)) for seed in (0, 1, 2, 4)]
    assert len({str(order) for order in [first, second, *others]}) == 6
    stored = make(200, shuffle=False)
    in_order = list(stored)
    assert sorted(molecules(in_order)) == list(range(200))
    if make not in (buckets, equal):
        assert molecules(in_order) == list(range(200))
    stored.set_epoch(5)
    assert list(stored) == in_order


legs = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 30)), max_size=6)


@every_sampler
@given(n=st.integers(0, 150), epoch=st.integers(0, 3), legs=legs)
def test_resumed_again_and_again_on_any_number_of_ranks(
    make: Make, n: int, epoch: int, legs: list[tuple[int, int]]
) -> None:
    """Every molecule appears once, whoever saves and however many continue."""
    begun = make(n)
    begun.set_epoch(epoch)
    state, used = begun.state_dict(), []
    for n_ranks, n_steps in [*legs, (1, n + 1)]:
        samplers = [make(n, num_replicas=n_ranks, rank=rank) for rank in range(n_ranks)]
        for sampler in samplers:
            sampler.load_state_dict(state)
            assert sampler.epoch == epoch
        try:
            taken = [list(islice(iter(sampler), n_steps)) for sampler in samplers]
        except ValueError:
            assert make in BATCHES  # with too few molecules left for all these ranks
            n_left = n - len(used)
            if make is budget:
                assert n_left < n_ranks * n_steps
            else:
                assert n_left % n_ranks
            continue
        used += molecules(in_turn(taken))
        state = json.loads(json.dumps(samplers[0].state_dict(consumed=len(taken[0]))))
        for sampler, items in zip(samplers, taken, strict=True):
            if len(items) == n_steps:
                assert sampler.state_dict() == state
    assert Counter(used) == Counter(range(n))


@every_sampler
@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_resumed_on_as_many_ranks_with_the_same_items(make: Make, n_ranks: int) -> None:
    """After each step, also where the last batches were split."""
    for n in range(17, 29):
        try:
            expected = all_ranks(make, n, n_ranks)
        except ValueError:  # the last batches cannot be split evenly
            continue
        for n_steps in range(1, min(map(len, expected))):
            sampler = make(n, num_replicas=n_ranks, rank=0)
            state = [*islice(iter(sampler), n_steps)] and sampler.state_dict()
            for rank, items in enumerate(expected):
                resumed = make(n, num_replicas=n_ranks, rank=rank)
                resumed.load_state_dict(state)
                assert list(resumed) == items[n_steps:]


@with_endings
@pytest.mark.parametrize("option", ["drop_last", "pad"])
def test_resumed_with_other_endings(make: Make, option: str) -> None:
    one = list(make(300))
    samplers = [make(300, num_replicas=4, rank=rank, **{option: True}) for rank in range(4)]
    taken = [list(islice(iter(sampler), 7)) for sampler in samplers]
    states = [sampler.state_dict() for sampler in samplers]
    assert all(state == states[0] for state in states)
    rest = []
    for rank in range(3):
        sampler = make(300, num_replicas=3, rank=rank, **{option: True})
        sampler.load_state_dict(states[0])
        rest.append(list(sampler))
        ended = sampler.state_dict()
        assert ended["position"] == len(one)
        sampler.load_state_dict(ended)
        sampler.set_epoch(0)
        assert list(sampler) == []
    found = in_turn(taken) + in_turn(rest)
    over = (len(one) - 28) % 3
    if option == "drop_last":
        assert found == one[: len(one) - over]
    else:
        assert found == one + one[: -over % 3]


@every_sampler
def test_consumed_counts_what_was_used(make: Make) -> None:
    """Who reads ahead says how much of it was used."""
    order = list(make(300))
    sampler = make(300)
    items = iter(sampler)
    ahead = list(islice(items, 20))
    for used in (0, 1, 13, 20):
        other = make(300)
        other.load_state_dict(sampler.state_dict(consumed=used))
        assert list(other) == order[used:]
    assert sampler.state_dict() == sampler.state_dict(consumed=20)
    for wrong in (-1, 21):
        with pytest.raises(ValueError, match=f"consumed: expected 0 to 20, got {wrong}"):
            sampler.state_dict(consumed=wrong)
    assert ahead + list(items) == order
    assert (
        sampler.state_dict(consumed=len(order) + 1) == sampler.state_dict()
    )  # a last, short batch
    with pytest.raises(ValueError, match="consumed: expected 0 before the pass began, got 3"):
        make(300).state_dict(consumed=3)


@every_sampler
def test_a_resumed_pass_counts_from_its_own_beginning(make: Make) -> None:
    order = list(make(300))
    first = make(300)
    list(islice(iter(first), 5))
    second = make(300)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    assert list(islice(iter(second), 8)) == order[5:13]
    third = make(300)
    third.load_state_dict(second.state_dict(consumed=2))
    assert list(third) == order[7:]
    whole = make(300)
    whole.set_epoch(1)
    assert list(third) == list(whole)


@every_sampler
def test_set_epoch_and_a_loaded_place(make: Make) -> None:
    sampler = make(300, seed=8)
    sampler.set_epoch(4)
    order = list(sampler)
    list(islice(iter(sampler), 9))
    state = sampler.state_dict()
    assert (state["seed"], state["epoch"]) == (8, 4)

    resumed = make(300)  # the seed comes with the state
    resumed.load_state_dict(state)
    resumed.set_epoch(4)
    assert list(resumed) == order[9:]
    assert resumed.seed == 8

    other = make(300, seed=8)
    other.load_state_dict(state)
    other.set_epoch(5)
    assert other.state_dict()["position"] == 0
    whole = list(other)
    assert len(molecules(whole)) == 300
    assert whole != order


@every_sampler
def test_the_end_of_an_epoch_is_a_place_too(make: Make) -> None:
    sampler = make(100)
    order = list(sampler)
    state = json.loads(json.dumps(sampler.state_dict()))
    resumed = make(100)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert resumed.epoch == 1  # the next one follows by itself
    assert list(resumed) == list(sampler) != order
    chosen = make(100)
    chosen.load_state_dict(state)
    chosen.set_epoch(0)
    assert list(chosen) == []
    assert list(chosen) == order


@with_endings
@pytest.mark.parametrize("option", ["drop_last", "pad"])
def test_a_state_after_the_last_item(make: Make, option: str) -> None:
    """As a checkpoint has it that is taken after the last step of an epoch."""
    for n, rank in product(range(37, 43), range(3)):
        sampler = make(n, num_replicas=3, rank=rank, **{option: True})
        items = list(islice(sampler, len(sampler)))
        assert len(items) == len(sampler)
        resumed = make(n, num_replicas=3, rank=rank, **{option: True})
        resumed.load_state_dict(sampler.state_dict())
        assert list(resumed) == []


@every_sampler
def test_a_pass_begins_with_its_first_item(make: Make) -> None:
    """A DataLoader with workers makes two passes and throws the first away."""
    sampler = make(300)
    order = list(make(300))
    list(islice(iter(sampler), 9))
    state = sampler.state_dict()
    resumed = make(300)
    resumed.load_state_dict(state)
    thrown_away = iter(resumed)
    assert resumed.state_dict() == state
    assert list(resumed) == order[9:]
    del thrown_away


@every_sampler
def test_states_of_other_plans_are_refused(make: Make) -> None:
    state = make(300).state_dict()
    with pytest.raises(ValueError, match="state: expected 299 molecules, got 300"):
        make(299).load_state_dict(state)
    with pytest.raises(ValueError, match="expected shuffle=False, got True"):
        make(300, shuffle=False).load_state_dict(state)
    with pytest.raises(ValueError, match="expected the entry 'position'"):
        make(300).load_state_dict({"version": 1, "seed": 0, "epoch": 0})
    with pytest.raises(ValueError, match="version, got one of an earlier release"):
        make(300).load_state_dict({"seed": 0, "epoch": 0})
    with pytest.raises(ValueError, match="expected version 1, got 2"):
        make(300).load_state_dict({**state, "version": 2})
    with pytest.raises(ValueError, match="state: position: expected at least 0, got -1"):
        make(300).load_state_dict({**state, "position": -1})
    for wrong in (None, [1]):
        with pytest.raises(TypeError, match=r"state: expected the result of state_dict\(\), got"):
            make(300).load_state_dict(wrong)
    with pytest.raises(ValueError, match="state: expected a mapping as 'planned', got None"):
        make(300).load_state_dict({**state, "planned": None})
    for other in set(MAKERS.values()) - {make}:
        with pytest.raises(ValueError, match="state: "):
            make(300).load_state_dict(other(300).state_dict())


@every_sampler
def test_copies_begin_passes_of_their_own(make: Make) -> None:
    sampler = make(100)
    order = list(make(100))
    items = iter(sampler)
    next(items)
    for twin in (copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))):
        assert list(twin) == order
    assert list(items) == order[1:]


@every_sampler
def test_fast_and_slow_iteration_are_one(make: Make) -> None:
    """next() goes through the pass, islice() and zip() past it: the state knows of both."""
    order = list(make(300))
    sampler = make(300)
    items = iter(sampler)
    found = [next(items), *islice(items, 3), next(items)]
    found += [item for pair in islice(zip(items, items, strict=False), 2) for item in pair]
    assert found == order[:9]
    assert sampler.state_dict() == sampler.state_dict(consumed=9)


@every_sampler
def test_ranks_of_torch_distributed(make: Make) -> None:
    sampler = make(300)  # asked for when a pass begins, not here
    sampler.set_epoch(0)
    for rank in range(3):
        with process_group(rank, 3):
            assert sampler.ranks() == (rank, 3)
            assert list(sampler) == list(make(300, num_replicas=3, rank=rank))
            assert make(300, num_replicas=1, rank=0).ranks() == (0, 1)
    assert sampler.ranks() == (0, 1)


@with_endings
def test_ranks_that_make_no_sense(make: Make) -> None:
    for options in ({"rank": 0}, {"num_replicas": 2}):
        with pytest.raises(ValueError, match="rank and num_replicas: expected both"):
            list(make(10, **options))
    assert make(10, num_replicas=1).ranks() == (0, 1)
    with pytest.raises(ValueError, match="rank: "):
        make(10, num_replicas=2, rank=2)
    with pytest.raises(ValueError, match="rank: "):
        make(10, num_replicas=2, rank=-1)
    with pytest.raises(ValueError, match="num_replicas: expected at least 1, got 0"):
        make(10, num_replicas=0, rank=0)
    with pytest.raises(ValueError, match="exclude one another"):
        make(10, drop_last=True, pad=True)


@every_sampler
def test_they_can_be_looked_at(make: Make) -> None:
    sampler = make(10, seed=3, num_replicas=2, rank=1)
    sampler.set_epoch(7)
    shown = repr(sampler)
    assert shown.startswith(f"{type(sampler).__name__}(10 molecules")
    assert ", shuffle=True, seed=3, epoch=7, " in shown
    assert shown.endswith("num_replicas=2, rank=1)")
