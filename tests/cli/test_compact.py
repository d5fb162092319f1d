"""atompack-torch compact: the options reach apt.compact(), and what it did is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from reference.commands import Command

import atompack_torch as apt


def test_one_file(fixtures: Path, tmp_path: Path, run: Command) -> None:
    source, target = fixtures / "gen3.atp", tmp_path / "new.atp"
    captured = run("compact", "--json", source, target)
    assert json.loads(captured.out) == {
        "n_molecules": 7,
        "bytes_before": source.stat().st_size,
        "bytes_after": target.stat().st_size,
    }
    assert captured.err == ""
    assert target.stat().st_size < source.stat().st_size
    assert apt.AtpDataset(target)[:].positions.equal(apt.AtpDataset(source)[:].positions)


def test_codec_level_and_order(fixtures: Path, tmp_path: Path, run: Command) -> None:
    target = tmp_path / "new.atp"
    sources = [str(fixtures / "gen3.atp"), str(fixtures / "tail_records.atp")]
    options = ["--codec", "zstd", "--level", "7", "--shuffle", "3"]
    before = apt.AtpDataset(sources)
    assert f"{len(before)} molecules" in run("compact", *options, *sources, target).out
    (file,) = run("info", "--json", target).document["files"]
    assert (file["codec"], file["level"], file["dead_bytes"]) == ("zstd", 7, 0)
    order = np.random.default_rng(3).permutation(len(before))
    assert apt.AtpDataset(target)[:].positions.equal(before.batch(order).positions)


def test_what_is_refused(fixtures: Path, tmp_path: Path, run: Command) -> None:
    target = tmp_path / "new.atp"
    source = str(fixtures / "gen3.atp")
    assert "molecule 0" in run("compact", fixtures / "bad_section_cut.atp", target, status=1).err
    assert not target.exists()
    target.write_bytes(b"")
    assert "exists" in run("compact", source, target, status=2).err
