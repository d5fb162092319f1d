"""MoleculeBatch and Molecule: names, levels, masks, copies, pickles, pytrees, joining."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference import atp_record as rec
from reference.atp_forge import (
    atom_property,
    atp_file,
    builtin,
    molecule_property,
    record,
    schema_blob,
    tensor,
)
from reference.compare import assert_same, assert_same_batch, same_bits
from reference.names import ALIASES, STRUCTURE
from torch.utils import _pytree as pytree
from torch.utils.data import default_collate

import atompack_torch as apt

FORCES = np.arange(6, dtype="<f4").reshape(2, 3) - 2
CELL = np.diag([4.0, 5.0, 6.0])
SCHEMA = [
    (0, "energy", rec.F64, 8),
    (0, "forces", rec.F32_VECTORS, 12),
    (0, "cell", rec.F64_MATRIX, 72),
    (0, "pbc", rec.BOOL3, 3),
    (0, "name", rec.STRING, 0),
    (1, "magmom", rec.F64_ARRAY, 8),
    (2, "gap", rec.F64, 8),
    (2, "label", rec.STRING, 0),
    (2, "nothing", rec.NONE, 0),
    (2, "rank", rec.I64, 8),
    (2, "shape", rec.F32_TENSOR, 0),
]


def f8(*values: float) -> bytes:
    """Values as float64 bytes."""
    return np.array(values, "<f8").tobytes()


@pytest.fixture(scope="module")
def dataset(new_path: Callable[[], Path]) -> apt.AtpDataset:
    """Three molecules of 2, 0 and 3 atoms: one with all labels, one with none, one with some."""
    full = record(
        2,
        [
            builtin("energy", rec.F64, f8(-1.5)),
            builtin("forces", rec.F32_VECTORS, FORCES.tobytes()),
            builtin("cell", rec.F64_MATRIX, CELL.tobytes()),
            builtin("pbc", rec.BOOL3, b"\1\0\1"),
            builtin("name", rec.STRING, b"first"),
            atom_property("magmom", rec.F64_ARRAY, f8(0.5, -0.5)),
            molecule_property("gap", rec.F64, f8(2.0)),
            molecule_property("label", rec.STRING, "grüße".encode()),
            molecule_property("nothing", rec.NONE, b""),
            molecule_property("rank", rec.I64, (7).to_bytes(8, "little")),
            molecule_property("shape", rec.F32_TENSOR, tensor(np.ones((2, 2), "<f4"))),
        ],
    )
    energy = builtin("energy", rec.F64, f8(3.25))
    shape = molecule_property("shape", rec.F32_TENSOR, tensor(np.zeros((1, 3), "<f4")))
    path = new_path()
    path.write_bytes(
        atp_file([full, record(0), record(3, [energy, shape])], schema=schema_blob(SCHEMA))
    )
    return apt.AtpDataset(path)


@pytest.fixture
def batch(dataset: apt.AtpDataset) -> apt.MoleculeBatch:
    """All three molecules."""
    return dataset.batch([0, 1, 2])


def arena_count(batch: apt.MoleculeBatch) -> int:
    """How many storages underlie the tensors of a batch."""
    leaves = pytree.tree_leaves([batch[k] for k in batch.keys()])
    tensors = [v for v in leaves if isinstance(v, torch.Tensor) and v.numel()]
    return len({t.untyped_storage().data_ptr() for t in tensors})


def test_names(batch: apt.MoleculeBatch) -> None:
    names = list(batch.keys())
    assert len(names) == len(set(names))
    assert set(names) == {*STRUCTURE, *(key for _, key, _, _ in SCHEMA)}
    for key in names:
        assert same_bits(getattr(batch, key), batch[key]), key
    for alias, name in ALIASES.items():
        assert alias not in names
        assert_same(batch[alias], batch[name], alias)
        assert_same(getattr(batch, alias), batch[name], alias)
    for wrong in ("nope", "", "properties/energy", "atom_properties/gap"):
        with pytest.raises(apt.FieldError):
            batch[wrong]
        with pytest.raises(KeyError):
            batch[wrong]
        with pytest.raises(apt.FieldError):
            batch.mask(wrong)
        with pytest.raises(apt.FieldError):
            batch.level(wrong)
    with pytest.raises(AttributeError):
        batch.nope  # noqa: B018
    assert not hasattr(batch, "nope")


def test_values(batch: apt.MoleculeBatch) -> None:
    nan = float("nan")
    assert batch.positions.tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert batch.atomic_numbers.tolist() == [1, 2, 1, 2, 3]
    assert batch.batch.tolist() == [0, 0, 2, 2, 2]
    assert batch.ptr.tolist() == [0, 2, 2, 5]
    assert batch.n_atoms.tolist() == [2, 0, 3]
    assert batch.index.tolist() == [0, 1, 2]
    assert_same(batch.energy, torch.tensor([-1.5, nan, 3.25], dtype=torch.float64), "energy")
    assert batch.forces[:2].tolist() == FORCES.tolist()
    assert bool(batch.forces[2:].isnan().all())
    assert batch.cell[0].tolist() == CELL.tolist()
    assert batch.pbc.tolist() == [[True, False, True], [False] * 3, [False] * 3]
    assert batch.name == ["first", None, None]
    assert batch.label == ["grüße", None, None]
    assert batch.nothing == [None, None, None]
    assert batch.rank.tolist() == [7, 0, 0]
    assert [None if t is None else tuple(t.shape) for t in batch["shape"]] == [(2, 2), None, (1, 3)]


def test_levels_and_masks(batch: apt.MoleculeBatch) -> None:
    atom_level = {"positions", "atomic_numbers", "batch", "forces", "magmom"}
    for key in batch.keys():
        assert batch.level(key) == ("atom" if key in atom_level else "molecule"), key
        mask = batch.mask(key)
        assert (mask.dtype, tuple(mask.shape)) == (torch.bool, (3,))
        present = [True] * 3 if key in STRUCTURE else [True, False, key in {"energy", "shape"}]
        assert mask.tolist() == present, key
    assert_same(batch.mask("pos"), batch.mask("positions"), "mask by alias")


def test_molecules_are_views(batch: apt.MoleculeBatch) -> None:
    assert len(batch) == 3
    assert [m.positions.shape[0] for m in batch] == [2, 0, 3]
    first, last = batch[0], batch[-1]
    assert isinstance(first, apt.Molecule)
    assert (
        first.positions.untyped_storage().data_ptr() == batch.positions.untyped_storage().data_ptr()
    )
    assert (first.energy.dtype, tuple(first.energy.shape)) == (torch.float64, ())
    assert first.energy.item() == -1.5
    assert first.forces.tolist() == FORCES.tolist()
    assert first.label == "grüße"
    assert first.name == "first"
    assert last.atomic_numbers.tolist() == [1, 2, 3]
    assert (last.forces, last["forces"], last.cell, last.pbc, last["gap"]) == (None,) * 5
    assert set(last.keys()) == {"positions", "atomic_numbers", "energy", "shape"}
    assert set(batch[1].keys()) == {"positions", "atomic_numbers"}
    for outside in (3, -4):
        with pytest.raises(IndexError):
            batch[outside]
    with pytest.raises(TypeError):
        batch[1.5]


def test_a_molecule_knows_its_names(dataset: apt.AtpDataset) -> None:
    molecule = dataset[0]
    assert len(molecule) == 2
    for alias, name in ALIASES.items():
        assert alias not in molecule.keys()
        assert same_bits(molecule[alias], molecule[name])
        assert same_bits(getattr(molecule, alias), molecule[name])
    assert molecule.rank.dtype == torch.int64
    assert molecule.rank.item() == 7
    assert molecule.pbc.tolist() == [True, False, True]
    assert molecule.magmom.tolist() == [0.5, -0.5]
    assert molecule["nothing"] is None
    assert "nothing" in molecule.keys()
    with pytest.raises(apt.FieldError):
        molecule["nope"]
    with pytest.raises(AttributeError):
        molecule.nope  # noqa: B018


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(batch: apt.MoleculeBatch, dataset: apt.AtpDataset, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(batch, protocol))
    assert_same_batch(again, batch)
    assert arena_count(again) == 1
    molecule = pickle.loads(pickle.dumps(dataset[2], protocol))
    assert set(molecule.keys()) == set(dataset[2].keys())
    assert molecule.energy.item() == 3.25
    assert molecule.forces is None


def test_pickle_holds_the_arena_once(dataset: apt.AtpDataset) -> None:
    batch = dataset.batch([0, 2] * 400)
    arena = batch.positions.untyped_storage().nbytes()
    assert len(pickle.dumps(batch)) < 1.2 * arena + 32_000  # 800 names take some room as well


def test_a_pickled_molecule_is_small(dataset: apt.AtpDataset) -> None:
    """A view of a large batch carries its own rows along, not the whole arena."""
    batch = dataset.batch([0] * 5000)
    assert len(pickle.dumps(batch[7])) < 16_000


def test_torch_save_and_load(batch: apt.MoleculeBatch) -> None:
    file = io.BytesIO()
    torch.save({"batch": batch}, file)
    file.seek(0)
    assert_same_batch(torch.load(file, weights_only=False)["batch"], batch)


def test_copies(batch: apt.MoleculeBatch) -> None:
    for copied in (batch.clone(), copy.deepcopy(batch)):
        assert_same_batch(copied, batch)
        assert arena_count(copied) == 1
        copied.positions.add_(1.0)
        copied["energy"].zero_()
        assert batch.positions[0].tolist() == [0, 1, 2]
        assert batch.energy[0].item() == -1.5


def test_to_a_dtype(batch: apt.MoleculeBatch) -> None:
    """As with the dataset's ``dtype``: floating fields follow, the energy stays float64."""
    wide = batch.to("cpu", dtype=torch.float64)
    assert wide.positions.dtype == wide.forces.dtype == torch.float64
    narrow = batch.to("cpu", dtype=torch.float32)
    assert narrow.cell.dtype == narrow["gap"].dtype == narrow.magmom.dtype == torch.float32
    for cast in (wide, narrow):
        assert cast.energy.dtype == torch.float64
        assert cast.atomic_numbers.dtype == cast.ptr.dtype == cast["rank"].dtype == torch.int64
        assert cast.pbc.dtype == torch.bool
        assert cast.label == batch.label
        for key in batch.keys():
            assert_same(cast.mask(key), batch.mask(key), key)
    assert [t is None or t.dtype for t in wide["shape"]] == [torch.float64, True, torch.float64]
    assert batch.positions.dtype == torch.float32


