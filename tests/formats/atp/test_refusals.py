"""What the format or the file cannot hold is refused before anything of the call is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.client import AtompackProcess
from reference import plain
from reference.atp_file import AtpFile

import atompack_torch as apt
from atompack_torch.batch.columns import Column, Columns
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY

NewPath = Callable[[], Path]


def geometry(n_atoms: int = 2, dtype: str = "f4") -> dict[str, Any]:
    """A molecule without labels."""
    return {
        "positions": np.zeros((n_atoms, 3), dtype),
        "atomic_numbers": np.ones(n_atoms, "u1"),
        "properties": {},
        "atom_properties": {},
    }


def with_property(value: Any, key: str = "k", **more: Any) -> dict[str, Any]:
    """A molecule with one property of its own."""
    return geometry() | {"properties": {key: value}} | more


def with_atom_property(value: Any, key: str = "k", n_atoms: int = 2) -> dict[str, Any]:
    """A molecule with one property of its atoms."""
    return geometry(n_atoms) | {"atom_properties": {key: value}}


# name: (first molecule, second molecule, what the message says)
CLASHES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "number and None": (
        with_property(1.0),
        with_property(None),
        "expected float64 number as in earlier molecules, got None (molecule 1, field 'k')",
    ),
    "integer and float": (
        with_property(1),
        with_property(1.0),
        "expected int64 number as in earlier molecules, got float64 number",
    ),
    "text and number": (
        with_property("x"),
        with_property(1.0),
        "expected text as in earlier molecules, got float64 number",
    ),
    "length of an array": (
        with_property(np.zeros(3)),
        with_property(np.zeros(4)),
        "expected float64 array of length 3 as in earlier molecules, "
        "got float64 array of length 4 (molecule 1, field 'k')",
    ),
    "length of an empty array": (
        with_property(np.zeros(0)),
        with_property(np.zeros(1)),
        "expected float64 array of length 0",
    ),
    "array and number": (
        with_property(np.zeros(1)),
        with_property(0.0),
        "expected float64 array of length 1 as in earlier molecules, got float64 number",
    ),
    "array and tensor": (
        with_property(np.zeros(128)),
        with_property(np.zeros((4, 32))),
        "expected float64 array of length 128 as in earlier molecules, got float64 tensor",
    ),
    "float width": (
        with_property(np.zeros(2, "f4")),
        with_property(np.zeros(2)),
        "expected float32 array of length 2 as in earlier molecules, got float64 array",
    ),
    "integer width": (
        with_property(np.zeros(2, "i4")),
        with_property(np.zeros(2, "i8")),
        "expected int32 array of length 2 as in earlier molecules, got int64 array",
    ),
    "rows of vectors": (
        with_property(np.zeros((2, 3))),
        with_property(np.zeros((1, 3))),
        "expected float64 array of (k, 3) of length 2 as in earlier molecules",
    ),
    "vectors and tensor": (
        with_property(np.zeros((2, 3))),
        with_property(np.zeros((3, 2))),
        "expected float64 array of (k, 3) of length 2 as in earlier molecules, got float64 tens",
    ),
    "tensor width": (
        with_property(np.zeros((2, 2), "f4")),
        with_property(np.zeros((2, 2))),
        "expected float32 tensor as in earlier molecules, got float64 tensor",
    ),
    "atom property width": (
        with_atom_property(np.zeros(2, "f4")),
        with_atom_property(np.zeros(2)),
        "expected float32 array for each atom as in earlier molecules, "
        "got float64 array for each atom (molecule 1, field 'k')",
    ),
    "atom property form": (
        with_atom_property(np.zeros((2, 3))),
        with_atom_property(np.zeros((2, 2))),
        "expected float64 array of (k, 3) for each atom as in earlier molecules, got float64 t",
    ),
    "forces": (
        geometry() | {"forces": np.zeros((2, 3), "f4")},
        geometry() | {"forces": np.zeros((2, 3))},
        "expected float32 array of (k, 3) for each atom as in earlier molecules, got float64",
    ),
    "cell": (
        geometry() | {"cell": np.eye(3)},
        geometry() | {"cell": np.eye(3, dtype="f4")},
        "expected float64 array of (3, 3) as in earlier molecules, got float32 array of (3, 3)",
    ),
    "positions": (
        geometry(),
        geometry(dtype="f8"),
        "expected float32 as in earlier molecules, got float64 (molecule 1, field 'positions')",
    ),
}


@pytest.mark.parametrize("form", ["one call", "two calls", "two commits", "reopened", "columns"])
@pytest.mark.parametrize("name", sorted(CLASHES))
def test_clash(new_path: NewPath, name: str, form: str) -> None:
    """Names the file, both types, the molecule in the call and the key; the writer continues."""
    first, second, message = CLASHES[name]
    if form not in ("one call", "columns"):
        message = message.replace("molecule 1", "molecule 0")
    if name == "positions":
        message = message.partition(" (molecule")[0]
    path = new_path()
    message = rf"^{path}: type: {re.escape(message)}"
    writer = apt.AtpWriter(path)
    bad = [plain.molecule(second)]
    if form in ("one call", "columns"):
        bad = [plain.molecule(first), *bad]
    else:
        writer.write(plain.molecule(first))
    if form == "two commits":
        writer.flush()
    if form == "reopened":
        writer.close()
        writer = apt.AtpWriter(path, mode="a")
    n = len(writer)
    run = plain.columns([first, second]) if form == "columns" and name != "positions" else None
    with pytest.raises(apt.FieldError, match=message):
        writer.write(bad) if run is None else writer.write_columns(run)
    assert len(writer) == n
    writer.write(plain.molecule(first))
    writer.close()
    plain.assert_file_holds(path, [first] * (n + 1))


def test_the_record_format_stays_what_the_first_molecules_made_it(new_path: NewPath) -> None:
    usual, unusual = geometry(), geometry() | {"stress": np.eye(3, dtype="f4")}
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write(plain.molecule(usual))
        message = "expected float64 as in records of format 2, got float32 .*field 'stress'"
        with pytest.raises(apt.FieldError, match=message):
            writer.write(plain.molecule(unusual))
        writer.flush()
        with pytest.raises(apt.FieldError, match=message):
            writer.write(plain.molecule(unusual))
    plain.assert_file_holds(path, [usual])
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write([plain.molecule(usual), plain.molecule(unusual)])
        writer.write(plain.molecule(usual))
    plain.assert_file_holds(path, [usual, unusual, usual])
    assert AtpFile.open(path).slot.record_format == 3


def test_a_refused_first_call_settles_nothing(new_path: NewPath) -> None:
    path, wide = new_path(), geometry(dtype="f8")
    with apt.AtpWriter(path) as writer:
        with pytest.raises(apt.FieldError, match="field 'k'"):
            writer.write([plain.molecule(p) for p in CLASHES["text and number"][:2]])
        with pytest.raises(apt.FieldError, match="positions"):
            writer.write([plain.molecule(geometry()), plain.molecule(wide)])
        writer.write([plain.molecule(wide)])
    plain.assert_file_holds(path, [wide])


@pytest.mark.parametrize("scope", ["properties", "atom_properties"])
def test_keys_too_long(atompack: AtompackProcess, new_path: NewPath, scope: str) -> None:
    value = np.zeros(2)
    longest = geometry() | {scope: {"é" * 127 + "x": value}}
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write(plain.molecule(longest))
        for key in ("k" * 256, "é" * 128, "k" * 70000):
            message = f"^{path}: key: expected at most 255 bytes, got {len(key.encode())} .*'{key}'"
            with pytest.raises(apt.FieldError, match=message):
                writer.write(plain.molecule(geometry() | {scope: {key: value}}))
        assert len(writer) == 1
    plain.assert_file_holds(path, [longest])
    assert list(atompack.read(path)[0][scope]) == ["é" * 127 + "x"]


@pytest.mark.parametrize("scope", ["properties", "atom_properties"])
def test_the_key_that_no_property_can_have(new_path: NewPath, scope: str) -> None:
    with apt.AtpWriter(new_path()) as writer:
        with pytest.raises(apt.FieldError, match=r"expected another name.*field 'stress'"):
            writer.write(plain.molecule(geometry() | {scope: {"stress": np.zeros(2)}}))
        assert len(writer) == 0


def test_one_key_in_both_scopes_of_a_molecule(atompack: AtompackProcess, new_path: NewPath) -> None:
    """In different molecules it is fine."""
    mine, atoms = with_property(1.0), with_atom_property(np.zeros(2))
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write([plain.molecule(mine), plain.molecule(atoms)])
        both = mine | {"atom_properties": atoms["atom_properties"]}
        with pytest.raises(apt.FieldError, match=r"got both \(molecule 1, field 'k'\)"):
            writer.write([plain.molecule(mine), plain.molecule(both)])
    plain.assert_file_holds(path, [mine, atoms])
    assert len(atompack.read(path)) == 2


NO_TYPE = {
    "complex": np.zeros((2, 2), "c16"),
    "time": np.zeros((2, 2), "M8[s]"),
    "longdouble": np.zeros((2, 2), np.longdouble),
    "bytes": np.array([b"x", b"y"]),
    "structure": np.zeros(2, "f4,i4"),
    "objects": [[object()], [object()]],
    "large integers": np.full((2, 2), 2**63, "u8"),
    "larger integers": [2**70, 2**70],
    "float8": torch.zeros(2, 4).to(torch.float8_e4m3fn),
    "sparse": torch.eye(2).to_sparse(),
    "ragged lists": [[1.0], [1.0, 2.0]],
    "text for each molecule and more": [["a", "b"], ["c", "d"]],
    "a text": "ab",
    "nothing": None,
    "a number": 1.5,
    "too many rows": np.zeros(3),
    "surrogates": ["ok", "\ud800"],
}


@pytest.mark.parametrize("scope", ["properties", "atom_properties"])
@pytest.mark.parametrize("name", sorted(NO_TYPE))
def test_values_that_the_format_has_no_type_for(new_path: NewPath, name: str, scope: str) -> None:
    with apt.AtpWriter(new_path()) as writer:
        with pytest.raises(apt.FieldError, match="p"):
            writer.write_arrays(
                positions=np.zeros((2, 2, 3)),
                atomic_numbers=[1, 1],
                **{scope: {"p": NO_TYPE[name]}},
            )
        assert len(writer) == 0
        writer.write_arrays(positions=np.zeros((2, 2, 3)), atomic_numbers=[1, 1])


@pytest.mark.parametrize("value", ["text", None])
def test_atoms_have_neither_text_nor_none(new_path: NewPath, value: str | None) -> None:
    run = plain.columns([geometry()])
    run.fields.append(Column(ATOM_PROPERTY, "k", [value]))
    with apt.AtpWriter(new_path()) as writer:
        message = f"cannot store {value or 'None'} .*per atom in this field .*molecule 0, field 'k'"
        with pytest.raises(apt.FieldError, match=message):
            writer.write_columns(run)


LABELS = {
    "energy": np.zeros((2, 1)),
    "forces": np.zeros((2, 2, 2)),
    "velocities": np.zeros((2, 2)),
    "charges": np.zeros((2, 2, 1)),
    "cell": np.zeros((2, 3)),
    "stress": np.zeros((2, 6)),
    "pbc": np.zeros((2, 2), bool),
    "name": np.zeros(2),
}


@pytest.mark.parametrize("label", sorted(LABELS))
def test_labels_of_another_shape(new_path: NewPath, label: str) -> None:
    with apt.AtpWriter(new_path()) as writer:
        with pytest.raises(apt.FieldError, match=rf"\(molecule 0, field '{label}'\)"):
            writer.write_arrays(
                positions=np.zeros((2, 2, 3)), atomic_numbers=[1, 1], **{label: LABELS[label]}
            )
        assert len(writer) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": np.zeros((2, 2, 2))}, r"expected \(4, 3\), got \(4, 2\).*positions"),
        (
            {"positions": np.zeros((4, 3))},
            r"positions: expected \(B, n, 3\), or \(N, 3\) with n_atoms",
        ),
        ({"positions": np.zeros((2, 2, 3), "c8")}, "none for complex64 .*positions"),
        ({"atomic_numbers": [1, 1, 1]}, r"atomic_numbers: expected \(2, 2, ...\), got \(3,\)"),
        ({"atomic_numbers": [1, 256]}, "expected 0 to 255, got 256 .*molecule 0.*atomic_numbers"),
        ({"atomic_numbers": [[1, 2], [3, -1]]}, "expected 0 to 255, got -1 .*molecule 1"),
        ({"atomic_numbers": [1.0, 1.0]}, "expected integers, got float64 .*atomic_numbers"),
        ({"atomic_numbers": np.full(2, 2**64 - 1, "u8")}, "does not fit in int64"),
        ({"n_atoms": [2, 2]}, r"expected \(4, 3\), got \(2, 2, 3\)"),
        ({"positions": np.zeros((4, 3)), "n_atoms": [2.0, 2.0]}, "expected integers, got float64"),
        ({"positions": np.zeros((4, 3)), "n_atoms": [[2], [2]]}, r"n_atoms: expected \(B,\), got"),
        (
            {"positions": np.zeros((4, 3)), "n_atoms": [5, -1], "atomic_numbers": [1] * 4},
            "n_atoms: expected numbers of at least 0, got -1",
        ),
        (
            {"positions": np.zeros((4, 3)), "n_atoms": [2, 3], "atomic_numbers": [1] * 4},
            r"expected \(5, 3\), got \(4, 3\)",
        ),
        (
            {"positions": np.zeros((4, 3)), "n_atoms": [2, 2], "atomic_numbers": [1] * 5},
            r"expected \(4,\), got \(5,\) .*atomic_numbers",
        ),
        ({"energy": [1.0, 2.0, 3.0]}, r"expected 2 rows, got \(3,\) .*energy"),
        ({"energy": ["a", "b"]}, "cannot store text in this field .*energy"),
        ({"pbc": [["T", "F", "T"]] * 2}, "expected booleans, got <U1 .*pbc"),
        ({"pbc": np.full((2, 3), np.nan)}, "expected booleans, got float64 .*pbc"),
        ({"name": "ab"}, "name: expected one value for each molecule, got a str"),
        ({"name": ["a", "b", "c"]}, "expected one for each of 2 molecules, got 3 .*name"),
        ({"name": [1, 2]}, "cannot store .* number in this field .*name"),
        ({"forces": np.zeros((4, 3))}, r"forces: expected \(2, 2, ...\), got \(4, 3\)"),
    ],
)
def test_arrays_that_do_not_fit(new_path: NewPath, change: dict[str, Any], message: str) -> None:
    right = {"positions": np.zeros((2, 2, 3)), "atomic_numbers": [1, 1]}
    with apt.AtpWriter(new_path()) as writer:
        with pytest.raises(apt.FieldError, match=message):
            writer.write_arrays(**right | change)
        assert len(writer) == 0
        writer.write_arrays(**right)
        assert len(writer) == 2


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        (
            Column(BUILTIN, "quadrupole", np.zeros(2)),
            apt.FieldError,
            "expected the name of a builtin",
        ),
        (Column(7, "k", np.zeros(2)), apt.FieldError, "scope: expected 0, 1 or 2, got 7"),
        (Column(2, 5, np.zeros(2)), TypeError, "key: expected str, got int"),  # type: ignore[arg-type]
        (Column(2, "\ud800", np.zeros(2)), apt.FieldError, "key: holds characters"),
        (Column(2, "k", np.zeros(2), np.ones(1, bool)), apt.FieldError, r"expected \(2,\), got"),
        (Column(2, "k", np.zeros(2), np.ones((2, 2), bool)), apt.FieldError, "mask: expected"),
        (Column(2, "k", np.zeros(())), apt.FieldError, r"expected 2 rows, got \(\)"),
        (Column(2, "k", []), apt.FieldError, "expected one for each of 2 molecules, got 0"),
        (Column(1, "k", [np.zeros(2), np.zeros(3)]), apt.FieldError, "expected 1 rows.*molecule 1"),
        (Column(1, "k", [np.zeros(2), np.zeros(())]), apt.FieldError, "expected 1 rows.*molecul"),
        (Column(2, "k", [1.0, "x"]), apt.FieldError, "got text .*molecule 1"),  # type: ignore[list-item]
    ],
)
def test_columns_that_do_not_fit(
    new_path: NewPath, column: Column, error: type[Exception], message: str
) -> None:
    run = plain.columns([geometry(2), geometry(1)])
    with apt.AtpWriter(new_path()) as writer:
        with pytest.raises(error, match=message):
            writer.write_columns(run._replace(fields=[column]))
        assert len(writer) == 0
        writer.write_columns(run)


def test_the_same_column_twice(new_path: NewPath) -> None:
    run = plain.columns([with_property(1.0)])
    run = run._replace(fields=run.fields * 2)
    with apt.AtpWriter(new_path()) as writer, pytest.raises(apt.FieldError, match="duplicate key"):
        writer.write_columns(run)


@pytest.mark.parametrize("ptr", [[], [1, 3], [0, 3, 2], [0, 4], [0], [0, 2**40], [0, -1, 3]])
def test_bounds_of_molecules_that_lie(new_path: NewPath, ptr: list[int]) -> None:
    run = Columns(np.zeros((3, 3)), np.ones(3, int), np.array(ptr, "i8"), [])
    with apt.AtpWriter(new_path()) as writer:
        with pytest.raises(apt.FieldError, match=r"ptr|positions"):
            writer.write_columns(run)
        assert len(writer) == 0


def huge(path: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Gigabytes of zeros that take neither memory nor space: a hole in a file."""
    with path.open("wb") as file:
        file.truncate(int(np.prod(shape)) * int(dtype[1]))
    return np.memmap(path, dtype=dtype, mode="r", shape=shape)


