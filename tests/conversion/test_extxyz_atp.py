"""Extended XYZ into .atp and back: nothing that both hold is lost or changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator
from reference.extxyz import Told, blocks, one_atom, read, write
from reference.frames import Frame, assert_same, frames_of, same

import atompack_torch as apt
from atompack_torch.batch.columns import Columns, of_batch
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY


def to_atp(path: Path, blocks: Iterable[Columns]) -> Path:
    with apt.AtpWriter(path, mode="w") as writer:
        for block in blocks:
            writer.write_columns(block)
    return path


def stored(path: Path) -> list[Frame]:
    return frames_of([of_batch(apt.AtpDataset(path)[:])])


def images() -> list[ase.Atoms]:
    """With all labels that ASE and .atp both know, each of them absent somewhere."""
    random = np.random.default_rng(0)
    made = []
    for i in range(40):
        n = int(random.integers(1, 12))
        atoms = ase.Atoms(random.integers(1, 100, n), random.normal(0, 9, (n, 3)))
        if i % 2:
            atoms.set_cell(random.normal(0, 9, (3, 3)))
            atoms.pbc = random.integers(0, 2, 3)
        if i % 3:
            atoms.info |= {"step": i, "gap": random.normal(), "on": bool(i % 2), "name": f"run {i}"}
            atoms.set_array("tag", random.integers(0, 9, n))
        if i % 5:
            atoms.set_momenta(random.normal(0, 1, (n, 3)))
            atoms.set_array("weights", random.normal(0, 1, (n, 2)))
        results = {
            "energy": random.normal(),
            "forces": random.normal(0, 1, (n, 3)),
            "stress": random.normal(0, 1, 6),
            "charges": random.normal(0, 1, n),
        }
        kept = {key: value for j, (key, value) in enumerate(results.items()) if i >> j & 1}
        if kept:
            atoms.calc = SinglePointCalculator(atoms, **kept)
        made.append(atoms)
    return made


def test_it_is_what_comes_by_way_of_ase(tmp_path: Path) -> None:
    source = tmp_path / "x.extxyz"
    ase.io.write(source, images())
    with apt.AtpWriter(tmp_path / "ase.atp") as writer:
        writer.write(ase.io.read(source, ":"))
    ours = stored(to_atp(tmp_path / "ours.atp", blocks(source)))
    theirs = stored(tmp_path / "ase.atp")
    assert len(ours) == len(theirs) == 40
    for got, expected in zip(ours, theirs, strict=True):
        assert_same(got, expected)


def test_there_and_back_again(tmp_path: Path) -> None:
    source = tmp_path / "x.extxyz"
    ase.io.write(source, images())
    first = to_atp(tmp_path / "1.atp", blocks(source))
    told = Told()
    dataset = apt.AtpDataset(first)
    write(tmp_path / "2.extxyz", [dataset[:13], dataset[13:]], report=told)
    second = to_atp(tmp_path / "2.atp", blocks(tmp_path / "2.extxyz", report=told))
    assert told.skipped == told.notes == []
    for got, expected in zip(stored(second), stored(first), strict=True):
        assert_same(got, expected)
    assert apt.AtpDataset(second).schema == dataset.schema


def test_a_key_of_several_types_is_held(tmp_path: Path) -> None:
    source = tmp_path / "x.extxyz"
    comments = ["a=1 b=1", "a=1.5 b=x", 'a=T b="1 2"']
    source.write_text("".join(map(one_atom, comments)))
    frames = stored(to_atp(tmp_path / "x.atp", blocks(source)))
    assert [f[MOLECULE_PROPERTY, "a"].item() for f in frames] == [1, 1.5, 1]
    assert [f[MOLECULE_PROPERTY, "b"] for f in frames] == ["1", "x", "1 2"]


FIXTURES = ["custom_all_types_zstd", "optional_sections", "v3_f64_all", "tensor_ragged", "minimal"]


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_survive(fixtures: Path, tmp_path: Path, name: str) -> None:
    """What the original wrote, in float64; pbc is present afterwards, as the format has it."""
    told = Told()
    dataset = apt.AtpDataset(fixtures / f"{name}.atp")
    write(tmp_path / "x.extxyz", [dataset[:]], report=told)
    got = read(tmp_path / "x.extxyz", report=told)
    assert told.skipped == []
    for frame, expected in zip(got, frames_of([of_batch(dataset[:])]), strict=True):
        if (BUILTIN, "pbc") not in expected:
            periodic = (BUILTIN, "cell") in expected
            assert frame.pop((BUILTIN, "pbc")).tolist() == [periodic] * 3
        assert frame.keys() == expected.keys()
        for field, value in expected.items():
            assert same(frame[field], _as_read(field, value)), field


def _as_read(field: tuple[int, str], value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if field[0] == ATOM_PROPERTY and array.ndim > 1:
        array = array.reshape(len(array), -1)
        array = array[:, 0] if array.shape[1] == 1 else array
    return array.astype(np.float64) if array.dtype.kind == "f" else array
