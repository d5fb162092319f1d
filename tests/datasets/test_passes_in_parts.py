"""Statistics and verification in parts: together the same as one pass over all molecules."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes.client import ScriptServer

import atompack_torch as apt
from atompack_torch.formats.atp.parts import merged_statistics, write_partial_statistics

NewPath = Callable[[], Path]
N = 5000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files: energies of thousands with a spread of one, labels that are missing or NaN."""
    rng = np.random.default_rng(5)
    folder = tmp_path_factory.mktemp("molecules")
    for file in range(2):
        with apt.AtpWriter(folder / f"{file}.atp") as writer:
            for n in (1, 2, 5, 5, 9):
                k = N // 10
                numbers = rng.choice([1, 6, 8, 26], (k, n), p=[0.5, 0.3, 0.15, 0.05])
                references = np.zeros(27)
                references[[1, 6, 8, 26]] = [-13.6, -1029.1, -2041.3, -3500.7]
                energy = references[numbers].sum(1) + rng.normal(size=k)
                energy[::50] = np.nan
                forces = rng.normal(size=(k, n, 3)) * 10
                writer.write_arrays(
                    positions=rng.uniform(0, 5, (k, n, 3)),
                    atomic_numbers=numbers,
                    energy=None if n == 2 else energy,
                    forces=None if n == 5 else forces,
                    properties={"gap": rng.normal(size=k)} if n == 9 else None,
                )
    return folder


