"""atompack-torch info."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import atompack_torch as apt
from atompack_torch import cli


def info(capsys: pytest.CaptureFixture[str], *paths: Path, status: int = 0) -> dict[str, Any]:
    """The JSON document."""
    assert cli.main(["info", "--json", *map(str, paths)]) == status
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_one_file(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fixtures / "gen3.atp"
    found = info(capsys, path)
    (file,) = found["files"]
    dataset = apt.AtpDataset(path)
    assert file["path"] == str(path)
    assert file["n_molecules"] == found["n_molecules"] == len(dataset) == 7
    assert file["n_atoms"] == int(dataset.n_atoms.sum())
    assert (file["codec"], file["level"], file["record_format"]) == ("zstd", 3, 2)
    assert file["generation"] == 3
    assert file["slots"]["A"] == {
        "generation": 2,
        "n_molecules": 5,
        "problem": None,
        "in_use": False,
    }
    assert file["slots"]["B"]["in_use"] is True
    parts = ("record_bytes", "schema_bytes", "index_bytes", "dead_bytes", "tail_bytes")
    assert sum(file[part] for part in parts) + 8192 == file["file_bytes"] == path.stat().st_size
    # Two older commits: their indexes of 3 and 5 molecules, and their schemas.
    assert file["dead_bytes"] > 2 * 8 + 8 * 20
    assert file["tail_bytes"] == 0
    assert file["index_bytes"] == 8 + 20 * 7
    assert found["schema"]["forces"] == {"dtype": "float32", "level": "atom", "shape": [3]}


def test_text(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", str(fixtures / "tail_garbage.atp")]) == 0
    text = capsys.readouterr().out
    for part in ("tail 768", "codec zstd (level 3)", "in use", "forces"):
        assert part in text


def test_shards_and_their_sum(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = info(capsys, fixtures / "shards")
    assert [file["n_molecules"] for file in found["files"]] == [1, 2, 1, 0, 3]
    assert found["n_molecules"] == 7
    assert found["file_bytes"] == sum(file["file_bytes"] for file in found["files"])
    assert cli.main(["info", str(fixtures / "shards"), str(fixtures / "gen3.atp")]) == 0
    assert "6 files: 14 molecules" in capsys.readouterr().out


def test_damaged_file_among_others(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can be known is told, and the exit status says that it is not all."""
    for name in ("bad_both", "gen3", "bad_schema_version"):
        shutil.copy(fixtures / f"{name}.atp", tmp_path)
    assert cli.main(["info", "--json", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert len(captured.err.splitlines()) == 2
    both, version, sound = found["files"]
    assert "no valid header slot" in both["error"]
    assert "checksum" in both["slots"]["A"]["problem"]
    assert "schema version" in version["error"]
    assert version["slots"]["B"]["generation"] == 1
    assert sound["n_molecules"] == found["n_molecules"] == 7
    assert cli.main(["info", str(tmp_path)]) == 1
    assert "cannot be read" in capsys.readouterr().out


def test_damaged_slot(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = info(capsys, fixtures / "bad_a_newest.atp")["files"]
    assert "checksum" in file["slots"]["A"]["problem"]
    assert (file["slots"]["A"]["in_use"], file["slots"]["B"]["in_use"]) == (False, True)
    assert cli.main(["info", str(fixtures / "bad_a_newest.atp")]) == 0
    assert "slot A: damaged: checksum" in capsys.readouterr().out


def test_slots_that_tie(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = info(capsys, fixtures / "odd_generation_tie.atp")["files"]
    assert (file["slots"]["A"]["in_use"], file["slots"]["B"]["in_use"]) == (True, False)


def test_only_damaged_files(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = info(capsys, fixtures / "bad_both.atp", status=1)
    assert found["schema"] == {}
    assert found["n_molecules"] == 0
