"""Several targets of one reading: the same files and reports as of one reading for each."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.batch.columns import Columns
from atompack_torch.conversion import pipeline
from atompack_torch.conversion.pipeline import Options, Output, convert_edited
from atompack_torch.conversion.selecting import Numbers
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source

N = 200
FRACTIONS = (0.6, 0.3, 0.1)


def molecules() -> list[apt.Molecule]:
    return [
        apt.Molecule(
            torch.full((1 + i % 3, 3), float(i)),
            torch.full((1 + i % 3,), 6),
            energy=float(i),
            properties={"step": i},
        )
        for i in range(N)
    ]


def write_source(kind: str, tmp_path: Path) -> Path:
    path = tmp_path / f"all.{kind}"
    if kind == "npz":
        rows = np.arange(N, dtype=float)
        np.savez(path, R=rows[:, None, None] * np.ones(3), z=[6], E=rows, step=rows, odd=[1])
        return path
    made = tmp_path / "all.atp"
    with apt.AtpWriter(made) as writer:
        writer.write(molecules())
    if kind == "extxyz":
        text = "\n".join(
            f"1\nProperties=species:S:1:pos:R:3:tag:S:1 REF_energy={i}.5\nC {i} 0 0 a"
            for i in range(N)
        )
        path.write_text(text + "\n")
    elif kind != "atp":
        target = kind if kind in ("deepmd", "shards") else None
        apt.convert(made, path, target=target, progress=False)
    return path


def facts(report: Report) -> dict[str, object]:
    return report.as_dict() | {"seconds": 0}


def parts(n: int) -> Iterator[Any]:
    shuffled = torch.randperm(n, generator=torch.Generator().manual_seed(3))
    sizes = [round(n * fraction) for fraction in FRACTIONS]
    return (part.sort().values.numpy() for part in torch.split(shuffled, sizes))


def content(path: Path, folder: Path) -> bytes:
    if path.suffix == ".db":  # times and a random id in each row
        apt.convert(path, folder / "content.atp", mode="w", progress=False)
        path = folder / "content.atp"
    return path.read_bytes()


class Readings:
    """Blocks read from sources while a test runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: Counter[str] = Counter()
        real = pipeline.open_source
        monkeypatch.setattr(pipeline, "open_source", lambda *args: self._watched(real(*args)))

    def _watched(self, source: Source) -> Source:
        def read(report: Report) -> Iterator[Columns]:
            self.blocks["readings"] += 1
            for columns in original(report):
                self.blocks["structures"] += len(columns.ptr) - 1
                yield columns

        original, source.read = source.read, read
        return source


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        *((kind, "atp") for kind in ("atp", "db", "aselmdb", "parquet", "npz", "deepmd", "shards")),
        *(("extxyz", suffix) for suffix in ("atp", "extxyz", "db", "parquet")),
    ],
)
def test_one_reading_for_all_targets(
    kind: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_source(kind, tmp_path)
    keys = {"REF_energy": "energy"} if source.suffix == ".extxyz" else {}
    options: dict[str, Any] = {"key_map": keys, "progress": False}
    paths = [tmp_path / f"part-{i}.{suffix}" for i in range(3)]
    readings = Readings(monkeypatch)
    reports = apt.split(source, paths, FRACTIONS, seed=3, **options)
    assert readings.blocks == {"readings": 1, "structures": N}
    for path, numbers, report in zip(paths, parts(N), reports, strict=True):
        alone = tmp_path / f"alone.{suffix}"
        output = Output(alone, [Numbers(numbers)])
        (wanted,) = convert_edited(source, [output], Options(mode="w", **options))
        assert facts(report) == facts(wanted)
        assert report.structures_written == len(numbers)
        assert content(path, tmp_path) == content(alone, tmp_path)


def test_types_that_widen_in_one_of_the_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [tmp_path / f"{i}.extxyz" for i in range(3)]
    for path, value in zip(sources, ("1", "1", "1.5"), strict=True):
        path.write_text(f"1\nProperties=species:S:1:pos:R:3 v={value}\nC 0 0 0\n" * 2)
    readings = Readings(monkeypatch)
    paths = [tmp_path / "a.extxyz", tmp_path / "b.atp"]
    numbers = [np.array([0, 2]), np.array([1, 3, 4, 5])]
    outputs = [Output(path, [Numbers(n)]) for path, n in zip(paths, numbers, strict=True)]
    reports = convert_edited(sources, outputs, Options(progress=False))
    assert readings.blocks == {"readings": 2 * len(sources), "structures": 12}
    assert [report.structures_written for report in reports] == [2, 4]
    assert apt.AtpDataset(paths[1])[:].v.tolist() == [1.0, 1.0, 1.5, 1.5]


def test_nothing_appears_if_the_source_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "all.extxyz"
    frames = [f"1\nProperties=species:S:1:pos:R:3\nC {i} 0 0\n" for i in range(N)]
    frames[-1] = frames[-1].replace("C", "C x")
    path.write_text("".join(frames))
    for suffix in ("atp", "extxyz", "db", "aselmdb", "parquet"):
        made = [tmp_path / f"{name}.{suffix}" for name in "ab"]
        with pytest.raises(apt.CorruptFileError):
            apt.split(path, made, [0.5, 0.5], progress=False)
        assert {each.name for each in tmp_path.iterdir()} == {"all.extxyz"}


def test_blocks_are_kept_for_one_round_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No target is more than a block ahead: all of the source is never in memory."""
    text = "1\nProperties=species:S:1:pos:R:3 REF_energy=1\nC 0 0 0\n" * 5
    sources = [tmp_path / f"{i}.extxyz" for i in range(4)]
    for path in sources:
        path.write_text(text)
    kept: list[weakref.ref[Any]] = []
    real = pipeline.open_source

    def watched(*args: Any) -> Source:
        source = real(*args)
        original = source.read

        def read(report: Report) -> Iterator[Columns]:
            for columns in original(report):
                assert all(block() is None for block in kept[:-1])
                kept.append(weakref.ref(columns.positions))
                yield columns

        source.read = read
        return source

    monkeypatch.setattr(pipeline, "open_source", watched)
    apt.split(sources, [tmp_path / "a.atp", tmp_path / "b.atp"], [0.5, 0.5], progress=False)
    assert len(kept) == len(sources)
