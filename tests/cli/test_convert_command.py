"""The convert command: options, report, JSON, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from reference.commands import Command

import atompack_torch as apt


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    path = tmp_path / "md.npz"
    rng = np.random.default_rng(3)
    np.savez(
        path,
        R=rng.normal(size=(4, 2, 3)),
        z=[8, 1],
        E_ref=np.arange(4.0),
        F=rng.normal(size=(4, 2, 3)),
        theory="PBE",
    )
    return path


def test_a_report_is_printed(arrays: Path, tmp_path: Path, run: Command) -> None:
    captured = run(
        "convert", arrays, tmp_path / "x.atp", "--codec", "zstd", "--key", "E_ref=energy"
    )
    assert "4 molecules, 8 atoms" in captured.out
    assert "array 'theory': one value for the whole file" in captured.out
    assert "x.atp: 4 molecules in" in captured.err
    assert apt.AtpDataset(tmp_path / "x.atp")[:].energy.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_json_and_quiet(arrays: Path, tmp_path: Path, run: Command) -> None:
    captured = run("convert", arrays, tmp_path / "x.atp", "--json")
    report = json.loads(captured.out)
    assert report["structures_written"] == 4
    assert report["skipped"][0]["what"] == "array 'theory'"
    assert captured.err == ""
    assert run("convert", arrays, tmp_path / "y.atp", "--quiet") == ("", "")


def test_several_sources_units_and_types(arrays: Path, tmp_path: Path, run: Command) -> None:
    run(
        "convert",
        arrays,
        arrays,
        tmp_path / "x.atp",
        "--key=E_ref=energy",
        "--energy-unit=kcal/mol",
        "--force-unit=kcal/mol/Ang",
        "--dtype=float32",
        "--quiet",
    )
    batch = apt.AtpDataset(tmp_path / "x.atp")[:]
    assert len(batch) == 8
    assert batch.energy[1].item() == pytest.approx(0.0433641, rel=1e-5)
    assert str(batch.forces.dtype) == "torch.float32"


def test_there_and_back(arrays: Path, tmp_path: Path, run: Command) -> None:
    run("convert", arrays, tmp_path / "x.atp", "--quiet")
    run("convert", tmp_path / "x.atp", tmp_path / "x.db", "--quiet")
    run("convert", tmp_path / "x.db", tmp_path / "y.dat", "--to", "atp", "--quiet")
    run("convert", arrays, tmp_path / "y.dat", "--to", "atp", "--append", "--quiet")
    run("convert", arrays, tmp_path / "x.db", "--overwrite", "--quiet")
    assert len(apt.AtpDataset(tmp_path / "y.dat")) == 8


@pytest.mark.parametrize(
    "wrong",
    [
        ["--energy-unit=A"],
        ["--stress-unit=eV"],
        ["--key=energy"],
        ["--key==energy"],
        ["--from=lammps"],
        ["--to=npz"],
        ["--codec=gzip"],
        ["--overwrite", "--append"],
        ["--stress-sign=minus"],
    ],
    ids=" ".join,
)
def test_wrong_usage(arrays: Path, tmp_path: Path, run: Command, wrong: list[str]) -> None:
    assert run("convert", arrays, tmp_path / "x.atp", *wrong, status=2).err
    assert not (tmp_path / "x.atp").exists()


def test_a_target_that_is_there(arrays: Path, tmp_path: Path, run: Command) -> None:
    run("convert", arrays, tmp_path / "x.atp")
    assert "--overwrite replaces it" in run("convert", arrays, tmp_path / "x.atp", status=2).err


def test_bad_data(arrays: Path, tmp_path: Path, run: Command) -> None:
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:-30])
    assert run("convert", arrays, tmp_path / "x.atp", "--quiet", status=1).err.startswith(
        f"atompack-torch convert: {arrays}: "
    )
    run("convert", tmp_path / "none.npz", tmp_path / "x.atp", status=1)
    assert not (tmp_path / "x.atp").exists()


def test_help_shows_examples(run: Command) -> None:
    text = run("convert", "--help").out
    assert "--key REF_energy=energy" in text
    assert "--stress-sign" in text
