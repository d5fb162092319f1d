"""LMDB folders of DeePMD-kit: written by dpdata, and by hand as DeePMD-kit reads them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpdata
import lmdb
import numpy as np
import pytest
from dpdata.formats.deepmd.lmdb import dump_systems
from reference.foreign import assert_refused, converted

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.conversion import Report
from atompack_torch.conversion.sources.deepmd_lmdb import open_source
from atompack_torch.formats.converter import SourceOptions

msgpack: Any = importlib.import_module("msgpack")


def system(n_frames: int, seed: int) -> Any:
    """Frames of water as dpdata holds them."""
    rng = np.random.default_rng(seed)
    data = {
        "atom_names": ["O", "H"],
        "atom_numbs": [1, 2],
        "atom_types": np.array([0, 1, 1]),
        "orig": np.zeros(3),
        "cells": np.tile(np.diag([4.0, 5.0, 6.0]), (n_frames, 1, 1)),
        "coords": rng.normal(size=(n_frames, 3, 3)),
        "energies": rng.normal(size=n_frames),
        "forces": rng.normal(size=(n_frames, 3, 3)),
        "virials": rng.normal(size=(n_frames, 3, 3)),
    }
    return dpdata.LabeledSystem(data=data)


def test_folders_of_dpdata(tmp_path: Path) -> None:
    systems = [system(300, 0), system(5, 1)]
    dump_systems(systems, tmp_path / "frames.lmdb", type_map=["H", "O"])
    dataset, report = converted(tmp_path / "frames.lmdb")
    assert len(dataset) == 305
    batch = dataset[:]
    for name, key in (("positions", "coords"), ("forces", "forces")):
        want = np.concatenate([np.reshape(each[key], (-1, 3)) for each in systems])
        assert np.array_equal(batch[name].numpy(), want), name
    assert batch.energy.tolist() == [e for each in systems for e in each["energies"]]
    virials = np.concatenate([each["virials"] for each in systems])
    assert np.array_equal(batch.stress.numpy(), virials / -120.0)
    assert batch.atomic_numbers.tolist() == [8, 1, 1] * 305
    assert batch.pbc.all()
    assert any("-virial / volume" in note for note in report.notes)
    assert not report.skipped
    assert {"atom_numbs", "orig"}.isdisjoint(batch.keys())


def array(values: Any, dtype: str = "float64", *, is_bytes: bool = False) -> dict[Any, Any]:
    """An array as DeePMD-kit encodes it."""
    made = np.asarray(values, dtype)
    entry = {"type": made.dtype.str, "shape": list(made.shape), "data": made.tobytes()}
    return {key.encode(): value for key, value in entry.items()} if is_bytes else entry


def folder(path: Path, frames: list[Any], **metadata: Any) -> Path:
    """Writes frames, or bytes in their place."""
    given = {"nframes": len(frames), "frame_idx_fmt": "012d", "type_map": ["O", "H"]} | metadata
    with lmdb.open(str(path)) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"__metadata__", msgpack.packb(given))
        for i, frame in enumerate(frames):
            data = frame if isinstance(frame, bytes) else msgpack.packb(frame)
            transaction.put(format(i, "012d").encode(), data)
    return path


def frame(**more: Any) -> dict[str, Any]:
    """A frame of two atoms."""
    given = {"atom_types": array([0, 1], "int32"), "coords": array([[0, 0, 0], [1, 1, 1]])} | more
    return {key: value for key, value in given.items() if value is not None}


def test_tensors_as_long_as_some_molecules(tmp_path: Path) -> None:
    frames = [
        {
            "atype": array(np.zeros(n), "int32"),
            "coord": array(np.ones((n, 3))),
            "tensor": array(np.full((3, 3), n)),
            "rows": array(np.ones((n, 2))),
        }
        for n in (2, 3, 4)
    ]
    dataset, _ = converted(folder(tmp_path / "frames.lmdb", frames))
    assert dataset[:]["tensor"][:, 0, 0].tolist() == [2, 3, 4]
    assert dataset[:]["rows"].shape == (9, 2)


def test_frames_of_other_writers(tmp_path: Path) -> None:
    frames: list[Any] = [
        frame(energies=array(1.5), cells=array(np.zeros((3, 3))), charge=2),
        {
            "atype": array([1, 0, -1], "int64", is_bytes=True),
            "coord": array(np.arange(9.0), is_bytes=True),
            "force": array(np.ones(9), "float32"),
            "energy": array([2.5]),
            "find_energy": 0.0,
            "find_force": 1.0,
            "box": array(np.eye(3).reshape(9) * 2),
            "aparam": array(np.arange(3.0)),
            "fparam": array([1.0, 2.0]),
            "atomic_dipole": array(np.ones((3, 3))),
            "label": "text",
        },
        frame(energies=3.5, virials=array(np.eye(3)), nested={"a": [1]}),
    ]
    dataset, report = converted(folder(tmp_path / "f", frames))
    first, second, third = dataset[0], dataset[1], dataset[2]
    assert first.energy.item() == 1.5
    assert first["charge"].item() == 2
    assert not first.pbc.any()
    assert "cell" not in first
    assert second.atomic_numbers.tolist() == [1, 8]
    assert second.positions.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert second.forces.tolist() == [[1.0] * 3] * 2
    assert "energy" not in second
    assert second.cell.tolist() == (np.eye(3) * 2).tolist()
    assert second["aparam"].tolist() == [0.0, 1.0]
    assert second["fparam"].tolist() == [1.0, 2.0]
    assert second["atom_dipole"].shape == (2, 3)
    assert second["label"] == "text"
    assert third.energy.item() == 3.5
    assert {what for what, _ in report.skipped} == {"stress", "nested"}


def test_ranges(tmp_path: Path) -> None:
    path = folder(tmp_path / "f", [frame(energies=float(i)) for i in range(9)])
    source = open_source(str(path), SourceOptions("deepmd-lmdb", {}))
    assert source.read_range is not None
    (block,) = source.read_range(Report(), 3, 7)
    (energy,) = (column for column in block.fields if column.key == "energy")
    assert np.asarray(energy.values).tolist() == [3, 4, 5, 6]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "f", [frame()])
    assert main(["convert", str(path), str(tmp_path / "a.atp"), "--quiet"]) == 0
    other = tmp_path / "other"
    with lmdb.open(str(other)) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"0", b"x")
    assert main(["convert", str(other), str(tmp_path / "b.atp"), "--quiet"]) != 0
    assert "without __metadata__" in capsys.readouterr().err


def cut(path: Path) -> None:
    file = path / "data.mdb"
    file.write_bytes(file.read_bytes()[:-4096])


def rewritten(*frames: Any, **metadata: Any) -> Callable[[Path], object]:
    return lambda path: folder(path, [*frames] or [frame()], **metadata)


Harm = Callable[[Path], object]
CORRUPT, DATA = apt.CorruptFileError, bytes(8)
DAMAGE: list[tuple[Harm, type[Exception], str]] = [
    (cut, CORRUPT, "it was cut"),
    (rewritten(nframes=99), CORRUPT, "nframes: expected at most"),
    (rewritten(nframes=-1), CORRUPT, "nframes: expected at most"),
    (rewritten(nframes="x"), CORRUPT, "nframes: expected at most"),
    (rewritten(nframes=2), CORRUPT, "expected a key '000000000001', got none"),
    (rewritten(frame_idx_fmt="999999999d"), CORRUPT, "frame_idx_fmt: expected"),
    (rewritten(type_map=None), apt.UnsupportedFormatError, "expected the elements in type_map"),
    (rewritten(type_map=["Xx"]), apt.UnsupportedFormatError, "expected elements, got 'Xx'"),
    (rewritten(b"\xc1"), CORRUPT, "no MessagePack"),
    (rewritten(b"\x01"), CORRUPT, "expected a map, got int"),
    (rewritten(b"\xdf\xff\xff\xff\xff"), CORRUPT, "no MessagePack"),
    (rewritten(frame(coords=None)), CORRUPT, "expected coord, got none"),
    (rewritten(frame(coords=array([1.0]))), CORRUPT, r"coord: expected \(2, 3\)"),
    (rewritten(frame(coords="x")), CORRUPT, "coord: expected"),
    (rewritten(frame(forces=array([1.0]))), CORRUPT, "force: expected"),
    (rewritten(frame(energies=array([1.0, 2]))), CORRUPT, "energy: expected"),
    (rewritten(frame(atom_types=array([0, 2], "i4"))), CORRUPT, "types below 2"),
    (rewritten(frame(atom_types=array([0.5, 1]))), CORRUPT, "types below 2"),
    (
        rewritten(frame(x={"type": "float64", "shape": [9], "data": DATA})),
        CORRUPT,
        "x: expected an array",
    ),
    (rewritten(frame(x={"type": "O", "data": DATA})), CORRUPT, "expected numbers, got object"),
    (rewritten(frame(x={"type": "nonsense", "data": DATA})), CORRUPT, "x: expected an array"),
]


@pytest.mark.parametrize(("harm", "kind", "message"), DAMAGE)
def test_damage(tmp_path: Path, harm: Harm, kind: type[Exception], message: str) -> None:
    path = folder(tmp_path / "f", [frame()])
    harm(path)
    assert_refused(path, kind, message)
