"""Commands that write a selection of structures, or other fields: split, filter, sample, ..."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.commands import Command

import atompack_torch as apt
from atompack_torch import conversion

N = 60


def molecules() -> list[apt.Molecule]:
    draw = np.random.default_rng(1)
    return [
        apt.Molecule(
            torch.from_numpy(draw.normal(size=(1 + i % 4, 3))),
            torch.tensor([1, 8, 26, 6][: 1 + i % 4]),
            energy=float(i) if i % 5 else None,
            forces=torch.from_numpy(draw.normal(size=(1 + i % 4, 3))),
            properties={"run": f"é{i // 7}", "step": i % 7},
        )
        for i in range(N)
    ]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "all.atp"
    with apt.AtpWriter(path) as writer:
        writer.write(molecules())
    return path


def energies(path: Path) -> list[float]:
    dataset = apt.AtpDataset(path)
    return dataset[:].energy.tolist() if len(dataset) else []


@pytest.mark.parametrize("suffix", ["atp", "extxyz", "parquet"])
def test_keys_name_fields_of_the_source(
    suffix: str, source: Path, tmp_path: Path, run: Command
) -> None:
    """In formats that map them when they are read, and in others."""
    path = source if suffix == "atp" else tmp_path / f"all.{suffix}"
    if suffix != "atp":
        apt.convert(source, path, progress=False)
    keys = "--key", "step=frame"
    run("filter", path, tmp_path / "f.atp", "frame == 3", *keys, "--quiet")
    assert {*apt.AtpDataset(tmp_path / "f.atp")[:]["frame"].tolist()} == {3}
    run("filter", path, tmp_path / "x.atp", "step == 3", *keys, "--quiet", status=2)
    parts = [tmp_path / "a.atp", tmp_path / "b.atp"]
    by = "--fractions", "0.5,0.5", "--by", "frame", *keys, "--quiet"
    run("split", path, *parts, *by)
    frames = [{*apt.AtpDataset(part)[:]["frame"].tolist()} for part in parts]
    assert frames[0] | frames[1] == {*range(7)}
    assert not frames[0] & frames[1]


@pytest.mark.parametrize("is_large", [False, True])
def test_parts_are_those_of_the_data_set(
    source: Path, tmp_path: Path, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:  # orders are computed in another way
        monkeypatch.setattr("atompack_torch.random_order._DRAWN", 1)
    paths = [tmp_path / f"{i}.atp" for i in range(3)]
    for by in (None, "run"):
        apt.split(source, paths, [0.6, 0.2, 0.2], 5, by, mode="w", progress=False)
        parts = apt.AtpDataset(source).split([0.6, 0.2, 0.2], 5, by)
        for path, part in zip(paths, parts, strict=True):
            numbers = sorted(part[:].index.tolist())
            whole = apt.AtpDataset(source).subset(numbers)
            assert torch.equal(apt.AtpDataset(path)[:].positions, whole[:].positions)
            assert apt.AtpDataset(path)[:]["run"] == whole[:]["run"]


def test_values_stay_as_they_are(source: Path, tmp_path: Path, run: Command) -> None:
    """NaN labels too, which a conversion would take as missing."""
    with apt.AtpWriter(source, mode="a") as writer:
        writer.write(
            apt.Molecule(
                torch.zeros(1, 3, dtype=torch.float64),
                torch.tensor([1]),
                energy=float("nan"),
                forces=torch.zeros(1, 3, dtype=torch.float64),
                properties={"run": "x", "step": 0},
            )
        )
    run("filter", source, tmp_path / "all2.atp", "True", "--quiet")
    assert conversion.diff(source, tmp_path / "all2.atp").equal
    run("filter", source, tmp_path / "nan.atp", "isnan(energy)", "--quiet")
    assert len(apt.AtpDataset(tmp_path / "nan.atp")) == 1


def test_nothing_is_left(source: Path, tmp_path: Path, run: Command) -> None:
    captured = run("filter", source, tmp_path / "none.atp", "energy > 1e9")
    assert f"warnings  the expression is true for none of {N} molecules" in captured.out
    assert f"{N} molecules in" in captured.err  # progress counts those that are read
    assert len(apt.AtpDataset(tmp_path / "none.atp")) == 0
    run("sample", source, tmp_path / "zero.extxyz", 0, "--quiet")
    assert (tmp_path / "zero.extxyz").read_text() == ""


def test_an_empty_source(tmp_path: Path, run: Command) -> None:
    apt.AtpWriter(tmp_path / "empty.atp").close()
    targets = [tmp_path / "a.atp", tmp_path / "b.atp"]
    fractions = "--fractions", "0.5,0.5", "--quiet"
    run("split", tmp_path / "empty.atp", *targets, *fractions, "--by", "name")
    assert [len(apt.AtpDataset(path)) for path in targets] == [0, 0]
    run("filter", tmp_path / "empty.atp", tmp_path / "c.atp", "energy < 0", "--quiet")


def test_rename_and_drop(source: Path, tmp_path: Path, run: Command) -> None:
    renamed = tmp_path / "renamed.atp"
    run("rename", source, renamed, "energy=energy_pbe", "step=frame", "--quiet")
    schema = apt.AtpDataset(renamed).schema
    assert {"energy_pbe", "frame", "run"} <= schema.keys()
    assert not {"energy", "step"} & schema.keys()
    swapped = tmp_path / "swapped.atp"
    run("rename", renamed, swapped, "energy_pbe=energy", "--quiet")
    assert energies(swapped)[1:4] == [1, 2, 3]
    dropped = tmp_path / "dropped.atp"
    run("drop", source, dropped, "forces", "properties/run", "--quiet")
    assert not {"forces", "run"} & apt.AtpDataset(dropped).schema.keys()
    found = conversion.diff(source, dropped)
    assert {name for name, field in found.fields.items() if not field.equal} == {
        "forces",
        "properties/run",
    }


def test_two_fields_swap_names(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        writer.write(
            apt.Molecule(
                torch.zeros(1, 3), torch.tensor([1]), energy=1.0, properties={"other": 2.0}
            )
        )
    keys = {"energy": "other", "other": "energy"}
    conversion.rename(tmp_path / "x.atp", tmp_path / "y.atp", keys, progress=False)
    batch = apt.AtpDataset(tmp_path / "y.atp")[:]
    assert (batch.energy.item(), batch["other"].item()) == (2.0, 1.0)


Arguments = Callable[[Path, Path], list[Any]]


BAD_DATA: list[tuple[Arguments, str]] = [
    (lambda s, t: ["split", s, t, "--fractions", "1", "--by", "energy"], "molecule 0"),
    (lambda s, t: ["rename", s, t, "step=energy"], "'energy': exists already"),
    (lambda s, t: ["filter", s.with_name("gone.atp"), t, "energy < 1"], "gone.atp"),
]
WRONG_USAGE: list[tuple[Arguments, str]] = [
    (lambda s, t: ["rename", s, t, "enrgy=energy_x"], "key_map: unknown name 'enrgy'"),
    (lambda s, t: ["filter", s, t, "enrgy < 1"], "unknown name 'enrgy'"),
    (lambda s, t: ["filter", s, t, "energy <"], "invalid syntax"),
    (lambda s, t: ["filter", s, t, "velocities == 1"], "no molecule has the label"),
    (lambda s, t: ["filter", s, s, "energy < 1"], "is a source itself"),
    (lambda s, t: ["filter", s, t.with_suffix(".docx"), "energy < 1"], "target format"),
    (lambda s, t: ["sample", s, t, 61], "expected at most 60"),
    (lambda s, t: ["sample", s, t, -1], "expected a number from 0"),
    (lambda s, t: ["split", s, t, "--fractions", "0.5,0.5"], "expected as many paths as fractions"),
    (lambda s, t: ["split", s, t, t, "--fractions", "0.5,0.5"], "expected each path once"),
    (lambda s, t: ["split", s, t, "--fractions", "a"], "expected numbers as in"),
    (lambda s, t: ["split", s, t, "--fractions", "0.5"], "add up to 1"),
    (lambda s, t: ["split", s, t, "--fractions", "1", "--by", "runn"], "did you mean 'run'"),
    (lambda s, t: ["rename", s, t, "energy"], "OLD=NEW: expected KEY=NAME"),
    (lambda s, t: ["rename", s, t, "run=positions"], "expected a label or a property"),
    (lambda s, t: ["drop", s, t, "positions"], "is part of every molecule"),
    (lambda s, t: ["drop", s, t, "stepp"], "did you mean 'step'"),
]


@pytest.mark.parametrize(("status", "calls"), [(1, BAD_DATA), (2, WRONG_USAGE)])
def test_refused_calls(
    status: int,
    calls: list[tuple[Arguments, str]],
    source: Path,
    tmp_path: Path,
    run: Command,
) -> None:
    target = tmp_path / "target.atp"
    for arguments, message in calls:
        assert message in run(*arguments(source, target), "--quiet", status=status).err
        assert not target.exists()


def test_existing_targets_stay(source: Path, tmp_path: Path, run: Command) -> None:
    first, second = tmp_path / "a.atp", tmp_path / "b.atp"
    second.write_text("precious")
    command = ["split", source, first, second, "--fractions", "0.5,0.5", "--quiet"]
    assert "--overwrite replaces it" in run(*command, status=2).err
    assert second.read_text() == "precious"
    assert not first.exists()
    run(*command, "--overwrite")
    assert len(apt.AtpDataset(second)) == 30


def test_json(source: Path, tmp_path: Path, run: Command) -> None:
    targets = [tmp_path / "a.atp", tmp_path / "b.atp"]
    captured = run("split", "--fractions", 0.5, 0.5, source, *targets, "--json")
    reports = json.loads(captured.out)
    assert [report["target"] for report in reports] == [str(path) for path in targets]
    assert [report["structures_written"] for report in reports] == [30, 30]
    assert captured.err == ""
    assert (
        run("filter", source, tmp_path / "c.atp", "energy > 9", "--json").document[
            "structures_read"
        ]
        == N
    )


def test_unknown_options_of_functions(source: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="got compression"):
        conversion.sample(source, tmp_path / "x.atp", 3, compression="zstd")
