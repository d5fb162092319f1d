"""Pictures of the command line: --plot of stats and cache info."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.publishing import hidden_part


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plots")
    rng = np.random.default_rng(0)
    with apt.AtpWriter(folder / "a$b_{.atp") as writer:
        for n in (2, 3, 3, 300):
            writer.write(
                apt.Molecule(
                    rng.uniform(0, 40, (n, 3)),
                    [29] * n,
                    energy=-1.0 * n,
                    forces=rng.normal(size=(n, 3)),
                    properties={"cost_$x^": 1.0, "y" * 90: 1},
                )
            )
    descriptor = apt.ChebyshevDescriptor(["Cu"], 4, 4.0, 2, 3.0)
    dataset = apt.AtpDataset(folder / "a$b_{.atp")
    apt.build_cache(dataset, descriptor, folder / "a.h5", force_derivatives=True, progress=False)
    return folder


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_stats(
    folder: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / f"picture{suffix}"
    picture.write_text("old")
    assert cli.main(["stats", "--json", str(folder / "a$b_{.atp"), "--plot", str(picture)]) == 0
    assert json.loads(capsys.readouterr().out)["n_molecules"] == 4
    magic = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert picture.read_bytes().startswith(magic)
    assert [*tmp_path.iterdir()] == [picture]


def test_parts_of_killed_runs_are_removed(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    begin = hidden_part(picture).name.partition("-")[0]
    for name in (f"{begin}-{ended.pid}-00.part", f"{begin}-1-00.part"):
        (tmp_path / name).touch()
    assert cli.main(["stats", str(folder / "a$b_{.atp"), "--plot", str(picture)]) == 0
    kept = tmp_path / f"{begin}-1-00.part"  # of a process that runs
    assert {*tmp_path.iterdir()} == {picture, kept}


def test_a_picture_shows_the_numbers(folder: Path, tmp_path: Path) -> None:
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):  # words as words
        path = tmp_path / "a.svg"
        assert cli.main(["stats", str(folder / "a$b_{.atp"), "--plot", str(path)]) == 0
    texts = re.findall(r"<text[^>]*>([^<]*)", path.read_text())
    for shown in ("a$b_{.atp: 4 molecules, 308 atoms", "Cu", "atoms by element", "cost_$x^"):
        assert shown in texts


def test_cache_info(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "cache.png"
    assert cli.main(["cache", "info", str(folder / "a.h5"), "--plot", str(picture)]) == 0
    assert "4 entries" in capsys.readouterr().out
    assert picture.stat().st_size > 5000


@pytest.mark.parametrize("command", [["stats"], ["cache", "info"]], ids=" ".join)
def test_wrong_pictures_are_refused_before_reading(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main([*command, "absent", "--plot", "picture.jpg"]) == 2
    assert "expected a .png, .svg or .pdf file" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert cli.main([*command, "absent", "--plot", "picture.png"]) == 2
    assert "needs matplotlib" in capsys.readouterr().err


def test_other_data_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with apt.ShardWriter(tmp_path / "shards", 4, 2) as shards:
        shards.write({"x": 1})
    picture = str(tmp_path / "x.png")
    assert cli.main(["stats", str(tmp_path / "shards"), "--plot", picture]) == 2
    assert "expected molecules" in capsys.readouterr().err