def test_a_dtype_that_loses_values_is_refused(batch: apt.MoleculeBatch) -> None:
    for dtype in (torch.int32, torch.bool):
        with pytest.raises(ValueError, match=f"dtype: expected a floating dtype, got {dtype}"):
            batch.to(dtype)
    with pytest.raises(TypeError, match="dtype: expected a dtype of torch, got 'float32'"):
        batch.to(dtype="float32")  # type: ignore[arg-type]


@pytest.mark.parametrize("item", [slice(2), [0, 1], torch.tensor([0, 1]), None, 1.5])
def test_some_molecules_are_joined(batch: apt.MoleculeBatch, item: Any) -> None:
    with pytest.raises(TypeError, match=r"number of a molecule, got .*: apt\.collate"):
        batch[item]


def test_to_a_device(batch: apt.MoleculeBatch) -> None:
    for device in ("cpu", torch.device("cpu")):
        assert_same_batch(batch.to(device, non_blocking=True), batch)
    meta = batch.to("meta")
    assert (
        meta.positions.device.type
        == meta.ptr.device.type
        == meta.mask("energy").device.type
        == "meta"
    )
    assert meta.positions.shape == batch.positions.shape
    assert meta.label == batch.label
    if torch.cuda.is_available():
        there = batch.pin_memory().to("cuda", non_blocking=True)
        there.record_stream(torch.cuda.current_stream())
        assert_same_batch(there.to("cpu"), batch)


