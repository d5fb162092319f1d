"""Whole conversions: what is published when, joined, restarted, appended, skipped, bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ase
import ase.db
import ase.io
import h5py
import numpy as np
import pytest
import torch
from processes.client import ScriptServer

import atompack_torch as apt
from atompack_torch.conversion import Changes, Report, convert
from atompack_torch.errors import CorruptFileError, FieldError


@pytest.fixture
def trajectory(images: list[ase.Atoms], tmp_path: Path) -> Path:
    path = tmp_path / "images.traj"
    ase.io.write(path, images)
    return path


def info_files(tmp_path: Path, *infos: list[dict[str, Any]]) -> list[Path]:
    """Trajectories of lone atoms with these infos."""
    paths = []
    for number, one in enumerate(infos):
        paths.append(tmp_path / f"{number}.traj")
        ase.io.write(paths[-1], [ase.Atoms("H", info=info) for info in one])
    return paths


def run(*arguments: Any, **options: Any) -> Report:
    return convert(*arguments, progress=False, **options)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_codec_and_types(trajectory: Path, tmp_path: Path, codec: Any) -> None:
    target = tmp_path / "x.atp"
    run(trajectory, target, codec=codec)
    with apt.AtpWriter(target, mode="a") as writer:
        assert writer.codec == codec
    dataset = apt.AtpDataset(target)
    assert dataset.schema["positions"].dtype == torch.float64
    run(trajectory, target, mode="w", changes=Changes(dtype="float32"))
    dataset = apt.AtpDataset(target)
    assert dataset.schema["positions"].dtype == torch.float32
    assert dataset.schema["forces"].dtype == torch.float32
    assert dataset.schema["energy"].dtype == torch.float64


def test_an_atp_file_is_copied_bit_for_bit(fixtures: Path, tmp_path: Path) -> None:
    for name in ("custom_all_types", "optional_sections", "tensor_ragged", "codec_zstd"):
        source, target = fixtures / f"{name}.atp", tmp_path / f"{name}.atp"
        report = run(source, target, codec="lz4")
        assert not report.skipped, name
        old, new = apt.AtpDataset(source), apt.AtpDataset(target)
        assert len(old) == len(new) > 0
        for before, after in zip(old, new, strict=True):
            assert set(before.keys()) == set(after.keys())
            for key in before.keys():
                value, copy = before[key], after[key]
                if isinstance(value, torch.Tensor):
                    assert value.dtype == copy.dtype
                    assert value.numpy().tobytes() == copy.numpy().tobytes()
                else:
                    assert value == copy


def test_a_folder_of_shards(fixtures: Path, tmp_path: Path) -> None:
    source = apt.AtpDataset(fixtures / "shards")
    report = run(fixtures / "shards", tmp_path / "x.atp")
    joined = apt.AtpDataset(tmp_path / "x.atp")
    assert len(joined) == len(source) == report.structures_written
    assert joined.n_atoms.tolist() == source.n_atoms.tolist()


def test_sources_are_joined_in_order(tmp_path: Path) -> None:
    paths = info_files(tmp_path, [{"k": 1}, {"k": 2}], [{"k": 3}])
    report = run(paths, tmp_path / "x.atp")
    assert apt.AtpDataset(tmp_path / "x.atp")[:]["k"].tolist() == [1, 2, 3]
    assert report.structures_read == 3


def test_types_that_turn_out_too_narrow(tmp_path: Path) -> None:
    """A type widens after it was written: the sources are read again, and nothing is lost."""
    infos: list[dict[str, Any]] = [{"k": i, "s": "a"} for i in range(600)]
    paths = info_files(tmp_path, infos, [{"k": 0.5}, {"k": 7, "s": 2, "t": True}])
    report = run(paths, tmp_path / "x.atp")
    batch = apt.AtpDataset(tmp_path / "x.atp")[:]
    assert batch["k"].tolist() == [*map(float, range(600)), 0.5, 7.0]
    assert batch["s"] == ["a"] * 600 + [None] * 2
    assert report.structures_read == report.structures_written == 602
    assert report.labels["properties/k"] == 602
    ((what, _), count) = next(iter(report.skipped.items()))
    assert (what, count) == ("properties/s", 1)
    assert "properties/k: int64 stored as float64" in report.notes


def test_appending(tmp_path: Path) -> None:
    first, second, clash = info_files(tmp_path, [{"k": 0.5}], [{"k": 2}], [{"k": "text"}])
    target = tmp_path / "x.atp"
    run(first, target, mode="a", codec="zstd")
    run(second, target, mode="a")
    assert apt.AtpDataset(target)[:]["k"].tolist() == [0.5, 2.0]
    report = run(clash, target, mode="a")
    assert sum(report.skipped.values()) == 1
    assert len(apt.AtpDataset(target)) == 3
    run(second, tmp_path / "y.atp")
    with pytest.raises(FieldError, match=r"y\.atp: type: expected int64, got float64.*'k'"):
        run(first, tmp_path / "y.atp", mode="a")
    assert len(apt.AtpDataset(tmp_path / "y.atp")) == 1


def test_an_error_leaves_the_old_file(tmp_path: Path, trajectory: Path) -> None:
    target = tmp_path / "x.atp"
    run(trajectory, target)
    old = target.read_bytes()
    (tmp_path / "bad.npz").write_bytes(b"PK")
    for mode in ("w", "a"):
        with pytest.raises(apt.UnsupportedFormatError, match=r"bad\.npz"):
            run([trajectory, tmp_path / "bad.npz"], target, mode=mode)
        assert len(apt.AtpDataset(target)) == 14
    assert target.read_bytes()[: len(old)] == old


def test_damaged_records_are_skipped_one_by_one(
    images: list[ase.Atoms], trajectory: Path, tmp_path: Path
) -> None:
    source = tmp_path / "x.atp"
    run(trajectory, source, codec="zstd")
    raw = bytearray(source.read_bytes())
    raw[8192] ^= 0xFF  # the magic number of the first record's frame
    source.write_bytes(raw)
    with pytest.raises(CorruptFileError, match="molecule 0"):
        run(source, tmp_path / "y.atp")
    report = run(source, tmp_path / "y.atp", on_error="skip")
    assert len(apt.AtpDataset(tmp_path / "y.atp")) == len(images) - 1
    ((what, why),) = report.skipped
    assert what == "structures"
    assert "molecule 0" in why


def test_existing_targets(trajectory: Path, tmp_path: Path) -> None:
    for name in ("x.atp", "x.db"):
        run(trajectory, tmp_path / name)
        with pytest.raises(FileExistsError, match=name):
            run(trajectory, tmp_path / name)
        run(trajectory, tmp_path / name, mode="w")


def test_wrong_arguments(trajectory: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.atp"
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("mode: expected", {"mode": "r"}),
        ("on_error: expected", {"on_error": "ignore"}),
        ("format: expected", {"format": "lammps"}),
        ("target format: expected", {"target": "npz"}),
        ("padding: only arrays", {"padding": 0}),
        ("codec: expected", {"codec": "gzip"}),
        ("key_map: no molecule", {"key_map": {"nothing": "energy"}}),
    ]
    for text, options in wrong:
        with pytest.raises(ValueError, match=text):
            run(trajectory, target, **options)
    with pytest.raises(ValueError, match="at least one"):
        run([], target)
    with pytest.raises(ValueError, match="which is not appended to"):
        run(trajectory, tmp_path / "x.db", mode="a")
    with pytest.raises(ValueError, match=r"the suffix '.npz'"):
        run(trajectory, tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError, match="none"):
        run(tmp_path / "none", target)
    assert not target.exists()
    run(trajectory, target)
    with pytest.raises(ValueError, match="is a source itself"):
        run(target, target, mode="w")


INTERRUPTED = """
    import sys, time
    import ase, ase.io
    def images(*_, **__):
        for i in range(100_000_000):
            yield ase.Atoms("H8")
            if i == 2000:
                print("well under way", flush=True)
    ase.io.iread = images
    from atompack_torch.conversion import convert
    convert(sys.argv[1], sys.argv[2], format="ase", progress=False)
