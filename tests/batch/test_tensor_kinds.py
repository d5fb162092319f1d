"""Tensors with pending negations, without values or of other layouts: right, or a named error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures import make_cache

import atompack_torch as apt


def negated(values: torch.Tensor) -> torch.Tensor:
    """Equal to ``values``, over memory that holds their negatives."""
    return torch._neg_view(-values)


def conjugated_imaginary(values: torch.Tensor) -> torch.Tensor:
    """Equal to ``values``, as torch gives the imaginary part of a conjugate."""
    return torch.complex(torch.zeros_like(values), -values).conj().imag


PENDING = [negated, conjugated_imaginary]


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(1, 3), torch.zeros(2, 3)])


def quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.zeros(3, 3), 1.0, 0, torch.qint8)


KINDS = {
    "nested": nested(),
    "sparse": torch.zeros(3, 3).to_sparse(),
    "meta": torch.zeros(3, 3, device="meta"),
    "quantized": quantized(),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> torch.Tensor:
    return KINDS[request.param]


def molecule(positions: torch.Tensor, **labels: Any) -> apt.Molecule:
    return apt.Molecule(positions, torch.tensor([1, 1, 1]), **labels)


@pytest.mark.parametrize("pending", PENDING)
def test_pending_negations_are_written_out(
    tmp_path: Path, pending: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    values = torch.arange(9.0).reshape(3, 3) + 1
    given = pending(values)
    assert given.is_neg()
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(molecule(given, forces=given.double()))
        writer.write_arrays(
            positions=given,
            atomic_numbers=negated(torch.ones(3).long()),
            n_atoms=negated(torch.tensor([3])),
            forces=given.double(),
        )
    for read in apt.AtpDataset(tmp_path / "a.atp"):
        assert torch.equal(read.positions, values)
        assert torch.equal(read.forces, values.double())
    with apt.ArrayFile(tmp_path / "a.af", "x") as file:
        file.define("x", "float32", (3, 3))
        file.write("x", given)
    with apt.ArrayFile(tmp_path / "a.af") as file:
        assert torch.equal(file.read("x"), values)
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "x", "float32", (3, 3))
        store.write("d", "x", given)
    assert torch.equal(apt.AtlasStore(tmp_path / "store").read("d", "x"), values)
    with apt.ShardWriter(tmp_path / "shards", 1, 1, 0) as shards:
        shards.write({"x": given})
    assert torch.equal(apt.ShardDataset(tmp_path / "shards")[0]["x"], values)


def test_other_kinds_are_refused_by_writers(tmp_path: Path, kind: torch.Tensor) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        with pytest.raises(apt.FieldError, match="expected a dense tensor, got"):
            writer.write_arrays(positions=kind, atomic_numbers=np.ones(3, int), n_atoms=[3])
        with pytest.raises(apt.FieldError, match="expected a dense tensor, got"):
            writer.write_arrays(
                positions=np.zeros((3, 3)), atomic_numbers=np.ones(3, int), n_atoms=[3], forces=kind
            )
    with apt.ArrayFile(tmp_path / "a.af", "x") as file:
        file.define("x", "float32", (3, 3))
        with pytest.raises(apt.FieldError, match="values: expected a dense tensor, got"):
            file.write("x", kind)
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "x", "float32", (3, 3))
        with pytest.raises(apt.FieldError, match="values: expected a dense tensor, got"):
            store.write("d", "x", kind)
    with (
        apt.ShardWriter(tmp_path / "shards", 1, 1, 0) as shards,
        pytest.raises(TypeError, match=r"example\['x'\]: expected "),
    ):
        shards.write({"x": kind})


def test_other_kinds_are_refused_by_samplers(kind: torch.Tensor) -> None:
    with pytest.raises((TypeError, ValueError), match="n_atoms: expected"):
        apt.AtomBudgetBatchSampler(kind, 10)


@pytest.mark.parametrize("pending", PENDING)
def test_forces_of_pending_negations(pending: Callable[[torch.Tensor], torch.Tensor]) -> None:
    batch = apt.TorchCacheDataset(make_cache.FOLDER / "water.h5").batch([0, 1])
    weights = torch.arange(float(batch.features.numel()), dtype=torch.float64).reshape(
        batch.features.shape
    )
    want = apt.contract_forces(batch, weights)
    assert torch.equal(apt.contract_forces(batch, pending(weights)), want)
    rows = batch.radial_dG_drij
    batch.set_field("radial_dG_drij", pending(rows), "edge")
    assert torch.equal(apt.contract_forces(batch, weights), want)


@pytest.mark.parametrize("name", ["nested", "sparse", "quantized"])
def test_forces_of_other_kinds(name: str) -> None:
    batch = apt.TorchCacheDataset(make_cache.FOLDER / "water.h5").batch([0, 1])
    with pytest.raises(apt.FieldError, match="dE_dfeatures: expected a dense tensor, got"):
        apt.contract_forces(batch, KINDS[name])


def test_features_of_pending_negations() -> None:
    batch = apt.AtpDataset(make_cache.FOLDER / "water.atp").batch([0, 1])
    want = make_cache.DESCRIPTOR.compute(batch).features
    batch.set_field("positions", negated(batch.positions), "atom")
    assert torch.equal(make_cache.DESCRIPTOR.compute(batch).features, want)


@pytest.fixture
def store(tmp_path: Path) -> apt.AtlasStore:
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.create_dataset("d")
        for name, dtype, value in (("name", "string", "b"), ("number", "int64", 2)):
            store.define_array("d", name, dtype, (1,))
            store.write("d", name, np.array([value]))
    return apt.AtlasStore(tmp_path / "store")


def test_select_compares_like_with_like(store: apt.AtlasStore) -> None:
    assert store.select("name", min="a", max="c") == store.select("number", max=2.5) == ["d"]
    assert store.select("name", min="c") == store.select("number", min=np.int32(3)) == []
    for bounds in ({"min": 1}, {"max": 1.5}, {"min": "a", "max": 2}):
        with pytest.raises(apt.FieldError, match=r"'name': min, max: expected strings, got [12]"):
            store.select("name", **bounds)  # type: ignore[arg-type]
    with pytest.raises(apt.FieldError, match="min, max: expected numbers, got '2'"):
        store.select("number", max="2")
    for wrong in ([1], torch.tensor(1), 1j):
        with pytest.raises(TypeError, match="min, max: expected numbers, str or datetime64"):
            store.select("number", min=wrong)  # type: ignore[arg-type]
