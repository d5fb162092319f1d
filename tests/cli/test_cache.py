"""atompack-torch cache: build, info, verify."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.commands import Command

import atompack_torch as apt

SETTINGS = ["--rad-order", "3", "--rad-cutoff", "4", "--ang-order", "2", "--ang-cutoff", "2.5"]


@pytest.fixture(scope="module")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "torch_cache"


@pytest.fixture
def water(tmp_path: Path) -> Path:
    """Ten molecules: every third without forces, the last without energy."""
    rng = np.random.default_rng(2)
    molecules = []
    for i in range(10):
        n = 2 + i % 4
        labels: dict[str, Any] = {} if i == 9 else {"energy": -float(i)}
        labels |= {} if i % 3 == 0 else {"forces": rng.normal(size=(n, 3))}
        positions = rng.random((n, 3)) * 3
        molecules.append(apt.Molecule(positions, rng.choice([1, 8], n), name=f"m{i}", **labels))
    path = tmp_path / "water.atp"
    with apt.AtpWriter(path) as writer:
        for molecule in molecules:
            writer.write(molecule)
    return path


def test_build(water: Path, tmp_path: Path, run: Command) -> None:
    target = tmp_path / "new.h5"
    options = ["--species", "O,H", *SETTINGS, "--min-cutoff", "0.1", "--threads", 2]
    captured = run("cache", "build", water, target, *options, "--force-derivatives")
    assert "10 entries, features and derivatives in float64" in captured.out
    assert captured.err == ""
    cache = apt.TorchCache(target)
    assert cache.descriptor == apt.ChebyshevDescriptor(["O", "H"], 3, 4.0, 2, 2.5, 0.1)
    batch = apt.AtpDataset(water)[:]
    stored = apt.TorchCacheDataset(cache)[:]
    expected = cache.descriptor.compute(batch, derivatives=True)
    assert torch.equal(stored.features, expected.features)
    assert torch.equal(stored.mask("radial_dG_drij"), batch.mask("forces"))
    assert stored["name"] == batch["name"]
    run("cache", "verify", target)


def test_build_by_defaults(water: Path, tmp_path: Path, run: Command) -> None:
    captured = run("cache", "build", water, tmp_path / "new.h5", *SETTINGS)
    assert captured.err == "species of the data: H,O\n"
    cache = apt.TorchCache(tmp_path / "new.h5")
    assert cache.descriptor == apt.ChebyshevDescriptor(["H", "O"], 3, 4.0, 2, 2.5)
    assert (cache.has_features, cache.has_force_derivatives) == (True, False)


def test_build_like_another(water: Path, folder: Path, tmp_path: Path, run: Command) -> None:
    like = folder / "v2_both_f64_two.h5"
    options = ["--like", like, "--json", "--dtype", "float32", "--no-features"]
    captured = run(
        "cache", "build", water, water, tmp_path / "new.h5", *options, "--force-derivatives"
    )
    found = json.loads(captured.out)
    assert captured.err == ""
    cache = apt.TorchCache(tmp_path / "new.h5")
    assert found == {
        "path": str(tmp_path / "new.h5"),
        "n_entries": 20,
        "file_bytes": (tmp_path / "new.h5").stat().st_size,
        "features": False,
        "force_derivatives": True,
        "storage_dtype": "float32",
        "descriptor": apt.TorchCache(like).descriptor.compat,  # type: ignore[union-attr]
    }
    assert (
        cache.info["descriptor_compat_sha256"]
        == apt.TorchCache(like).info["descriptor_compat_sha256"]
    )


def test_build_of_the_entries_of_a_cache(folder: Path, tmp_path: Path, run: Command) -> None:
    """What the original computed wrongly is computed again."""
    source, target = folder / "v2_both_f64_unwrapped.h5", tmp_path / "new.h5"
    run("cache", "verify", source, status=1)
    run("cache", "build", source, target, "--like", source, "--force-derivatives")
    run("cache", "verify", target)
    ours, theirs = (apt.TorchCacheDataset(path)[:] for path in (target, source))
    for name in ("positions", "atomic_numbers", "forces", "energy", "cell"):
        assert torch.equal(torch.nan_to_num(ours[name]), torch.nan_to_num(theirs[name]))
    assert not torch.allclose(ours.features, theirs.features)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        SETTINGS[:-2],
        [*SETTINGS, "--no-features"],
        [*SETTINGS, "--threads", "0"],
        [*SETTINGS, "--species", "O,O"],
        [*SETTINGS, "--species", "O,"],
        [*SETTINGS, "--min-cutoff", "nan"],
        [*SETTINGS, "--dtype", "float16"],
        [*SETTINGS, "--rad-order", "-1"],
        ["--like", "LIKE", "--rad-order", "3"],
        ["--like", "LIKE", "--species", "O,H"],
        ["--like", "PLAIN"],
        ["CACHE", "--like", "LIKE"],
    ],
    ids=" ".join,
)
def test_wrong_usage_of_build(
    water: Path,
    folder: Path,
    tmp_path: Path,
    run: Command,
    wrong: list[str],
) -> None:
    words = {
        "LIKE": folder / "v2_both_f64_two.h5",
        "CACHE": folder / "v2_both_f64_two.h5",
        "PLAIN": folder / "plain_no_cache.h5",
    }
    target = tmp_path / "new.h5"
    sources = [water, *(words[word] for word in wrong if word == "CACHE")]
    options = [words.get(word, word) for word in wrong if word != "CACHE"]
    captured = run("cache", "build", *sources, target, *options, status=2)
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("atompack-torch")
    assert not target.exists()


def test_bad_data_of_build(water: Path, folder: Path, tmp_path: Path, run: Command) -> None:
    target = tmp_path / "new.h5"
    cases = [
        (["build", water, target, *SETTINGS, "--species", "O,N"], "species O, N"),
        (["build", water, target, "--like", tmp_path / "none.h5"], "No such file"),
        (["build", water, target, "--like", folder / "damaged/truncated.h5"], "truncated"),
        (["build", folder / "damaged/truncated.h5", target, *SETTINGS], "truncated"),
        (["build", tmp_path / "none.atp", target, *SETTINGS], "No such file"),
    ]
    for arguments, message in cases:
        (line,) = run("cache", *arguments, status=1).err.splitlines()
        assert line.startswith("atompack-torch cache: ")
        assert message in line
        assert not target.exists()
    target.write_text("mine")
    assert (
        "exists"
        in run("cache", "build", water, target, *SETTINGS, "--species", "O,H", status=2).err
    )
    assert target.read_text() == "mine"


def test_no_resume(
    water: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    """What a failed build has left is taken up, or thrown away."""
    for limit in ("_FIRST_ATOMS", "_MOST_ATOMS"):
        monkeypatch.setattr(f"atompack_torch.formats.torch_cache.building.{limit}", 2)
    with apt.AtpWriter(water, mode="w") as writer:
        for numbers in ([8, 8], [8, 8, 8], [8, 8], [8, 1]):
            positions = np.arange(3.0 * len(numbers)).reshape(-1, 3)
            writer.write(apt.Molecule(positions, numbers, energy=1.0))
    target = tmp_path / "new.h5"
    run("cache", "build", water, target, *SETTINGS, "--species", "O,N", status=1)
    left = {path.name for path in tmp_path.iterdir()} - {"water.atp"}
    assert left
    run("cache", "build", water, target, *SETTINGS, "--species", "O,H", "--no-resume")
    assert {path.name for path in tmp_path.iterdir()} == {"water.atp", "new.h5"}
    run("cache", "verify", target)


def test_info(folder: Path, run: Command) -> None:
    path = folder / "v2_derivatives_f64_two.h5"
    captured = run("cache", "info", "--json", path)
    assert captured.err == ""
    (file,) = json.loads(captured.out)["files"]
    expected = json.loads((folder / "v2_derivatives_f64_two.expected.json").read_text())
    arrays = np.load(folder / "v2_derivatives_f64_two.expected.npz")
    entries = expected["entry"]
    assert file["n_entries"] == len(entries) == 5
    assert file["n_atoms"] == sum(entry["n_atoms"] for entry in entries)
    assert file["n_with_forces"] == sum(entry["has_forces"] for entry in entries) == 4
    assert file["n_with_energy"] == 5
    assert file["features"] is None
    assert file["force_derivatives"]["n_edges"] == sum(
        len(arrays[key]) for key in arrays if key.endswith("_r_center")
    )
    assert file["force_derivatives"]["n_triplets"] == sum(
        len(arrays[key]) for key in arrays if key.endswith("_a_center")
    )
    assert file["file_bytes"] == path.stat().st_size
    assert (file["version"], file["storage_dtype"]) == (2, "float64")
    assert file["descriptor"]["species"] == expected["descriptor"]["species"]
    assert file["attributes"]["energy_filter_enabled"] is True


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "v2_both_f32_three",
            ["version 2", "features: ", "force derivatives: 9 entries", "float32"],
        ),
        ("legacy_v1_f64_two", ["version 1", '"O", "H"', "payload_format"]),
        ("plain_no_cache", ["3 entries", "no cache", "energy_filter_enabled"]),
        ("v2_both_f64_from_files", ["2 with energy"]),
    ],
)
def test_info_as_text(folder: Path, run: Command, name: str, words: list[str]) -> None:
    text = run("cache", "info", folder / f"{name}.h5").out
    assert [word for word in words if word not in text] == []


def test_info_of_damaged_files(folder: Path, run: Command) -> None:
    """NaN among the attributes, and a sound file next to a damaged one."""
    paths = [folder / "damaged/truncated.h5", folder / "v2_both_f64_two.h5"]
    captured = run("cache", "info", "--json", *paths, status=1)
    broken, sound = json.loads(captured.out)["files"]
    assert set(broken) == {"path", "error"}
    assert sound["attributes"]["energy_filter_max_referenced_energy_per_atom"] == "nan"
    assert len(captured.err.splitlines()) == 1
    assert "cannot be read" in run("cache", "info", *paths, status=1).out
    run("cache", "info", folder / "none.h5", status=1)


def test_verify(folder: Path, run: Command) -> None:
    (line,) = run("cache", "verify", folder / "v2_both_f64_three.h5").out.splitlines()
    assert "11 entries, 11 rows of features, 9 of derivatives, 11 entries computed again" in line
    assert line.endswith("0 faults, 0 differences, 0 warnings")
    path = folder / "v2_both_f64_unwrapped.h5"
    lines = run("cache", "verify", path, status=1).out.splitlines()
    assert len(lines) == 3
    assert all(
        "molecule 1" in line and "computed wrongly by the original" in line for line in lines[:2]
    )
    assert "0 entries computed again" in run("cache", "verify", "--quick", path).out
    run("cache", "verify", "--tolerance", "100", path)
    assert (
        "... and 1 more differences"
        in run("cache", "verify", "--max-faults", "1", path, status=1).out
    )
    run("cache", "verify", "--tolerance", "nan", path, status=2)
    captured = run("cache", "verify", "--json", path, status=1)
    found = json.loads(captured.out)
    assert captured.err == ""
    assert (found["ok"], found["mismatched_entries"], found["n_differences"]) == (False, [1], 2)
    assert {d["entry"] for d in found["differences"]} == {1}
    assert run("cache", "verify", "--json", folder / "v2_both_f64_two.h5").document["ok"] is True


@pytest.mark.parametrize("command", ["verify", "info", "build"])
def test_damaged_files_give_a_message(
    folder: Path, tmp_path: Path, run: Command, command: str
) -> None:
    sound = {"verify": ["section_without_flag"], "info": ["section_without_flag"]}
    sound["build"] = ["section_without_flag"]
    for path in sorted((folder / "damaged").glob("*.h5")):
        target = tmp_path / f"{path.stem}.h5"
        more = [target] if command == "build" else []
        more += ["--species", "O,H", *SETTINGS] if command == "build" else []
        status = 0 if path.stem in sound.get(command, []) else 1
        captured = run("cache", command, path, *more, status=status)
        assert str(path) in captured.out + captured.err or status == 0
        assert "Traceback" not in captured.err
        assert target.exists() == (status == 0 and command == "build")
