"""Batches of a few shapes: each molecule once, for any number of ranks, with little padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import attempt
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch import BucketBatchSampler
from atompack_torch.loading.checks import check_sampler

RNG = np.random.default_rng(0)
# From 5 to 500 atoms, most of them about 50.
WIDE = np.clip(np.exp(RNG.normal(np.log(50), 0.9, 20_000)).round(), 5, 500).astype(np.int64)
EDGES = (WIDE * RNG.normal(45, 6, len(WIDE)).clip(10)).astype(np.int64)
SIZES = RNG.integers(1, 30, 301)


def batches_of(sizes: Any, max_atoms: int, ranks: int, **options: Any) -> list[list[list[int]]]:
    """The batches of every rank."""
    return [
        list(BucketBatchSampler(sizes, max_atoms, num_replicas=ranks, rank=rank, **options))
        for rank in range(ranks)
    ]


def fits(sampler: BucketBatchSampler, batch: list[int], sizes: Any, edges: Any = None) -> bool:
    atoms = int(np.asarray(sizes)[batch].sum())
    n_edges = 0 if edges is None else int(np.asarray(edges)[batch].sum())
    return any(
        len(batch) < shape.molecules and atoms + 2 <= shape.atoms and n_edges <= (shape.edges or 0)
        for shape in sampler.shapes
    )


@given(
    sizes=st.lists(st.integers(0, 12), max_size=80),
    density=st.one_of(st.none(), st.integers(0, 9)),
    buckets=st.integers(1, 9),
    ranks=st.integers(1, 5),
    shuffle=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_every_molecule_once_in_a_shape(
    sizes: list[int], density: int | None, buckets: int, ranks: int, shuffle: bool
) -> None:
    counts = np.array(sizes, int)
    options: dict[str, Any] = {"shuffle": shuffle, "buckets": buckets}
    edges = None
    if density is not None:
        edges = counts * density + np.arange(len(counts)) % 7
        options |= {"edges": edges, "max_edges": 120}
    found, message = attempt(lambda: batches_of(counts, 30, ranks, **options))
    if message is not None:
        assert "cannot be split evenly" in message
        return
    assert sorted(i for rank in found for batch in rank for i in batch) == list(range(len(sizes)))
    assert len({len(rank) for rank in found}) == 1
    sampler = BucketBatchSampler(counts, 30, num_replicas=ranks, rank=0, **options)
    assert len(sampler) == len(found[0])
    assert len(sampler.shapes) <= buckets
    for rank in found:
        for batch in rank:
            assert batch
            assert fits(sampler, batch, counts, edges)
    for shape in sampler.shapes:
        assert shape.atoms <= 30
        assert (shape.edges is None) == (edges is None)
        assert (shape.edges or 0) <= 120


@pytest.mark.parametrize("edges", [None, EDGES], ids=["atoms", "edges"])
def test_little_is_padding_for_a_wide_range_of_sizes(edges: Any) -> None:
    sampler = BucketBatchSampler(WIDE, 4096, edges=edges)
    assert len(sampler.shapes) == 8
    slots = np.zeros(2)
    used = np.zeros(2)
    for batch in sampler:
        atoms, n_edges = int(WIDE[batch].sum()), int(EDGES[batch].sum())
        fitting = [
            s
            for s in sampler.shapes
            if len(batch) < s.molecules
            and atoms + 2 <= s.atoms
            and (edges is None or n_edges <= s.edges)
        ]
        shape = min(fitting, key=lambda s: (s.atoms, s.edges))
        slots += (shape.atoms, shape.edges or 0)
        used += (atoms, n_edges)
    assert 1 - used[0] / slots[0] <= 0.05
    assert sampler.padding["atoms"] <= 0.05
    if edges is not None:
        assert 1 - used[1] / slots[1] <= 0.05
        assert sampler.padding["edges"] <= 0.05


def test_batches_differ_from_epoch_to_epoch() -> None:
    sampler = BucketBatchSampler(SIZES, 128, seed=3)
    first = list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    assert list(BucketBatchSampler(torch.from_numpy(SIZES), 128, seed=3)) == first
    stored = BucketBatchSampler(SIZES, 128, shuffle=False)
    assert [min(batch) for batch in stored] == sorted(min(batch) for batch in stored)


def test_a_state_of_other_data_or_settings_is_refused() -> None:
    state = BucketBatchSampler(SIZES, 128).state_dict()
    for other in (
        BucketBatchSampler(SIZES, 129),
        BucketBatchSampler(SIZES[1:], 128),
        BucketBatchSampler(SIZES, 128, buckets=7),
        BucketBatchSampler(SIZES, 128, edges=SIZES),
        BucketBatchSampler(SIZES, 128, shuffle=False),
    ):
        with pytest.raises(ValueError, match="state"):
            other.load_state_dict(state)


@pytest.mark.parametrize("kind", ["loader", "dataloader"])
def test_batches_are_padded_to_their_shapes(tmp_path: Path, kind: str) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for n in SIZES[:60]:
            writer.write(apt.Molecule(3 * RNG.random((n, 3)), np.full(n, 6)))
    dataset = apt.AtpDataset(tmp_path / "a.atp", neighbors=apt.NeighborList(2.0))
    edges = [dataset[[i]].edge_index.shape[1] for i in range(60)]
    sampler = BucketBatchSampler(dataset, 100, buckets=3, edges=edges)
    make: Any = apt.Loader if kind == "loader" else DataLoader
    shapes = set()
    for batch in make(dataset, batch_sampler=sampler):
        shape = sampler.shape_of(batch)
        padded = batch.padded_to(**shape._asdict())
        got = len(padded), len(padded.positions), padded.edge_index.shape[1]
        assert got == tuple(shape)
        shapes.add(shape)
    assert shapes <= set(sampler.shapes)
    with pytest.raises(ValueError, match="fits into none"):
        sampler.shape_of(dataset[:])


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: BucketBatchSampler(10, 40), TypeError, "a count alone does not tell"),
        (lambda: BucketBatchSampler(SIZES, 0), ValueError, "max_atoms: expected at least 1"),
        (
            lambda: BucketBatchSampler(SIZES, 30),
            ValueError,
            "max_atoms: expected room for molecule",
        ),
        (lambda: BucketBatchSampler(SIZES, 64, buckets=0), ValueError, "buckets: expected"),
        (
            lambda: BucketBatchSampler(SIZES, 64, max_edges=9),
            ValueError,
            "max_edges: expected edges",
        ),
        (
            lambda: BucketBatchSampler(SIZES, 64, edges=SIZES, max_edges=9),
            ValueError,
            "max_edges: expected room for molecule",
        ),
        (
            lambda: BucketBatchSampler(SIZES, 64, edges=[1]),
            ValueError,
            "edges: expected one number",
        ),
        (lambda: check_sampler(BucketBatchSampler(SIZES, 64)), TypeError, "batch_sampler"),
    ],
)
def test_errors_are_named(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_more_buckets_than_molecules_take_no_memory() -> None:
    sampler = BucketBatchSampler(SIZES, 64, buckets=10**12)
    assert sorted(k for batch in sampler for k in batch) == [*range(len(SIZES))]
    assert len(sampler.shapes) <= len(SIZES)


def test_molecules_without_atoms_need_no_room() -> None:
    assert list(BucketBatchSampler([0, 0], 2, shuffle=False)) == [[0], [1]]


def test_a_pass_that_is_resumed_between_split_steps_is_the_same() -> None:
    sizes = np.array([0, 5, 1, 1, 3, 9, 2, 0, 0, 1, 0, 14, 10])
    for rank in range(3):
        stopped, resumed = (
            BucketBatchSampler(sizes, 16, buckets=2, edges=2 * sizes, num_replicas=3, rank=rank)
            for _ in range(2)
        )
        expected = list(stopped)[1:]
        stopped.set_epoch(0)
        next(iter(stopped))
        resumed.load_state_dict(stopped.state_dict())
        assert list(resumed) == expected
