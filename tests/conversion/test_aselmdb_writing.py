"""ASE databases in LMDB as targets, read by ase-db-backends, by fairchem's layout and by us."""

from __future__ import annotations

import errno
import json
import os
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ase
import ase.db
import lmdb
import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts
from atompack_torch.cli import main
from atompack_torch.conversion import Report, convert
from atompack_torch.formats.aselmdb.converter import Writer, _system_errors, number_texts
from atompack_torch.formats.records import columns_of


def assert_same(got: Any, want: Any) -> None:
    """Compares batches bit for bit, in float64 where a database has no other floats."""
    assert set(got.keys()) == set(want.keys())
    for key in want.keys():
        assert got.mask(key).tolist() == want.mask(key).tolist(), key
        assert got.level(key) == want.level(key), key
        for g, w in zip(got[key], want[key], strict=True):
            if isinstance(w, torch.Tensor):
                assert g.numpy().tobytes() == w.to(g.dtype).numpy().tobytes(), key
            else:
                assert g == w, key


@pytest.fixture
def atp(images: list[ase.Atoms], tmp_path: Path) -> Path:
    path = tmp_path / "1.atp"
    with apt.AtpWriter(path) as writer:
        writer.write(images)
    return path


def test_the_library_reads_it(atp: Path, images: list[ase.Atoms], tmp_path: Path) -> None:
    path = tmp_path / "2.aselmdb"
    convert(atp, path, progress=False)
    with ase.db.connect(path, use_lock_file=False, readonly=True) as database:
        assert len(database) == len(images)
        assert database.metadata == {}
        for i, image in enumerate(images):
            row = database.get(id=i + 1)
            atoms = row.toatoms()
            assert (atoms.positions == image.positions).all()
            assert (atoms.numbers == image.numbers).all()
            assert (atoms.cell.array == image.cell.array).all()
            assert (atoms.pbc == image.pbc).all()
            if image.calc is None:
                assert atoms.calc is None
                continue
            assert atoms.get_potential_energy() == image.get_potential_energy()
            if i < 12:
                assert (atoms.get_forces() == image.get_forces()).all()
                assert (atoms.get_stress() == image.get_stress()).all()
                assert row.key_value_pairs["origin"] == f"run {i}"
                assert row.data["weights"].tolist() == image.info["weights"].tolist()
        assert len([*database.select("step>5")]) == 6
        assert len({row.unique_id for row in database.select()}) == len(images)


def test_the_library_goes_on_writing(atp: Path, tmp_path: Path) -> None:
    path = tmp_path / "2.aselmdb"
    convert(atp, path, progress=False)
    with ase.db.connect(path, use_lock_file=False) as database:
        assert database.write(ase.Atoms("H"), k=1) == 15
        database.delete([2])
    assert len(ase.db.connect(path, use_lock_file=False, readonly=True)) == 14


