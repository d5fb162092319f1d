"""Selections and comparisons between URLs: targets appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from object_server import ObjectServer, Stored

import atompack_torch as apt
from atompack_torch import cli

FOLDER = "s3://bucket/folder"
N = 40


@pytest.fixture
def sources(objects: ObjectServer, tmp_path: Path) -> list[str]:
    """The same structures as an .atp object, which is read by ranges, and as text."""
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write_arrays(
            positions=np.random.default_rng(0).normal(size=(N, 3, 3)),
            atomic_numbers=np.tile([8, 1, 1], (N, 1)),
            energy=np.arange(float(N)),
            properties={"run": [f"r{i // 8}" for i in range(N)]},
        )
    apt.convert(tmp_path / "a.atp", tmp_path / "a.extxyz", progress=False)
    for name in ("a.atp", "a.extxyz"):
        objects.objects[f"folder/{name}"] = Stored((tmp_path / name).read_bytes())
    return [f"{FOLDER}/a.atp", f"{FOLDER}/a.extxyz"]


def run(server: ObjectServer, *arguments: str) -> int:
    options = [f"--storage-option={name}={value}" for name, value in server.options().items()]
    return cli.main([*arguments, *options])


def energies(url: str, server: ObjectServer) -> list[float]:
    with apt.AtpDataset(url, storage_options=server.options()) as dataset:
        found: list[float] = dataset[:].energy.tolist()
    return found


@pytest.mark.parametrize("number", [0, 1])
def test_commands(number: int, sources: list[str], objects: ObjectServer) -> None:
    source = sources[number]
    target = f"{FOLDER}/new.atp"
    assert run(objects, "filter", source, target, "energy > 36", "--quiet") == 0
    assert energies(target, objects) == [37, 38, 39]
    assert run(objects, "filter", source, target, "energy > 36", "--quiet") == 2  # exists
    more = "--overwrite", "--quiet"
    assert run(objects, "sample", source, target, "4", *more) == 0
    assert len(energies(target, objects)) == 4
    parts = [f"{FOLDER}/train.atp", f"{FOLDER}/test.atp"]
    by_run = "--fractions", "0.8,0.2", "--by", "run"
    assert run(objects, "split", source, *parts, *by_run, "--quiet") == 0
    found = [energies(part, objects) for part in parts]
    assert [len(part) for part in found] == [32, 8]
    assert sorted(found[0] + found[1]) == list(range(N))


def test_a_failure_leaves_no_object(sources: list[str], objects: ObjectServer) -> None:
    before = {*objects.objects}
    assert run(objects, "drop", sources[1], f"{FOLDER}/new.atp", "nothing", "--quiet") == 2
    assert run(objects, "filter", sources[0], f"{FOLDER}/new.atp", "nothing > 1", "--quiet") == 2
    assert {*objects.objects} == before


def test_diff(sources: list[str], objects: ObjectServer) -> None:
    assert run(objects, "diff", *sources) == 0
    assert run(objects, "rename", sources[0], f"{FOLDER}/b.atp", "run=trip", "--quiet") == 0
    assert run(objects, "diff", sources[1], f"{FOLDER}/b.atp") == 1


def test_data_sets_of_urls(sources: list[str], objects: ObjectServer) -> None:
    dataset = apt.AtpDataset(sources[0], storage_options=objects.options())
    assert len(dataset.filter("energy < 5 and 'O' in elements")) == 5
    assert [len(part) for part in dataset.split([0.6, 0.4], 0, by="run")] == [24, 16]


def test_show(
    sources: list[str], objects: ObjectServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(objects, "show", sources[0], "-1") == 0
    assert "molecule 39: H2O" in capsys.readouterr().out
