"""atompack-torch bench, as a smoke run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atompack_torch import cli


def test_files(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(fixtures / "gen3.atp")
    assert cli.main(["bench", "--quick", "--json", path, path]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["path"] == second["path"] == path
    assert first["molecules_per_s"] > 0
    assert first["mb_per_s"] > 0
    assert cli.main(["bench", "--quick", "--threads", "1", path]) == 0
    assert "molecules/s" in capsys.readouterr().out


def test_empty_file(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--quick", str(fixtures / "empty_created.atp")]) == 1
    assert "no molecules" in capsys.readouterr().err


def test_wrong_usage(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--rounds", "0", str(fixtures / "gen3.atp")]) == 2
    assert "--rounds" in capsys.readouterr().err