def test_shared_memory(batch: apt.MoleculeBatch) -> None:
    shared = batch.clone().share_memory_()
    assert_same_batch(shared, batch)
    assert arena_count(shared) == 1
    for key in shared.keys():
        if isinstance(shared[key], torch.Tensor):
            assert shared[key].is_shared(), key


def test_pytree(batch: apt.MoleculeBatch) -> None:
    leaves, structure = pytree.tree_flatten(batch)
    assert_same_batch(pytree.tree_unflatten(leaves, structure), batch)
    ids = {id(leaf) for leaf in leaves}
    for key in batch.keys():
        if isinstance(batch[key], torch.Tensor):
            assert any(same_bits(leaf, batch[key]) for leaf in leaves), key
    assert len(ids) == len(leaves)

    doubled = pytree.tree_map_only(torch.Tensor, _double, batch)
    assert isinstance(doubled, apt.MoleculeBatch)
    assert doubled.positions.tolist() == (2 * batch.positions).tolist()
    assert doubled.atomic_numbers.tolist() == batch.atomic_numbers.tolist()
    assert_same(doubled.mask("forces"), batch.mask("forces"), "mask")
    assert doubled.label == batch.label
    nested = pytree.tree_map(lambda leaf: leaf, {"a": [batch, 1]})
    assert_same_batch(nested["a"][0], batch)


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return 2 * tensor if tensor.is_floating_point() else tensor


