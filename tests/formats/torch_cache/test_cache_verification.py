"""verify_cache: what the original wrote is right, and what is wrong in it is found."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from reference.cache_fixture import READABLE

import atompack_torch as apt
from atompack_torch.formats.torch_cache.verification import verify_cache
from atompack_torch.formats.verification import Verification

GOOD = tuple(name for name in READABLE if name != "v2_both_f64_unwrapped")
FEATURES = "torch_cache/features/values"
FORCES = "torch_cache/force_derivatives"


@pytest.fixture(scope="session")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "torch_cache"


Change = Callable[[h5py.File], None]


@pytest.fixture
def changed(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of a fixture, or of another file, that h5py has changed."""

    def change(action: Change, source: str | Path = "v2_both_f64_two") -> Path:
        path = tmp_path / "changed.h5"
        shutil.copyfile(source if isinstance(source, Path) else folder / f"{source}.h5", path)
        with h5py.File(path, "r+") as file:
            action(file)
        return path

    return change


def added(name: str, row: int, difference: Any) -> Change:
    """Adds to the numbers of one row."""

    def action(file: h5py.File) -> None:
        file[name][row] = file[name][row] + difference

    return action


def molecule(positions: Any, numbers: Any, **labels: Any) -> apt.Molecule:
    return apt.Molecule(np.array(positions, float), numbers, **labels)


def built(path: Path, molecules: list[apt.Molecule], **options: Any) -> Path:
    """A cache of these molecules."""
    with apt.AtpWriter(path.with_suffix(".atp")) as writer:
        writer.write(molecules)
    dtype = options.get("dtype", "float64")
    descriptor = options.pop("descriptor", None) or apt.ChebyshevDescriptor(
        ["O", "H"], 3, 4.0, 3, 3.0, dtype=dtype
    )
    dataset = apt.AtpDataset(path.with_suffix(".atp"))
    options = {"force_derivatives": True, "progress": False, **options}
    apt.build_cache(dataset, descriptor, path, **options)
    return path


@pytest.mark.parametrize("name", GOOD)
def test_files_of_the_original_are_sound(folder: Path, name: str) -> None:
    expected = json.loads((folder / f"{name}.expected.json").read_text())
    arrays = np.load(folder / f"{name}.expected.npz")
    found = verify_cache(folder / f"{name}.h5")
    assert (found.faults, found.differences, found.warnings) == ([], [], [])
    assert found.ok
    n = expected["entries"]
    assert found.n_entries == n
    assert found.n_feature_rows == sum(f"e{i}_features" in arrays for i in range(n))
    assert found.n_derivative_rows == sum(f"e{i}_r_dG" in arrays for i in range(n))
    assert found.n_recomputed == max(found.n_feature_rows, found.n_derivative_rows)


@pytest.mark.parametrize("name", ["v2_both_f32_three", "v2_both_f64_three", "v2_both_f64_single"])
def test_comparison_is_by_numbers(folder: Path, name: str) -> None:
    """Without any tolerance the last digits of the original are seen."""
    found = verify_cache(folder / f"{name}.h5", tolerance=0.0)
    assert not found.ok
    limit = 1e-5 if "f32" in name else 1e-10
    assert 0 < max(difference.largest for difference in found.differences) < limit


def test_atoms_outside_of_the_cell(folder: Path) -> None:
    """The original computed entry 1 wrongly; 0 lies inside, and 2 has no forces."""
    path = folder / "v2_both_f64_unwrapped.h5"
    found = verify_cache(path)
    assert not found.ok
    assert found.n_faults == 0
    assert found.mismatched_entries == [1]
    assert [(d.entry, d.field, d.cause) for d in found.differences] == [
        (1, "features", "unwrapped"),
        (1, "force_derivatives", "unwrapped"),
    ]
    for difference in found.differences:
        assert difference.largest > 1e-3 > difference.allowed
        assert difference.message.startswith(f"{path}: {difference.field}: expected ")
        assert "(molecule 1, field " in difference.message
        assert "computed wrongly by the original" in difference.message
    quick = verify_cache(path, recompute=False)
    assert quick.ok
    assert (quick.n_recomputed, quick.n_derivative_rows) == (0, 2)


