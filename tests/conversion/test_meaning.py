"""What becomes of labels: units, signs, virials, NaN, names that suggest another quantity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import ase.db
import ase.io
import h5py
import numpy as np
import pytest
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from reference.extxyz import COLUMNS, one_atom

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.conversion import Changes, Report, convert

M, N = 4, 3
RNG = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "R": RNG.normal(size=(M, N, 3)),
    "z": np.array([8, 1, 1]),
    "E": RNG.normal(size=M),
    "F": RNG.normal(size=(M, N, 3)),
}


def save_npz(path: Path, arrays: dict[str, Any]) -> Path:
    np.savez(path.with_suffix(".npz"), **arrays)
    return path.with_suffix(".npz")


def save_hdf5(path: Path, arrays: dict[str, Any]) -> Path:
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        for key, value in arrays.items():
            file[f"group/{key}"] = value
    return path.with_suffix(".h5")


SAVE = {"npz": save_npz, "hdf5": save_hdf5}


@pytest.fixture(params=SAVE)
def save(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Writes arrays."""
    return lambda arrays: SAVE[request.param](tmp_path / "source", arrays)


def run(source: Path, **options: Any) -> tuple[Report, apt.MoleculeBatch]:
    target = source.with_name("target.atp")
    report = convert(source, target, mode="w", progress=False, **options)
    return report, apt.AtpDataset(target)[:]


def test_only_what_was_done_is_told(save: Callable[[dict[str, Any]], Path]) -> None:
    source = save(
        ARRAYS | {"dipoles": np.ones((M, 3)), "E_atomic": np.ones(M), "q": np.ones((M, N))}
    )
    changes = Changes(energy_unit="kcal/mol", stress_unit="GPa", length_unit="Ang", dtype="float64")
    report, batch = run(source, changes=changes)
    assert [line.split(":")[0] for line in report.changes] == ["energy", "positions"]
    assert report.changes[0].endswith(", in 4 molecules")
    assert report.warnings == [
        "stress_unit: no molecule has stress, so nothing was changed",
    ]
    assert sorted(report.source_units) == ["forces", "properties/E_atomic", "properties/dipoles"]
    assert "forces: left in the unit of the source, no unit was given for it" in report.notes
    assert (
        "properties/dipoles: left in the unit of the source, only labels are converted"
        in report.notes
    )
    assert report.sources["energy"] == ["E"]
    assert "from 'E'" in str(report)
    assert batch.energy.tolist() != ARRAYS["E"].tolist()


def test_without_units_all_is_listed(save: Callable[[dict[str, Any]], Path]) -> None:
    report, _ = run(save(ARRAYS | {"REF_energy": np.ones(M)}))
    assert report.changes == []
    assert sorted(report.source_units) == ["energy", "forces", "properties/REF_energy"]
    assert f"units     as in the source: {', '.join(report.source_units)}" in str(report)
    assert report.as_dict()["source_units"] == report.source_units


def test_units_of_properties_of_atoms(tmp_path: Path) -> None:
    source = tmp_path / "a.extxyz"
    source.write_text(
        one_atom(f"{COLUMNS}:forces:R:3:atomic_energies:R:1 gap=2", "H 0 0 0 1 2 3 4")
    )
    report, _ = run(source)
    assert sorted(report.source_units) == [
        "atom_properties/atomic_energies",
        "forces",
        "properties/gap",
    ]


def test_gradients(save: Callable[[dict[str, Any]], Path], tmp_path: Path) -> None:
    arrays = dict(ARRAYS)
    arrays["dft_total_gradient"] = arrays.pop("F")
    keys = {"dft_total_gradient": "forces"}
    report, batch = run(save(arrays), key_map=keys)
    (warning,) = report.warnings
    assert warning.startswith("forces: taken from 'dft_total_gradient', whose name suggests a grad")
    assert "force_sign='flip'" in warning
    want = arrays["dft_total_gradient"].reshape(-1, 3)
    assert batch.forces.tolist() == want.tolist()
    changes = Changes(force_sign="flip", force_unit="Ha/Bohr")
    report, batch = run(save(arrays), key_map=keys, changes=changes)
    assert report.warnings == []
    assert report.changes[1] == "forces: sign flipped, in 4 molecules"
    assert np.allclose(batch.forces, -want * 51.42206707, rtol=1e-6)


def copper() -> ase.Atoms:
    atoms = ase.Atoms("Cu4", cell=[3.5, 3.6, 3.7], pbc=True)
    atoms.set_scaled_positions([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.52, 0.5]])
    return atoms


