"""atompack-torch bench, as a smoke run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atompack_torch import cli


def test_files(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(fixtures / "gen3.atp")
    assert cli.main(["bench", "--quick", "--rounds", "1", "--json", path]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["path"] == path
    assert result["standings"][0]["molecules_per_s"] > 0


def test_empty_file(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--quick", str(fixtures / "empty_created.atp")]) == 1
    assert "no molecules" in capsys.readouterr().err