def test_an_open_direction_that_the_original_reduces(tmp_path: Path, folder: Path) -> None:
    """The features are those of the atoms moved back into the cell, as it stores them."""
    dimer = [[1.0, 1.0, 4.9], [1.0, 1.0, 5.9]]
    moved = [[1.0, 1.0, 4.9], [1.0, 1.0, 0.9]]
    cell, pbc = np.diag([6.0, 6.0, 5.0]), [True, True, False]
    right, wrong = (
        built(tmp_path / name, [molecule(at, [8, 1], cell=cell, pbc=pbc)], force_derivatives=False)
        for name, at in (("right.h5", dimer), ("wrong.h5", moved))
    )
    assert verify_cache(right).ok
    with h5py.File(wrong) as source, h5py.File(right, "r+") as target:
        target[FEATURES][0] = source[FEATURES][0]
    (difference,) = verify_cache(right).differences
    assert (difference.field, difference.cause) == ("features", "open_axis")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (FEATURES, "features"),
        (f"{FORCES}/radial/dG_drij", "force_derivatives"),
        (f"{FORCES}/radial/neighbor_typespin", "force_derivatives"),
        (f"{FORCES}/angular/grads_i", "force_derivatives"),
        (f"{FORCES}/angular/grads_j", "force_derivatives"),
        (f"{FORCES}/angular/grads_k", "force_derivatives"),
        (f"{FORCES}/angular/triplet_typespin", "force_derivatives"),
    ],
)
def test_one_number_that_is_another(changed: Callable[..., Path], name: str, field: str) -> None:
    with h5py.File(changed(lambda file: None)) as file:
        single = np.zeros(len(file[name][0]))
        single[2] = 1e-6
    found = verify_cache(changed(added(name, 0, single)))
    (difference,) = found.differences
    assert (difference.entry, difference.field, difference.cause) == (0, field, None)
    assert 1e-9 < difference.largest < 1e-5
    assert found.mismatched_entries == []


@pytest.mark.parametrize("name", ["radial/neighbor_idx", "angular/center_idx"])
def test_an_index_that_is_another(changed: Callable[..., Path], name: str) -> None:
    def turned(file: h5py.File) -> None:
        values = file[f"{FORCES}/{name}"][1]
        file[f"{FORCES}/{name}"][1] = np.roll(values, 1)

    (difference,) = verify_cache(changed(turned)).differences
    assert difference.field == "force_derivatives"


def test_the_order_of_rows_and_rows_of_zeros_are_free(changed: Callable[..., Path]) -> None:
    lengths = {"radial": "n_radial_edges", "angular": "n_angular_triplets"}

    def turned(file: h5py.File) -> None:
        index = file[f"{FORCES}/index"][:]
        rng = np.random.default_rng(1)
        for group, column in lengths.items():
            n = int(index[column][0])
            order = rng.permutation(n)
            for dataset in file[f"{FORCES}/{group}"].values():
                rows = dataset[0].reshape(n, -1)[order]
                more = np.zeros_like(rows[:1])
                dataset[0] = np.concatenate([rows, more]).ravel()
            index[column][0] += 1
        file[f"{FORCES}/index"][:] = index

    path = changed(turned)
    assert len(apt.TorchCache(path).load_force_derivatives(0)["radial_center_idx"]) > 1
    found = verify_cache(path)
    assert (found.differences, found.faults) == ([], [])


def test_not_a_number_is_a_difference(changed: Callable[..., Path]) -> None:
    path = changed(added(f"{FORCES}/angular/grads_k", 1, np.nan))
    found = verify_cache(path)
    (difference,) = found.differences
    assert difference.largest == np.inf
    assert (
        json.loads(json.dumps(found.as_dict(), allow_nan=False))["differences"][0]["largest"]
        is None
    )
    assert found.warnings == [f"{path}: 1 entries store NaN or infinite values"]
    quick = verify_cache(path, recompute=False)
    assert quick.ok
    assert quick.warnings == found.warnings


def straight(**options: Any) -> list[apt.Molecule]:
    """A straight molecule, and a bent one."""
    forces = np.ones((3, 3))
    return [
        molecule([[0, 0, 0], [0, 0, 1.2], [0, 0, -1.2]], [8, 1, 1], forces=forces),
        molecule([[0, 0, 0], [0, 0, 1.2], [0, 1.0, -0.7]], [8, 1, 1], forces=forces),
    ]