@pytest.mark.parametrize(
    ("codec", "n_values"), [("none", 2**29), ("zstd", 2**29), ("lz4", 2**28), ("zstd", 2**29 - 999)]
)
def test_records_of_four_gigabytes(
    tmp_path: Path, new_path: NewPath, codec: Any, n_values: int
) -> None:
    """Refused by their size alone: nothing is read. lz4 has half of it; zstd may need more."""
    values = huge(tmp_path / "hole", (1, n_values), "f8")
    run = plain.columns([geometry(1)])
    with apt.AtpWriter(new_path(), codec=codec) as writer:
        writer.write_columns(run)
        field = Column(MOLECULE_PROPERTY, "k", values)
        with pytest.raises(apt.FieldError, match=r"molecule 0|'k'"):
            writer.write_columns(run._replace(fields=[field]))
        assert len(writer) == 1


def test_dimensions_that_do_not_fit(new_path: NewPath) -> None:
    """An array without values may claim any shape."""
    run = plain.columns([geometry(1)])
    with apt.AtpWriter(new_path()) as writer:
        for shape in ((1, 0, 2**32), (1, 2**17, 0, 2**17), (1, 2**33, 0)):
            with pytest.raises(apt.FieldError, match=r"expected less than .* elements.*field 'k'"):
                writer.write_columns(
                    run._replace(fields=[Column(MOLECULE_PROPERTY, "k", np.zeros(shape))])
                )
        assert len(writer) == 0


