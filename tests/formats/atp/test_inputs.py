"""Every form in which molecules may be handed to a writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import numpy as np
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import plain, strategies
from reference.atp_file import AtpFile
from reference.atp_forge import atom_property, atp_file, molecule_property, record, schema_blob
from reference.atp_record import MOLECULE, Molecule, Value

import atompack_torch as apt
from atompack_torch.batch.columns import Column, Columns
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY

NewPath = Callable[[], Path]
Write = Callable[..., list[Molecule]]


@pytest.fixture
def write(new_path: NewPath) -> Write:
    """Writes, by one call of the named method, and reads back by the reference."""

    def written(*arguments: Any, by: str = "write", **more: Any) -> list[Molecule]:
        path = new_path()
        with apt.AtpWriter(path) as writer:
            getattr(writer, by)(*arguments, **more)
        assert len(apt.AtpDataset(path)) == len(AtpFile.open(path))
        return list(AtpFile.open(path).molecules())

    return written


def assert_value(value: Value | Any, want: Any, dtype: str) -> None:
    """A stored value has this dtype, shape and content."""
    assert value.data.dtype.str == dtype
    assert value.data.shape == np.shape(want)
    assert np.array_equal(value.data, want)


# Molecules and batches


@settings(max_examples=40)
@given(st.data())
def test_all_forms_make_the_same_file(new_path: NewPath, data: st.DataObject) -> None:
    plains = data.draw(strategies.contents(data.draw(strategies.recipes())))
    if not plains or not plain.fits_a_batch(plains):
        return
    batch = plain.batch(plains)
    molecules = [plain.molecule(p) for p in plains]
    half = len(plains) // 2
    forms: list[Any] = [
        molecules,
        tuple(molecules),
        batch,
        [batch],
        list(batch),
        [*molecules[:half], *list(batch)[half:]],
    ]
    contents = []
    for form in forms:
        path = new_path()
        with apt.AtpWriter(path) as writer:
            writer.write(form)
        contents.append(path.read_bytes())
        path.unlink()
    with apt.AtpWriter(path) as writer:
        writer.write_columns(plain.columns(plains))
    plain.assert_file_holds(path, plains)
    assert {*contents} == {path.read_bytes()}


def test_views_keep_the_order_of_the_list(write: Write) -> None:
    batches = [
        plain.batch([{**geometry(1 + k % 3), "energy": 10.0 * b + k} for k in range(6)])
        for b in range(3)
    ]
    order = [(0, 3), (0, 1), (0, 1), (1, 5), (0, 0), (2, 2), (2, 5), (1, 0), (2, 2)]
    held = write([batches[b][k] for b, k in order])
    assert [float(m.builtins["energy"].data) for m in held] == [10 * b + k for b, k in order]
    assert [m.n_atoms for m in held] == [1 + k % 3 for _, k in order]


def test_a_mixed_list(write: Write) -> None:
    batch = plain.batch([geometry(1) | {"energy": 1.0}, geometry(2) | {"energy": 2.0}])
    atoms = ase.Atoms("H3", positions=np.zeros((3, 3)))
    empty = apt.Molecule(np.zeros((0, 3)), np.zeros(0, int))
    held = write([atoms, batch.to(dtype=torch.float64), batch.to(dtype=torch.float64)[1], empty])
    assert [m.n_atoms for m in held] == [3, 1, 2, 2, 0]
    assert ["energy" in m.builtins for m in held] == [False, True, True, True, False]


def geometry(n_atoms: int) -> dict[str, Any]:
    """A molecule without labels."""
    return {"positions": np.zeros((n_atoms, 3), "f4"), "atomic_numbers": np.ones(n_atoms, "u1")}


def test_what_is_masked_is_absent(write: Write, new_path: NewPath) -> None:
    plains = [
        geometry(2) | {"energy": 1.0, "properties": {"n": 5, "s": "x", "v": np.ones((2, 3))}},
        geometry(3) | {"forces": np.ones((3, 3), "f4"), "pbc": (True, False, True)},
        geometry(1) | {"atom_properties": {"q": np.ones(1)}, "cell": np.eye(3), "name": "a"},
    ]
    batch = plain.batch(plains)
    assert batch.energy.isnan().tolist() == [False, True, True]
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write(batch)
    plain.assert_file_holds(path, [{"properties": {}, "atom_properties": {}} | p for p in plains])
    with apt.AtpWriter(new := new_path()) as writer:
        writer.write(apt.AtpDataset(path).batch([2, 0, 1, 0]))
        writer.write(apt.AtpDataset(path)[1])
    plain.assert_file_holds(new, [plains[i] for i in (2, 0, 1, 0, 1)])


def test_masks_of_columns(write: Write) -> None:
    mask = np.array([True, False, True])
    run = Columns(np.zeros((3, 3)), np.ones(3, int), np.arange(4), [])
    held = write(
        run._replace(
            fields=[
                Column(MOLECULE_PROPERTY, "x", np.array([1.0, 2.0, 3.0]), mask),
                Column(MOLECULE_PROPERTY, "s", ["a", None, "c"], mask),
                Column(MOLECULE_PROPERTY, "n", [None, "unseen", None], mask),
                Column(MOLECULE_PROPERTY, "none of them", np.zeros(3), ~mask & mask),
                Column(ATOM_PROPERTY, "q", [np.zeros(1), None, np.ones(1)], mask),
                Column(ATOM_PROPERTY, "Q", np.arange(3.0), mask.astype(int)),  # type: ignore[arg-type]
            ]
        ),
        by="write_columns",
    )
    assert [list(m.properties) for m in held] == [["n", "s", "x"], [], ["n", "s", "x"]]
    assert [list(m.atom_properties) for m in held] == [["Q", "q"], [], ["Q", "q"]]
    assert held[2].properties["n"].data is None  # type: ignore[union-attr]


def test_a_molecule_with_a_damaged_value_is_refused(new_path: NewPath) -> None:
    path = new_path()
    bad = molecule_property("k", 13, b"no None has bytes")
    path.write_bytes(
        atp_file([record(2), record(2, [bad])], schema=schema_blob([(MOLECULE, "k", 13, 0)]))
    )
    dataset = apt.AtpDataset(path)
    molecule = dataset[1]
    with apt.AtpWriter(new_path()) as writer:
        for item in (molecule, [dataset[0], molecule]):
            with pytest.raises(apt.CorruptFileError, match="molecule 1, field 'k'"):
                writer.write(item)
        assert len(writer) == 0
        writer.write(dataset[0])
        assert len(writer) == 1


def test_ragged_batches(new_path: NewPath) -> None:
    """Values of different shapes: lists in a batch, tensors of their own shape in the file."""
    plains = [
        geometry(n)
        | {
            "properties": {"t": np.full(shape, n, "f4")},
            "atom_properties": {"d": np.full((n, 2 * n), n, "i4")},
        }
        for n, shape in ((2, (2, 4)), (1, (5, 1)), (3, (2, 2, 2)))
    ]
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write(plain.batch(plains))
    plain.assert_file_holds(path, plains)
    batch = apt.AtpDataset(path).batch([2, 0])
    assert isinstance(batch.t, list)
    with apt.AtpWriter(new := new_path()) as writer:
        writer.write(batch)
    plain.assert_file_holds(new, [plains[2], plains[0]])


def test_nothing(write: Write, new_path: NewPath) -> None:
    batch = plain.batch([geometry(2)])
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write(batch)
    empty = apt.AtpDataset(path).batch([])
    assert len(empty) == 0
    for nothing in ([], (), empty, [empty, empty]):
        assert write(nothing) == []
    none = np.zeros((0, 5, 3))
    assert write(by="write_arrays", positions=none, atomic_numbers=np.zeros((0, 5), int)) == []
    assert (
        write(
            by="write_arrays",
            positions=np.zeros((0, 3)),
            atomic_numbers=[],
            n_atoms=[],
            energy=[],
            name=[],
            forces=np.zeros((0, 3)),
        )
        == []
    )


def test_molecules_without_atoms(write: Write) -> None:
    held = write(
        by="write_arrays",
        positions=np.zeros((2, 0, 3)),
        atomic_numbers=np.zeros((2, 0), int),
        energy=[1, 2],
        forces=np.zeros((2, 0, 3)),
        atom_properties={"q": np.zeros((2, 0)), "t": np.zeros((2, 0, 4))},
    )
    assert [m.n_atoms for m in held] == [0, 0]
    assert_value(held[1].builtins["forces"], np.zeros((0, 3)), "<f8")
    assert_value(held[1].atom_properties["q"], np.zeros(0), "<f8")
    assert_value(held[1].atom_properties["t"], np.zeros((0, 4)), "<f8")


# Types


WIDENED = {
    "f2": ("<f4", "<f8"),
    "f4": ("<f4", "<f8"),
    "f8": ("<f8", "<f8"),
    ">f4": ("<f4", "<f8"),
    ">f8": ("<f8", "<f8"),
    "i1": ("<i4", "<i8"),
    "u1": ("<i4", "<i8"),
    "i2": ("<i4", "<i8"),
    ">u2": ("<i4", "<i8"),
    "i4": ("<i4", "<i8"),
    ">i4": ("<i4", "<i8"),
    "u4": ("<i8", "<i8"),
    "i8": ("<i8", "<i8"),
    ">i8": ("<i8", "<i8"),
    "u8": ("<i8", "<i8"),
    "?": ("<i4", "<i8"),
}


@pytest.mark.parametrize("dtype", sorted(WIDENED))
def test_types_are_kept_or_widened(write: Write, dtype: str) -> None:
    array, number = WIDENED[dtype]
    rng = np.random.default_rng(1)
    extremes = np.frombuffer(rng.bytes(4096), dtype) if dtype != "?" else rng.random(99) < 0.5
    if dtype.endswith("8") and "u" in dtype:
        extremes = extremes >> np.uint64(1)
    with np.errstate(invalid="ignore"):
        values = extremes[np.isfinite(extremes.astype("f8"))][:24].reshape(2, 2, 6)
    held = write(
        by="write_arrays",
        positions=np.zeros((2, 2, 3)),
        atomic_numbers=[1, 1],
        properties={"number": values[:, 0, 0], "array": values[:, 0], "tensor": values},
        atom_properties={"numbers": values[:, :, 0], "tensors": values},
    )
    for i, molecule in enumerate(held):
        assert_value(molecule.properties["number"], values[i, 0, 0], number)
        assert_value(molecule.properties["array"], values[i, 0], array)
        assert_value(molecule.properties["tensor"], values[i], array)
        assert_value(molecule.atom_properties["numbers"], values[i, :, 0], array)
        assert_value(molecule.atom_properties["tensors"], values[i], array)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i4", "bf16"])
def test_types_of_positions_and_labels(write: Write, dtype: str) -> None:
    stored = {"f2": "<f4", "f4": "<f4", "bf16": "<f4"}.get(dtype, "<f8")

    def typed(array: np.ndarray) -> Any:
        if dtype == "bf16":
            return torch.as_tensor(array).bfloat16()
        return array.astype(dtype)

    ones = np.arange(12.0).reshape(2, 2, 3)
    matrices = np.arange(18.0).reshape(2, 3, 3)
    held = write(
        by="write_arrays",
        positions=typed(ones),
        atomic_numbers=[1, 1],
        energy=typed(np.array([1.0, 2.0])),
        forces=typed(ones),
        velocities=typed(ones),
        charges=typed(ones[:, :, 0]),
        cell=typed(matrices),
        stress=typed(matrices),
        pbc=np.array([[1, 0, 1], [0, 0, 0]], "u1"),
    )
    assert held[1].positions.dtype.str == stored
    assert np.array_equal(held[1].positions, ones[1])
    labels = held[1].builtins
    assert_value(labels["energy"], 2.0, stored)
    assert_value(labels["forces"], ones[1], stored)
    assert_value(labels["velocities"], ones[1], stored)
    assert_value(labels["charges"], ones[1, :, 0], stored)
    assert_value(labels["cell"], matrices[1], stored)
    assert_value(labels["stress"], matrices[1], stored)
    assert [list(m.builtins["pbc"].data) for m in held] == [[1, 0, 1], [0, 0, 0]]


def test_numbers_of_python_and_numpy(write: Write) -> None:
    numbers: dict[str, Any] = {
        "int": 3,
        "bool": True,
        "float": 0.1,
        "f4": np.float32(0.1),
        "i2": np.int16(-3),
        "np bool": np.True_,
        "0-d": np.array(2, "i4"),
        "tensor": torch.tensor(0.5, dtype=torch.float16),
        "least": -(2**63),
        "largest": 2**63 - 1,
    }
    molecule = apt.Molecule(np.zeros((1, 3)), [1], properties=numbers, energy=np.float32(0.1))
    [held] = write(molecule)
    for key, value in numbers.items():
        wide = "<f8" if key in ("float", "f4", "tensor") else "<i8"
        assert_value(held.properties[key], np.asarray(value), wide)
    assert_value(held.builtins["energy"], np.float64(np.float32(0.1)), "<f8")


def test_integers_beyond_the_format(new_path: NewPath) -> None:
    for value in (2**63, 2**64, -(2**63) - 1):
        with pytest.raises(apt.FieldError, match="k"), apt.AtpWriter(new_path()) as writer:
            writer.write(apt.Molecule(np.zeros((1, 3)), [1], properties={"k": value}))


def test_none_and_text(write: Write) -> None:
    texts = ["", "a\0b", "gr\u00fc\u00df \U0001f9ea", "x" * 100_000]
    held = write(
        [
            apt.Molecule(np.zeros((1, 3)), [1], name=text, properties={"t": text, "n": None})
            for text in texts
        ]
    )
    for molecule, text in zip(held, texts, strict=True):
        assert molecule.builtins["name"].data == molecule.properties["t"].data == text
        assert molecule.properties["n"].data is None
    with pytest.raises(apt.FieldError, match=r"UTF-8 has no bytes for .*field 't'"):
        write(apt.Molecule(np.zeros((1, 3)), [1], properties={"t": "\ud800"}))


# Memory


def test_arrays_that_are_not_contiguous(write: Write) -> None:
    rng = np.random.default_rng(1)
    positions = rng.normal(size=(3, 8, 6)).transpose(2, 1, 0)[::3, ::2, ::-1]
    values = np.asfortranarray(rng.normal(size=(2, 4, 5)))
    spread = np.broadcast_to(rng.normal(size=(3, 3)), (2, 3, 3))
    held = write(
        by="write_arrays",
        positions=positions,
        atomic_numbers=np.arange(40)[::5].reshape(4, 2).T,
        cell=spread,
        pbc=np.ones((2, 3), dtype=bool),
        properties={"v": values, "x": values[:, 1, 2]},
        atom_properties={"w": values, "y": values[:, :, 3]},
    )
    for i, molecule in enumerate(held):
        assert np.array_equal(molecule.positions, positions[i])
        assert list(molecule.atomic_numbers) == [5 * i + 10 * k for k in range(4)]
        assert_value(molecule.builtins["cell"], spread[i], "<f8")
        assert_value(molecule.properties["v"], values[i], "<f8")
        assert_value(molecule.properties["x"], values[i, 1, 2], "<f8")
        assert_value(molecule.atom_properties["w"], values[i], "<f8")
        assert_value(molecule.atom_properties["y"], values[i, :, 3], "<f8")


def test_tensors_that_are_not_plain(write: Write) -> None:
    leaf = torch.arange(12.0, dtype=torch.float64).reshape(2, 2, 3).requires_grad_()
    computed = (leaf * 2).transpose(0, 1)
    batch = plain.batch([geometry(2), geometry(2)]).to(dtype=torch.float64)
    batch["forces"] = computed.reshape(4, 3)
    batch["view"] = computed.reshape(4, 3)[:, ::2]
    batch["negative"] = (
        torch.view_as_complex(leaf[..., :2].detach().contiguous()).conj().imag.reshape(4)
    )
    held = write(batch)
    want = computed.detach().reshape(2, 2, 3).numpy()
    assert_value(held[1].builtins["forces"], want[1], "<f8")
    assert_value(held[1].atom_properties["view"], want[1][:, ::2], "<f8")
    assert_value(held[1].atom_properties["negative"], -leaf.detach().numpy()[1, :, 1], "<f8")


def test_what_is_written_is_what_was_given_at_the_call(new_path: NewPath) -> None:
    """Arrays may be changed once write returns, though the writer still works on them."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(200, 50, 3))
    want = values.copy()
    path = new_path()
    with apt.AtpWriter(path, codec="zstd") as writer:
        writer.write_arrays(positions=values, atomic_numbers=np.ones(50, int))
        values[:] = 0
    assert np.array_equal(apt.AtpDataset(path).batch(range(200)).positions, want.reshape(-1, 3))


