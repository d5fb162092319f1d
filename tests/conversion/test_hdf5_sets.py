"""HDF5 files in the published layouts of ANI-1x, ANI-2x, SPICE and Transition1x."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.units
import h5py
import numpy as np
import pytest
from reference.foreign import assert_refused, converted

import atompack_torch as apt
from atompack_torch.conversion import convert

Group = dict[str, Any]
METHOD = "wB97x_6-31G(d)"


def written(path: Path, groups: dict[str, Group], **options: Any) -> Path:
    """Writes arrays to groups by their paths."""
    with h5py.File(path, "w") as file:
        for name, arrays in groups.items():
            for key, values in arrays.items():
                dataset = file.create_dataset(f"{name}/{key}", data=values, **options)
                assert dataset.name == f"/{name}/{key}"
    return path


def ani_1x(m: int, numbers: list[int], seed: int = 0) -> Group:
    rng, n = np.random.default_rng(seed), len(numbers)
    triples = rng.normal(size=m)
    triples[::2] = np.nan
    return {
        "atomic_numbers": np.array(numbers, "u1"),
        "coordinates": rng.normal(size=(m, n, 3)).astype("f4"),
        "wb97x_dz.energy": rng.normal(size=m),
        "wb97x_dz.forces": rng.normal(size=(m, n, 3)).astype("f4"),
        "wb97x_dz.dipole": rng.normal(size=(m, 3)).astype("f4"),
        "wb97x_dz.cm5_charges": rng.normal(size=(m, n)).astype("f4"),
        "ccsd(t)_cbs.energy": triples,
    }


def ani_2x(m: int, n: int, seed: int = 0) -> Group:
    rng = np.random.default_rng(seed)
    return {
        "species": rng.choice([1, 6, 8, 16], (m, n)),
        "coordinates": rng.normal(size=(m, n, 3)).astype("f4"),
        "energies": rng.normal(size=m),
        "forces": rng.normal(size=(m, n, 3)),
    }


def spice(m: int, numbers: list[int], seed: int = 0) -> Group:
    rng, n = np.random.default_rng(seed), len(numbers)
    return {
        "atomic_numbers": np.array(numbers, "i2"),
        "smiles": np.array([b"[H:1][O:2]"], dtype=object),
        "subset": np.array([b"SPICE PubChem"], dtype=object),
        "conformations": rng.normal(size=(m, n, 3)).astype("f4"),
        "formation_energy": rng.normal(size=m),
        "dft_total_energy": rng.normal(size=m),
        "dft_total_gradient": rng.normal(size=(m, n, 3)).astype("f4"),
        "mbis_charges": rng.normal(size=(m, n, 1)).astype("f4"),
        "mbis_quadrupoles": rng.normal(size=(m, n, 3, 3)).astype("f4"),
        "scf_dipole": rng.normal(size=(m, 3)).astype("f4"),
        "mayer_indices": rng.normal(size=(m, n, n)).astype("f4"),
    }


def reaction(m: int, numbers: list[int], seed: int = 0) -> Group:
    rng, n = np.random.default_rng(seed), len(numbers)
    made: Group = {}
    for i, name in enumerate(("", "product/", "reactant/", "transition_state/")):
        k = 1 if i else m
        made[f"{name}atomic_numbers"] = np.array(numbers)
        made[f"{name}positions"] = rng.normal(size=(k, n, 3))
        made[f"{name}{METHOD}.energy"] = rng.normal(size=k)
        made[f"{name}{METHOD}.forces"] = rng.normal(size=(k, n, 3))
    return made


def joined(groups: dict[str, Group], key: str) -> Any:
    return np.concatenate([g[key].reshape(-1, *g[key].shape[2:]) for g in groups.values()])


def test_ani_1x(tmp_path: Path) -> None:
    groups = {
        "C1H4": ani_1x(5, [6, 1, 1, 1, 1], 1),
        "H2O1": ani_1x(3, [8, 1, 1], 2),
        "O2": ani_1x(2, [8, 8], 3),
    }
    del groups["O2"]["wb97x_dz.forces"]
    path = written(tmp_path / "a.h5", groups)
    dataset, report = converted(path, keep_units=True)
    assert len(dataset) == report.structures_written == 10
    batch = dataset[:]
    assert batch.name == ["C1H4"] * 5 + ["H2O1"] * 3 + ["O2"] * 2
    assert batch.atomic_numbers.tolist() == [6, 1, 1, 1, 1] * 5 + [8, 1, 1] * 3 + [8, 8] * 2
    assert np.array_equal(batch.positions.numpy(), joined(groups, "coordinates"))
    assert str(batch.positions.dtype) == "torch.float32"
    energies = np.concatenate([g["wb97x_dz.energy"] for g in groups.values()])
    assert np.array_equal(batch.energy.numpy(), energies)
    assert batch.mask("forces").tolist() == [True] * 8 + [False] * 2
    assert np.array_equal(dataset[6].forces.numpy(), groups["H2O1"]["wb97x_dz.forces"][1])
    charges = np.concatenate([g["wb97x_dz.cm5_charges"].reshape(-1) for g in groups.values()])
    assert np.array_equal(batch["wb97x_dz.cm5_charges"].numpy(), charges)
    dipoles = np.concatenate([g["wb97x_dz.dipole"] for g in groups.values()])
    assert np.array_equal(batch["wb97x_dz.dipole"].numpy(), dipoles)
    assert np.isnan(batch["ccsd(t)_cbs.energy"].numpy()).sum() == 6
    assert "read as ANI-1x" in report.notes
    assert any("'energy' in Ha, 'forces' in Ha/Ang" in note for note in report.notes)
    assert "energy" in report.source_units
    assert not report.warnings


def test_missing_labels_of_ani_1x(tmp_path: Path) -> None:
    groups = {"H2O1": ani_1x(4, [8, 1, 1])}
    keys = {"ccsd(t)_cbs.energy": "energy"}
    dataset, report = converted(written(tmp_path / "a.h5", groups), key_map=keys)
    assert dataset[:].mask("energy").tolist() == [False, True, False, True]
    assert report.nan_as_missing == {"energy": 2}
    assert dataset[:]["wb97x_dz.energy"].tolist() == groups["H2O1"]["wb97x_dz.energy"].tolist()
    assert report.sources["energy"] == ["ccsd(t)_cbs.energy"]


@pytest.mark.parametrize("symbols", [False, True])
def test_ani_2x_and_comp6(tmp_path: Path, symbols: bool) -> None:
    groups = {"002": ani_2x(4, 2, 1), "010": ani_2x(3, 10, 2)}
    numbers = np.concatenate([g["species"].reshape(-1) for g in groups.values()])
    if symbols:
        names = {1: b"H", 6: b"C", 8: b"O", 16: b"S"}
        for group in groups.values():
            flat = [names[z] for z in group["species"].reshape(-1).tolist()]
            group["species"] = np.array(flat).reshape(group["species"].shape)
    path = written(tmp_path / "a.h5", groups, compression="gzip")
    dataset, report = converted(path, keep_units=True)
    batch = dataset[:]
    assert np.array_equal(batch.atomic_numbers.numpy(), numbers)
    assert np.array_equal(batch.forces.numpy(), joined(groups, "forces"))
    assert np.array_equal(batch.positions.numpy(), joined(groups, "coordinates"))
    assert batch.name == ["002"] * 4 + ["010"] * 3
    assert any(note.startswith("read as ANI-2x or COMP6") for note in report.notes)


def test_spice(tmp_path: Path) -> None:
    groups = {"103": spice(3, [8, 1], 1), "water": spice(2, [8, 1, 1], 2)}
    del groups["water"]["mbis_charges"]
    for group in groups.values():
        group["own"] = -group["dft_total_gradient"]
    path = written(tmp_path / "a.hdf5", groups)
    dataset, report = converted(path, keep_units=True)
    batch = dataset[:]
    assert batch.name == ["103"] * 3 + ["water"] * 2
    assert batch["smiles"] == ["[H:1][O:2]"] * 5
    assert batch["subset"] == ["SPICE PubChem"] * 5
    assert np.array_equal(batch.positions.numpy(), joined(groups, "conformations"))
    assert np.array_equal(batch.forces.numpy(), -joined(groups, "dft_total_gradient"))
    assert batch.mask("mbis_charges").tolist() == [True] * 3 + [False] * 2
    assert (batch.level("mbis_charges"), dataset[0]["mbis_charges"].shape) == ("atom", (2,))
    assert np.array_equal(batch["mbis_quadrupoles"].numpy(), joined(groups, "mbis_quadrupoles"))
    dipoles = np.concatenate([g["scf_dipole"] for g in groups.values()])
    assert np.array_equal(batch["scf_dipole"].numpy(), dipoles)
    assert "mayer_indices" not in batch
    assert any("'mayer_indices'" in what for what, _ in report.skipped)
    assert "'dft_total_gradient' read as forces, times -1" in report.notes
    assert any("'positions' in Bohr" in note for note in report.notes)
    assert not report.warnings

    own, _ = converted(path, key_map={"own": "forces"}, keep_units=True)
    assert np.array_equal(own[:].forces.numpy(), batch.forces.numpy())
    assert np.array_equal(own[:]["dft_total_gradient"].numpy(), -batch.forces.numpy())
    own, report = converted(path, key_map={"dft_total_gradient": "forces"})
    assert [line.partition(",")[0] for line in report.changes] == [
        *("energy: Ha to eV", "positions: Bohr to Å", "forces: Ha/Bohr to eV/Å")
    ]
    assert all("as the source states (keep_units keeps it)" in line for line in report.changes)
    assert any("suggests a gradient" in warning for warning in report.warnings)
    scaled = joined(groups, "conformations").astype("f8") * ase.units.Bohr
    assert np.array_equal(own[:].positions.numpy(), scaled.astype("f4"))
    scaled = joined(groups, "dft_total_gradient") * (ase.units.Hartree / ase.units.Bohr)
    assert np.allclose(own[:].forces.numpy(), scaled)


def test_pairs_of_atoms_by_name(tmp_path: Path) -> None:
    groups = {"a": spice(2, [8, 1], 1), "b": spice(2, [6, 8, 1, 1], 2)}
    dataset, _ = converted(written(tmp_path / "a.h5", groups), key_map={"mayer_indices": "bonds"})
    for i, (name, k) in enumerate([("a", 0), ("a", 1), ("b", 0), ("b", 1)]):
        assert np.array_equal(dataset[i]["bonds"].numpy(), groups[name]["mayer_indices"][k])


def test_transition1x(tmp_path: Path) -> None:
    first, second = reaction(4, [6, 1, 1], 1), reaction(2, [8, 1], 2)
    groups = {"data/CH2/rxn0001": first, "data/HO/rxn0002": second, "train/CH2/rxn0001": first}
    dataset, report = converted(written(tmp_path / "a.h5", groups))
    batch = dataset[:]
    points = ("reactant", "transition_state", "product")
    assert batch.name == [
        *["CH2/rxn0001"] * 4,
        *(f"CH2/rxn0001/{point}" for point in points),
        *["HO/rxn0002"] * 2,
        *(f"HO/rxn0002/{point}" for point in points),
    ]
    order = [f"{name}/" for name in points]
    expected = [r[f"{k}positions"].reshape(-1, 3) for r in (first, second) for k in ("", *order)]
    assert np.array_equal(batch.positions.numpy(), np.concatenate(expected))
    expected = [r[f"{k}{METHOD}.energy"] for r in (first, second) for k in ("", *order)]
    assert np.array_equal(batch.energy.numpy(), np.concatenate(expected))
    expected = [
        r[f"{k}{METHOD}.forces"].reshape(-1, 3) for r in (first, second) for k in ("", *order)
    ]
    assert np.array_equal(batch.forces.numpy(), np.concatenate(expected))
    assert "read as Transition1x" in report.notes
    assert not report.changes  # they are in eV and Å
    split, _ = converted(written(tmp_path / "b.h5", {"val/CH2/rxn0001": first}))
    assert len(split) == 7


def test_blocks_of_many_groups(tmp_path: Path) -> None:
    groups = {f"{i:04}": spice(1 + i % 50, [8, 1, 1][: 1 + i % 3], i) for i in range(200)} | {
        "9999": spice(9_000, [8, 1], 9)
    }
    path = written(tmp_path / "a.h5", groups)
    dataset, report = converted(path, keep_units=True)
    assert report.structures_written == len(dataset)
    batch = dataset[:]
    assert np.array_equal(batch.positions.numpy(), joined(groups, "conformations"))
    energies = np.concatenate([g["dft_total_energy"] for g in groups.values()])
    assert np.array_equal(batch.energy.numpy(), energies)
    for part in range(2):
        convert(path, tmp_path / "parts", part=(part, 2), progress=False, keep_units=True)
    parts = apt.AtpDataset(tmp_path / "parts")[:]
    assert np.array_equal(parts.forces.numpy(), batch.forces.numpy())
    assert parts.name == batch.name


def test_other_files_are_left_to_the_reader_of_arrays(tmp_path: Path) -> None:
    arrays = {"positions": np.zeros((2, 1, 3)), "numbers": np.array([1]), "energy": np.zeros(2)}
    path = written(tmp_path / "a.h5", {"g": arrays})
    assert len(converted(path)[0]) == 2
    with pytest.raises(apt.UnsupportedFormatError, match="expected the groups of ANI-1x, ANI-2x"):
        converted(path, format="hdf5-set")
    known = written(tmp_path / "b.h5", {"O2": ani_1x(2, [8, 8])})
    for format_, padding, is_known in (("hdf5-set", None, True), ("hdf5", 0, False)):
        _, report = converted(known, format=format_, padding=padding)
        assert ("read as ANI-1x" in report.notes) is is_known


@pytest.mark.parametrize("name", ["rmd17", "md22"])
def test_npz_of_molecular_dynamics(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    places, forces, energies = rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 3, 3)), np.ones(4)
    arrays: Group = {"nuclear_charges": np.array([8, 1, 1], "u1"), "coords": places}
    arrays |= {"energies": energies, "forces": forces, "old_energies": 2 * energies}
    arrays |= {"old_forces": 2 * forces, "old_indices": np.arange(4)}
    if name == "md22":
        arrays = {"R": places, "z": np.array([8, 1, 1]), "E": energies[:, None], "F": forces}
        arrays |= {"name": np.array("tri"), "e_unit": np.array("kcal/mol"), "type": np.array("d")}
        arrays |= {"r_unit": np.array("Ang")}
    np.savez(tmp_path / "a.npz", **arrays)
    for kept in (True, False):
        dataset, report = converted(tmp_path / "a.npz", keep_units=kept)
        batch, factor = dataset[:], 1.0 if kept else ase.units.kcal / ase.units.mol
        assert np.array_equal(batch.positions.numpy(), places.reshape(-1, 3))
        assert np.allclose(batch.forces, forces.reshape(-1, 3) * factor, rtol=1e-15)
        assert np.allclose(batch.energy, energies * factor, rtol=1e-15)
        assert batch.atomic_numbers.tolist() == [8, 1, 1] * 4
        assert "kcal/mol" in str(report)


def put(name: str, values: Any) -> Callable[[h5py.File], object]:
    def harm(file: h5py.File) -> None:
        del file[name]
        file[name] = values

    return harm


def unwritten(file: h5py.File) -> None:
    del file["b/wb97x_dz.energy"]
    file.create_dataset("b/wb97x_dz.energy", (3,), "f8")


def claims_much(file: h5py.File) -> None:
    del file["b/coordinates"]
    file.create_dataset("b/coordinates", (1 << 40, 3, 3), "f4", chunks=(1 << 20, 3, 3))


CORRUPT, FIELD = apt.CorruptFileError, apt.FieldError
DAMAGE: list[tuple[Callable[[h5py.File], object], type[Exception], str]] = [
    (put("b/coordinates", np.zeros((3, 2, 3))), CORRUPT, r"expected \(3, 2\) or \(2,\), got \(3"),
    (put("b/coordinates", np.zeros((3, 3))), FIELD, r"energy: expected \(\) .*molecule 2"),
    (put("b/coordinates", np.zeros((3, 0, 3))), CORRUPT, "positions: expected atoms"),
    (put("b/atomic_numbers", np.zeros(4)), CORRUPT, r"expected \(3, 3\) or \(3,\)"),
    (put("b/atomic_numbers", np.zeros(3)), CORRUPT, "expected integers, got float64"),
    (put("b/atomic_numbers", [b"H", b"Q", b"H"]), CORRUPT, "element symbols, got 'Q'"),
    (put("b/atomic_numbers", np.full(3, 999)), FIELD, r"got 999 \(molecule 2\)"),
    (put("b/wb97x_dz.energy", np.zeros(4)), CORRUPT, r"energy: expected \(3,\) rows"),
    (put("b/wb97x_dz.energy", np.zeros((3, 2))), FIELD, r"energy: expected \(\) .* \(2,\)"),
    (put("b/wb97x_dz.forces", np.zeros((3, 3, 2))), FIELD, r"forces: expected \(3,\) .* \(2,\)"),
    (lambda file: file.__delitem__("b/coordinates"), CORRUPT, "an array of positions, got none"),
    (lambda file: file.__delitem__("b/atomic_numbers"), CORRUPT, "of atomic_numbers, got none"),
    (unwritten, FIELD, "parts that were never written"),
    (claims_much, FIELD, "parts that were never written"),
]


@pytest.mark.parametrize(("harm", "kind", "message"), DAMAGE)
def test_damage(
    tmp_path: Path, harm: Callable[[h5py.File], object], kind: type[Exception], message: str
) -> None:
    path = written(tmp_path / "a.h5", {"a": ani_1x(2, [8, 1]), "b": ani_1x(3, [8, 1, 1])})
    with h5py.File(path, "a") as file:
        harm(file)
    assert_refused(path, kind, message)


def test_keys(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", {"O2": ani_1x(2, [8, 8])})
    with pytest.raises(apt.FieldError, match="key_map: no array 'absent'"):
        converted(path, key_map={"absent": "energy"})
    with pytest.raises(apt.FieldError, match="could both be energy"):
        converted(path, key_map={"wb97x_dz.energy": "energy", "ccsd(t)_cbs.energy": "energy"})


def test_every_cut_ends_in_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", {"a": ani_1x(2, [8, 1]), "b": ani_1x(3, [8, 1, 1])})
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, 211):
        path.write_bytes(whole[:size])
        with pytest.raises((apt.CorruptFileError, apt.FieldError, apt.UnsupportedFormatError)):
            converted(path, format="hdf5")
