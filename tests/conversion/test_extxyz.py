"""Reading extended XYZ, against ASE's own reader and against hand-made files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io.extxyz import key_val_str_to_dict
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from reference.extxyz import Told, one_atom, read, read_or_message
from reference.frames import NUMBERS, POSITIONS, Frame, frames_of, same

import atompack_torch as apt
from atompack_torch.batch.columns import of_batch
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
ANY = st.floats()
# Without backslashes, which ASE writes as they are and reads as escapes.
# ASE takes the next key for a part of a text that ends with '='.
TEXT = st.text(st.sampled_from("abzTFXYZ0159 .-+:/#'\"()[]{},=é"), min_size=1, max_size=12).filter(
    lambda text: not text.endswith("=")
)
KEYS = st.text(st.sampled_from("abcdefgEF_0"), min_size=1, max_size=6).filter(
    lambda key: key not in ("energy", "force", "forces")
)


def ase_frames(path: Path) -> list[ase.Atoms]:
    return ase.io.read(path, ":", format="extxyz")


def assert_as_ase(got: Frame, atoms: ase.Atoms) -> None:
    """All that ``from_ase`` keeps, and what it does not: arrays in info, other results."""
    for key in [key for key, rows in atoms.arrays.items() if rows.dtype.kind in "UO"]:
        assert (ATOM_PROPERTY, key) not in got
        del atoms.arrays[key]
    expected = {(MOLECULE_PROPERTY, key): value for key, value in atoms.info.items()}
    if isinstance(atoms.info.get("name"), str):
        del expected[MOLECULE_PROPERTY, "name"]
    [kept] = frames_of([of_batch(apt.MoleculeBatch.from_ase([atoms]))])
    expected = {field: _plain(value) for field, value in (expected | kept).items()}
    assert got.keys() == expected.keys()
    for field, value in expected.items():
        # ASE makes an empty array of an empty text.
        if field[0] != MOLECULE_PROPERTY or np.size(value) > 0:
            assert same(got[field], value), (field, got[field], value)


LATTICE = 'Lattice="1 0 0 0 1 0 0 0 1"'


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else np.asarray(value)


@st.composite
def structures(draw: st.DrawFn) -> ase.Atoms:
    n = draw(st.integers(1, 5))
    rows = npst.arrays(np.float64, (n, 3), elements=FINITE)
    cell = draw(st.none() | npst.arrays(np.float64, (3, 3), elements=FINITE))
    pbc = st.lists(st.booleans(), min_size=3, max_size=3)
    atoms = ase.Atoms(
        numbers=draw(npst.arrays(np.int64, n, elements=st.integers(0, 118))),
        positions=draw(rows),
        cell=cell,
        pbc=draw(pbc) if cell is not None and cell.any() else None,
    )
    vectors = npst.arrays(
        st.sampled_from([np.float64, np.int64]), st.integers(2, 9), elements=st.integers(-9, 9)
    )
    values = ANY | st.integers(-(2**62), 2**62) | st.booleans() | TEXT | vectors
    matrices = npst.arrays(np.float64, (2, 3), elements=ANY)
    atoms.info |= draw(st.dictionaries(KEYS, values | matrices, max_size=4))
    columns = st.sampled_from([np.float64, np.int32, bool, "U2"])
    for key in draw(st.sets(KEYS.map(lambda key: "c" + key + "x"), max_size=3)):
        dtype, width = draw(columns), draw(st.sampled_from([(), (2,), (3,)]))
        elements = {"U2": st.just("ab"), bool: st.booleans(), np.int32: st.integers(-9, 9)}
        atoms.set_array(
            key, draw(npst.arrays(dtype, (n, *width), elements=elements.get(dtype, FINITE)))
        )
    results: dict[str, Any] = {}
    if draw(st.booleans()):
        results["energy"] = draw(ANY)
    if draw(st.booleans()):
        results["forces"] = draw(rows)
    if draw(st.booleans()):
        results["stress"] = draw(npst.arrays(np.float64, 6, elements=FINITE))
    if draw(st.booleans()):
        results["dipole"] = draw(npst.arrays(np.float64, 3, elements=FINITE))
    if draw(st.booleans()):
        results["charges"] = draw(npst.arrays(np.float64, n, elements=FINITE))
    if draw(st.booleans()):
        atoms.set_momenta(draw(rows))
    if results:
        atoms.calc = SinglePointCalculator(atoms, **results)
    return atoms


@given(structures())
def test_what_ase_writes(tmp_path_factory: pytest.TempPathFactory, atoms: ase.Atoms) -> None:
    path = tmp_path_factory.mktemp("ase") / "a.extxyz"
    ase.io.write(path, atoms, format="extxyz")
    [got] = read(path, report=Told())
    assert_as_ase(got, ase_frames(path)[0])


def test_many_frames_are_as_ase_has_them(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images = []
    for i in range(300):
        n = int(random.integers(1, 40))
        atoms = ase.Atoms(random.integers(1, 100, n), random.normal(0, 9, (n, 3)))
        atoms.info |= {"step": i, "temperature": random.normal(), "kind": f"run-{i % 3}"}
        if i % 4:
            atoms.set_cell(random.normal(0, 9, (3, 3)))
            atoms.pbc = random.integers(0, 2, 3)
        if i % 5:
            forces, energy = random.normal(0, 1, (n, 3)), random.normal()
            atoms.calc = SinglePointCalculator(atoms, forces=forces, energy=energy)
        images.append(atoms)
    path = tmp_path / "many.extxyz"
    ase.io.write(path, images)
    got = read(path)
    expected = ase_frames(path)
    assert len(got) == len(expected) == 300
    for frame, atoms in zip(got, expected, strict=True):
        assert_as_ase(frame, atoms)


# What both readers make of a value alike.
ALIKE = [
    "5", "+5", "-5", "5.", ".5", "1e5", "1E-5", "nan", "NaN", "inf", "-Infinity", "1e400", "-1e400",
    "1e-400", "99999999999999999999", "9223372036854775807", "T", "F", "true", "False", "TRUE", "t",
    "abc", "12d3", "0x10", "1e", "+-1", "--1", ".", "-", "e5", "nan(1)", "infin", "b=c", "x==y",
    '"1 2 3"', '"1 2.5"', '"1,2,3"', '"1, 2"', "{1 2 3}", "[1,2,3]", "[5]", '"T T F"', '"T,F"',
    '"1 T"', "'x y'", '"x y"', r'"x\"y"', r"a\ b", r"\"", '"[1,2]"', '"1 2"3', 'x"1 2"y', '" 5 "',
    "1;2", "a:b",
    '"1 99999999999999999999"', '"_JSON [[1, 2], [3, 4]]"', '"_JSON [[1, 2.5]]"', '"_JSON 5"',
    '"_JSON [1]"', r'"_JSON \"5\""', r'"_JSON \"a\\nb\""', '"_JSON true"', '"_JSON [true, 1]"',
    r'"_JSON \"\\u00e9\\ud83d\\ude00\""', '"_JSON []"',
    '"_JSON [[], []]"', '"_JSON [NaN, -Infinity]"',
    '"1 2 3 4 5 6 7 8 9"', "é", "5é", "3-4",
]  # fmt: skip


@pytest.mark.parametrize("value", ALIKE)
def test_a_value_is_what_ase_makes_of_it(write: Callable[[str], Path], value: str) -> None:
    comment = f"key={value} last=1"
    expected = key_val_str_to_dict(comment)
    [got] = read(write(one_atom(comment)))
    assert got[MOLECULE_PROPERTY, "last"] == expected["last"] == 1
    wanted = expected["key"]
    wanted = wanted if isinstance(wanted, str) else np.asarray(wanted)
    assert same(got[MOLECULE_PROPERTY, "key"], wanted), (got, wanted)


# What ASE does otherwise; see FORMAT.md.
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('""', ""),
        ('" "', " "),
        ('","', ","),
        ("1.5d2", 150.0),
        ("1.D0", 1.0),
        ("2024_01", "2024_01"),
        ("1_0.5", "1_0.5"),
        ("१२", "१२"),
        ("[[1,2],[3,4]]", np.array([[1, 2], [3, 4]])),
        ("[[1, 2.5], [T, 4]]", np.array([[1, 2.5], [1, 4]])),
        ("{{1 2} {3 4}}", np.array([[1, 2], [3, 4]])),
        ("[[T,F]]", np.array([[True, False]])),
        ("[[1,2],[3]]", "[1,2],[3]"),
        ("[[a,b]]", "[a,b]"),
        ('"_JSON {\\"a\\": 1}"', '{"a": 1}'),
        ('"_JSON [[1], [2, 3]]"', "[[1], [2, 3]]"),
        (r'"_JSON [\"a\", \"b\"] "', '["a", "b"]'),
        ('"_JSON {\\"a\\": NaN}"', '{"a": NaN}'),
        ('"_JSON [oops"', "_JSON [oops"),
        ('"_JSON null"', None),
    ],
)
def test_values_of_our_own(write: Callable[[str], Path], value: str, expected: Any) -> None:
    [got] = read(write(one_atom(f"key={value} last=1")))
    assert same(got[MOLECULE_PROPERTY, "key"], expected), got
    assert got[MOLECULE_PROPERTY, "last"] == 1


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("a = 5, b = 2.5", {"a": 5, "b": 2.5}),
        ("a= 5 b =6", {"a": 5, "b": 6}),
        ("\t a=1\t\tb=2 ", {"a": 1, "b": 2}),
        ("flag a=1", {"flag": True, "a": 1}),
        ('"my key"=3', {"my key": 3}),
        (r"k\=1=2", {"k=1": 2}),
        ("a=b=c = d", {"a": "b=c=d"}),
        ("a=1 a=1", {"a": 1}),
        ("uid=5 UID=T", {"uid": "5", "UID": "T"}),
        ("a-b=1 a.b=2 é=3", {"a-b": 1, "a.b": 2, "é": 3}),
        ("a=1 b=", {"a": 1, "b": ""}),
        ("a='it is' b={x y} c=[x y]", {"a": "it is", "b": "x y", "c": "x y"}),
    ],
)
def test_comment_lines(
    write: Callable[[str], Path], comment: str, expected: dict[str, Any]
) -> None:
    [got] = read(write(one_atom(comment)))
    assert {key: v for (s, key), v in got.items() if s == MOLECULE_PROPERTY} == expected


@given(st.text(st.sampled_from("ab1 ='\"[]{}\\,T.-_"), max_size=24))
@example("=")
@example("a=[[")
def test_any_comment_line_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, comment: str
) -> None:
    path = tmp_path_factory.mktemp("x") / "a.extxyz"
    path.write_text(one_atom(comment))
    got, message = read_or_message(path)
    if message is None:
        assert got[0][POSITIONS].tolist() == [[0, 0, 0]]
    else:
        assert message.startswith(f"{path}: comment line: ")
        assert "(molecule 0, " in message


def test_labels_and_their_shapes(write: Callable[[str], Path]) -> None:
    columns = "species:S:1:pos:R:3:force:R:3:charge:R:1:velocities:I:3:tag:I:1:on:L:2"
    comment = (
        'Lattice="1 2 3 4 5 6 7 8 10" energy=-5 stress="1 2 3 4 5 6 7 8 9" name=water '
        f'virial="1 2 3 4 5 6 7 8 9" Properties={columns} pbc="T F 0"'
    ).replace(' pbc="T F 0"', ' pbc="1 0 0"')
    [got] = read(write(one_atom(comment, "O 1 2 3 4 5 6 0.5 7 8 9 1 T F")))
    assert got[BUILTIN, "cell"].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 10]]
    assert got[BUILTIN, "pbc"].tolist() == [True, False, False]
    assert same(got[BUILTIN, "energy"], np.float64(-5))
    assert got[BUILTIN, "stress"].tolist() == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]
    assert got[MOLECULE_PROPERTY, "virial"].tolist() == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]
    assert got[BUILTIN, "name"] == "water"
    assert got[BUILTIN, "forces"].tolist() == [[4, 5, 6]]
    assert got[BUILTIN, "charges"].tolist() == [0.5]
    assert same(got[BUILTIN, "velocities"], np.array([[7.0, 8.0, 9.0]]))
    assert same(got[ATOM_PROPERTY, "tag"], np.array([1]))
    assert same(got[ATOM_PROPERTY, "on"], np.array([[True, False]]))
    assert got[NUMBERS].tolist() == [8]


def test_stress_of_six_numbers_is_in_the_order_of_voigt(write: Callable[[str], Path]) -> None:
    [got] = read(write(one_atom('stress="1 2 3 4 5 6"')))
    assert got[BUILTIN, "stress"].tolist() == [[1, 6, 5], [6, 2, 4], [5, 4, 3]]


@pytest.mark.parametrize(
    ("comment", "pbc"),
    [
        ("a=1", [False] * 3),
        (LATTICE, [True] * 3),
        (f"{LATTICE} pbc=F", [False] * 3),
        (f'{LATTICE} pbc="T F T"', [True, False, True]),
        (f"{LATTICE} pbc=[True, False, True]", [True, False, True]),
        (f'{LATTICE} pbc="1 0 2"', [True, False, True]),
    ],
)
def test_pbc(write: Callable[[str], Path], comment: str, pbc: list[bool]) -> None:
    path = write(one_atom(comment))
    assert read(path)[0][BUILTIN, "pbc"].tolist() == pbc
    assert ase_frames(path)[0].pbc.tolist() == pbc


def test_a_lattice_of_zeros_is_none(write: Callable[[str], Path]) -> None:
    [got] = read(write(one_atom('Lattice="0 0 0 0 0 0 0 0 0" a=1')))
    assert (BUILTIN, "cell") not in got


def test_momenta_are_velocities_times_masses(write: Callable[[str], Path]) -> None:
    plain = one_atom("Properties=species:S:1:pos:R:3:momenta:R:3", "O 0 0 0 1 2 3")
    heavy = one_atom("Properties=species:S:1:pos:R:3:momenta:R:3:masses:R:1", "O 0 0 0 1 2 3 50")
    path = write(plain + heavy)
    for got, atoms in zip(read(path), ase_frames(path), strict=True):
        assert_as_ase(got, atoms)
    assert read(path)[1][BUILTIN, "velocities"].tolist() == [[1 / 50, 2 / 50, 3 / 50]]


def test_momenta_of_no_element(write: Callable[[str], Path]) -> None:
    path = write(one_atom("Properties=Z:I:1:pos:R:3:momenta:R:3", "119 0 0 0 1 2 3"))
    with pytest.raises(apt.FieldError, match=r"expected an element, got atomic number 119 \(mol"):
        read(path)


def test_keys_of_the_user_go_first(write: Callable[[str], Path], told: Told) -> None:
    columns = "Properties=species:S:1:pos:R:3:forces:R:3:dft_forces:R:3"
    path = write(one_atom(f"{columns} energy=1 REF_energy=2 t=3", "H 0 0 0 1 1 1 2 2 2"))
    keys = {"REF_energy": "energy", "dft_forces": "forces", "t": "time"}
    [got] = read(path, keys=keys, report=told)
    assert got[BUILTIN, "energy"] == 2
    assert got[MOLECULE_PROPERTY, "energy"] == 1
    assert got[BUILTIN, "forces"].tolist() == [[2, 2, 2]]
    assert got[ATOM_PROPERTY, "forces"].tolist() == [[1, 1, 1]]
    assert got[MOLECULE_PROPERTY, "time"] == 3
    assert told.skipped == told.notes == []


def test_keys_that_cannot_be(write: Callable[[str], Path]) -> None:
    path = write(one_atom("a=1 b=2"))
    for keys, message in (
        ({"a": "energy", "b": "energy"}, "energy: expected one key for it, got 'a' and 'b'"),
        ({"a": "x", "b": "x"}, "x: expected one key for it, got 'a' and 'b'"),
        ({"a": "forces"}, "a: expected a value per atom for forces, got per molecule"),
        ({"c": "x"}, "key_map: no molecule has 'c'$"),
        ({"energy": "a"}, r"no molecule has 'energy': it maps names .*, as \{'a': 'energy'\}$"),
        ({"a": "cell"}, "cell: expected under its own key, got 'a'"),
    ):
        with pytest.raises(apt.FieldError, match=message):
            read(path, keys=keys)
    for name in ("positions", "atomic_numbers", "n_atoms"):
        with pytest.raises(ValueError, match=f"key_map: 'a': expected a label .*, got {name!r}"):
            read(path, keys={"a": name})


def test_of_two_names_of_a_label_one_counts(write: Callable[[str], Path]) -> None:
    columns = "Properties=species:S:1:pos:R:3:force:R:3:forces:R:3"
    [got] = read(write(one_atom(columns, "H 0 0 0 1 1 1 2 2 2")))
    assert got[BUILTIN, "forces"].tolist() == [[2, 2, 2]]
    assert got[ATOM_PROPERTY, "force"].tolist() == [[1, 1, 1]]


def test_a_key_has_one_type_in_all_frames(write: Callable[[str], Path]) -> None:
    comments = ["r=1 i=1 t=5 v=1 name=1"] * 9
    comments += ['r=1.5 i=2 t=bulk v="1 2" name=1', "r=T i=T t=1.50 v=3 name=x"]
    path = write("".join(map(one_atom, comments)))
    got = read(path)
    for key, kind in (("r", "f"), ("i", "i"), ("v", "i")):
        assert {f[MOLECULE_PROPERTY, key].dtype.kind for f in got} == {kind}, key
    assert [f[MOLECULE_PROPERTY, "r"] for f in got[8:]] == [1, 1.5, 1]
    assert [f[MOLECULE_PROPERTY, "t"] for f in got[8:]] == ["5", "bulk", "1.50"]
    assert [f[MOLECULE_PROPERTY, "v"].tolist() for f in got[8:]] == [[1], [1, 2], [3]]
    assert [f[BUILTIN, "name"] for f in got[8:]] == ["1", "1", "x"]


def test_a_name_of_numbers_alone_is_a_property(write: Callable[[str], Path]) -> None:
    [got] = read(write(one_atom("name=5")))
    assert got[MOLECULE_PROPERTY, "name"] == 5
    assert (BUILTIN, "name") not in got


def test_columns_may_differ_from_frame_to_frame(write: Callable[[str], Path]) -> None:
    frames = [
        one_atom("Properties=species:S:1:pos:R:3:q:R:1", "H 0 0 0 1.5"),
        one_atom("Properties=pos:R:3:q:I:1:species:S:1", "1 2 3 7 He"),
        one_atom("Properties=species:S:1:pos:R:3:q:R:2", "H 0 0 0 1 2"),
        one_atom("x=1"),
    ]
    got = read(write("".join(frames)))
    assert [f.get((ATOM_PROPERTY, "q"), np.array(None)).tolist() for f in got] == [
        [1.5],
        [7.0],
        [[1.0, 2.0]],
        None,
    ]
    assert got[1][POSITIONS].tolist() == [[1, 2, 3]]
    assert got[1][NUMBERS].tolist() == [2]


def test_rare_values_are_not_stacked_and_still_there(write: Callable[[str], Path]) -> None:
    frames = ["a=1"] * 40
    frames[7] = 'energy=1 b="1 2" c=text stress="1 2 3 4 5 6"'
    got = read(write("".join(map(one_atom, frames))))
    assert got[7][BUILTIN, "energy"] == 1
    assert got[7][MOLECULE_PROPERTY, "b"].tolist() == [1, 2]
    assert got[7][MOLECULE_PROPERTY, "c"] == "text"
    assert got[7][BUILTIN, "stress"][0].tolist() == [1, 6, 5]
    assert all(len(f) == 4 for i, f in enumerate(got) if i != 7)


def test_elements(write: Callable[[str], Path]) -> None:
    symbols = ["H", "he", "FE", "X", "Og", "cL"]
    rows = "".join(f"{symbol} 0 0 0\n" for symbol in symbols)
    [got] = read(write(f"6\na=1\n{rows}"))
    assert got[NUMBERS].tolist() == [1, 2, 26, 0, 118, 17]
    for wrong in ("Fe1", "D", "Xx", "26", "\u0130", "[", "@@"):
        with pytest.raises(apt.CorruptFileError, match="expected an element's symbol"):
            read(write(one_atom("a=1", f"{wrong} 0 0 0")))


def test_numbers_go_before_symbols(write: Callable[[str], Path], told: Told) -> None:
    columns = "Properties=species:S:1:pos:R:3:Z:I:1"
    agreeing, other = one_atom(columns, "Fe 0 0 0 26"), one_atom(columns, "Fe_up 0 0 0 26")
    got = read(write(agreeing + other), report=told)
    assert [f[NUMBERS].tolist() for f in got] == [[26], [26]]
    assert told.skipped == [("column 'species'", "text of atoms", 1)]
    with pytest.raises(apt.CorruptFileError, match="atomic number: expected 0 to 255, got 256"):
        read(write(one_atom(columns, "Fe 0 0 0 256")))


def test_text_of_atoms_is_reported(write: Callable[[str], Path], told: Told) -> None:
    path = write(one_atom("Properties=species:S:1:pos:R:3:site:S:1", "H 0 0 0 a") * 3)
    for frame in read(path, report=told):
        assert (ATOM_PROPERTY, "site") not in frame
    assert told.skipped == [("column 'site'", "text of atoms", 3)]


def test_text_of_some_atoms_leaves_the_numbers_of_others(
    write: Callable[[str], Path], told: Told
) -> None:
    columns = "Properties=species:S:1:pos:R:3:site"
    text = one_atom(f"{columns}:S:1", "H 0 0 0 a")
    path = write(text + one_atom(f"{columns}:I:1", "H 0 0 0 5") + text)
    got = [frame.get((ATOM_PROPERTY, "site")) for frame in read(path, report=told)]
    assert [None if rows is None else rows.tolist() for rows in got] == [None, [5], None]
    assert told.skipped == [("column 'site'", "text of atoms", 2)]
    with pytest.warns(UserWarning, match="column 'site' omitted: strings of atoms"):
        dataset = apt.ExtxyzDataset(path, index=False)
    assert dataset[1]["site"].tolist() == [5]


def test_a_molecule_and_its_atoms_may_share_a_key(write: Callable[[str], Path]) -> None:
    path = write(one_atom("q=1 Properties=species:S:1:pos:R:3:q:R:1", "H 0 0 0 2"))
    [got] = read(path)
    assert got[MOLECULE_PROPERTY, "q"] == 1
    assert got[ATOM_PROPERTY, "q"].tolist() == [2]


def test_none_among_strings_stays(write: Callable[[str], Path]) -> None:
    path = write("".join(one_atom(f"a=1 {k}") for k in ("k=x", 'k="_JSON null"', "", "k=5")))
    field = (MOLECULE_PROPERTY, "k")
    assert [frame.get(field, "absent") for frame in read(path)] == ["x", None, "absent", "5"]


def test_plain_xyz(write: Callable[[str], Path], told: Told) -> None:
    path = write("2\nIt's a = molecule\nH 0 0 0.5 0.1\nh 1 2 3 # x\n1\n\nHe 0 0 0\n")
    got = read(path, report=told)
    assert [f[NUMBERS].tolist() for f in got] == [[1, 1], [2]]
    assert got[0][POSITIONS].tolist() == [[0, 0, 0.5], [1, 2, 3]]
    assert all(f.keys() == {POSITIONS, NUMBERS, (BUILTIN, "pbc")} for f in got)
    assert told.skipped == [
        ("comment lines", "there is no key=value in them", 1),
        ("columns after the positions", "the file does not name them", 1),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_blank_lines(write: Callable[[str], Path], end: str, told: Told) -> None:
    lines = ["1", "a=1 b=x", "H 0 0 1.5", "", "  ", " 1 ", "", "He\t1  2 3 ", "", ""]
    got = read(write(end.join(lines)), report=told)
    assert [f[POSITIONS].tolist() for f in got] == [[[0, 0, 1.5]], [[1, 2, 3]]]
    assert got[0][MOLECULE_PROPERTY, "b"] == "x"
    assert told.notes == []


def test_a_last_line_without_end_is_noted(write: Callable[[str], Path], told: Told) -> None:
    path = write("1\na=1\nH 0 0 1.5")
    assert read(path, report=told)[0][POSITIONS].tolist() == [[0, 0, 1.5]]
    assert told.notes == [f"{path}: the last line has no end; it may have been cut"]


def test_no_atoms_and_no_frames(tmp_path: Path, write: Callable[[str], Path]) -> None:
    assert read(write("")) == read(write("\n \n")) == []
    [got] = read(write("0\nenergy=5 Properties=species:S:1:pos:R:3:forces:R:3\n"))
    assert got[POSITIONS].shape == got[BUILTIN, "forces"].shape == (0, 3)
    assert got[BUILTIN, "energy"] == 5
    ase.io.write(tmp_path / "a.xyz", [ase.Atoms("H"), ase.Atoms()], format="extxyz")
    assert [len(frame[NUMBERS]) for frame in read(tmp_path / "a.xyz")] == [1, 0]


def test_numbers_of_every_spelling_in_columns(write: Callable[[str], Path]) -> None:
    columns = "Properties=species:S:1:pos:R:3:i:I:1:l:L:1"
    rows = ["H +1 -.5 1.5D-3 +7 T", "H nan INF -inf -7 False", "H 1e400 1e-400 -0 0 true"]
    [got] = read(write(f"3\n{columns}\n" + "\n".join(rows) + "\n"))
    expected = np.array([[1, -0.5, 1.5e-3], [np.nan, np.inf, -np.inf], [np.inf, 0, -0.0]])
    assert same(got[POSITIONS], expected)
    assert got[ATOM_PROPERTY, "i"].tolist() == [7, -7, 0]
    assert got[ATOM_PROPERTY, "l"].tolist() == [True, False, True]


def test_no_mark_of_json_where_another_frame_makes_it_text(write: Callable[[str], Path]) -> None:
    path = write(one_atom('key="_JSON [[1, 2]]"') + one_atom("key=x") + one_atom('key="_JSON 5"'))
    values = [frame[MOLECULE_PROPERTY, "key"] for frame in read(path)]
    assert values == ["[[1, 2]]", "x", "5"]
