"""`diff`: two datasets compared with each other and with a slow reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.commands import Command

import atompack_torch as apt
from atompack_torch import conversion

N = 500


def molecules(**changes: Any) -> list[apt.Molecule]:
    draw = np.random.default_rng(7)
    made = []
    for i in range(N):
        n = 1 + i % 5
        made.append(
            apt.Molecule(
                torch.from_numpy(draw.normal(size=(n, 3))),
                torch.full((n,), 6),
                energy=float("nan") if i == 9 else float(i),
                forces=torch.from_numpy(draw.normal(size=(n, 3))) if i % 3 else None,
                name=f"é{i}",
                properties={"ragged": torch.zeros(i % 3 + 1, 2), "count": i},
            )
        )
    return made


def write(path: Path, items: list[apt.Molecule]) -> Path:
    with apt.AtpWriter(path, mode="w") as writer:
        writer.write(items)
    return path


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return write(tmp_path / "a.atp", molecules())


def test_equal_data(a: Path, tmp_path: Path, run: Command) -> None:
    """Blocks of the two need not agree, nor their formats."""
    apt.convert(a, tmp_path / "a.aselmdb", nan_is_missing=False, progress=False)
    for other in (a, tmp_path / "a.aselmdb"):
        found = conversion.diff(a, other, exclude=["name", "properties/ragged", "properties/count"])
        assert {k for k, v in found.fields.items() if not v.equal} <= {"energy"}
    assert run("diff", a, a).out == f"{N} molecules\nequal\n"
    found = conversion.diff(a, a)
    assert found.equal
    assert found.fields["energy"].n_compared == N
    assert found.fields["forces"].n_compared == sum(i % 3 > 0 for i in range(N))


def test_differences_are_counted(a: Path, tmp_path: Path, run: Command) -> None:
    rebuilt = []
    for i, m in enumerate(molecules()):
        fields: dict[str, Any] = {
            "energy": m.energy + (0.5 if i in (3, 400) else 0.0),
            "forces": None if i == 4 else m.forces,
            "name": "other" if i == 6 else m.name,
            "properties": {
                "ragged": torch.zeros(5, 2) if i == 7 else m["ragged"],
                "count": int(m["count"]) + (i == 8),
                **({"new": 1.0} if i == 2 else {}),
            },
        }
        positions = m.positions.clone()
        numbers = m.atomic_numbers
        if i == 10:
            positions[0, 0] += 1e-6
        if i == 11:
            positions, numbers = torch.zeros(9, 3, dtype=torch.float64), torch.full((9,), 6)
            fields["forces"] = None
        rebuilt.append(apt.Molecule(positions, numbers, **fields))
    b = write(tmp_path / "b.atp", rebuilt[:-3])
    found = conversion.diff(a, b)
    fields = found.fields
    assert found.n_structures == (N, N - 3)
    assert not found.equal
    assert (fields["energy"].n_different, fields["energy"].first) == (2, [3, 400])
    assert fields["energy"].max_difference == 0.5
    assert (fields["forces"].n_only_a, fields["forces"].first) == (1, [4])
    assert (fields["name"].n_different, fields["name"].first) == (1, [6])
    assert (fields["properties/ragged"].n_different, fields["properties/ragged"].first) == (1, [7])
    assert (fields["properties/count"].n_different, fields["properties/count"].first) == (1, [8])
    assert (fields["properties/new"].n_only_b, fields["properties/new"].first) == (1, [2])
    assert (fields["positions"].n_different, fields["positions"].first) == (1, [10])
    assert (fields["atomic_numbers"].n_different, fields["atomic_numbers"].first) == (1, [11])
    text = run("diff", a, b, status=1).out
    assert text.startswith("500 molecules in A, 497 in B\n")
    assert "energy: differs in 2 of 496, by up to 0.5; first 3, 400\n" in text
    assert "forces: only in A, in 1 molecule; first 4\n" in text
    assert text.endswith("\ndifferent\n")


def test_tolerances_and_selection_of_fields(a: Path, tmp_path: Path, run: Command) -> None:
    near = [
        apt.Molecule(m.positions * (1 + 1e-7), m.atomic_numbers, energy=m.energy)
        for m in molecules()
    ]
    b = write(tmp_path / "b.atp", near)
    others = ["--exclude", "forces", "name", "properties/ragged", "properties/count"]
    run("diff", a, b, *others, status=1)
    run("diff", a, b, "--rtol", "1e-6", *others)
    run("diff", a, b, "--atol", "1e-5", *others)
    run("diff", a, b, "--fields", "energy")
    run("diff", a, b, "--atol", "-1", status=2)


def test_names_of_fields(tmp_path: Path, run: Command) -> None:
    a, b = (
        write(path, [apt.Molecule(np.zeros((1, 3)), [1], energy=1.0, properties={"i": i})])
        for path, i in ((tmp_path / "a.atp", 1), (tmp_path / "b.atp", 2))
    )
    for name in ("i", "properties/i"):
        assert not conversion.diff(a, b, fields=[name]).equal
        assert conversion.diff(a, b, exclude=[name]).equal
    assert conversion.diff(a, b, fields=["energy", "positions"]).equal
    with pytest.raises(
        apt.FieldError, match="fields: unknown name 'energyy': did you mean 'energy'"
    ):
        conversion.diff(a, b, fields=["energyy"])
    assert (
        "no molecule has the label 'forces'"
        in run("diff", a, b, "--fields", "forces", status=2).err
    )


def test_texts_that_end_in_null_characters(tmp_path: Path) -> None:
    a, b = (
        write(path, [apt.Molecule(np.zeros((1, 3)), [1], name=name)])
        for path, name in ((tmp_path / "a.atp", "a"), (tmp_path / "b.atp", "a\0"))
    )
    assert conversion.diff(a, b).fields["name"].n_different == 1


def test_infinite_numbers_are_near_none(tmp_path: Path) -> None:
    values = [np.inf, np.inf, -np.inf, np.nan, 1.0], [np.inf, 1.0, np.inf, np.nan, np.nan]
    a, b = (
        write(path, [apt.Molecule(np.zeros((1, 3)), [1], energy=energy) for energy in part])
        for path, part in zip((tmp_path / "a.atp", tmp_path / "b.atp"), values, strict=True)
    )
    for tolerances in ({}, {"rtol": 1e-6}, {"rtol": 1e-6, "atol": 1.0}):
        found = conversion.diff(a, b, **tolerances)
        assert found.fields["energy"].first == [1, 2, 4], tolerances


def test_types_are_a_remark(a: Path, tmp_path: Path, run: Command) -> None:
    exact = [apt.Molecule(m.positions.float().double(), m.atomic_numbers) for m in molecules()[:20]]
    narrow = [apt.Molecule(m.positions.float(), m.atomic_numbers) for m in exact]
    paths = write(tmp_path / "x.atp", exact), write(tmp_path / "y.atp", narrow)
    assert "positions: float64 in A, float32 in B\n" in run("diff", *paths).out


def test_empty_and_json(a: Path, tmp_path: Path, run: Command) -> None:
    empty = write(tmp_path / "empty.atp", [])
    assert run("diff", empty, empty, "--json").document == {
        "equal": True,
        "n_structures": [0, 0],
        "fields": {},
    }
    assert run("diff", a, empty, "--json", status=1).document["n_structures"] == [N, 0]
    assert run("diff", empty, a, "--json", status=1).document["n_structures"] == [0, N]


def test_bad_data(a: Path, tmp_path: Path, run: Command) -> None:
    assert "none.atp" in run("diff", a, tmp_path / "none.atp", status=1).err
