"""Fields under other names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report
from atompack_torch.conversion.keys import KeyMap
from atompack_torch.conversion.records import columns_of, records_of
from atompack_torch.errors import FieldError
from atompack_torch.writers.columns import Columns

NUMBERS = np.array([8, 1])


def record(
    labels: dict[str, Any] | None = None,
    properties: dict[str, Any] | None = None,
    arrays: dict[str, Any] | None = None,
) -> Parts:
    return Parts(np.zeros((2, 3)), NUMBERS, labels or {}, properties or {}, arrays or {})


def renamed(keys: dict[str, str], *records: Parts) -> tuple[list[Parts], Report]:
    report = Report()
    key_map = KeyMap(keys, report)
    columns = key_map.apply(columns_of([*records]))
    key_map.check_all_found()
    return list(records_of(columns)), report


def test_properties_become_labels() -> None:
    forces = np.arange(6.0).reshape(2, 3)
    found, report = renamed(
        {"REF_energy": "energy", "atom_properties/REF_forces": "forces"},
        record(properties={"REF_energy": -1.5, "k": 1}, arrays={"REF_forces": forces}),
    )
    assert found[0].labels["energy"] == -1.5
    assert found[0].labels["forces"].tolist() == forces.tolist()
    assert found[0].properties == {"k": 1}
    assert found[0].atom_properties == {}
    assert "'REF_energy' became 'energy'" in report.notes


def test_the_own_label_is_left_out_everywhere() -> None:
    """Also where the structure lacks the other: energies of two kinds are never mixed."""
    found, report = renamed(
        {"REF": "energy"},
        record({"energy": 1.0}, {"REF": 2.0}),
        record({"energy": 3.0}),
    )
    assert [r.labels for r in found] == [{"energy": 2.0}, {}]
    assert report.skipped == {("energy", "'REF' takes its name"): 2}
    report = Report()
    key_map = KeyMap({"REF": "energy"}, report)
    key_map.apply(columns_of([record(properties={"REF": 2.0})]))
    later = key_map.apply(columns_of([record({"energy": 3.0})]))
    assert later.fields == []


def test_labels_become_properties() -> None:
    found, _ = renamed(
        {"energy": "free", "forces": "atom_properties/f", "k": "properties/l"},
        record({"energy": 1.0, "forces": np.ones((2, 3))}, {"k": 3}),
    )
    assert found[0].labels == {}
    assert found[0].properties == {"free": 1.0, "l": 3}
    assert found[0].atom_properties.keys() == {"f"}


def test_rows_of_atoms_that_lie_in_the_structure() -> None:
    found, _ = renamed({"f": "forces"}, record(properties={"f": np.ones((2, 3))}), record())
    assert found[0].labels["forces"].shape == (2, 3)
    with pytest.raises(FieldError, match=r"expected 2 rows, one an atom, got \(3, 3\)"):
        renamed({"f": "forces"}, record(properties={"f": np.ones((3, 3))}))
    with pytest.raises(FieldError, match="'q' has rows for atoms"):
        renamed({"q": "energy"}, record(arrays={"q": np.ones(2)}))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (np.arange(6.0), [[0, 5, 4], [5, 1, 3], [4, 3, 2]]),
        (np.arange(9.0), [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        (np.arange(9.0).reshape(3, 3), [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
    ],
)
def test_stress_of_several_shapes(value: Any, want: list[list[float]]) -> None:
    found, _ = renamed({"s": "stress"}, record(properties={"s": value}))
    assert found[0].labels["stress"].tolist() == want
    stacked = columns_of([record(properties={"s": value})] * 2)
    (column,) = stacked.fields
    stacked = stacked._replace(fields=[column._replace(values=np.stack([value, value]))])
    (column,) = KeyMap({"s": "stress"}, Report()).apply(stacked).fields
    assert np.asarray(column.values).tolist() == [want, want]


def test_an_energy_in_a_list_of_one() -> None:
    found, _ = renamed({"e": "energy"}, record(properties={"e": np.array([1.5])}))
    assert found[0].labels["energy"].shape == ()


def test_without_keys_nothing_is_touched() -> None:
    columns: Columns = columns_of([record(properties={"k": 1})])
    assert KeyMap({}, Report()).apply(columns) is columns


def test_wrong_keys() -> None:
    with pytest.raises(FieldError, match="key_map: no structure has a field 'REF_enrgy'"):
        renamed({"REF_enrgy": "energy"}, record(properties={"REF_energy": 1.0}))
    with pytest.raises(ValueError, match="each name once"):
        KeyMap({"a": "energy", "b": "energy"}, Report())
    with pytest.raises(ValueError, match="got 'positions', which every structure has"):
        KeyMap({"a": "positions"}, Report())
