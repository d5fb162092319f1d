"""Types that one file can hold: what is widened, what is omitted, and nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

import atompack_torch as apt
from atompack_torch.batch.columns import Column, Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report
from atompack_torch.conversion.schema_unification import SchemaUnifier
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY
from atompack_torch.formats.records import columns_of, records_of


def molecule(**properties: Any) -> Parts:
    return Parts(np.zeros((2, 3)), np.array([1, 8]), {}, properties, {})


def atoms(n: int, **properties: Any) -> Parts:
    return Parts(np.zeros((n, 3)), np.ones(n, dtype=int), {}, {}, properties)


def fitted(*records: Parts) -> tuple[list[Any], Report]:
    """Everything learnt first, then fitted in one block: key → one entry per molecule."""
    report = Report()
    fit = SchemaUnifier()
    columns = columns_of(list(records))
    fit.learn(columns)
    return list(records_of(fit.fit(columns, report))), report


def test_integers_beside_floats_are_floats() -> None:
    found, report = fitted(molecule(x=1), molecule(x=2.5), molecule(x=True))
    values = [record.properties["x"] for record in found]
    assert [v.dtype for v in values] == [np.float64] * 3
    assert values == [1.0, 2.5, 1.0]
    assert "properties/x: int64 stored as float64" in report.notes


def test_an_integer_that_is_no_float_is_left_out() -> None:
    found, report = fitted(molecule(x=2**53 + 1), molecule(x=0.5), molecule(x=2**60))
    assert [record.properties.get("x") for record in found] == [None, 0.5, 2.0**60]
    ((what, why),) = report.skipped
    assert (what, "an integer that float64 cannot hold" in why) == ("properties/x", True)


def test_unsigned_integers_that_do_not_fit_are_left_out() -> None:
    found, report = fitted(molecule(x=np.uint64(7)), molecule(x=np.uint64(2**63)))
    assert [record.properties.get("x") for record in found] == [7, None]
    assert sum(report.skipped.values()) == 1


def test_the_first_kind_wins_where_none_holds_both() -> None:
    found, report = fitted(molecule(x="a"), molecule(x=1), molecule(x=np.zeros(3)))
    assert [record.properties.get("x") for record in found] == ["a", None, None]
    assert report.skipped == {
        ("properties/x", "expected a string as in other molecules, got int64"): 1,
        ("properties/x", "expected a string as in other molecules, got float64 (3,)"): 1,
    }


def test_arrays_with_a_row_for_each_atom_are_of_atoms() -> None:
    sizes, odd = (2, 3, 2, 4), np.zeros(7)
    records = [atoms(n)._replace(properties={"x": np.full(n, n)}) for n in sizes]
    records.append(atoms(3)._replace(properties={"x": odd}))
    found, report = fitted(*records)
    values = [record.atom_properties.get("x") for record in found]
    assert [None if value is None else value.tolist() for value in values] == [
        *([n] * n for n in sizes),
        None,
    ]
    assert report.skipped == {("properties/x", "the format has no place for float64 (7,)"): 1}
    assert report.notes == ["properties/x: has rows of atoms: atom_properties/x"]
    found, _ = fitted(molecule(x=np.zeros(3)), molecule(x=np.zeros(2)), molecule(x=np.ones(3)))
    assert [len(record.properties.get("x", ())) for record in found] == [3, 0, 3]


def test_none_yields_to_values() -> None:
    found, report = fitted(molecule(x=None), molecule(x=4))
    assert [record.properties.get("x") for record in found] == [None, 4]
    assert sum(report.skipped.values()) == 1
    found, report = fitted(molecule(x=None), molecule(x=None))
    assert all("x" in record.properties for record in found)
    assert not report.skipped


def test_arrays_have_one_length_and_tensors_any() -> None:
    found, report = fitted(molecule(x=np.ones(2)), molecule(x=np.ones(3)))
    assert ["x" in record.properties for record in found] == [True, False]
    assert sum(report.skipped.values()) == 1
    found, report = fitted(molecule(x=np.ones((2, 2))), molecule(x=np.ones((4, 5))))
    assert [record.properties["x"].shape for record in found] == [(2, 2), (4, 5)]
    found, report = fitted(molecule(x=np.ones((2, 3))), molecule(x=np.ones((4, 3))))
    assert ["x" in record.properties for record in found] == [True, False]
    found, report = fitted(molecule(x=np.ones((2, 3), int)), molecule(x=np.ones((4, 3), int)))
    assert ["x" in record.properties for record in found] == [True, True]


def test_atom_properties_widen_and_differ_in_length_only() -> None:
    found, report = fitted(
        atoms(2, q=np.ones(2, "f4")), atoms(3, q=np.ones(3, "f8")), atoms(1, q=np.ones((1, 2)))
    )
    assert [v.atom_properties["q"].dtype for v in found[:2]] == [np.float64] * 2
    assert "q" not in found[2].atom_properties
    assert sum(report.skipped.values()) == 1


@pytest.mark.parametrize(
    ("dtype", "want"),
    [
        ("?", "i4"),
        ("i1", "i4"),
        ("u2", "i4"),
        ("u4", "i8"),
        ("i8", "i8"),
        ("f2", "f4"),
        ("f4", "f4"),
        ("f8", "f8"),
    ],
)
def test_types_that_the_format_lacks_are_widened(dtype: str, want: str) -> None:
    (record,), _ = fitted(atoms(3, q=np.array([0, 1, 1], dtype)))
    assert record.atom_properties["q"].dtype == want
    assert record.atom_properties["q"].tolist() == [0, 1, 1]


def test_one_key_for_a_molecule_and_its_atoms() -> None:
    both = Parts(np.zeros((1, 3)), np.ones(1, int), {}, {"x": 1, "y": 2}, {"x": np.ones(1)})
    found, report = fitted(both, molecule(x=3))
    assert [record.properties for record in found] == [{"y": 2}, {"x": 3}]
    assert found[0].atom_properties.keys() == {"x"}
    assert report.skipped == {("properties/x", "the atoms have a property of this key"): 1}


def test_what_has_no_kind_is_left_out() -> None:
    words = Column(ATOM_PROPERTY, "label", np.array(["a", "b"]))
    keys = [Column(MOLECULE_PROPERTY, key, np.ones(1)) for key in ("k" * 256, "stress", "\ud800")]
    text = Column(MOLECULE_PROPERTY, "t", ["\ud800"])
    columns = Columns(np.zeros((2, 3)), np.ones(2, int), np.array([0, 2]), [words, *keys, text])
    fit, report = SchemaUnifier(), Report()
    fit.learn(columns)
    assert fit.fit(columns, report).fields == []
    assert len(report.skipped) == 5


def test_a_later_block_may_widen() -> None:
    fit, report = SchemaUnifier(), Report()
    assert not fit.learn(columns_of([molecule(x=1, y="a")]))
    assert not fit.learn(columns_of([molecule(z=0.5)]))
    assert fit.learn(columns_of([molecule(x=1.5)]))
    assert not fit.learn(columns_of([molecule(x=2)]))
    (record,) = records_of(fit.fit(columns_of([molecule(x=1)]), report))
    assert record.properties["x"].dtype == np.float64
    narrow = columns_of([molecule()])
    fit = SchemaUnifier()
    fit.learn(narrow._replace(positions=narrow.positions.astype("f4")))
    assert fit.learn(narrow)
    narrow = narrow._replace(positions=narrow.positions.astype("f4"))
    assert fit.fit(narrow, report).positions.dtype == np.float64


def test_appending_takes_the_types_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "old.atp"
    fields = [
        Column(BUILTIN, "energy", np.ones(1)),
        Column(BUILTIN, "forces", np.ones((2, 3), "f4")),
        Column(MOLECULE_PROPERTY, "x", np.ones(1)),
        Column(MOLECULE_PROPERTY, "s", ["a"]),
        Column(MOLECULE_PROPERTY, "t", np.ones((1, 2, 2))),
        Column(ATOM_PROPERTY, "q", np.ones(2, int)),
    ]
    columns = Columns(np.zeros((2, 3), "f4"), np.ones(2, int), np.array([0, 2]), fields)
    with apt.AtpWriter(path) as writer:
        writer.write_columns(columns)
    fit = SchemaUnifier.of_file(path)
    assert not fit.learn(columns)
    assert not fit.learn(columns.with_fields([Column(MOLECULE_PROPERTY, "x", np.ones(1, int))]))
    wider = [
        Column(BUILTIN, "forces", np.ones((2, 3))),
        Column(ATOM_PROPERTY, "q", np.ones(2)),
    ]
    for column in wider:
        with pytest.raises(FieldError, match=f"{path}: type: expected .*field '{column.key}'"):
            SchemaUnifier.of_file(path).learn(columns.with_fields([column]))
    with pytest.raises(FieldError, match=r"expected float32, got float64 .*positions"):
        SchemaUnifier.of_file(path).learn(columns._replace(positions=np.zeros((2, 3))))
    assert not SchemaUnifier.of_file(tmp_path / "none.atp").learn(columns)


DTYPES = ("?", "i1", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
numbers = st.sampled_from(DTYPES).flatmap(
    lambda d: st_np.arrays(d, st_np.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
values = st.one_of(
    st.none(), st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), st.floats(), numbers
)
properties = st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)


@st.composite
def structures(draw: st.DrawFn) -> Parts:
    n = draw(st.integers(1, 3))
    rows = st.sampled_from(DTYPES).flatmap(
        lambda d: st_np.arrays(
            d,
            st_np.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3).map(
                lambda s: (n, *s)
            ),
        )
    )
    arrays = draw(st.dictionaries(st.sampled_from(["b", "c"]), rows, max_size=2))
    return Parts(np.zeros((n, 3)), np.ones(n, dtype=int), {}, draw(properties), arrays)


@given(st.lists(structures(), min_size=1, max_size=6), st.integers(1, 6))
def test_every_value_is_there_or_counted(
    new_path: Callable[[], Path], records: list[Parts], block: int
) -> None:
    """Against what was given: equal in value, or one of those that the report counts."""
    path, report, fit = new_path(), Report(), SchemaUnifier()
    blocks = [columns_of(records[i : i + block]) for i in range(0, len(records), block)]
    for columns in blocks:
        fit.learn(columns)
    with apt.AtpWriter(path) as writer:
        for columns in blocks:
            writer.write_columns(fit.fit(columns, report))
    missing = 0
    dataset = apt.AtpDataset(path)
    assert len(dataset) == len(records)
    for i, record in enumerate(records):
        one = dataset[i : i + 1]
        for key, value in record.properties.items():
            is_found = is_there(one, f"properties/{key}", value)
            if not is_found and key not in record.atom_properties and np.ndim(value):
                is_found = is_there(one, f"atom_properties/{key}", value)  # arrays may be of atoms
            missing += not is_found
        for key, value in record.atom_properties.items():
            missing += not is_there(one, f"atom_properties/{key}", value)
    assert missing == sum(report.skipped.values())


def is_there(one: apt.MoleculeBatch, name: str, value: Any) -> bool:
    """Whether a batch of one molecule has a field, which then must be equal to what was given."""
    if name not in one or not one.mask(name)[0]:
        return False
    whole = one.level(name) == "atom" and not isinstance(one[name], list)
    got = one[name] if whole else one[name][0]
    if value is None or isinstance(value, str):
        assert got == value
        return True
    given_value, stored = np.asarray(value), np.asarray(got)
    assert stored.shape == given_value.shape
    back = stored.astype(given_value.dtype)  # exact there and back
    assert np.array_equal(back, given_value, equal_nan=back.dtype.kind == "f")
    return True
