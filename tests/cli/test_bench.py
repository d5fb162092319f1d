"""atompack-torch bench, as a smoke run."""

from __future__ import annotations

from pathlib import Path

from reference.commands import Command


def test_files(fixtures: Path, run: Command) -> None:
    path = str(fixtures / "gen3.atp")
    first, second = run("bench", "--quick", "--json", path, path).document
    assert first["path"] == second["path"] == path
    assert first["molecules_per_s"] > 0
    assert first["mb_per_s"] > 0
    assert "molecules/s" in run("bench", "--quick", "--threads", "1", path).out


def test_empty_file(fixtures: Path, run: Command) -> None:
    assert "no molecules" in run("bench", "--quick", fixtures / "empty_created.atp", status=1).err


def test_wrong_usage(fixtures: Path, run: Command) -> None:
    assert "--rounds" in run("bench", "--rounds", "0", fixtures / "gen3.atp", status=2).err