@pytest.mark.parametrize(("dtype", "differs"), [("float32", [1]), ("float64", [0, 1])])
def test_straight_angles_in_single_precision(
    tmp_path: Path, dtype: str, differs: list[int]
) -> None:
    """The original's gradients are off by up to 1e-3 there, and only there."""
    path = built(tmp_path / "new.h5", straight(), dtype=dtype)
    assert verify_cache(path).ok
    with h5py.File(path, "r+") as file:
        for row in (0, 1):
            values = file[f"{FORCES}/angular/grads_j"][row]
            values[3:6] += 1e-3
            file[f"{FORCES}/angular/grads_j"][row] = values
    assert [d.entry for d in verify_cache(path).differences] == differs


def test_contradictions_to_the_table_of_entries(changed: Callable[..., Path]) -> None:
    def action(file: h5py.File) -> None:
        meta = file["entries/meta"][:]
        meta["has_forces"] = 1 - meta["has_forces"]
        file["entries/meta"][:] = meta

    found = verify_cache(changed(action))
    assert [fault.molecule for fault in found.faults] == list(range(found.n_entries))
    assert "expected none as /entries/meta says, got forces" in found.faults[0].message


def test_damage_in_one_row_leaves_the_others(changed: Callable[..., Path]) -> None:
    def action(file: h5py.File) -> None:
        values = file[f"{FORCES}/radial/center_idx"][1]
        values[0] = 99
        file[f"{FORCES}/radial/center_idx"][1] = values
        structure = file["entries/structures"][1]
        file["entries/structures"][1] = structure[: len(structure) // 2]

    path = changed(action)
    found = verify_cache(path)
    assert found.n_entries == 3
    assert [fault.molecule for fault in found.faults] == [1, 2]
    assert all(fault.message.startswith(f"{path}: ") for fault in found.faults)
    assert all(f"molecule {fault.molecule}" in fault.message for fault in found.faults)
    assert (found.n_feature_rows, found.n_recomputed) == (1, 1)
    few = verify_cache(path, max_faults=1)
    assert (few.n_faults, [fault.molecule for fault in few.faults]) == (2, [1])


def test_entries_that_the_descriptor_cannot_compute(changed: Callable[..., Path]) -> None:
    """Its species are others: in both texts, with their hashes."""
    path = changed(described(species=["O", "N"]))
    found = verify_cache(path)
    with_hydrogen = [i for i, m in enumerate(apt.TorchCacheDataset(path)) if 1 in m.atomic_numbers]
    assert len(with_hydrogen) > 1
    assert [fault.molecule for fault in found.faults] == with_hydrogen
    assert found.n_recomputed == found.n_entries - len(with_hydrogen)
    for fault in found.faults:
        assert fault.message.startswith(f"{path}: atomic_numbers: expected one of the species O, N")
        assert f"(molecule {fault.molecule}, field 'atomic_numbers')" in fault.message


def described(**settings: Any) -> Change:
    """A different descriptor in all places of a file, with right hashes."""

    def action(file: h5py.File) -> None:
        for group, name in (
            ("torch_cache", "descriptor_compat"),
            (FORCES, "descriptor_compat"),
            ("descriptor_manifest", "config"),
        ):
            attributes = file[group].attrs
            text = attributes[f"{name}_json"]
            known = json.loads(text.decode() if isinstance(text, bytes) else text)
            text = json.dumps(known | settings, sort_keys=True, separators=(",", ":"))
            attributes[f"{name}_json"] = text
            attributes[f"{name}_sha256"] = hashlib.sha256(text.encode()).hexdigest()

    return action


def test_more_rows_than_the_file_can_justify(tmp_path: Path, changed: Callable[..., Path]) -> None:
    """A file that names a cutoff of 12 units and stores the rows of one of 3."""
    one = molecule([[0, 0, 0]], [8], cell=np.eye(3) * 2.4, pbc=[True] * 3, forces=np.zeros((1, 3)))
    path = changed(described(ang_cutoff=12.5), built(tmp_path / "new.h5", [one]))
    (fault,) = verify_cache(path).faults
    message = r"force_derivatives: expected about 618 edges and 190653 triplets, got 18 and 15 "
    assert re.search(message + r"\(molecule 0", fault.message)


def test_more_features_than_the_file_can_justify(
    tmp_path: Path, changed: Callable[..., Path]
) -> None:
    """Of many atoms without neighbors, and functions of high orders."""
    n = 300
    far = molecule(np.arange(3 * n).reshape(n, 3) * 20.0, [8] * n, forces=np.zeros((n, 3)))
    path = built(tmp_path / "new.h5", [far], features=False)
    assert verify_cache(path).n_recomputed == 1
    high = apt.ChebyshevDescriptor(["O", "H"], 1000, 4.0, 1000, 3.0)
    path = built(tmp_path / "high.h5", [far], features=False, descriptor=high)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "atompack_torch.formats.torch_cache.verification._MOST_UNSTORED_BYTES", 9_000_000
        )
        (fault,) = verify_cache(path).faults
    assert "features: expected at most 9000000 bytes to compute" in fault.message
    assert verify_cache(path).ok


