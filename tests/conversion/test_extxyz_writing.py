"""Writing extended XYZ: what is written reads back, here and with ASE, or is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from reference.extxyz import Told, one_atom, read, write
from reference.frames import NUMBERS, POSITIONS, Frame, assert_same, frames_of, same

import atompack_torch as apt
from atompack_torch.batch.columns import Column, Columns
from atompack_torch.cli import main
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import TargetOptions
from atompack_torch.formats.extxyz import converter as extxyz

FLOATS = st.floats()
INTEGERS = st.integers(-(2**63), 2**63 - 1)
# Everything that must not change the sense of a comment line, and what looks like something else.
ODD = "ab5_ =,.:;#\"'\\[]{}()_JSONTFtruenaif-+eDd\u00e9\u00a0\u4e2d\U0001f600\n\r\t\0\x1f\x7f"
TEXT = st.text(st.sampled_from(ODD), max_size=8) | st.sampled_from(
    [
        "1_0",
        "\u0661",
        "T",
        "nan",
        "5",
        "1.5",
        "1 2",
        "_JSON 5",
        '_JSON "x"',
        '_JSON {"a": [1]}',
        "a=b",
        "C:\\temp",
    ]
)
KEYS = st.text(st.sampled_from("ab5 =,.;#\"'\\[]{}()-\u00e9\u4e2d"), max_size=5) | st.sampled_from(
    [
        *("energy", "forces", "force", "Lattice", "pbc", "Properties", "virial", "stress", "name"),
        *("charge", "Z", "species", "pos", "momenta", "masses", "uid"),
        *("properties/x", "atom_properties/x", "lattice", "PBC", "properties"),
    ]
)


def columns(*fields: Column, n_atoms: tuple[int, ...] = (1, 2)) -> Columns:
    """Molecules of these sizes with these fields."""
    n = sum(n_atoms)
    ptr = np.concatenate([[0], np.cumsum(n_atoms)])
    return Columns(np.arange(3.0 * n).reshape(n, 3), np.arange(n) + 1, ptr, [*fields])


def again(path: Path, block: Columns, **options: Any) -> list[Frame]:
    """The block, written and read."""
    write(path, [block], **options)
    return read(path)


@st.composite
def molecule_values(draw: st.DrawFn, n: int) -> Any:
    """Values of one type for n molecules: stacked, of any shape, or text."""
    dtype = draw(st.sampled_from([np.float64, np.int64, np.bool_]))
    elements = {np.float64: FLOATS, np.int64: INTEGERS, np.bool_: st.booleans()}[dtype]
    form = draw(st.sampled_from(["stacked", "ragged", "text"]))
    if form == "text":
        return [draw(TEXT) for _ in range(n)]
    rank = draw(st.integers(0, 3)) if form == "stacked" else 2
    if form == "stacked":
        shape = [draw(st.integers(1, 3)) for _ in range(rank)]
        return draw(npst.arrays(dtype, (n, *shape), elements=elements))
    widths = st.integers(1, 3)
    return [draw(npst.arrays(dtype, (2, draw(widths)), elements=elements)) for _ in range(n)]


@st.composite
def blocks(draw: st.DrawFn) -> Columns:
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    n, n_atoms = len(sizes), sum(sizes)
    masks = npst.arrays(np.bool_, n)
    rows = npst.arrays(np.float64, (n_atoms, 3), elements=FLOATS)
    fields = []
    pbc = draw(npst.arrays(np.bool_, (n, 3)))
    matrices = npst.arrays(np.float64, (n, 3, 3), elements=FLOATS)
    builtins: dict[str, Any] = {
        "energy": npst.arrays(np.float64, n, elements=FLOATS),
        "stress": matrices,
        "cell": npst.arrays(np.float64, (n, 3, 3), elements=st.floats(-9, 9)).filter(
            lambda cells: cells.any(axis=(1, 2)).all()
        ),
        "name": st.lists(TEXT, min_size=n, max_size=n),
        "forces": rows,
        "velocities": rows,
        "charges": npst.arrays(np.float64, n_atoms, elements=FLOATS),
    }
    for key in sorted(draw(st.sets(st.sampled_from(sorted(builtins))))):
        fields.append(Column(BUILTIN, key, draw(builtins[key]), draw(masks)))
    cells = [np.asarray(field.mask) for field in fields if field.key == "cell"]
    pbc &= np.reshape(cells[0] if cells else False, (-1, 1))
    fields.append(Column(BUILTIN, "pbc", pbc))
    for key in sorted(draw(st.sets(KEYS, max_size=4))):
        fields.append(Column(MOLECULE_PROPERTY, key, draw(molecule_values(n)), draw(masks)))
    for key in sorted(draw(st.sets(KEYS, max_size=3))):
        shape = (n_atoms, *draw(st.sampled_from([(), (2,), (3,)])))
        dtype, elements = draw(
            st.sampled_from([(np.float64, FLOATS), (np.int64, INTEGERS), (np.bool_, st.booleans())])
        )
        values = draw(npst.arrays(dtype, shape, elements=elements))
        fields.append(Column(ATOM_PROPERTY, key, values, draw(masks)))
    numbers = draw(npst.arrays(np.int64, n_atoms, elements=st.integers(0, 255)))
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    return Columns(draw(rows), numbers, ptr, fields)


@given(blocks())
def test_all_that_the_format_holds_survives(
    tmp_path_factory: pytest.TempPathFactory, block: Columns
) -> None:
    told = Told()
    got = again(tmp_path_factory.mktemp("x") / "a.extxyz", block, report=told)
    assert told.skipped == []
    for frame, expected in zip(got, frames_of([block]), strict=True):
        assert_same(frame, expected)


def test_special_keys_stay_properties(tmp_path: Path) -> None:
    """A property called energy is not the energy, also for ASE."""
    block = columns(
        Column(BUILTIN, "energy", np.array([1.0, 2.0])),
        Column(MOLECULE_PROPERTY, "energy", np.array([3.0, 4.0])),
        Column(MOLECULE_PROPERTY, "", np.array([5, 6])),
        Column(MOLECULE_PROPERTY, "uid", np.array([7, 8])),
        Column(MOLECULE_PROPERTY, "lattice", np.arange(18.0).reshape(2, 9)),
        Column(MOLECULE_PROPERTY, "PBC", np.array([2, 3])),
        Column(ATOM_PROPERTY, "forces", np.arange(9.0).reshape(3, 3)),
        Column(ATOM_PROPERTY, "Z", np.array([0.5, 1.5, 2.5])),
        Column(BUILTIN, "pbc", np.zeros((2, 3), dtype=bool)),
    )
    path = tmp_path / "x.extxyz"
    for frame, expected in zip(again(path, block), frames_of([block]), strict=True):
        assert_same(frame, expected)
    atoms = ase.io.read(path, "0")
    assert atoms.get_potential_energy() == 1
    assert atoms.info.pop("properties/lattice").tolist() == [*range(9)]
    own = {"energy": 3.0, "": 5, "uid": 7, "PBC": 2}
    assert atoms.info == {f"properties/{key}": value for key, value in own.items()}
    assert atoms.arrays["atom_properties/Z"].tolist() == [0.5]
    assert atoms.get_atomic_numbers().tolist() == [1]


def test_ase_reads_it_bit_for_bit(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    n_atoms = (3, 5)
    fields = {
        "energy": random.normal(size=2),
        "stress": np.array([[[1.0, 2, 3], [2, 4, 5], [3, 5, 6]]] * 2) / 7,
        "cell": random.normal(size=(2, 3, 3)),
        "forces": random.normal(size=(8, 3)).astype(np.float32),
        "charges": random.normal(size=8),
        "pbc": np.array([[True, False, True]] * 2),
        "name": ['it\'s "5"', "5"],
    }
    block = columns(
        *(Column(BUILTIN, key, values) for key, values in fields.items()),
        Column(MOLECULE_PROPERTY, "tensor", random.normal(size=(2, 2, 2))),
        Column(MOLECULE_PROPERTY, "whole", np.array([1.0, 2.0])),
        Column(MOLECULE_PROPERTY, "one", np.array([[1.5], [2.5]])),
        Column(ATOM_PROPERTY, "q", random.normal(size=(8, 2))),
        n_atoms=n_atoms,
    )
    path = tmp_path / "x.extxyz"
    write(path, [block])
    for atoms, frame in zip(ase.io.read(path, ":"), frames_of([block]), strict=True):
        assert same(atoms.positions, frame[POSITIONS])
        assert same(atoms.numbers, frame[NUMBERS])
        assert same(atoms.cell.array, frame[BUILTIN, "cell"])
        assert same(atoms.pbc, frame[BUILTIN, "pbc"])
        assert same(atoms.get_potential_energy(), frame[BUILTIN, "energy"])
        assert same(atoms.get_forces(), frame[BUILTIN, "forces"].astype(np.float64))
        assert same(atoms.get_stress(voigt=False), frame[BUILTIN, "stress"])
        assert same(atoms.get_charges(), frame[BUILTIN, "charges"])
        assert atoms.info["name"] == frame[BUILTIN, "name"]
        for key in ("tensor", "whole", "one"):
            assert same(atoms.info[key], frame[MOLECULE_PROPERTY, key]), key
        assert same(atoms.arrays["q"], frame[ATOM_PROPERTY, "q"])


@given(
    st.dictionaries(
        KEYS.filter(lambda key: key not in ("", "uid")),
        TEXT | FLOATS | INTEGERS | st.booleans(),
    )
)
def test_ase_reads_any_value(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    fields = [
        Column(MOLECULE_PROPERTY, key, [value] if isinstance(value, str) else np.array([value]))
        for key, value in values.items()
    ]
    path = tmp_path_factory.mktemp("x") / "a.extxyz"
    write(path, [columns(*fields, n_atoms=(1,))])
    info = {key.removeprefix("properties/"): v for key, v in ase.io.read(path).info.items()}
    assert info.keys() == values.keys()
    for key, value in values.items():
        assert same(info[key], value), (key, info[key], value)


def test_what_it_looks_like(tmp_path: Path) -> None:
    block = columns(
        Column(BUILTIN, "cell", np.eye(3)[None] * [[[2.0]], [[3.0]]], np.array([True, False])),
        Column(BUILTIN, "pbc", np.array([[True, True, False], [False] * 3])),
        Column(BUILTIN, "energy", np.array([-1.0, np.nan])),
        Column(BUILTIN, "forces", np.array([[0.5, 0, -0.0], [1e-30, 1, 2], [3, 4, np.inf]])),
        Column(MOLECULE_PROPERTY, "n", np.array([1, 2])),
        Column(MOLECULE_PROPERTY, "on", np.array([True, False]), np.array([False, True])),
        Column(MOLECULE_PROPERTY, "v", np.array([[1.0, 2.0], [3.0, 4.0]])),
        Column(MOLECULE_PROPERTY, "s", ["text", "two words"]),
    )
    path = tmp_path / "x.extxyz"
    write(path, [block])
    assert path.read_text() == (
        "1\n"
        'Lattice="2.0 0.0 0.0 0.0 2.0 0.0 0.0 0.0 2.0" Properties=species:S:1:pos:R:3:forces:R:3 '
        'energy=-1.0 n=1 v="1.0 2.0" s=text pbc="T T F"\n'
        "H 0 1 2 0.5 0 -0\n"
        "2\n"
        "Properties=species:S:1:pos:R:3:forces:R:3 "
        'energy=nan n=2 on=F v="3.0 4.0" s="two words" pbc="F F F"\n'
        "He 3 4 5 1e-30 1 2\n"
        "Li 6 7 8 3 4 inf\n"
    )


def test_what_cannot_be_held_is_reported(tmp_path: Path, told: Told) -> None:
    block = columns(
        Column(MOLECULE_PROPERTY, "a\nb", np.array([1, 2])),
        Column(ATOM_PROPERTY, "a:b", np.array([1, 2, 3])),
        Column(MOLECULE_PROPERTY, "empty", np.zeros((2, 0, 2))),
        Column(ATOM_PROPERTY, "none", np.zeros((3, 0))),
        Column(MOLECULE_PROPERTY, "z", np.array([1j, 2]), np.array([True, False])),
        Column(MOLECULE_PROPERTY, "big", np.array([2**64 - 1, 1], dtype=np.uint64)),
        Column(MOLECULE_PROPERTY, "deep", [np.zeros((1,) * 17), np.array(5)]),
        Column(BUILTIN, "pbc", np.ones((2, 3), dtype=bool)),
        Column(BUILTIN, "cell", np.full((2, 3, 3), np.nan), np.array([True, False])),
    )
    got = again(tmp_path / "x.extxyz", block, report=told)
    assert told.skipped == [
        ("property 'a\\nb'", "no key can stand for it", 2),
        ("property 'a:b'", "no key can stand for it", 2),
        ("property 'empty'", "the shape (0, 2) has no text", 2),
        ("property 'none'", "no values for an atom", 2),
        ("property 'z'", "values of type complex128", 1),
        ("property 'big'", "an integer beyond 64 bits with sign", 2),
        ("property 'deep'", f"the shape {(1,) * 17} has no text", 1),
        ("cell", "it is not finite", 1),
        ("pbc", "without a cell nothing is periodic", 2),
    ]
    assert [len(frame) for frame in got] == [3, 4]
    assert got[1][MOLECULE_PROPERTY, "deep"] == 5


def test_rows_of_tensors_become_flat(tmp_path: Path, told: Told) -> None:
    values = np.arange(27.0).reshape(3, 3, 3)
    block = columns(
        Column(ATOM_PROPERTY, "t", values), Column(ATOM_PROPERTY, "u", values[:, :1, 0])
    )
    got = again(tmp_path / "x.extxyz", block, report=told)
    assert got[1][ATOM_PROPERTY, "t"].tolist() == values[1:].reshape(2, 9).tolist()
    assert got[1][ATOM_PROPERTY, "u"].tolist() == values[1:, 0, 0].tolist()
    assert told.skipped == []
    assert told.notes == [
        "property 't': rows of shape (3, 3) are written as flat columns",
        "property 'u': rows of shape (1,) are written as flat columns",
    ]


def test_ragged_rows_and_the_value_none(tmp_path: Path) -> None:
    block = columns(
        Column(ATOM_PROPERTY, "r", [np.ones((1, 2)), np.ones((2, 5))]),
        Column(ATOM_PROPERTY, "s", [None, np.array([True, False])], np.array([False, True])),
        Column(MOLECULE_PROPERTY, "n", [None, None], np.array([True, False])),
        Column(BUILTIN, "pbc", np.zeros((2, 3), dtype=bool)),
    )
    for got, expected in zip(again(tmp_path / "x.extxyz", block), frames_of([block]), strict=True):
        assert_same(got, expected)


def test_other_widths_are_widened(tmp_path: Path) -> None:
    for dtype in (np.float16, np.float32, np.int8, np.int32, np.uint8, np.uint64):
        values = np.array([1, 2], dtype=dtype) / (3 if np.dtype(dtype).kind == "f" else 1)
        block = columns(Column(MOLECULE_PROPERTY, "v", values.astype(dtype)))
        got = again(tmp_path / "x.extxyz", block)
        assert [float(f[MOLECULE_PROPERTY, "v"]) for f in got] == values.astype(dtype).tolist()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (columns()._replace(atomic_numbers=np.array([1, 2, 256])), "0 to 255, got 256"),
        (
            columns()._replace(atomic_numbers=np.array([1, 2])),
            r"positions: expected shape \(2, 3\)",
        ),
        (columns()._replace(ptr=np.array([0, 2, 1, 3])), "ptr: expected to rise from 0 to 3"),
        (columns()._replace(ptr=np.array([0, 4])), "ptr: expected to rise from 0 to 3"),
        (columns(Column(MOLECULE_PROPERTY, "k", np.zeros(3))), "2 rows, got 3 .field 'k'"),
        (columns(Column(MOLECULE_PROPERTY, "k", ["a"])), "2 rows, got 1 .field 'k'"),
        (columns(Column(ATOM_PROPERTY, "k", np.zeros(2))), "3 rows, got 2 .field 'k'"),
        (columns(Column(ATOM_PROPERTY, "k", [np.zeros(1)] * 2)), "2 rows, got 1 .field 'k'"),
        (columns(Column(BUILTIN, "energy", np.zeros(2), np.ones(1))), "2 rows, got 1"),
        (columns(Column(BUILTIN, "cell", np.zeros((3, 3, 3)))), "2 rows, got 3"),
    ],
)
def test_columns_that_do_not_fit_together(tmp_path: Path, block: Columns, message: str) -> None:
    with pytest.raises(apt.FieldError, match=message):
        write(tmp_path / "x.extxyz", [block])
    assert [*tmp_path.iterdir()] == []


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "x.extxyz"
    with extxyz.open_target(str(path), TargetOptions(Report())) as target:
        target.write(columns())
        assert not path.exists()
    assert len(read(path)) == 2
    wrong = columns()._replace(ptr=np.array([0]))
    with pytest.raises(apt.FieldError):
        write(path, [columns(), wrong])
    assert len(read(path)) == 2
    write(path, [columns()] * 3)
    assert len(read(path)) == 6
    assert [*tmp_path.iterdir()] == [path]


def test_standard_output(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "a.xyz").write_text("".join(one_atom(f"energy={i}") for i in range(3)))
    source, file = str(tmp_path / "a.xyz"), tmp_path / "b.xyz"
    assert main(["convert", source, str(file), "--quiet"]) == 0
    assert main(["convert", source, "-", "--to", "extxyz"]) == 0
    out, err = capfdbinary.readouterr()
    assert out == file.read_bytes()
    assert f"3 molecules, 3 atoms, {len(out)} B" in err.decode()
    assert main(["filter", source, "-", "energy > 0", "--to", "extxyz", "--json"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.count(b"energy=") == 2
    document = json.loads(err)
    assert (document["structures_written"], document["bytes_written"]) == (2, len(out))
    assert main(["convert", source, "-", "--to", "atp"]) == 2
    assert b"only extended XYZ is written to standard output" in capfdbinary.readouterr().err
    assert not Path("-").exists()
