"""Fields of a batch by name: as of a dict, in pytrees, set by hand, and misspelled."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.compare import assert_same_batch
from reference.names import STRUCTURE
from torch.utils import _pytree as pytree

import atompack_torch as apt
from atompack_torch.batch.molecule_batch import EntryKey
from atompack_torch.fields import MOLECULE_PROPERTY, FieldInfo, similar_names


def some_batch() -> apt.MoleculeBatch:
    """A molecule of two atoms with most kinds of values, and one of three without labels."""
    first = apt.Molecule(
        np.zeros((2, 3)),
        [1, 8],
        energy=-1.5,
        forces=np.ones((2, 3)),
        name="a",
        properties={"gap": 0.5, "spectrum": np.ones(4), "tag": "x", "items": 7.0},
        atom_properties={"magmom": np.ones(2)},
    )
    second = apt.Molecule(np.ones((3, 3)), [6, 6, 6], properties={"spectrum": np.ones(2)})
    return apt.MoleculeBatch.from_molecules([first, second])


@pytest.fixture
def batch() -> apt.MoleculeBatch:
    return some_batch()


def test_a_batch_is_read_like_a_dict(batch: apt.MoleculeBatch) -> None:
    assert list(batch.items()) == [(name, batch[name]) for name in batch.keys()]
    assert [id(value) for value in batch.values()] == [id(batch[name]) for name in batch.keys()]
    assert batch.get("forces") is batch.forces
    assert batch.get("pos") is batch.positions
    assert batch.get("nope") is None
    assert batch.get("nope", 3) == 3
    assert dict(batch).keys() == batch.keys()
    assert "forces" in batch
    assert "nope" not in batch
    assert 0 not in batch


def test_a_molecule_is_read_like_a_dict(batch: apt.MoleculeBatch) -> None:
    first, second = batch
    assert first.get("energy") == -1.5
    assert second.get("energy", 0.0) == 0.0
    assert second.get("nope", 1) == 1
    assert [name for name, _ in first.items()] == first.keys()
    assert len(second.values()) == len(second.keys())


def test_names_are_completed(batch: apt.MoleculeBatch) -> None:
    for item in (batch, batch[0]):
        assert {"forces", "gap", "keys", "level"} <= set(dir(item))
        assert "properties/items" not in dir(item)
        assert item._ipython_key_completions_() == list(item.keys())


def test_misspelled_names(batch: apt.MoleculeBatch) -> None:
    with pytest.raises(apt.FieldError, match="did you mean 'forces'"):
        batch["force"]
    with pytest.raises(AttributeError, match="did you mean 'forces'"):
        batch.Forces  # noqa: B018
    with pytest.raises(apt.FieldError, match="did you mean 'gap'"):
        batch[0]["homo_gap"]
    with pytest.raises(AttributeError, match="did you mean 'energy'"):
        batch[0].enregy  # noqa: B018
    assert similar_names("forces", ["REF_forces", "energy", "e"]) == ["REF_forces"]
    assert similar_names("zzz", ["forces"]) == []


def test_a_property_called_as_a_method(batch: apt.MoleculeBatch, tmp_path: Path) -> None:
    """Listed with its scope; its key alone goes where it can mean nothing else."""
    assert "properties/items" in batch.keys()
    assert callable(batch.items)
    for name in ("items", "properties/items"):
        assert batch[name][0] == 7.0
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(batch[0])
    for name in ("items", "properties/items"):
        read = apt.AtpDataset(tmp_path / "a.atp", fields=[name])[:]
        assert read["properties/items"][0] == 7.0
        assert "items" not in apt.AtpDataset(tmp_path / "a.atp", exclude=[name])[:]


def test_batches_of_earlier_releases_load(batch: apt.MoleculeBatch) -> None:
    """There, a property called ``items`` was listed by its key."""
    fields = {n.removeprefix("properties/"): value for n, value in batch.items()}
    infos = {n: batch._infos[n if n in batch._infos else f"properties/{n}"] for n in fields}
    rows = {n.removeprefix("properties/"): row for n, row in batch._mask_rows.items()}
    assert infos["items"] == FieldInfo(MOLECULE_PROPERTY, "items", "molecule")
    old = pickle.loads(pickle.dumps(apt.MoleculeBatch(fields, infos, batch._masks, rows)))
    assert old["items"][0] == old["properties/items"][0] == 7.0
    assert callable(old.items)
    assert "properties/items" in apt.MoleculeBatch.from_molecules([old[0], batch[0]])


def test_leaves_of_the_pytree_have_names(batch: apt.MoleculeBatch) -> None:
    with_paths, structure = pytree.tree_flatten_with_path(batch)
    leaves = [leaf for _, leaf in with_paths]
    assert_same_batch(pytree.tree_unflatten(leaves, structure), batch)
    for (key,), leaf in with_paths:
        assert key.get(batch) is leaf
    names = [pytree.keystr(path) for path, _ in with_paths]
    assert {"['forces']", "['spectrum'][0]", "['spectrum'][1]", "._masks"} <= set(names)
    assert (EntryKey(("spectrum", 1)),) in [path for path, _ in with_paths]
    assert len(set(names)) == len(names)

    def scaled(path: Any, leaf: torch.Tensor) -> torch.Tensor:
        return leaf * 2 if path == (pytree.MappingKey("forces"),) else leaf

    mapped = pytree.tree_map_with_path(scaled, batch)
    assert torch.equal(mapped.forces[:2], 2 * batch.forces[:2])
    assert torch.equal(mapped.positions, batch.positions)


class Energies(torch.nn.Module):
    """Reads a batch as models do."""

    def forward(self, batch: apt.MoleculeBatch) -> torch.Tensor:
        each = batch.positions.square().sum(1) * batch["atomic_numbers"]
        zeros = torch.zeros_like(batch.energy, dtype=each.dtype)
        return zeros.index_add(0, batch.batch, each)


def test_a_module_that_takes_a_batch_is_exported(
    batch: apt.MoleculeBatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # One of torch's warnings while it loads the example batch has a broken format string.
    caplog.set_level(logging.ERROR, logger="torch._export.serde.serialize")
    exported = torch.export.export(Energies(), (batch,))
    expected = Energies()(batch)
    assert torch.equal(exported.module()(batch), expected)
    torch.export.save(exported, tmp_path / "energies.pt2")
    loaded = torch.export.load(tmp_path / "energies.pt2")
    assert torch.equal(loaded.module()(batch), expected)


def test_fields_are_set(batch: apt.MoleculeBatch) -> None:
    batch.set_field("energy", torch.zeros(2, requires_grad=True), "molecule")
    assert batch.energy.requires_grad
    assert batch.mask("energy").tolist() == [True, False]  # that of the field before
    batch["name"] = ["b", None]
    batch.set_field("method", ("pbe", "pbe"), "molecule")
    assert (batch["name"], batch["method"]) == (["b", None], ["pbe", "pbe"])
    batch.set_field("atom_properties/to", torch.zeros(5), "atom")
    assert batch._infos["atom_properties/to"].key == "to"
    batch.set_field("pos", torch.zeros(5, 3), "atom")
    assert batch.positions.dtype == torch.float32
    assert "charges" not in batch
    batch.charges = torch.zeros(5)
    assert batch.level("charges") == "atom"


def test_fields_are_removed(tmp_path: Path) -> None:
    written = some_batch()
    del written["spectrum"]
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(written)
    neighbors = apt.NeighborList(3.0, vectors=True, triplets=True)
    dataset = apt.AtpDataset(tmp_path / "a.atp", neighbors=neighbors)
    batch = dataset[:]
    del batch["energy"], batch.edge_index
    kept = batch.clone()
    assert_same_batch(batch, apt.AtpDataset(tmp_path / "a.atp", exclude=["energy"])[:])
    for name in [*batch.keys()]:
        if name not in STRUCTURE:
            del batch[name]
    assert list(batch.keys()) == list(STRUCTURE)
    assert len(pickle.loads(pickle.dumps(batch))) == len(apt.collate([batch, batch])) / 2 == 2
    for wrong, error in (("pos", "may lack"), ("energy", "no field 'energy'")):
        with pytest.raises(apt.FieldError, match=error):
            del batch[wrong]
    molecule = kept[0]
    names = molecule.keys()
    del molecule[names[-1]]
    assert molecule.keys() == names[:-1]
    assert kept[0].keys() == names
    for wrong, error in (("pos", "may lack"), (names[-1], "no field")):
        with pytest.raises(apt.FieldError, match=error):
            del molecule[wrong]
    for item in (batch, molecule, dataset[:]):
        for call in (item.__delitem__, item.level):
            with pytest.raises(TypeError, match=r"field: expected a name \(str\), got int"):
                call(0)  # type: ignore[arg-type]


REFUSED = [
    (3, torch.zeros(2), "molecule", TypeError, "expected a name"),
    ("", torch.zeros(2), "molecule", apt.FieldError, "expected a name"),
    ("properties/", torch.zeros(2), "molecule", apt.FieldError, "expected a name"),
    ("\ud800", torch.zeros(2), "molecule", apt.FieldError, "UTF-8"),
    ("to", torch.zeros(2), "molecule", apt.FieldError, "belongs to the batch"),
    ("items", torch.zeros(3), "molecule", apt.FieldError, "expected 2 rows"),
    ("features", torch.zeros(5), "atom", apt.FieldError, "belongs to the batch"),
    ("x", torch.zeros(2), "graph", ValueError, "level: expected one of"),
    ("x", torch.zeros(3), "molecule", apt.FieldError, "expected 2 rows"),
    ("x", torch.tensor(1.0), "molecule", apt.FieldError, "expected 2 rows"),
    ("x", np.zeros(2), "molecule", TypeError, "expected a tensor or a list of str, got ndarray"),
    ("x", [1.0, 2.0], "molecule", TypeError, "got float"),
    ("x", ["a"], "molecule", apt.FieldError, "expected 2 strings, got 1"),
    ("x", torch.zeros(2, device="meta"), "molecule", apt.FieldError, "expected cpu, got meta"),
    ("x", torch.zeros(2).to_sparse(), "molecule", apt.FieldError, "dense"),
    ("properties/x", torch.zeros(5), "atom", apt.FieldError, "expected level 'molecule'"),
    ("forces", torch.zeros(2, 3), "molecule", apt.FieldError, "expected level 'atom'"),
    ("energy", torch.zeros(2, 1), "molecule", apt.FieldError, r"\(2,\), got \(2, 1\): drop the ax"),
    ("energy", torch.zeros(2, dtype=torch.int64), "molecule", apt.FieldError, "expected floats"),
    ("energy", ["a", "b"], "molecule", TypeError, "expected a tensor"),
    ("stress", torch.zeros(2, 6), "molecule", apt.FieldError, r"\(2, 3, 3\), got \(2, 6\)"),
    ("pbc", torch.zeros(2, 3), "molecule", apt.FieldError, "expected bool"),
    ("name", torch.zeros(2), "molecule", TypeError, "list of str"),
    ("index", torch.zeros(2), "molecule", apt.FieldError, "expected int64"),
    ("positions", torch.zeros(5, 2), "atom", apt.FieldError, r"expected \(5, 3\)"),
    ("ptr", torch.zeros(2).long(), "molecule", apt.FieldError, r"expected \(3,\)"),
    ("edge_vector", torch.zeros(2, 3), "edge", apt.FieldError, "belongs to the batch"),
]


@pytest.mark.parametrize(("name", "value", "level", "error", "message"), REFUSED)
def test_what_cannot_be_set(
    batch: apt.MoleculeBatch,
    name: Any,
    value: Any,
    level: Any,
    error: type[Exception],
    message: str,
) -> None:
    before = some_batch()
    with pytest.raises(error, match=message):
        batch.set_field(name, value, level)
    assert_same_batch(batch, before)


def test_an_energy_for_each_molecule_has_no_second_axis(tmp_path: Path) -> None:
    """What models predict often has one; every way to hand it over says what to do."""
    column = np.zeros((2, 1))
    arrays: dict[str, Any] = {"positions": np.zeros((2, 1, 3)), "atomic_numbers": [1]}
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        with pytest.raises(apt.FieldError, match=r"\(2,\), got \(2, 1\).*squeeze.*'energy'"):
            writer.write_arrays(**arrays, energy=column)
        writer.write_arrays(**arrays, energy=column[:, 0])
    with pytest.raises(apt.FieldError, match=r"energy.*got \(1,\).*squeeze"):
        apt.Molecule(np.zeros((1, 3)), [1], energy=[1.0])


def test_edges_that_were_not_asked_for(batch: apt.MoleculeBatch) -> None:
    give = r"give the dataset neighbors=NeighborList\(cutoff"
    for item in (batch, batch[0]):
        with pytest.raises(AttributeError, match=give + r"\); it has"):
            item.edge_index  # noqa: B018
        with pytest.raises(apt.FieldError, match=give + r", vectors=True\)"):
            item["edge_vector"]


def test_a_molecule_needs_no_scope_for_its_only_value() -> None:
    """A key that is of the molecule here, and of the atoms there."""
    here = apt.Molecule(np.zeros((2, 3)), [1, 8], properties={"spin": 3.0, "energy": 1.0})
    there = apt.Molecule(np.zeros((2, 3)), [1, 8], atom_properties={"spin": np.ones(2)})
    both = apt.Molecule(
        np.zeros((1, 3)), [1], properties={"spin": 3.0}, atom_properties={"spin": np.ones(1)}
    )
    batch = apt.MoleculeBatch.from_molecules([here, there, both])
    assert batch[0]["spin"] == batch[0].spin == 3.0
    assert batch[1]["spin"].tolist() == [1.0, 1.0]
    assert (batch[0].level("spin"), batch[1].level("spin")) == ("molecule", "atom")
    assert batch[0].energy is None
    for item in (batch, batch[2]):
        with pytest.raises(apt.FieldError, match="did you mean"):
            item["spin"]
    batch[0].spin = 4.0
    molecule = batch[0]
    molecule.spin = 5.0
    assert molecule["properties/spin"] == 5.0
