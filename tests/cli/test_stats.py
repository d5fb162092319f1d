"""atompack-torch stats."""

from __future__ import annotations

import json
from pathlib import Path

from reference.commands import Command

import atompack_torch as apt
from atompack_torch.formats.text import histogram


def test_json(fixtures: Path, run: Command) -> None:
    path = fixtures / "gen3.atp"
    captured = run("stats", "--json", path)
    assert captured.err == ""
    expected = apt.AtpDataset(path).statistics().as_dict()
    assert json.loads(captured.out) == json.loads(json.dumps(expected))


def test_text(fixtures: Path, run: Command) -> None:
    text = run("stats", fixtures / "gen3.atp", fixtures / "shards").out
    assert text.startswith("14 molecules, 61 atoms")
    assert "atoms a molecule:" in text


def test_no_molecules(tmp_path: Path, run: Command) -> None:
    apt.AtpWriter(tmp_path / "a.atp").close()
    assert run("stats", tmp_path / "a.atp").out.splitlines()[0] == "0 molecules, 0 atoms"


def test_units_are_those_of_head_and_info(fixtures: Path, run: Command) -> None:
    path = str(fixtures / "gen3.atp")
    text = run("stats", path, "--cutoff", "5").out
    for part in (
        *("energy (usually eV): mean", "energy_per_atom (usually eV): mean"),
        *("forces (usually eV/Å): mean", " (usually eV/Å) (molecule "),
        "neighbors within 5 (usually Å): ",
    ):
        assert part in text
    text = run("info", path).out
    assert "usual unit" in text
    rows = [line.split() for line in text.splitlines()]
    units = {row[0]: row[-2] for row in rows if row and row[-1] == "all"}
    assert units["positions"] == "Å"
    assert units["energy"] == "eV"
    assert units["forces"] == "eV/Å"
    assert units["atomic_numbers"] == "()"  # none


def test_options(fixtures: Path, run: Command) -> None:
    path = str(fixtures / "optional_sections.atp")
    assert "no such value" in run("stats", "--json", "--missing", "error", path, status=1).err
    found = run("stats", "--json", "--missing", "drop", path, "--fields", "energy").document
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