def test_virials_become_the_stress_of_ase(tmp_path: Path) -> None:
    """The virial of MACE and libAtoms, -dE/dstrain, by differences of energies."""
    atoms = copper()
    atoms.calc = EMT()
    virial = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        energies = []
        for step in (1e-5, -1e-5):
            strain = np.eye(3)
            strain[i, j] += step / 2
            strain[j, i] += step / 2
            strained = atoms.copy()
            strained.set_cell(atoms.cell.array @ strain, scale_atoms=True)
            strained.calc = EMT()
            energies.append(strained.get_potential_energy())
        virial[i, j] = -(energies[0] - energies[1]) / 2e-5
    image, lone = atoms.copy(), ase.Atoms("H")
    image.info["REF_virials"] = lone.info["REF_virials"] = virial
    source = tmp_path / "a.extxyz"
    ase.io.write(source, [image, lone], format="extxyz")
    keys = {"REF_virials": "stress"}
    report, batch = run(source, key_map=keys)
    (warning,) = report.warnings
    assert "name suggests a virial" in warning
    assert "stress_from='virial'" in warning
    report, batch = run(source, key_map=keys, changes=Changes(stress_from="virial"))
    assert report.warnings == []
    assert np.allclose(batch.stress[0], atoms.get_stress(voigt=False), atol=1e-7)
    assert batch.mask("stress").tolist() == [True, False]
    assert report.skipped == {("stress", "a virial needs a cell with a volume"): 1}
    assert report.changes == ["stress: virial to stress, -virial / volume, in 1 molecule"]
    units = Changes(stress_from="virial", energy_unit="Ha", length_unit="Bohr", stress_sign="flip")
    _, other = run(source, key_map=keys, changes=units)
    factor = -ase.units.Hartree / ase.units.Bohr**3
    assert np.allclose(other.stress[0], batch.stress[0] * factor, rtol=1e-12)


BOX = 'Lattice="2 0 0 0 2 0 0 0 2"'
VIRIAL, STRESS = 'virial="8 0 0 0 16 0 0 0 24"', 'stress="9 9 9 0 0 0"'


@pytest.mark.parametrize(
    ("texts", "keys", "stress", "n_skipped"),
    [
        ([VIRIAL], {}, [[-1, -2, -3]], 0),
        ([VIRIAL + " " + STRESS], {}, [[-1, -2, -3]], 1),
        ([VIRIAL.replace("virial", "virials") + " " + STRESS], {}, [[-1, -2, -3]], 1),
        ([STRESS, VIRIAL], {}, [[9, 9, 9], [-1, -2, -3]], 0),
        ([STRESS], {"stress": "stress"}, [[-1.125, -1.125, -1.125]], 0),
        ([VIRIAL + " w='8 0 0 0 8 0 0 0 8'"], {"w": "stress"}, [[-1, -1, -1]], 0),
    ],
)
def test_the_virial_becomes_the_stress(
    tmp_path: Path,
    texts: list[str],
    keys: dict[str, str],
    stress: list[list[float]],
    n_skipped: int,
) -> None:
    source = tmp_path / "a.extxyz"
    source.write_text("".join(one_atom(f"energy=1 {text} {BOX}") for text in texts))
    report, batch = run(source, key_map=keys, stress_from="virial", energy_unit="meV")
    factors = np.array([1.0 if text == STRESS and not keys else 1e-3 for text in texts])
    expected = np.array(stress) * factors[:, None]
    assert np.allclose(np.diagonal(batch.stress.numpy(), axis1=1, axis2=2), expected, rtol=1e-14)
    assert report.warnings == []
    assert report.skipped.total() == n_skipped


def test_a_file_without_a_virial_keeps_its_stress(tmp_path: Path) -> None:
    source = tmp_path / "a.extxyz"
    source.write_text(one_atom(f"energy=1 {STRESS} {BOX}"))
    report, batch = run(source, stress_from="virial")
    (warning,) = report.warnings
    assert warning.startswith("stress_from: no molecule has virial, so nothing was changed: key_")
    assert batch.stress[0, 0, 0].item() == 9
    source.write_text(one_atom(f"energy=1 {VIRIAL} {VIRIAL.replace('virial', 'virials')} {BOX}"))
    with pytest.raises(apt.FieldError, match="got both: key_map="):
        run(source, stress_from="virial")


def nan_arrays() -> dict[str, Any]:
    arrays = {key: np.array(value) for key, value in ARRAYS.items()}
    arrays["E"][1] = np.nan
    arrays["F"][2] = np.nan
    arrays["F"][3, 0, 1] = np.nan
    arrays["stress"] = np.ones((M, 3, 3))
    arrays["stress"][0] = np.nan
    arrays["other"] = np.full(M, np.nan)
    return arrays


def nan_images() -> list[ase.Atoms]:
    arrays = nan_arrays()
    images = []
    for i in range(M):
        atoms = ase.Atoms("OH2", arrays["R"][i], cell=np.eye(3) * 9, pbc=True)
        results = {
            "energy": arrays["E"][i],
            "forces": arrays["F"][i],
            "stress": arrays["stress"][i],
        }
        atoms.calc = SinglePointCalculator(atoms, **results)
        atoms.info["other"] = np.nan
        images.append(atoms)
    return images