# Stacked arrays


def test_arrays_of_molecules_that_differ_in_size(write: Write) -> None:
    n_atoms = np.array([2, 0, 3], "u1")
    rows = np.arange(15.0).reshape(5, 3)
    held = write(
        by="write_arrays",
        positions=rows.tolist(),
        atomic_numbers=[6, 7, 8, 9, 10],
        n_atoms=n_atoms,
        energy=[0.5, 1, 2],
        forces=-rows,
        name=["a", None, "c"],
        cell=None,
        properties={"text": ["x", "y", "z"]},
        atom_properties={"q": rows[:, 0]},
    )
    assert [m.n_atoms for m in held] == [2, 0, 3]
    assert [list(m.atomic_numbers) for m in held] == [[6, 7], [], [8, 9, 10]]
    assert np.array_equal(held[2].positions, rows[2:])
    assert_value(held[2].builtins["forces"], -rows[2:], "<f8")
    assert [m.builtins["name"].data if "name" in m.builtins else None for m in held] == [
        "a",
        None,
        "c",
    ]
    assert all("cell" not in m.builtins for m in held)
    assert [m.properties["text"].data for m in held] == ["x", "y", "z"]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 2), (3, 2)])
def test_atomic_numbers_for_all_or_for_each(write: Write, shape: tuple[int, int]) -> None:
    n_molecules, n_atoms = shape
    for_all = np.arange(1, n_atoms + 1)
    for numbers in (for_all, np.broadcast_to(for_all, shape)):
        held = write(by="write_arrays", positions=np.zeros((*shape, 3)), atomic_numbers=numbers)
        assert len(held) == n_molecules
        assert all(list(m.atomic_numbers) == list(for_all) for m in held)


