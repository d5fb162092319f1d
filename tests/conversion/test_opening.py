"""``apt.open`` of what only ``convert`` reads: a copy in the cache of the user."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ase.db
import ase.io
import numpy as np
import pytest
import torch
from ase import Atoms
from processes.client import ScriptServer
from reference.compare import assert_same_batch

import atompack_torch as apt
from atompack_torch import cli, formats
from atompack_torch.formats import user_cache

ARRAYS = {
    "z": np.array([[8, 1, 1]] * 4),
    "coords": np.random.default_rng(0).normal(size=(4, 3, 3)),
    "energies": np.arange(4.0),
    "grads": np.random.default_rng(1).normal(size=(4, 3, 3)),
}
KEYS = {"energies": "energy", "grads": "forces", "coords": "positions", "z": "atomic_numbers"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache/atompack_torch/converted"


def write_npz(path: Path) -> None:
    np.savez(path, **ARRAYS)


def write_db(path: Path, images: list[Atoms]) -> None:
    with ase.db.connect(path) as database:
        for atoms in images:
            database.write(atoms)


def write_arrays_of_hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, values in ARRAYS.items():
            file[name] = values


WRITERS: dict[str, Callable[[Path, list[Atoms]], object]] = {
    "a.npz": lambda path, images: write_npz(path),
    "a.h5": lambda path, images: write_arrays_of_hdf5(path),
    "a.db": write_db,
    "a.traj": ase.io.write,
    "a.json": ase.io.write,
    "a.parquet": lambda path, images: exported(path, images),
    "mace.h5": lambda path, images: exported(path, images, "mace-hdf5"),
    "deepmd": lambda path, images: exported(path, images[1:3], "deepmd"),
    "POSCAR": lambda path, images: ase.io.write(path, images[0], format="vasp"),
}


def exported(path: Path, images: list[Atoms], target: str | None = None) -> None:
    atp = path.with_name("source.atp")
    with apt.AtpWriter(atp) as writer:
        writer.write(images)
    apt.convert(atp, path, target=target, progress=False)


@pytest.mark.parametrize("name", WRITERS)
def test_what_convert_reads_is_opened(
    tmp_path: Path,
    images: list[Atoms],
    name: str,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    WRITERS[name](path, images)
    with pytest.raises(apt.UnsupportedFormatError, match="convert"):
        apt.open(path, convert=False)
    assert not cache.exists()
    opened = apt.open(path)
    report = apt.convert(path, tmp_path / "expected.atp", progress=False)
    assert_same_batch(opened[:], apt.AtpDataset(tmp_path / "expected.atp")[:])
    err = capsys.readouterr().err
    assert f"{path}: converted for this and later use" in err
    assert f"converting {name}: {len(opened)} molecules" in err
    assert all(warning in err for warning in report.warnings)
    assert len(apt.open(path, neighbors=apt.NeighborList(3.0))) == len(opened)
    assert capsys.readouterr().err == ""
    assert [file.suffix for file in cache.iterdir()] == [".atp"]


def test_options_of_the_conversion_and_of_the_dataset(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.npz"
    write_npz(path)
    given = {"key_map": KEYS, "energy_unit": "Ha", "force_sign": "flip", "progress": False}
    ds = apt.open(path, fields=["energy", "forces"], dtype=torch.float32, **given)
    batch = ds[:]
    assert batch.positions.dtype == batch.forces.dtype == torch.float32
    assert np.allclose(batch.energy, ARRAYS["energies"] * 27.211386, rtol=1e-6)
    assert np.allclose(batch.forces, -ARRAYS["grads"].reshape(-1, 3))
    apt.open(path, fields=["energy"], **given)
    assert len(list(cache.iterdir())) == 1
    assert apt.open(path)[0].energy == ARRAYS["energies"][0]
    assert len(list(cache.iterdir())) == 2
    with pytest.raises(TypeError, match="energy_unti"):
        apt.open(path, energy_unti="Ha")
    with pytest.raises(apt.FieldError, match="'no'"):
        apt.open(path, key_map={"no": "energy"})
    assert len(list(cache.iterdir())) == 2


def test_several_files_are_one_dataset(tmp_path: Path, images: list[Atoms]) -> None:
    ase.io.write(tmp_path / "a.traj", images)
    write_db(tmp_path / "b.db", images[:2])
    paths = [tmp_path / "b.db", tmp_path / "a.traj"]
    assert len(apt.open(paths)) == 2 + len(images)
    with pytest.raises(apt.UnsupportedFormatError):
        apt.open([tmp_path / "b.db", tmp_path / "nothing.atp"])
    assert len(apt.open(tmp_path / "a.traj", format="ase:traj")) == len(images)


def test_other_contents_are_converted_again(
    tmp_path: Path, images: list[Atoms], cache: Path
) -> None:
    path = tmp_path / "a.traj"
    for n in (3, 5):
        ase.io.write(path, images[:n])
        assert len(apt.open(path)) == n
    assert len(list(cache.iterdir())) == 1  # the former copy is removed
    system = tmp_path / "s"
    exported(system, images[1:3], "deepmd")
    before = apt.open(system)[:]
    for energies in system.rglob("energy.npy"):
        np.save(energies, np.load(energies) + 1)
    assert torch.equal(apt.open(system)[:].energy, before.energy + 1)


def test_damaged_files_leave_nothing(tmp_path: Path, images: list[Atoms], cache: Path) -> None:
    path = tmp_path / "a.db"
    write_db(path, images)
    path.write_bytes(path.read_bytes()[:3000])
    for _ in range(2):
        with pytest.raises(apt.AtompackError, match=r"a\.db"):
            apt.open(path)
        assert not list(cache.iterdir())


SCRIPT = """
import os, sys, time
import atompack_torch as apt
from atompack_torch.conversion import opening
os.environ["XDG_CACHE_HOME"] = sys.argv[3]
convert = opening.convert
def slow(src, dst, **options):
    print("converting", flush=True)
    time.sleep(float(sys.argv[2]))
    return convert(src, dst, **options)