def test_too_many_fields(new_path: NewPath) -> None:
    value = np.zeros(1)
    fields = [Column(MOLECULE_PROPERTY, f"{i:05}", value) for i in range(65536)]
    run = plain.columns([geometry(1)])
    path = new_path()
    with apt.AtpWriter(path) as writer:
        with pytest.raises(apt.FieldError, match="expected at most 65535, got 65536"):
            writer.write_columns(run._replace(fields=fields))
        assert len(writer) == 0
        writer.write_columns(run._replace(fields=fields[1:]))
    assert len(AtpFile.open(path).molecule(0).properties) == 65535


@pytest.mark.parametrize(
    "item", [5, "text", None, {"positions": 1}, np.zeros(3), object(), iter([]), b"x"]
)
def test_things_that_are_no_molecules(new_path: NewPath, item: Any) -> None:
    with apt.AtpWriter(new_path()) as writer:
        with pytest.raises(TypeError, match=r"expected .*Molecule.*, got"):
            writer.write(item)
        with pytest.raises(TypeError, match=r"expected .*Molecule.*, got"):
            writer.write([plain.molecule(geometry()), item])
        assert len(writer) == 0


def test_labels_that_there_are_not(new_path: NewPath) -> None:
    with apt.AtpWriter(new_path()) as writer:
        with pytest.raises(TypeError, match="'quadrupole' is no label"):
            writer.write_arrays(
                positions=np.zeros((1, 1, 3)), atomic_numbers=[[1]], quadrupole=np.zeros((1, 3))
            )
        with pytest.raises(TypeError, match=r"'force' is no label: did you mean 'forces'\?"):
            apt.Molecule(np.zeros((1, 3)), [1], force=np.zeros((1, 3)))
        with pytest.raises(apt.FieldError, match="energy: expected numbers, got 'low'"):
            apt.Molecule(np.zeros((1, 3)), [1], energy="low")
        with pytest.raises(apt.FieldError, match="atomic_numbers: expected integers, got symbols"):
            apt.Molecule(np.zeros((1, 3)), ["H"])
        assert len(writer) == 0


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_a_refused_call_leaves_no_trace(new_path: NewPath, codec: Any) -> None:
    """However much went before it, and however many of its molecules were fine."""
    paths = [new_path(), new_path()]
    good = [plain.molecule(with_property(float(i))) for i in range(50)]
    for path, refused in zip(paths, (False, True), strict=True):
        with apt.AtpWriter(path, codec=codec) as writer:
            for _ in range(3):
                writer.write(good)
                if refused:
                    with pytest.raises(apt.FieldError, match="molecule 50"):
                        writer.write([*good, plain.molecule(with_property("text"))])
            writer.flush()
            writer.write(good[0])
    assert paths[0].read_bytes() == paths[1].read_bytes()
