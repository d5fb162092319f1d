"""atompack-torch verify."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atompack_torch import cli


def test_sound(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", str(fixtures / "gen3.atp"), str(fixtures / "shards")]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    (line,) = captured.out.splitlines()
    assert line.startswith("6 files, 14 molecules, ")
    assert line.endswith("0 faults, 0 warnings")


def test_faults_and_warnings(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fixtures / "bad_index_atoms.atp"
    arguments = ["verify", str(path), str(fixtures / "tail_only.atp")]
    assert cli.main(arguments) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith(f"{path}: ") for line in lines] == [True, True, False, False]
    assert lines[2].startswith("warning: ")
    assert lines[3].endswith("2 faults, 1 warnings")
    assert cli.main([*arguments, "--max-faults", "1"]) == 1
    assert "... and 1 more faults" in capsys.readouterr().out


def test_json(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--json", str(fixtures / "bad_index_atoms.atp")]) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.err == ""
    assert [fault["molecule"] for fault in found["faults"]] == [0, 1]
    assert (found["ok"], found["n_faults"]) == (False, 2)
    assert cli.main(["verify", "--json", str(fixtures / "gen3.atp")]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