opening.convert = slow
print(len(apt.open(sys.argv[1])), flush=True)
"""


def test_processes_wait_for_one(
    tmp_path: Path, images: list[Atoms], cache: Path, scripts: ScriptServer
) -> None:
    path = tmp_path / "a.traj"
    ase.io.write(path, images)
    started = [scripts.start(SCRIPT, path, "1", tmp_path / "cache") for _ in range(3)]
    outputs = [script.wait().stdout.split() for script in started]
    assert [output[-1] for output in outputs] == [str(len(images))] * 3
    assert sum(output.count("converting") for output in outputs) == 1
    assert [file.suffix for file in cache.iterdir()] == [".atp"]


def test_a_killed_converter_blocks_nobody(
    tmp_path: Path, images: list[Atoms], cache: Path, scripts: ScriptServer
) -> None:
    path = tmp_path / "a.traj"
    ase.io.write(path, images)
    first = scripts.start(SCRIPT, path, "600", tmp_path / "cache")
    first.wait_for("converting")
    second = scripts.start(SCRIPT, path, "0", tmp_path / "cache")
    time.sleep(0.5)
    first.kill()
    assert second.wait().stdout.split() == ["converting", str(len(images))]
    assert [file.suffix for file in cache.iterdir()] == [".atp"]


def test_the_command_that_prunes(
    tmp_path: Path, images: list[Atoms], cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.traj", tmp_path / "new.traj"
    ase.io.write(old, images[:3])
    ase.io.write(new, images[:4])
    text = tmp_path / "a.xyz"
    ase.io.write(text, images, format="extxyz")
    for path in (old, new, text):
        apt.open(path, **({} if path is text else {"progress": False}))
    user_cache.kept_copy([str(text)], user_cache.PLAIN, ".txt", lambda place: place.write_text("x"))
    assert cli.main(["cache", "--stats", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["converted"]["files"] == 2
    assert found["plain"] == {"files": 1, "bytes": 1}
    assert str(cache.parent) in found["folders"]
    for file in cache.iterdir():
        os.utime(file, ns=(0, file.stat().st_mtime_ns))
    used = Path(apt.open(old).path)  # not every file system notes that
    os.utime(used, ns=(time.time_ns(), used.stat().st_mtime_ns))
    kept = sum(found[kind]["bytes"] for kind in user_cache.KINDS) - 1
    (cache / ".abandoned.part").touch()
    os.utime(cache / ".abandoned.part", (0, 0))
    assert cli.main(["cache", "--prune", str(kept)]) == 0
    assert "removed 1 file," in capsys.readouterr().out
    assert len(apt.open(old, progress=False)) == 3
    assert len(list(cache.iterdir())) == 1
    assert cli.main(["cache", "--prune", "0"]) == 0
    assert cli.main(["cache", "--stats"]) == 0
    assert "converted: 0 files, 0 bytes" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["cache", "--prune", "0", "--stats"])
    assert cli.main(["cache", "--prune", "-1"]) == 2


def test_help_names_the_formats() -> None:
    for word in ("ASE", "NPZ", "HDF5", "Parquet", "DeePMD", "pymatgen", "MTP", "convert:"):
        assert word in str(apt.open.__doc__)
    assert {"ase-db", "npz", "parquet", "deepmd", "pymatgen-json", "mtp-cfg"} <= {
        known.source for known in formats.FORMATS if not known.entry
    }