def test_autograd_reaches_positions(batch: apt.MoleculeBatch) -> None:
    positions = batch.positions.requires_grad_(True)
    (gradient,) = torch.autograd.grad(positions.square().sum(), positions)
    assert gradient.tolist() == (2 * positions).tolist()
    assert batch.positions.requires_grad


def test_deep_copies_have_gradients_of_their_own(batch: apt.MoleculeBatch) -> None:
    batch.positions.requires_grad_()
    copied = copy.deepcopy(batch)
    copied.positions.sum().backward()
    assert batch.positions.grad is None
    assert torch.equal(copied.positions.grad, torch.ones_like(batch.positions))


def test_collate_of_molecules(dataset: apt.AtpDataset, batch: apt.MoleculeBatch) -> None:
    joined = apt.collate([dataset[0], dataset[1], dataset[2]])
    assert isinstance(joined, apt.MoleculeBatch)
    assert_same_batch(joined, batch)
    assert_same_batch(default_collate([dataset[0], dataset[1], dataset[2]]), batch)
    assert_same_batch(apt.MoleculeBatch.from_molecules(list(batch)), batch)


def test_collate_of_batches(dataset: apt.AtpDataset, batch: apt.MoleculeBatch) -> None:
    assert apt.collate(batch) is batch
    assert apt.collate([batch]) is batch
    assert default_collate([batch]) is batch
    parts = [dataset.batch([0]), dataset.batch([1]), dataset.batch([2])]
    assert_same_batch(apt.collate(parts), batch)
    assert_same_batch(
        apt.collate([dataset.batch([2, 0]), dataset.batch([])]), dataset.batch([2, 0])
    )
    for wrong in (3, [], ["x"], [batch, 3]):
        with pytest.raises((TypeError, ValueError)):
            apt.collate(wrong)


def test_collate_fills_and_masks_what_one_side_lacks(dataset: apt.AtpDataset) -> None:
    bare = apt.MoleculeBatch.from_molecules([dataset[2]])
    assert "forces" not in bare.keys()
    joined = apt.collate([dataset.batch([0]), bare])
    assert joined.mask("forces").tolist() == [True, False]
    assert bool(joined.forces[2:].isnan().all())
    assert joined.label == ["grüße", None]


def test_setting_fields(batch: apt.MoleculeBatch) -> None:
    per_molecule, per_atom = torch.arange(3.0), torch.arange(15.0).view(5, 3)
    batch["weight"] = per_molecule
    batch.descriptor = per_atom
    assert batch["weight"] is per_molecule or same_bits(batch["weight"], per_molecule)
    assert same_bits(batch.descriptor, per_atom)
    assert batch.level("weight") == "molecule"
    assert batch.level("descriptor") == "atom"
    assert batch.mask("weight").tolist() == [True] * 3
    assert {"weight", "descriptor"} <= set(batch.keys())
    assert batch[2].weight.item() == 2.0
    assert batch[2].descriptor.tolist() == per_atom[2:].tolist()
    batch.energy = torch.zeros(3, dtype=torch.float64)
    assert batch["energy"].tolist() == [0.0] * 3
    assert batch.clone()["weight"].tolist() == per_molecule.tolist()
    with pytest.raises(ValueError, match="odd"):
        batch["odd"] = torch.zeros(4)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        batch["to"] = per_molecule


def test_from_molecules_made_by_hand() -> None:
    """A batch is also made from tensors alone."""
    molecules: list[Any] = [
        apt.Molecule(
            positions=torch.zeros(n, 3, dtype=torch.float64),
            atomic_numbers=torch.full((n,), 6),
            **({"energy": -1.0 * n} if n else {}),
        )
        for n in (2, 0, 1)
    ]
    batch = apt.MoleculeBatch.from_molecules(molecules)
    assert batch.ptr.tolist() == [0, 2, 2, 3]
    assert batch.positions.dtype == torch.float64
    assert batch.mask("energy").tolist() == [True, False, True]
    assert batch.energy[0].item() == -2.0
    assert batch.energy.dtype == torch.float64
    assert bool(batch.energy[1].isnan())


def test_a_property_without_a_name_is_joined() -> None:
    made = [
        apt.Molecule(torch.zeros(1, 3), [1], properties={"": 2.5}),
        apt.Molecule(torch.zeros(2, 3), [1, 1]),
    ]
    joined = apt.MoleculeBatch.from_molecules(made)
    assert joined.mask("").tolist() == [True, False]
    assert joined[0][""] == 2.5
