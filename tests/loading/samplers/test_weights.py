"""``weights=`` and ``balance=`` of all samplers, compared with a slow reference."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

import atompack_torch as apt
from atompack_torch.random_order import hashes, mix

N = 300
KINDS = ["bulk"] * 200 + ["surface"] * 90 + ["defect"] * 10

Sampler = Any
MAKERS: dict[str, Callable[..., Sampler]] = {
    "index": apt.DistributedMoleculeSampler,
    "blocks": lambda ds, **options: apt.BlockShuffleSampler(ds, block=8, window=4, **options),
    "budget": lambda ds, **options: apt.AtomBudgetBatchSampler(ds, 40, **options),
    "bucket": lambda ds, **options: apt.BucketBatchSampler(ds, 40, buckets=3, **options),
    "equal": lambda ds, **options: apt.EqualSizeBatchSampler(ds, 6, **options),
}
EVERY = pytest.mark.parametrize("kind", MAKERS)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> apt.AtpDataset:
    path = tmp_path_factory.mktemp("weights") / "all.atp"
    rng = np.random.default_rng(0)
    with apt.AtpWriter(path) as writer:
        writer.write(
            [
                apt.Molecule(
                    rng.normal(size=(n := int(rng.integers(1, 12)), 3)),
                    np.ones(n, int),
                    energy=float(k),
                    properties={"config_type": KINDS[k], "importance": float(k % 4), "part": k % 5},
                )
                for k in range(N)
            ]
        )
    return apt.AtpDataset(path)


def weights_of(dataset: apt.AtpDataset) -> torch.Tensor:
    return dataset.column("importance").values  # type: ignore[return-value]


def flat(items: list[Any]) -> list[int]:
    return [k for item in items for k in (item if isinstance(item, list) else [item])]


def drawn(weights: np.ndarray[Any, Any], seed: int, epoch: int) -> list[int]:
    """The draws of an epoch, one at a time."""
    found = []
    for word in hashes(mix(seed, epoch, 0xD3A5), np.arange(len(weights))).tolist():
        left = (word >> 11) / 2**53 * float(weights.sum())
        for k, weight in enumerate(weights.tolist()):
            left -= weight
            if left < 0:
                found.append(k)
                break
    return sorted(found)


@pytest.mark.parametrize("scale", [1e308, 2.0**1023, 5e-324, 2**40])
def test_only_ratios_of_weights_count(scale: float) -> None:
    equal = list(apt.DistributedMoleculeSampler(N, weights=np.ones(N)))
    assert list(apt.DistributedMoleculeSampler(N, weights=np.full(N, scale))) == equal
    assert len(set(equal)) > N / 2


@EVERY
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_draws_of_each_epoch(dataset: apt.AtpDataset, kind: str, shuffle: bool) -> None:
    weights = weights_of(dataset)
    for given in (weights, weights.tolist(), weights.numpy(), "importance"):
        sampler = MAKERS[kind](dataset, weights=given, seed=5, shuffle=shuffle)
        for epoch in range(3):
            n_items = len(sampler)
            items = list(sampler)
            assert len(items) == n_items
            assert sorted(flat(items)) == drawn(weights.numpy(), 5, epoch)
    sampler.set_epoch(1)
    again = list(sampler)
    assert sorted(flat(again)) == drawn(weights.numpy(), 5, 1)
    if shuffle:
        assert flat(again) != sorted(flat(again))


@EVERY
def test_batches_keep_their_limits(dataset: apt.AtpDataset, kind: str) -> None:
    if kind in ("index", "blocks"):
        return
    n_atoms = dataset.n_atoms
    sampler = MAKERS[kind](dataset, balance="config_type")
    shapes = getattr(sampler, "shapes", None)
    for _ in range(3):
        for batch in sampler:
            sizes = n_atoms[batch]
            if kind == "equal":
                assert len(batch) <= 6
                assert len(set(sizes.tolist())) == 1
            else:
                assert int(sizes.sum()) <= 40
            if kind == "bucket":
                sampler.shape_of(dataset.batch(batch))
    assert getattr(sampler, "shapes", None) == shapes


@EVERY
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_share_the_draws(dataset: apt.AtpDataset, kind: str, n_ranks: int) -> None:
    options = {"weights": weights_of(dataset), "seed": 2, "num_replicas": n_ranks}
    items = [list(MAKERS[kind](dataset, rank=rank, **options)) for rank in range(n_ranks)]
    assert sorted(flat([item for part in items for item in part])) == drawn(
        weights_of(dataset).numpy(), 2, 0
    )
    if kind not in ("index", "blocks"):
        assert len({len(part) for part in items}) == 1


@EVERY
def test_resume_is_exact(dataset: apt.AtpDataset, kind: str) -> None:
    sampler = MAKERS[kind](dataset, weights="importance", seed=4)
    list(sampler)
    iterator = iter(sampler)
    before = [next(iterator) for _ in range(9)]
    state = pickle.loads(pickle.dumps(sampler.state_dict()))
    rest = list(iterator)
    resumed = MAKERS[kind](dataset, weights="importance", seed=4)
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    assert sorted(flat([*before, *rest])) == drawn(weights_of(dataset).numpy(), 4, 1)
    assert list(resumed) == list(sampler)  # the next epoch
    on_two = []
    for rank in range(2):
        other = MAKERS[kind](dataset, weights="importance", seed=4, num_replicas=2, rank=rank)
        other.load_state_dict(state)
        on_two += flat(list(other))
    assert sorted(on_two) == sorted(flat(rest))
    for options in ({}, {"balance": "config_type"}):
        with pytest.raises(ValueError, match="expected the weights of this sampler, got others"):
            MAKERS[kind](dataset, seed=4, **options).load_state_dict(state)


def test_frequencies_are_those_of_torch() -> None:
    weights = torch.tensor([0.5, 2.0, 0.0, 1.0, 0.25] * 400)
    sampler = apt.DistributedMoleculeSampler(len(weights), weights=weights)
    epochs = 50
    own = Counter(k % 5 for _ in range(epochs) for k in sampler)
    generator = torch.Generator().manual_seed(0)
    torchs = WeightedRandomSampler(weights.tolist(), epochs * len(weights), generator=generator)
    expected = Counter(k % 5 for k in torchs)
    n = epochs * len(weights)
    for kind in range(5):
        share = float(weights[kind]) / 3.75
        spread = 5 * (share * (1 - share) / n) ** 0.5
        assert abs(own[kind] / n - share) <= spread
        assert abs(own[kind] - expected[kind]) / n <= 2 * spread
    single = Counter(k for _ in range(epochs) for k in sampler)
    counts = np.array([single[k] for k in range(1, len(weights), 5)])  # Poisson, but for a little
    assert abs(counts.mean() - epochs * 2 / 0.75) < 5 * (counts.mean() / len(counts)) ** 0.5
    assert 0.8 < counts.var() / counts.mean() < 1.2


@EVERY
def test_balance(dataset: apt.AtpDataset, kind: str) -> None:
    sampler = MAKERS[kind](dataset, balance="config_type")
    n_epochs = 30
    found = Counter(KINDS[k] for _ in range(n_epochs) for k in flat(list(sampler)))
    assert sum(found.values()) == n_epochs * N
    for value in ("bulk", "surface", "defect"):
        assert abs(found[value] / (n_epochs * N) - 1 / 3) < 0.02
    subset = dataset.subset(range(150, 300))
    part = Counter(KINDS[150 + k] for k in flat(list(MAKERS[kind](subset, balance="config_type"))))
    assert set(part) == {"bulk", "surface", "defect"}


def test_through_loaders(dataset: apt.AtpDataset) -> None:
    sampler = apt.AtomBudgetBatchSampler(dataset, 60, balance="config_type", seed=1)
    loader = apt.Loader(dataset, batch_sampler=sampler)
    own = [batch.index.tolist() for _ in range(2) for batch in loader]
    again = apt.AtomBudgetBatchSampler(dataset, 60, balance="config_type", seed=1)
    workers = DataLoader(dataset, batch_sampler=again, num_workers=2)
    assert [batch.index.tolist() for _ in range(2) for batch in workers] == own


def test_wrong_weights(dataset: apt.AtpDataset) -> None:
    make = apt.DistributedMoleculeSampler
    with pytest.raises(ValueError, match="weights: excludes balance"):
        make(dataset, weights="importance", balance="config_type")
    with pytest.raises(ValueError, match="weights: expected one for each of 300 molecules, got 3"):
        make(dataset, weights=[1, 2, 3])
    with pytest.raises(ValueError, match="weights: expected finite numbers of at least 0"):
        make(3, weights=[1, -2, 3])
    with pytest.raises(ValueError, match="weights: expected at least one above 0, got none"):
        make(3, weights=[0, 0, 0])
    with pytest.raises(ValueError, match="weights: expected a column with a number"):
        make(dataset, weights="config_type")
    with pytest.raises(apt.FieldError, match="no field 'importanc'"):
        make(dataset, weights="importanc")
    with pytest.raises(apt.FieldError, match="balance: unknown name 'config'"):
        make(dataset, balance="config")
    with pytest.raises(TypeError, match="balance: expected a dataset, which has fields, got int"):
        make(3, balance="config_type")
    mixture = apt.MixtureDataset([dataset, dataset.subset(range(7))], weights=[1, 1], epoch=50)
    with pytest.raises(ValueError, match="weights: expected none for a dataset that has other"):
        make(mixture, weights=[1.0] * 50)
