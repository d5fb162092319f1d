"""Conversion between .atp files and Atlas shards, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.shards import Reader, assert_same

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.conversion import convert


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "data.atp"
    with apt.AtpWriter(path) as writer:
        for n in range(1, 31):
            labels: dict[str, Any] = {"energy": n / 3, "pbc": [True, False, True]} if n % 4 else {}
            writer.write(
                apt.Molecule(
                    torch.rand(n % 7 + 1, 3),
                    torch.full((n % 7 + 1,), n),
                    forces=torch.rand(n % 7 + 1, 3),
                    name=f"é {n}",
                    properties={"spin": n, "moment": torch.rand(3), "index": n, "tag": "x"},
                    atom_properties={
                        "charge": torch.rand(n % 7 + 1),
                        "batch": torch.rand(n % 7 + 1),
                    },
                    **labels,
                )
            )
    return path


def test_there_and_back(source: Path, tmp_path: Path) -> None:
    shards, back = tmp_path / "shards", tmp_path / "back.atp"
    report = convert(source, shards, target="shards", shards=(8, 3, 1), progress=False)
    assert report.structures_written == 30
    assert [len(shard) for shard in Reader(shards).shards] == [8, 8, 8, 6]
    convert(shards, back, progress=False)
    want = apt.AtpDataset(source).batch(range(30))
    assert_same(apt.AtpDataset(back).batch(range(30)), want)
    got = apt.ShardDataset(shards).batch(range(30))
    assert set(got.keys()) == set(want.keys())
    for name in want.keys():
        assert_same(got[name], want[name], name)
        assert_same(got.mask(name), want.mask(name), name)


_NUMBERS = ["f4", "f8", "i4", "i8", "i1", "u1", "?", "f2"]
_ALL = {f"{kind}_{dtype}": dtype for dtype in _NUMBERS for kind in ("vector", "matrix", "number")}
_NAMES = ["energy", "positions", "atomic_numbers", "batch", "keys", "properties/x", "", "pos", "é"]


def _kinds(n: int) -> list[dict[str, Any]]:
    """Properties of a molecule of n atoms: of each kind, with each awkward name."""
    of_molecule: dict[str, Any] = {"text": "a" * n, "none": None, "empty": np.ones(0)}
    of_atoms: dict[str, Any] = {}
    shapes = {"vector": (3,), "matrix": (2, 2), "number": ()}
    for name, dtype in _ALL.items():
        of_molecule[name] = np.full(shapes[name.partition("_")[0]], n % 2, dtype=dtype)
        of_atoms[f"atoms_{name}"] = np.full((n, *of_molecule[name].shape), n % 2, dtype=dtype)
    return [
        {"properties": of_molecule, "atom_properties": of_atoms},
        {"properties": dict.fromkeys(_NAMES, n)},
        {"atom_properties": {name: np.full(n, 1.5) for name in _NAMES}},
        {"energy": float("nan"), "cell": np.eye(3) * n, "stress": np.eye(3), "name": "é\0"},
    ]


@pytest.mark.parametrize("kind", range(4))
def test_every_kind_of_property(kind: int, tmp_path: Path) -> None:
    source, shards, back = tmp_path / "a.atp", tmp_path / "shards", tmp_path / "b.atp"
    with apt.AtpWriter(source) as writer:
        for n in (3, 1, 2, 4, 0):
            positions, numbers = torch.rand(n, 3), torch.ones(n, dtype=torch.int64)
            writer.write(apt.Molecule(positions, numbers, **_kinds(n)[kind]))
    as_it_is: dict[str, Any] = {"progress": False, "nan_is_missing": False}
    convert(source, shards, target="shards", shards=(3, 2, 1), **as_it_is)
    report = convert(shards, back, **as_it_is)
    assert not report.skipped
    want, got = apt.AtpDataset(source), apt.AtpDataset(back)
    assert got.schema == want.schema
    for i in range(5):
        assert set(got[i].keys()) == set(want[i].keys())
        for name in want[i].keys():
            assert_same(got[i][name], want[i][name], name)


@pytest.mark.parametrize("value", [1j, np.ones(2, np.complex64), np.array([2**64 - 1], np.uint64)])
def test_what_atp_cannot_hold_is_told(value: Any, tmp_path: Path) -> None:
    example = {"positions": np.zeros((3, 3)), "atomic_numbers": np.ones(3, np.int64), "q": 1.0}
    with apt.ShardWriter(tmp_path / "set", 10, 2) as writer:
        writer.write(example | {"p": np.asarray(value)})
    report = convert(tmp_path / "set", tmp_path / "data.atp", progress=False)
    assert [name for name, _ in report.skipped] == ["properties/p"]


def test_examples_are_plain(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "shards", target="shards", progress=False)
    example = Reader(tmp_path / "shards")[0]
    assert type(example["energy"]) is float
    assert type(example["spin"]) is int
    assert example["properties/moment"].shape == (3,)
    assert example["charge"].dtype == np.float32
    assert "properties/index" in example
    assert "atom_properties/batch" in example
    assert example["tag"] == "x"


def test_what_is_no_molecule(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "set", 10, 2) as writer:
        for i in range(5):
            writer.write({"image": np.zeros(3), "label": i})
    with pytest.raises(apt.FieldError, match="expected dicts with positions and atomic_numbers"):
        convert(tmp_path / "set", tmp_path / "data.atp", progress=False)
    assert not (tmp_path / "data.atp").exists()


def test_shards_are_not_replaced(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "shards", target="shards", progress=False)
    with pytest.raises(ValueError, match="shards targets cannot be overwritten: delete"):
        convert(source, tmp_path / "shards", target="shards", mode="w", progress=False)
    with pytest.raises(FileExistsError):
        convert(source, tmp_path / "shards", target="shards", progress=False)
    with pytest.raises(ValueError, match="expected Atlas shards as the target, got atp"):
        convert(source, tmp_path / "other.atp", shards=(1, 1, 0), progress=False)


def test_commands(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = str(tmp_path / "shards")
    options = ["--to", "shards", "--shard-size", "10", "--block-size", "2", "--quiet"]
    assert main(["convert", str(source), shards, *options]) == 0
    capsys.readouterr()
    assert main(["info", shards]) == 0
    text = capsys.readouterr().out
    assert "30 examples in 3 shards" in text
    assert "zstd (level 3)" in text
    assert main(["info", "--json", shards]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["n_examples"] == 30
    assert [shard["n_examples"] for shard in described["data_sets"][0]["shards"]] == [10, 10, 10]
    assert main(["head", shards, "-n", "2"]) == 0
    text = capsys.readouterr().out
    assert "example 1: dict of" in text
    assert "2 of 30 examples" in text
    assert main(["head", "--json", shards, "-n", "1"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["value"]["spin"] == 1
    assert main(["verify", shards]) == 0
    assert "30 examples, 15 blocks: 0 faults" in capsys.readouterr().out


def test_faults_are_found(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = tmp_path / "shards"
    convert(source, shards, target="shards", shards=(10, 2, 1), progress=False)
    data = shards / "1" / "data.bin"
    raw = bytearray(data.read_bytes())
    raw[0] ^= 0xFF
    data.write_bytes(raw)
    assert main(["verify", str(shards)]) == 1
    text = capsys.readouterr().out
    assert f"{data}: " in text
    assert "15 blocks: 1 fault," in text
    assert main(["verify", "--json", str(shards)]) == 1
    assert json.loads(capsys.readouterr().out)["n_faults"] == 1