def test_a_folder_as_fairchem_reads_it(
    atp: Path, images: list[ase.Atoms], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, back = tmp_path / "train", tmp_path / "3.atp"
    assert main(["convert", str(atp), str(folder), "--to", "aselmdb", "--quiet"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["data.0000.aselmdb", "metadata.npz"]
    with np.load(folder / "metadata.npz") as metadata:
        assert metadata.files == ["natoms"]
        assert metadata["natoms"].dtype == np.int64
        assert metadata["natoms"].tolist() == [len(image) for image in images]
    assert main(["convert", str(folder), str(back), "--quiet"]) == 0
    assert_same(apt.AtpDataset(back)[:], apt.AtpDataset(atp)[:])
    assert main(["convert", str(atp), str(folder), "--to", "aselmdb", "--quiet"]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["convert", str(atp), str(folder), "--to", "aselmdb", "--overwrite"]) == 0
    assert len(ase.db.connect(folder / "data.0000.aselmdb", readonly=True)) == len(images)


ODD: dict[str, Any] = {
    "energy": 1.5,
    "forces": np.arange(6.0).reshape(2, 3),
    "name": 3,
    "id": 7,
    "calculator": "text",
    "CO": 2,
    "a b": 1,
    "1": 4,
    "01": 5,
    " 2": 6,
    "": 0.5,
    "__ndarray__": 2,
    "__complex__": "x",
    "properties/x": 1.25,
    "atom_properties/x": 2.5,
    "number": "12",  # text that reads like one
    "true": "True",
    "charge": 1,
    "spin": 2,
    "masses": 4.0,
    "tags": 1,
    "get": "nothing",
    "volume": 3.0,
    "nan": float("nan"),
    "infinite": float("-inf"),
    "zero": -0.0,
    "zeros": np.array([0.0, -0.0, np.nan, np.inf]),
    "large": 2**62 + 1,
    "none": None,
    "f4": np.array([0.1, 0.2], "float32"),
    "tensor": np.arange(8, dtype=np.int32).reshape(2, 2, 2),
    "empty": np.zeros((0, 3)),
    "é中": "ü\n\0\u2028",
}


@pytest.mark.parametrize("suffix", [".db", ".aselmdb"])
def test_odd_keys_and_values_survive(tmp_path: Path, suffix: str) -> None:
    first, database, second = (tmp_path / name for name in ("1.atp", f"2{suffix}", "3.atp"))
    arrays = {"q": np.array([0.1, -0.0], "float32"), "charges": np.ones((2, 3)), "z": np.arange(2)}
    labels: dict[str, Any] = {
        "stress": np.arange(9.0).reshape(3, 3),
        "name": "12",
        "pbc": np.ones(3, bool),
    }
    labels |= {"cell": np.eye(3), "charges": np.array([0.1, -0.1])}
    record = Parts(np.zeros((2, 3)), np.array([0, 118]), labels, ODD, arrays)
    with apt.AtpWriter(first) as writer:
        writer.write_columns(columns_of([record]))
    report = convert(first, database, progress=False)
    assert not report.skipped
    convert(database, second, progress=False)
    assert_same(apt.AtpDataset(second)[:], apt.AtpDataset(first)[:])


def test_velocities_and_labels_that_lack(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels: list[dict[str, Any]] = [
        {"velocities": rng.normal(size=(2, 3)), "energy": np.nan, "cell": np.zeros((3, 3))},
        {"forces": np.float32(rng.normal(size=(1, 3))), "pbc": np.array([True, False, True])},
        {"cell": np.eye(3), "stress": np.diag([1.0, -0.0, 3.0]), "pbc": np.zeros(3, bool)},
    ]
    parts = [
        Parts(rng.normal(size=(n, 3)), np.full(n, 6), label, {}, {})
        for n, label in zip((2, 1, 3), labels, strict=True)
    ]
    with apt.AtpWriter(tmp_path / "1.atp") as writer:
        writer.write_columns(columns_of(parts))
    report = convert(
        tmp_path / "1.atp", tmp_path / "2.aselmdb", progress=False, nan_is_missing=False
    )
    assert {what for what, _ in report.skipped} == {"cell"}
    assert any("velocities" in note for note in report.notes)
    assert any("pbc" in note for note in report.notes)
    convert(tmp_path / "2.aselmdb", tmp_path / "3.atp", progress=False, nan_is_missing=False)
    batch = apt.AtpDataset(tmp_path / "3.atp")[:]
    assert batch.mask("energy").tolist() == [True, False, False]
    assert bool(batch.energy[0].isnan())
    assert np.allclose(batch.velocities[:2].numpy(), labels[0]["velocities"], rtol=1e-15)
    assert batch.forces[2].numpy().tolist() == labels[1]["forces"][0].tolist()
    assert batch.stress[2].numpy().tobytes() == np.diag([1.0, -0.0, 3.0]).tobytes()


def test_blocks_of_many_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n_atoms = rng.integers(1, 4, 1000)
    positions = rng.normal(size=(n_atoms.sum(), 3)).astype(np.float32)
    with apt.AtpWriter(tmp_path / "1.atp") as writer:
        writer.write_arrays(
            positions=positions,
            atomic_numbers=np.ones(len(positions), np.int64),
            n_atoms=n_atoms,
            energy=n_atoms.astype(float),
        )
    convert(tmp_path / "1.atp", tmp_path / "2.aselmdb", progress=False)
    convert(tmp_path / "2.aselmdb", tmp_path / "3.atp", progress=False)
    batch = apt.AtpDataset(tmp_path / "3.atp")[:]
    assert np.array_equal(batch.positions.numpy(), positions)
    assert batch.energy.tolist() == n_atoms.tolist()


@pytest.mark.parametrize("suffix", [".aselmdb", ""])
def test_an_empty_database(tmp_path: Path, suffix: str) -> None:
    with apt.AtpWriter(tmp_path / "1.atp"):
        pass
    database = tmp_path / f"2{suffix}"
    convert(tmp_path / "1.atp", database, target="aselmdb", progress=False)
    report = convert(database, tmp_path / "3.atp", progress=False)
    assert report.structures_written == 0


@pytest.mark.parametrize("suffix", [".aselmdb", ""])
def test_an_error_leaves_what_was_there(atp: Path, tmp_path: Path, suffix: str) -> None:
    damaged = tmp_path / "damaged.atp"
    content = bytearray(atp.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4000] = b"\xff" * 4000
    damaged.write_bytes(content)
    target = tmp_path / f"2{suffix}"
    with pytest.raises(apt.CorruptFileError):
        convert([atp, damaged], target, target="aselmdb", progress=False)
    assert {path.name for path in tmp_path.iterdir()} == {"1.atp", "damaged.atp"}
    convert(atp, target, target="aselmdb", progress=False)
    with pytest.raises(apt.CorruptFileError):
        convert([atp, damaged], target, target="aselmdb", mode="w", progress=False)
    report = convert(target, tmp_path / "3.atp", progress=False)
    assert report.structures_written == 14


def test_the_keys_of_the_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.aselmdb", report=Report())
    writer.write(columns_of([Parts(np.zeros((1, 3)), np.array([1]), {}, {}, {})] * 11))
    writer.finish()
    writer.close()
    with lmdb.open(str(tmp_path / "x.aselmdb"), subdir=False, readonly=True, lock=False) as file:
        keys = [bytes(key) for key, _ in file.begin().cursor()]
    rows = sorted(str(i).encode() for i in range(1, 12))
    assert keys == [*rows, b"deleted_ids", b"metadata", b"nextid"]


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int32", "int64", "uint8", "bool"]
)
def test_texts_of_numbers(dtype: str) -> None:
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 256, 8 * 3000, dtype=np.uint8)
    values = (bits < 128) if dtype == "bool" else bits.view(dtype)
    values = np.concatenate([values, np.array([0, 1, -0.0], "float64").astype(dtype)])
    offsets = np.array([0, 0, 5, 100, 100, len(values)])
    for i, text in enumerate(number_texts(values, offsets)):
        read = np.empty(offsets[i + 1] - offsets[i], dtype)
        read[:] = json.loads(f"[{text}]")
        want = values[offsets[i] : offsets[i + 1]]
        same = read.view(np.uint8) == want.view(np.uint8)
        if values.dtype.kind == "f":  # the bits of NaN are not kept
            same |= np.repeat(np.isnan(want), want.itemsize)
        assert same.all()


def test_the_rest_of_a_folder_of_fairchem_is_listed(atp: Path, tmp_path: Path) -> None:
    folder, back = tmp_path / "train", tmp_path / "3.atp"
    convert(atp, folder, target="aselmdb", progress=False)
    counts = np.load(folder / "metadata.npz")["natoms"]
    np.savez(folder / "metadata.npz", natoms=counts, data_ids=np.array(["a"] * len(counts)))
    lost = "array 'data_ids' of metadata.npz", "of the whole folder"
    assert convert(folder, back, progress=False).skipped == {lost: 1}
    parts = [convert(folder, tmp_path / "b", part=(i, 2), progress=False) for i in range(2)]
    assert [part.skipped for part in parts] == [{lost: 1}, {}]
    (folder / "metadata.npz").write_bytes(b"PK")
    report = convert(folder, back, mode="w", progress=False)
    assert report.skipped == {("metadata.npz", "it is no archive of arrays"): 1}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"{}", "its metadata: error: Error -3"),
        (zlib.compress(b"[1"), "its metadata: JSONDecodeError"),
        (zlib.compress(b"7"), "its metadata: TypeError"),
        (
            zlib.compress(bytes(1 << 27)),
            "its metadata: ValueError: expected at most 67108864",
        ),
        (zlib.compress(b'{"a": 1}')[:-8], "its metadata: JSONDecodeError"),
    ],
)
def test_damaged_metadata(atp: Path, tmp_path: Path, stored: bytes, message: str) -> None:
    path, back = tmp_path / "2.aselmdb", tmp_path / "3.atp"
    convert(atp, path, progress=False)
    with lmdb.open(str(path), subdir=False, lock=False) as file, file.begin(write=True) as change:
        change.put(b"metadata", stored)
    with pytest.raises(apt.CorruptFileError, match=message):
        convert(path, back, progress=False)
    report = convert(path, back, on_error="skip", progress=False)
    assert report.structures_written == len(apt.AtpDataset(atp))
    assert [what for what, _ in report.skipped] == ["metadata"]


@pytest.mark.parametrize(("n_free", "code"), [(0, errno.ENOSPC), (5, errno.EIO)])
def test_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_free: int, code: int
) -> None:
    """LMDB says EIO where the disk took a part of a page."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=n_free))
    with pytest.raises(OSError, match=os.strerror(code)) as caught, _system_errors(tmp_path / "x"):
        raise lmdb.Error("mdb_txn_commit: Input/output error")
    assert caught.value.errno == code
