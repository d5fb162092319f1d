"""atompack-torch stats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.formats.text import histogram


def test_json(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fixtures / "gen3.atp"
    assert cli.main(["stats", "--json", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    expected = apt.AtpDataset(path).statistics().as_dict()
    assert json.loads(captured.out) == json.loads(json.dumps(expected))


def test_text(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stats", str(fixtures / "gen3.atp"), str(fixtures / "shards")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("14 molecules, 61 atoms")
    assert "atoms a molecule:" in text


def test_no_molecules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apt.AtpWriter(tmp_path / "a.atp").close()
    assert cli.main(["stats", str(tmp_path / "a.atp")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "0 molecules, 0 atoms"


def test_units_are_those_of_head_and_info(
    fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(fixtures / "gen3.atp")
    assert cli.main(["stats", path, "--cutoff", "5"]) == 0
    text = capsys.readouterr().out
    for part in (
        *("energy (usually eV): mean", "energy_per_atom (usually eV): mean"),
        *("forces (usually eV/Å): mean", " (usually eV/Å) (molecule "),
        "neighbors within 5 (usually Å): ",
    ):
        assert part in text
    assert cli.main(["info", path]) == 0
    text = capsys.readouterr().out
    assert "usual unit" in text
    rows = [line.split() for line in text.splitlines()]
    units = {row[0]: row[-2] for row in rows if row and row[-1] == "all"}
    assert units["positions"] == "Å"
    assert units["energy"] == "eV"
    assert units["forces"] == "eV/Å"
    assert units["atomic_numbers"] == "()"  # none


def test_options(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(fixtures / "optional_sections.atp")
    assert cli.main(["stats", "--json", "--missing", "error", path]) == 1
    assert "no such value" in capsys.readouterr().err
    assert cli.main(["stats", "--json", "--missing", "drop", path, "--fields", "energy"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["coverage"] == {"energy": found["n_molecules"]}
    assert 0 < found["n_molecules"] < len(apt.AtpDataset(path))


def test_histogram() -> None:
    assert histogram({}) == []
    lines = histogram({3: 10, 4: 5})
    assert [line.split() for line in lines[1:]] == [["3", "10", "#" * 40], ["4", "5", "#" * 20]]
    lines = histogram({0: 1, 1000: 2})
    assert len(lines) <= 12
    assert lines[1].split()[:3] == ["0", "to", "100"]
    assert lines[-1].split()[-2] == "2"


def test_histogram_counts_every_molecule() -> None:
    sizes = {n: n + 1 for n in range(7, 300, 3)}
    counts = [int(line.replace(",", "").rstrip("# ").split()[-1]) for line in histogram(sizes)[1:]]
    assert sum(counts) == sum(sizes.values())
