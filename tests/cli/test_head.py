"""atompack-torch head."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from reference.commands import Command

import atompack_torch as apt
from atompack_torch.formats.text import formula


def test_text(fixtures: Path, run: Command) -> None:
    assert run("head", fixtures / "minimal.atp").out.splitlines() == [
        "molecule 0: HO, 2 atoms",
        "  positions       float32  (2, 3)  usually Å   0 0 0 0.75 0 -1.5",
        "  atomic_numbers  int64    (2,)                8 1",
        "  energy          float64  ()      usually eV  -1.25",
        "  q               float64  (2,)                -0.5 0.5",
        "  id              int64    ()                  7",
        "1 of 1 molecules",
    ]


def test_how_many(fixtures: Path, run: Command) -> None:
    path = str(fixtures / "gen3.atp")
    for n, shown in (("0", 0), ("2", 2), ("100", 7)):
        text = run("head", "-n", n, path).out
        assert text.count("molecule ") == shown
        assert text.endswith(f"{shown} of 7 molecules\n")
    assert "-n: expected a number from 0" in run("head", "-n", "-1", path, status=2).err


def test_fields(fixtures: Path, run: Command) -> None:
    path = str(fixtures / "gen3.atp")
    (molecule,) = run("head", "-n", "1", "--json", path, "--fields", "energy").document
    assert list(molecule["fields"]) == ["positions", "atomic_numbers", "energy"]
    assert "nothing" in run("head", "--fields", "nothing", "--json", path, status=2).err


def test_json_holds_all_values(fixtures: Path, run: Command) -> None:
    """Also those for which JSON has no number."""
    path = fixtures / "custom_edge_values.atp"
    molecules = json.loads(
        run("head", "--json", "-n", "1000", path).out,
        parse_constant=lambda text: pytest.fail(f"{text} is no JSON"),
    )
    dataset = apt.AtpDataset(path)
    assert len(molecules) == len(dataset)
    for i, plain in enumerate(molecules):
        molecule = dataset[i]
        assert plain["molecule"] == i
        assert list(plain["fields"]) == molecule.keys()
        for name, held in plain["fields"].items():
            value = molecule[name]
            if isinstance(value, str) or value is None:
                assert held["values"] == value
            else:
                assert held["shape"] == list(value.shape)
                assert str(held["values"]).replace("'", "") == str(value.tolist())


def test_damaged_value(fixtures: Path, run: Command) -> None:
    assert "field 'k'" in run("head", fixtures / "bad_scalar_len.atp", status=1).err


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([6, 1, 1, 8, 1, 1], "CH4O"),
        ([8, 1, 1], "H2O"),
        ([17, 11], "ClNa"),
        ([6, 6, 5], "C2B"),
        ([], ""),
        ([200, 0], "XZ200"),
    ],
)
def test_formula(numbers: list[int], text: str) -> None:
    assert formula(numbers) == text


def test_structured_arrays(tmp_path: Path, run: Command) -> None:
    """Torch has no type for them, so they are examples of shards as NumPy arrays."""
    dtype = [("i", "i4"), ("f", "f8"), ("s", "S2")]
    rows = np.array([(1, 2.5, b"ab"), (2, np.nan, b"\xff")], dtype)
    with apt.ShardWriter(tmp_path / "set", 2, 1) as writer:
        writer.write({"rows": rows, "bytes": np.zeros(1, "V2")})
    (example,) = run("head", "--json", tmp_path / "set").document
    assert example["value"] == {
        "rows": [
            {"i": 1, "f": 2.5, "s": "ab"},
            {"i": 2, "f": "nan", "s": "\\xff"},
        ],
        "bytes": ["\0\0"],
    }
    assert "rows" in run("head", tmp_path / "set").out