def assert_close(one: Any, other: Any, where: str = "") -> None:
    """Integers, text and extrema equal, other numbers to 1e-12, residuals of the fit to 1e-9."""
    if isinstance(one, dict):
        assert [*one] == [*other], where
        for key in one:
            assert_close(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_close(*pair, f"{where}.{number}")
    elif isinstance(one, float) and not where.endswith((".min", ".max", "max_force")):
        tolerance = 1e-9 if "residual" in where else 1e-12
        assert math.isclose(one, other, rel_tol=tolerance), (where, one, other)
    else:
        assert one == other, where


@pytest.mark.parametrize("n_parts", [1, 2, 7])
@pytest.mark.parametrize(
    "options", [{}, {"cutoff": 3.0, "missing": "drop"}, {"fields": ["energy"]}], ids=str
)
def test_merged_statistics(
    folder: Path, tmp_path: Path, n_parts: int, options: dict[str, Any]
) -> None:
    for number in reversed(range(n_parts)):
        part = (number, n_parts)
        path = write_partial_statistics([str(folder)], part, str(tmp_path), options, False)
        assert path == tmp_path / f"part-{number:05}-of-{n_parts:05}.json"
    merged = merged_statistics([str(tmp_path)])
    whole = apt.statistics(folder, **options)
    assert isinstance(whole, apt.Statistics)
    assert_close(merged.document, whole.as_dict())
    if n_parts == 1:
        assert merged.document == whole.as_dict()


def test_more_parts_than_molecules(folder: Path, tmp_path: Path, new_path: NewPath) -> None:
    few = new_path()
    with apt.AtpWriter(few) as writer:
        writer.write(apt.AtpDataset(folder)[:3])
    for number in range(5):
        write_partial_statistics([str(few)], (number, 5), str(tmp_path), {}, False)
    whole = apt.statistics(few)
    assert isinstance(whole, apt.Statistics)
    assert_close(merged_statistics([str(tmp_path)]).document, whole.as_dict())


def test_stored_features(fixtures: Path, tmp_path: Path) -> None:
    """Features are in caches, which are not summed up in parts; the sums are the same code."""
    cache = fixtures.parent / "torch_cache" / "v2_both_f64_two.h5"
    dataset = apt.TorchCacheDataset(cache, fields=["features", "energy"])
    from atompack_torch.datasets.partial_statistics import PartialStatistics, merge

    parts = [dataset._partial_statistics((k, 3), features=True) for k in range(3)]
    parts = [PartialStatistics.of_json(part.as_json(), "x") for part in parts]
    merged = merge(parts)[0]
    assert_close(merged.as_dict(), dataset.statistics(features=True).as_dict())


def test_parts_that_do_not_belong_together(folder: Path, tmp_path: Path) -> None:
    def write(name: str, part: tuple[int, int], path: Path, **options: Any) -> str:
        out = str(tmp_path / f"{name}.json")
        return str(write_partial_statistics([str(path)], part, out, options, False))

    first, second = write("0", (0, 2), folder), write("1", (1, 2), folder)
    other = write("other", (1, 2), folder / "0.atp")
    of_three = write("three", (1, 3), folder)
    with_cutoff = write("cutoff", (1, 2), folder, cutoff=2.0)
    wrong = {
        "expected 2 parts, got none of number 1": [first],
        "part 1: expected it once, got it twice": [first, second, second],
        r"others \(n_molecules, guess\)": [first, other],
        r"others \(parts\)": [first, of_three],
        r"others \(cutoff\)": [first, with_cutoff],
        "got none": [],
    }
    for message, files in wrong.items():
        with pytest.raises(ValueError, match=message):
            merged_statistics(files)
    for text in ("", "{}", "[]", '{"format": 1}', Path(first).read_text().replace("energy", "e")):
        (tmp_path / "damaged.json").write_text(text)
        with pytest.raises(apt.CorruptFileError, match="no statistics of a part"):
            merged_statistics([str(tmp_path / "damaged.json"), second])


@pytest.mark.parametrize("n_parts", [1, 3, 10])
def test_faults_are_found_by_one_part_each(folder: Path, tmp_path: Path, n_parts: int) -> None:
    for path in folder.glob("*.atp"):
        shutil.copy(path, tmp_path)
        data = bytearray((tmp_path / path.name).read_bytes())
        for place in range(20_000, 1_000_000, 100_000):
            data[place : place + 8] = b"\xff" * 8
        (tmp_path / path.name).write_bytes(data + b"tail")
    whole = apt.verify(tmp_path)
    assert isinstance(whole, apt.Verification)
    assert whole.n_faults > 5
    parts = [apt.verify(tmp_path, part=(number, n_parts)) for number in range(n_parts)]
    found = [fault for part in parts for fault in part.faults]
    assert found == whole.faults
    assert sum(part.n_molecules for part in parts) == whole.n_molecules
    assert sum(part.n_bytes for part in parts) == whole.n_bytes
    tails = [w for part in parts for w in part.warnings if "behind the last commit" in w]
    assert len(tails) == 2
    assert {fault.path for fault in found} == set(whole.files)


def test_files_that_cannot_be_opened(folder: Path, tmp_path: Path) -> None:
    """They concern all parts, whose ranges depend on them."""
    shutil.copy(folder / "0.atp", tmp_path / "a.atp")
    (tmp_path / "b.atp").write_bytes(b"ATPK" + bytes(300))
    for number in range(2):
        found = apt.verify(tmp_path, part=(number, 2))
        assert found.n_faults == 1
        assert found.n_molecules == N // 4


def test_the_commands(folder: Path, tmp_path: Path, fixtures: Path, scripts: ScriptServer) -> None:
    command = scripts.command
    sums = tmp_path / "sums"
    for number in range(2):
        done = command("stats", folder, "--part", f"{number}/2", "--out", sums)
        assert done.returncode == 0, done.stderr
        assert f"sums of part {number} of 2" in done.stdout
    merged, whole = command("stats", "--merge", sums), command("stats", folder)
    assert merged.stdout == whole.stdout
    as_json = json.loads(command("stats", "--merge", "--json", sums).stdout)
    assert_close(as_json, json.loads(command("stats", "--json", folder).stdout))
    assert command("verify", folder, "--part", "1/2").returncode == 0
    damaged = fixtures / "bad_forces_len.atp"
    assert [command("verify", damaged, "--part", f"{k}/2").returncode for k in range(2)] != [0, 0]
    cache = fixtures.parent / "torch_cache" / "v2_both_f64_two.h5"
    wrong = [
        ("stats", folder, "--part", "0/2"),
        ("stats", folder, "--out", sums),
        ("stats", folder, "--merge", "--cutoff", "2"),
        ("stats", cache, "--part", "0/2", "--out", sums),
        ("stats", "--merge", sums / "part-00000-of-00002.json"),
        ("verify", cache, "--part", "0/2"),
        ("verify", folder, "--part", "2/2"),
    ]
    for arguments in wrong:
        done = command(*arguments)
        assert done.returncode == 2, (arguments, done)
        assert done.stderr.count("\n") == 1 or "usage" in done.stderr
