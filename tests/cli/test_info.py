"""atompack-torch info."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
from reference.commands import Command

import atompack_torch as apt


def test_one_file(fixtures: Path, run: Command) -> None:
    path = fixtures / "gen3.atp"
    found = run("info", "--json", path).document
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


def test_text(fixtures: Path, run: Command) -> None:
    text = run("info", fixtures / "tail_garbage.atp").out
    for part in ("tail 768", "codec zstd (level 3)", "in use", "forces"):
        assert part in text


def test_shards_and_their_sum(fixtures: Path, run: Command) -> None:
    found = run("info", "--json", fixtures / "shards").document
    assert [file["n_molecules"] for file in found["files"]] == [1, 2, 1, 0, 3]
    assert found["n_molecules"] == 7
    assert found["file_bytes"] == sum(file["file_bytes"] for file in found["files"])
    assert "6 files: 14 molecules" in run("info", fixtures / "shards", fixtures / "gen3.atp").out


def test_damaged_file_among_others(fixtures: Path, tmp_path: Path, run: Command) -> None:
    """What can be known is told, and the exit status says that it is not all."""
    for name in ("bad_both", "gen3", "bad_schema_version"):
        shutil.copy(fixtures / f"{name}.atp", tmp_path)
    captured = run("info", "--json", tmp_path, status=1)
    found = json.loads(captured.out)
    assert len(captured.err.splitlines()) == 2
    both, version, sound = found["files"]
    assert "no valid header slot" in both["error"]
    assert "checksum" in both["slots"]["A"]["problem"]
    assert "schema version" in version["error"]
    assert version["slots"]["B"]["generation"] == 1
    assert sound["n_molecules"] == found["n_molecules"] == 7
    assert "cannot be read" in run("info", tmp_path, status=1).out


def test_damaged_slot(fixtures: Path, run: Command) -> None:
    (file,) = run("info", "--json", fixtures / "bad_a_newest.atp").document["files"]
    assert "checksum" in file["slots"]["A"]["problem"]
    assert (file["slots"]["A"]["in_use"], file["slots"]["B"]["in_use"]) == (False, True)
    assert "slot A: damaged: checksum" in run("info", fixtures / "bad_a_newest.atp").out


def test_slots_that_tie(fixtures: Path, run: Command) -> None:
    (file,) = run("info", "--json", fixtures / "odd_generation_tie.atp").document["files"]
    assert (file["slots"]["A"]["in_use"], file["slots"]["B"]["in_use"]) == (True, False)


def test_only_damaged_files(fixtures: Path, run: Command) -> None:
    found = run("info", "--json", fixtures / "bad_both.atp", status=1).document
    assert found["schema"] == {}
    assert found["n_molecules"] == 0


def many(path: Path, n: int) -> Path:
    """A file whose every fourth molecule has forces, and one of whose molecules a property."""
    positions = np.zeros((n, 1, 3), np.float32)
    with apt.AtpWriter(path) as writer:
        for with_forces in (False, True):
            kept = np.arange(n) % 4 == 0
            part = positions[kept if with_forces else ~kept]
            writer.write_arrays(
                positions=part,
                atomic_numbers=np.ones(part.shape[:2], np.uint8),
                energy=np.zeros(len(part)),
                forces=part if with_forces else None,
            )
        writer.write_arrays(
            positions=positions[:1], atomic_numbers=[[1]], properties={"rare": [1.0]}
        )
    return path


def test_labels_are_counted_in_all_records_of_a_small_file(fixtures: Path, run: Command) -> None:
    path = fixtures / "optional_sections.atp"
    labels = run("info", "--json", path).document["labels"]
    expected = apt.AtpDataset(path).statistics().coverage
    assert labels == {"molecules": expected, "nan": {}, "n_looked_at": 4, "exact": True}
    lines = run("info", path).out.splitlines()
    assert [line.split()[-3:] for line in lines if line.split()[0] == "energy"] == [
        ["3", "of", "4"]
    ]
    slots = next(i for i, line in enumerate(lines) if "slot A" in line)
    assert all(lines.index(line) < slots for line in lines if " of 4" in line)


def test_labels_of_a_large_file_are_sampled(tmp_path: Path, run: Command) -> None:
    path = many(tmp_path / "many.atp", 24_000)
    labels = run("info", "--json", path).document["labels"]
    assert (labels["exact"], labels["n_looked_at"]) == (False, 10_000)
    assert 2_400 < labels["molecules"]["forces"] < 2_600
    assert labels["molecules"]["rare"] in (0, 1)
    assert run("info", "--json", path).document["labels"] == labels  # always the same sample
    text = run("info", path).out
    assert re.search(r"forces .* about 2[45]\.\d% \(2,\d{3} of 10,000 sampled\)", text)
    full = run("info", "--full", "--json", path).document["labels"]
    assert full == {
        "molecules": {"energy": 24_000, "forces": 6_000, "rare": 1},
        "nan": {},
        "n_looked_at": 24_001,
        "exact": True,
    }
    assert "1 of 24,001" in run("info", "--full", path).out


def test_a_damaged_record_hinders_counting_alone(fixtures: Path, run: Command) -> None:
    path = fixtures / "bad_section_cut.atp"
    captured = run("info", "--json", path, status=1)
    found = json.loads(captured.out)
    assert found["labels"] is None
    assert found["files"][0]["n_molecules"] == found["n_molecules"] > 0
    assert "molecule 0" in captured.err
    assert "not counted" in run("info", path, status=1).out