def test_text_as_numpy_has_it(write: Write) -> None:
    held = write(
        by="write_arrays",
        positions=np.zeros((2, 1, 3)),
        atomic_numbers=[1],
        name=np.array(["a", "long"]),
        properties={"t": np.array(["x", "yy"], dtype=object)},
    )
    assert [m.builtins["name"].data for m in held] == ["a", "long"]
    assert [m.properties["t"].data for m in held] == ["x", "yy"]


# ASE


def test_ase_there_and_back(write: Write, new_path: NewPath) -> None:
    path = new_path()
    atoms = ase.Atoms("CO", positions=[[0, 0, 0], [0, 0, 1.1]], info={"id": 3})
    atoms.calc = SinglePointCalculator(atoms, energy=1.0)
    with apt.AtpWriter(path) as writer:
        writer.write([atoms] * 3)
    back = apt.AtpDataset(path).batch([0, 1, 2]).to_ase()
    assert all(b == atoms and b.info == {"id": 3} for b in back)
    assert [b.get_potential_energy() for b in back] == [1.0] * 3
    [held] = write(back[0])
    assert held.properties.keys() == {"id"}


# Odd files


def test_odd_values_become_regular(new_path: NewPath) -> None:
    """Tensors of rank 1 are arrays once they are written again."""
    path = new_path()
    tensor = b"\1" + (2).to_bytes(4, "little") + np.array([5, -6]).tobytes()
    path.write_bytes(
        atp_file(
            [record(2, [molecule_property("k", 17, tensor), atom_property("a", 17, tensor)])],
            schema=schema_blob([(1, "a", 17, 0), (2, "k", 17, 0)]),
        )
    )
    with apt.AtpWriter(new := new_path()) as writer:
        writer.write(apt.AtpDataset(path)[0])
    [held] = AtpFile.open(new).molecules()
    assert held.properties["k"].tag == held.atom_properties["a"].tag == 5
    assert_value(held.properties["k"], [5, -6], "<i8")