"""


@pytest.mark.parametrize("target", ["x.atp", "x.db"])
def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, scripts: ScriptServer, target: str
) -> None:
    (tmp_path / "source").touch()
    script = scripts.start(textwrap.dedent(INTERRUPTED), tmp_path / "source", tmp_path / target)
    script.wait_for("well under way")
    os.kill(script.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in script.wait().stderr
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


GROWTH = """
    import resource, sys
    from atompack_torch.conversion import convert
    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for source in sys.argv[1:3]:
        convert(source, source + ".atp", codec="zstd", progress=False)
        print(peak())
"""


def arrays_of(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"R": rng.normal(size=(n, 20, 3)), "z": np.ones(20, int), "E": np.zeros(n)}


def write_many(path: Path, n: int) -> None:
    """20 atoms a structure; 0.5 kB each in text and databases, 0.5 kB in arrays."""
    if path.suffix == ".npz":
        np.savez(path, **arrays_of(n * 20))
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for key, value in arrays_of(n * 20).items():
                file[key] = value
    elif path.suffix == ".parquet":
        write_many(path.with_suffix(".npz"), n)
        convert(path.with_suffix(".npz"), path, progress=False)
    else:
        positions = np.random.default_rng(0).normal(size=(n, 20, 3))
        images: Iterator[ase.Atoms] = (ase.Atoms("H20", positions=p) for p in positions)
        if path.suffix in (".db", ".aselmdb"):
            with ase.db.connect(path, use_lock_file=False) as database:
                for atoms in images:
                    database.write(atoms)
        else:
            ase.io.write(path, list(images))


@pytest.mark.parametrize(
    "suffix",
    [
        ".traj",
        *(
            pytest.param(each, marks=pytest.mark.exhaustive)
            for each in (".db", ".npz", ".h5", ".aselmdb", ".parquet")
        ),
    ],
)
def test_memory_does_not_grow_with_the_source(tmp_path: Path, suffix: str) -> None:
    """Ten times the structures, the same peak; what is held would show: 5 to 10 kB a structure
    as objects of ASE, 0.5 kB in arrays, so 40 MB at least.
    """
    paths = [tmp_path / f"{n}{suffix}" for n in (800, 8000)]
    for path, n in zip(paths, (800, 8000), strict=True):
        write_many(path, n)
    command = [sys.executable, "-c", textwrap.dedent(GROWTH), *map(str, paths)]
    output = subprocess.run(command, check=True, capture_output=True, timeout=240).stdout
    small, large = map(int, output.split())
    assert large - small < 12_000  # kB: pools and pages of the allocator
    assert len(apt.AtpDataset(f"{paths[1]}.atp")) in (8000, 160_000)