def nan_source(kind: str, folder: Path) -> Path:
    path = folder / f"source.{kind}"
    if kind in ("npz", "h5"):
        return {"npz": save_npz, "h5": save_hdf5}[kind](path, nan_arrays())
    if kind in ("extxyz", "traj"):
        ase.io.write(path, nan_images())
    elif kind == "aselmdb":
        with ase.db.connect(path, use_lock_file=False) as database:
            for atoms in nan_images():
                database.write(atoms, key_value_pairs={"k": 1})
    else:
        with apt.AtpWriter(folder / "first.atp") as writer:
            writer.write(nan_images())
        if kind == "atp":
            return folder / "first.atp"
        convert(folder / "first.atp", path, target="shards", nan_is_missing=False, progress=False)
    return path


@pytest.mark.parametrize("kind", ["npz", "h5", "extxyz", "traj", "aselmdb", "atp", "shards"])
def test_nan_throughout_is_missing(kind: str, tmp_path: Path) -> None:
    source = nan_source(kind, tmp_path)
    report, batch = run(source)
    assert report.nan_as_missing == {"energy": 1, "forces": 1, "stress": 1}
    assert report.partly_nan == {"forces": 1}
    assert "energy: NaN in 1 molecule, taken as missing" in report.changes
    assert any(note.startswith("forces: some values are NaN in 1 mol") for note in report.notes)
    assert batch.mask("energy").tolist() == [True, False, True, True]
    assert batch.mask("forces").tolist() == [True, True, False, True]
    assert batch.mask("stress").tolist() == [False, True, True, True]
    assert batch.forces[9:].isnan().sum().item() == 1
    if kind != "aselmdb":
        assert batch.mask("other").all()
        assert batch["other"].isnan().all()  # nobody knows what it means: as it was
    report, batch = run(source, nan_is_missing=False)
    assert report.nan_as_missing == report.partly_nan == {}
    assert batch.mask("energy").all()
    assert batch.mask("forces").all()


def test_no_atoms_are_no_nan(tmp_path: Path) -> None:
    source = tmp_path / "a.extxyz"
    source.write_text(f"0\n{COLUMNS}:forces:R:3 energy=1\n")
    report, batch = run(source)
    assert report.nan_as_missing == {}
    assert batch.mask("forces").tolist() == [True]


def test_a_collection_of_sgdml(save: Callable[[dict[str, Any]], Path]) -> None:
    """As its datasets are: name, theory and units are arrays without dimensions."""
    more = {"name": np.bytes_(b"ethanol"), "theory": np.bytes_(b"PBE"), "type": np.bytes_(b"d")}
    more |= {"e_unit": np.bytes_(b"kcal/mol"), "E": ARRAYS["E"][:, None]}
    report, batch = run(save(ARRAYS | more), keep_units=True)
    assert batch["name"] == ["ethanol"] * M
    assert batch.energy.tolist() == ARRAYS["E"].tolist()
    assert "array 'theory'" in {what for what, _ in report.skipped} or batch["theory"]
    assert any("'energy' in kcal/mol" in line for line in report.notes)
    report, batch = run(save(ARRAYS | more))
    factor = ase.units.kcal / ase.units.mol
    assert np.allclose(batch.energy, ARRAYS["E"] * factor, rtol=1e-15)
    assert any(line.startswith("forces: left in the unit of") for line in report.warnings)


def test_no_labels_at_all(save: Callable[[dict[str, Any]], Path]) -> None:
    arrays = {"R": ARRAYS["R"], "z": ARRAYS["z"], "U0": ARRAYS["E"], "odd": np.ones(M + 1)}
    report, _ = run(save(arrays))
    (warning,) = report.warnings
    assert "no energy, forces or stress was taken; found properties/U0" in warning
    assert "array 'odd'" in warning
    assert f"warnings  {warning}" in str(report)
    assert report.as_dict()["warnings"] == report.warnings


def test_datasets_beside_the_structures_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i in range(3):
            file[f"{i}/coordinates"] = ARRAYS["R"][i]
            file[f"{i}/species"] = ARRAYS["z"]
            file[f"{i}/results/scf_energy"] = 1.0
    report, _ = run(tmp_path / "a.h5")
    why = "there are no positions in its group"
    assert report.skipped["array 'scf_energy'", why] == 3
    assert "found array 'scf_energy'" in report.warnings[0]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = nan_arrays() | {"virials": np.tile(np.eye(3), (M, 1, 1)), "cell": 2 * np.eye(3)}
    del arrays["stress"]
    source = save_npz(tmp_path / "a", arrays)
    options = ["--force-sign=flip", "--stress-from=virial", "--key=virials=stress", "--keep-nan"]
    assert main(["convert", str(source), str(tmp_path / "a.atp"), *options]) == 0
    text = capsys.readouterr().out
    assert "forces: sign flipped, in 4 molecules" in text
    assert "stress, from 'virials'" in text
    batch = apt.AtpDataset(tmp_path / "a.atp")[:]
    assert batch.mask("energy").all()
    assert batch.stress[0].tolist() == (np.eye(3) * -0.125).tolist()
    assert batch.forces[0].tolist() == (-ARRAYS["F"][0, 0]).tolist()
