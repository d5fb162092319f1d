"""atompack-torch verify."""

from __future__ import annotations

import json
from pathlib import Path

from reference.commands import Command


def test_sound(fixtures: Path, run: Command) -> None:
    captured = run("verify", fixtures / "gen3.atp", fixtures / "shards")
    assert captured.err == ""
    (line,) = captured.out.splitlines()
    assert line.startswith("6 files, 14 molecules, ")
    assert line.endswith("0 faults, 0 warnings")


def test_faults_and_warnings(fixtures: Path, run: Command) -> None:
    path = fixtures / "bad_index_atoms.atp"
    arguments = ["verify", str(path), str(fixtures / "tail_only.atp")]
    lines = run(*arguments, status=1).out.splitlines()
    assert [line.startswith(f"{path}: ") for line in lines] == [True, True, False, False]
    assert lines[2].startswith("warning: ")
    assert lines[3].endswith("2 faults, 1 warning")
    assert "... and 1 more faults" in run(*arguments, "--max-faults", "1", status=1).out


def test_json(fixtures: Path, run: Command) -> None:
    captured = run("verify", "--json", fixtures / "bad_index_atoms.atp", status=1)
    found = json.loads(captured.out)
    assert captured.err == ""
    assert [fault["molecule"] for fault in found["faults"]] == [0, 1]
    assert (found["ok"], found["n_faults"]) == (False, 2)
    assert run("verify", "--json", fixtures / "gen3.atp").document["ok"] is True
