"""Fields under other names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import atompack_torch as apt
from atompack_torch.batch.columns import Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report
from atompack_torch.conversion.keys import KeyMap, MapKeys
from atompack_torch.conversion.stages import Run
from atompack_torch.errors import FieldError
from atompack_torch.formats.converter import Source
from atompack_torch.formats.records import columns_of, records_of
from atompack_torch.trainers._naming import renamed as renamed_dataset

NUMBERS = np.array([8, 1])


def record(
    labels: dict[str, Any] | None = None,
    properties: dict[str, Any] | None = None,
    arrays: dict[str, Any] | None = None,
) -> Parts:
    return Parts(np.zeros((2, 3)), NUMBERS, labels or {}, properties or {}, arrays or {})


def renamed(keys: dict[str, str], *records: Parts) -> tuple[list[Parts], Report]:
    run, stage = Run(Report(), None, is_part=False), MapKeys(keys)
    run.begin_source(Source("a", lambda _: iter(())))
    stage.begin_source(run)
    columns = stage.apply(columns_of([*records]), run)
    stage.end_source(run)
    return list(records_of(columns)), run.report


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
    """Even where the structure lacks the other: energies of two kinds are never mixed."""
    found, report = renamed(
        {"REF": "energy"},
        record({"energy": 1.0}, {"REF": 2.0}),
        record({"energy": 3.0}),
    )
    assert [r.labels for r in found] == [{"energy": 2.0}, {}]
    assert report.skipped == {("energy", "'REF' takes its name"): 2}
    key_map = KeyMap({"REF": "energy"})
    key_map.apply(columns_of([record(properties={"REF": 2.0})]), Report())
    later = key_map.apply(columns_of([record({"energy": 3.0})]), Report())
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
    stacked = stacked.with_fields([column.with_values(np.stack([value, value]))])
    (column,) = KeyMap({"s": "stress"}).apply(stacked, Report()).fields
    assert np.asarray(column.values).tolist() == [want, want]


def test_an_energy_in_a_list_of_one() -> None:
    found, _ = renamed({"e": "energy"}, record(properties={"e": np.array([1.5])}))
    assert found[0].labels["energy"].shape == ()


def test_without_keys_nothing_is_touched() -> None:
    columns: Columns = columns_of([record(properties={"k": 1})])
    assert KeyMap({}).apply(columns, Report()) == columns


def test_wrong_keys() -> None:
    wrong: Any
    for wrong, got in (("e", "a mapping of names, got str"), ({"e": 1}, r"names \(str\), got 1")):
        with pytest.raises(TypeError, match=f"key_map: expected {got}"):
            apt.convert("a.xyz", "a.atp", key_map=wrong)
        with pytest.raises(TypeError, match=f"key_map: expected {got}"):
            renamed_dataset(None, wrong)  # type: ignore[arg-type]
    with pytest.raises(FieldError, match="key_map: no molecule has a field 'REF_enrgy'"):
        renamed({"REF_enrgy": "energy"}, record(properties={"REF_energy": 1.0}))
    with pytest.raises(ValueError, match="each name once"):
        KeyMap({"a": "energy", "b": "energy"})
    with pytest.raises(ValueError, match="got 'positions', which every molecule has"):
        KeyMap({"a": "positions"})


def xyz(path: Path, text: str) -> Path:
    path.write_text(f"1\n{text} Properties=species:S:1:pos:R:3\nH 0 0 0\n")
    return path


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, R=np.zeros((1, 1, 3)), z=np.array([1]), **arrays)
    return path


def test_a_key_must_be_in_one_of_several_sources(tmp_path: Path) -> None:
    has = [xyz(tmp_path / "a.xyz", "REF_e=1 energy=5"), npz(tmp_path / "a.npz", REF_e=np.ones(1))]
    has_not = [xyz(tmp_path / "b.xyz", "energy=2"), npz(tmp_path / "b.npz", other=np.ones(1))]
    ase.io.write(tmp_path / "c.traj", ase.Atoms("H"))
    target, keys = tmp_path / "x.atp", {"REF_e": "energy"}
    for sources in (
        [has[0], has_not[0]],
        [has_not[0], has[0]],
        [has[1], has_not[1]],
        [*has_not, has[0], tmp_path / "c.traj"],
    ):
        report = apt.convert(sources, target, key_map=keys, mode="w", progress=False)
        assert apt.AtpDataset(target)[:].mask("energy").sum() == 1  # not the energy of another key
        assert any("key_map: no " in note and "'REF_e'" in note for note in report.notes)
    for sources in (has_not, [has_not[0]], [has_not[0], tmp_path / "c.traj"]):
        with pytest.raises(FieldError, match=r"key_map: no .* 'REF_e'"):
            apt.convert(sources, target, key_map=keys, mode="w", progress=False)
    both = [tmp_path / "y.atp", tmp_path / "z.atp"]
    apt.split([has_not[0], has[0]], both, [0.5, 0.5], key_map=keys, progress=False)
    with pytest.raises(FieldError, match="key_map: no molecule has 'REF_e'"):
        apt.split([has_not[0]] * 2, both, [0.5, 0.5], key_map=keys, mode="w", progress=False)


@pytest.mark.parametrize("order", [None, "voigt", "vasp"])
@pytest.mark.parametrize("name", ["a.npz", "a.xyz", "a.parquet", "a.json"])
def test_six_numbers_are_in_the_order_asked_for(
    tmp_path: Path, name: str, order: str | None
) -> None:
    six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    path = tmp_path / name
    lattice = np.eye(3).tolist()
    if name == "a.npz":
        npz(path, mine=np.array([six]))
    elif name == "a.xyz":
        xyz(path, 'mine="1 2 3 4 5 6"')
    elif name == "a.parquet":
        columns = {"positions": [[[0.0, 0, 0]]], "atomic_numbers": [[1]], "mine": [six]}
        pq.write_table(pa.table(columns), path)
    else:
        site = {"species": [{"element": "H", "occu": 1}], "xyz": [0, 0, 0]}
        structure = {"lattice": {"matrix": lattice}, "sites": [site]}
        path.write_text(json.dumps([{"structure": structure, "mine": six}]))
    options: dict[str, Any] = {} if order is None else {"stress_order": order}
    report = apt.convert(
        path, tmp_path / "a.atp", key_map={"mine": "stress"}, progress=False, **options
    )
    yz, xz, xy = (5, 6, 4) if order == "vasp" else (4, 5, 6)
    stress = apt.AtpDataset(tmp_path / "a.atp")[0].stress
    assert stress.tolist() == [[1, xy, xz], [xy, 2, yz], [xz, yz, 3]]
    assert any("VASP's order" in warning for warning in report.warnings) == (order is None)


@pytest.mark.parametrize("is_vasp", [False, True])
def test_sheared_cells_say_in_which_order_their_stresses_are(tmp_path: Path, is_vasp: bool) -> None:
    frames = []
    for i in range(6):
        (a, b), voigt = (((1, 2), 3), ((0, 2), 4), ((0, 1), 5))[i % 3]
        cell, six = np.eye(3) * 4, np.array([1.0, 1, 1, 0.1, 0.1, 0.1])
        cell[b, a] = 0.1
        six[3 + (voigt - 2) % 3 if is_vasp else voigt] = 2
        lattice, mine = (" ".join(map(str, array.ravel())) for array in (cell, six))
        text = f'Lattice="{lattice}" mine="{mine}" Properties=species:S:1:pos:R:3'
        frames.append(f"1\n{text}\nH 0 0 0\n")
    (tmp_path / "a.xyz").write_text("".join(frames))
    report = apt.convert(
        tmp_path / "a.xyz", tmp_path / "a.atp", key_map={"mine": "stress"}, progress=False
    )
    assert any("says so in 6 of 6 molecules" in w for w in report.warnings) == is_vasp
    assert len(report.warnings) == is_vasp