def test_another_descriptor_is_not_computed(changed: Callable[..., Path]) -> None:
    def action(file: h5py.File) -> None:
        del file["descriptor_manifest"]
        text = '{"descriptor_class":"some.Other"}'
        for group in ("torch_cache", FORCES):
            file[group].attrs["descriptor_compat_json"] = text
            file[group].attrs["descriptor_compat_sha256"] = hashlib.sha256(
                text.encode()
            ).hexdigest()

    found = verify_cache(changed(action))
    assert found.ok
    assert found.n_recomputed == 0
    (warning,) = found.warnings
    assert warning.startswith("nothing is computed again: ")
    assert "expected the settings of a ChebyshevDescriptor" in warning


def test_entries_without_rows_where_others_have_them(changed: Callable[..., Path]) -> None:
    def action(file: h5py.File) -> None:
        for group, kept in (("torch_cache/features", 2), (FORCES, 1)):
            index = file[f"{group}/index"][:kept]
            del file[f"{group}/index"]
            file.create_dataset(f"{group}/index", data=index, chunks=(2,), maxshape=(None,))
        file[FEATURES].resize((2,))
        for group in ("radial", "angular"):
            for dataset in file[f"{FORCES}/{group}"].values():
                dataset.resize((1,))

    found = verify_cache(changed(action))
    assert found.ok
    assert (found.n_feature_rows, found.n_derivative_rows) == (2, 1)
    assert [warning.split(": ")[1] for warning in found.warnings] == [
        "1 entries have forces but no derivatives, where others have both",
        "1 entries have no features, where others have",
    ]


def test_damaged_files(folder: Path, damaged_caches: Path) -> None:
    names = sorted(damaged_caches.glob("*.h5"))
    assert len(names) == 16
    for path in [*names, folder / "v2_both_f64_blosc.h5"]:
        found = verify_cache(path)
        assert found.ok == (path.stem == "section_without_flag")
        assert all(fault.message.startswith(f"{path}: ") for fault in found.faults)


def test_any_damage_gives_an_answer(folder: Path, tmp_path: Path) -> None:
    """Bytes changed at random: faults, differences, or nothing that matters; nothing else."""
    rng = np.random.default_rng(11)
    path = tmp_path / "flipped.h5"
    answers = []
    for name in ("v2_both_f64_two", "legacy_v1_f64_two"):
        whole = (folder / f"{name}.h5").read_bytes()
        for _ in range(60):
            damaged = np.frombuffer(whole, np.uint8).copy()
            damaged[rng.integers(0, len(damaged), rng.integers(1, 30))] = rng.integers(0, 256)
            path.write_bytes(damaged.tobytes())
            found = verify_cache(path, num_threads=1)
            assert all(fault.message.startswith(f"{path}: ") for fault in found.faults)
            answers.append(found.ok)
    assert set(answers) == {True, False}


def test_many_entries_on_many_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    molecules = [
        molecule(rng.random((n, 3)) * 4, rng.choice([1, 8], n), forces=rng.random((n, 3)))
        for n in rng.integers(0, 12, 300)
    ]
    path = built(tmp_path / "new.h5", molecules)
    with h5py.File(path, "r+") as file:
        wrong = [i for i in (0, 63, 64, 65, 200, 299) if len(file[FEATURES][i])]
        for i in wrong:
            file[FEATURES][i] = file[FEATURES][i] + 1e-3
    told: list[int] = []
    found = verify_cache(path, num_threads=4, progress=told.append)
    assert [d.entry for d in found.differences] == wrong
    assert len(wrong) > 3
    assert sum(told) == found.n_recomputed == found.n_entries == 300
    assert isinstance(found, Verification)
    alone = verify_cache(path, num_threads=1)
    assert alone.as_dict() == found.as_dict()


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        verify_cache(tmp_path / "none.h5")
