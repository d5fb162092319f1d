"""The convert command: options, report, JSON, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch.cli import main


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


def run(*arguments: object) -> int:
    return main(["convert", *map(str, arguments)])


def test_a_report_is_printed(
    arrays: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arrays, tmp_path / "x.atp", "--codec", "zstd", "--key", "E_ref=energy") == 0
    captured = capsys.readouterr()
    assert "4 molecules, 8 atoms" in captured.out
    assert "array 'theory': one value for the whole file" in captured.out
    assert "x.atp: 4 molecules in" in captured.err
    assert apt.AtpDataset(tmp_path / "x.atp")[:].energy.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_json_and_quiet(arrays: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arrays, tmp_path / "x.atp", "--json") == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["structures_written"] == 4
    assert report["skipped"][0]["what"] == "array 'theory'"
    assert captured.err == ""
    assert run(arrays, tmp_path / "y.atp", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_several_sources_units_and_types(arrays: Path, tmp_path: Path) -> None:
    status = run(
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
    assert status == 0
    assert len(batch) == 8
    assert batch.energy[1].item() == pytest.approx(0.0433641, rel=1e-5)
    assert str(batch.forces.dtype) == "torch.float32"


def test_there_and_back(arrays: Path, tmp_path: Path) -> None:
    assert run(arrays, tmp_path / "x.atp", "--quiet") == 0
    assert run(tmp_path / "x.atp", tmp_path / "x.db", "--quiet") == 0
    assert run(tmp_path / "x.db", tmp_path / "y.dat", "--to", "atp", "--quiet") == 0
    assert run(arrays, tmp_path / "y.dat", "--to", "atp", "--append", "--quiet") == 0
    assert run(arrays, tmp_path / "x.db", "--overwrite", "--quiet") == 0
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
def test_wrong_usage(
    arrays: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str]
) -> None:
    try:
        status = run(arrays, tmp_path / "x.atp", *wrong)
    except SystemExit as usage:  # argparse itself
        status = int(usage.code or 0)
    assert status == 2
    assert capsys.readouterr().err
    assert not (tmp_path / "x.atp").exists()


def test_a_target_that_is_there(
    arrays: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arrays, tmp_path / "x.atp") == 0
    capsys.readouterr()
    assert run(arrays, tmp_path / "x.atp") == 2
    assert "--overwrite replaces it" in capsys.readouterr().err


def test_bad_data(arrays: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:-30])
    assert run(arrays, tmp_path / "x.atp", "--quiet") == 1
    assert capsys.readouterr().err.startswith(f"atompack-torch convert: {arrays}: ")
    assert run(tmp_path / "none.npz", tmp_path / "x.atp") == 1
    assert not (tmp_path / "x.atp").exists()


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    text = capsys.readouterr().out
    assert "--key REF_energy=energy" in text
    assert "--stress-sign" in text
