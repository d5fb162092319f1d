"""Velocities: ASE, extended XYZ, ASE databases and .atp hold the same ones, custom masses too."""

from __future__ import annotations

from pathlib import Path

import ase
import ase.db
import ase.io
import numpy as np
import pytest
from ase.constraints import FixAtoms
from reference.extxyz import COLUMNS, Told, one_atom, read, write
from reference.frames import same

import atompack_torch as apt
from atompack_torch.batch.columns import Column, Columns
from atompack_torch.conversion import convert
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN

VELOCITIES = (BUILTIN, "velocities")


def moving(seed: int, *, heavy: bool = False) -> ase.Atoms:
    """Three atoms with momenta; heavy: one mass is an isotope's."""
    rng = np.random.default_rng(seed)
    atoms = ase.Atoms("CHO", rng.normal(size=(3, 3)))
    if heavy:
        atoms.set_masses([13.00335, 2.014, 15.999])
    atoms.set_momenta(rng.normal(size=(3, 3)))
    return atoms


IMAGES = [moving(seed, heavy=bool(seed % 2)) for seed in range(20)]


def assert_velocities(got: list[ase.Atoms], want: list[ase.Atoms]) -> None:
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        assert ours.has("momenta")
        np.testing.assert_allclose(ours.get_velocities(), theirs.get_velocities(), rtol=1e-15)
        np.testing.assert_allclose(ours.get_momenta(), theirs.get_momenta(), rtol=4e-16)
        assert (ours.get_masses() == theirs.get_masses()).all()


def test_to_ase_takes_custom_masses() -> None:
    batch = apt.MoleculeBatch.from_ase(IMAGES)
    assert_velocities(batch.to_ase(), IMAGES)


def test_to_ase_of_a_number_that_is_no_element() -> None:
    """Nothing is said by 0: there is no mass to multiply with."""
    molecule = apt.Molecule(np.zeros((1, 3)), np.array([200]), velocities=np.ones((1, 3)))
    with pytest.raises(apt.FieldError, match=r"expected 0 to 118, .* got 200"):
        apt.MoleculeBatch.from_molecules([molecule]).to_ase()


@pytest.mark.parametrize("suffix", [".extxyz", ".db"])
def test_targets_give_ase_the_velocities(tmp_path: Path, suffix: str) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(IMAGES)
    target = tmp_path / f"b{suffix}"
    convert(tmp_path / "a.atp", target, progress=False)
    assert_velocities(ase.io.read(target, ":"), IMAGES)
    convert(target, tmp_path / "c.atp", progress=False)
    first, second = (apt.AtpDataset(tmp_path / f"{name}.atp")[:] for name in "ac")
    assert second["velocities"].tolist() == first["velocities"].tolist()
    assert second["masses"][3:6].tolist() == [13.00335, 2.014, 15.999]
    assert second.mask("masses").tolist() == first.mask("masses").tolist()


@pytest.mark.parametrize("suffix", [".extxyz", ".traj", ".db"])
def test_sources_of_ase_give_the_velocities(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / f"a{suffix}"
    ase.io.write(source, IMAGES)
    convert(source, tmp_path / "b.atp", progress=False)
    images = ase.io.read(source, ":")  # ASE writes eight decimals of text
    want = np.concatenate([atoms.get_velocities() for atoms in images])
    batch = apt.AtpDataset(tmp_path / "b.atp")[:]
    np.testing.assert_allclose(batch["velocities"].numpy(), want, rtol=1e-15)
    assert_velocities(batch.to_ase(), images)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64"])
@pytest.mark.parametrize("target", ["extxyz", "ase-db", "aselmdb", "metatrain"])
def test_masses_of_any_type(tmp_path: Path, target: str, dtype: str) -> None:
    """Momenta are divided by the masses that they were made with."""
    masses, velocities = np.array([2, 3], dtype), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        places, own = np.zeros((2, 3)), {"masses": masses}
        writer.write(
            apt.Molecule(places, np.array([8, 1]), velocities=velocities, atom_properties=own)
        )
    name = {"extxyz": "b.xyz", "ase-db": "b.db"}.get(target, "b")
    convert(tmp_path / "a.atp", tmp_path / name, target=target, progress=False)
    convert(tmp_path / name, tmp_path / "c.atp", progress=False)
    batch = apt.AtpDataset(tmp_path / "c.atp")[:]
    np.testing.assert_allclose(batch.velocities, velocities, rtol=1e-6)
    assert batch.masses.tolist() == [2, 3]


@pytest.mark.parametrize("target", ["ase-db", "aselmdb", "metatrain"])
def test_velocities_without_a_mass_are_reported(tmp_path: Path, target: str) -> None:
    """Momenta that a mass of 0 has made give no velocity back."""
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for mass in (0.0, 3.0):
            own = {"masses": np.array([2.0, mass])}
            velocities = np.ones((2, 3))
            writer.write(
                apt.Molecule(
                    np.zeros((2, 3)), np.array([8, 1]), velocities=velocities, atom_properties=own
                )
            )
    path = tmp_path / ("b.db" if target == "ase-db" else "b")
    report = convert(tmp_path / "a.atp", path, target=target, progress=False)
    assert [(what, n) for (what, _), n in report.skipped.items()] == [("velocities", 1)]


@pytest.mark.parametrize("width", [1, 3])
def test_rows_of_masses_are_no_masses(tmp_path: Path, width: int) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        own, velocities = {"masses": np.full((2, width), 3.0)}, np.ones((2, 3))
        writer.write(
            apt.Molecule(
                np.zeros((2, 3)), np.array([8, 1]), velocities=velocities, atom_properties=own
            )
        )
    report = convert(tmp_path / "a.atp", tmp_path / "b", target="metatrain", progress=False)
    assert [(what, n) for (what, _), n in report.skipped.items()] == [("atom_properties/masses", 1)]
    convert(tmp_path / "b", tmp_path / "c.atp", progress=False)
    np.testing.assert_allclose(apt.AtpDataset(tmp_path / "c.atp")[:].velocities, 1, rtol=1e-6)


def block(numbers: list[int], velocities: object, *more: Column) -> Columns:
    n = len(numbers)
    fields = [Column(BUILTIN, "velocities", np.asarray(velocities, dtype=float)), *more]
    return Columns(np.zeros((n, 3)), np.array(numbers), np.arange(n + 1), fields)


def test_what_no_momenta_give_back_stays_velocities(tmp_path: Path) -> None:
    """No element, a mass of 0, an overflow: kept for us, and said that ASE does not get them."""
    mask = np.array([False, False, True, True])
    masses = Column(ATOM_PROPERTY, "masses", np.array([1.0, 1.0, 0.0, 16.0]), mask)
    values = [[1, 2, 3], [1e308, 0, 0], [4, 5, 6], [7, 8, 9]]
    told = Told()
    path = tmp_path / "x.extxyz"
    written = block([200, 92, 1, 8], values, masses)
    write(path, [written], report=told)
    assert "ASE reads 0" in " ".join(told.notes)
    assert [f[VELOCITIES].tolist() for f in read(path)] == [[v] for v in values]
    assert ase.io.read(path, "3").get_velocities().tolist() == [[7, 8, 9]]


def test_masses_may_be_flags(tmp_path: Path) -> None:
    """ASE divides by them like by numbers; so does what we read back."""
    masses = Column(ATOM_PROPERTY, "masses", np.array([True, False]), None)
    path = tmp_path / "x.extxyz"
    write(path, [block([8, 8], [[1, 2, 3], [0, 0, 0]], masses)])
    assert [f[VELOCITIES].tolist() for f in read(path)] == [
        [[1, 2, 3]],
        [[0, 0, 0]],
    ]
    assert ase.io.read(path, "0").get_velocities().tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(("kind", "value"), [("I", "1"), ("L", "T"), ("R", "1.5")])
def test_masses_of_other_frames_are_not_used(tmp_path: Path, kind: str, value: str) -> None:
    """Columns of integers and flags hold zeros where a frame lacks them."""
    path = tmp_path / "a.extxyz"
    moving_atom = "1\nProperties=species:S:1:pos:R:3:momenta:R:3\nCe 0 0 0 1.0 2.0 3.0\n"
    columns = f"species:S:1:pos:R:3:masses:{kind}:1"
    path.write_text(f"{moving_atom}1\nProperties={columns}\nCe 0 0 0 {value}\n")
    want = ase.io.read(path, 0).get_velocities()
    convert(path, tmp_path / "a.atp")
    for dataset in (apt.AtpDataset(tmp_path / "a.atp"), apt.ExtxyzDataset(path)):
        np.testing.assert_array_equal(dataset[0].velocities.numpy(), want)
        assert dataset[:].mask("velocities").tolist() == [True, False]


def test_the_last_digit_survives(tmp_path: Path) -> None:
    """Where momentum / mass cannot be the very velocity, a second column says it."""
    velocities = np.random.default_rng(0).normal(size=(50, 3))
    path = tmp_path / "x.extxyz"
    write(path, [block([1] * 50, velocities)])
    got = np.concatenate([f[VELOCITIES] for f in read(path)])
    assert same(got, velocities)
    assert "momenta:R:3:velocities:R:3" in path.read_text()
    assert "momenta:R:3\n" in path.read_text()  # most need it not
    images = ase.io.read(path, ":")
    momenta = np.concatenate([atoms.get_velocities() for atoms in images])
    np.testing.assert_allclose(momenta, velocities, rtol=2.3e-16)
    batch = apt.MoleculeBatch.from_ase(images)
    assert same(batch["velocities"].numpy(), velocities)
    assert "atom_properties/velocities" not in [*batch.keys()]


def test_frames_with_either_and_both(tmp_path: Path) -> None:
    """Where velocities and momenta differ, ASE knows the momenta alone; the others are kept."""
    v, p = "velocities:R:3", "momenta:R:3"
    path = tmp_path / "x.extxyz"
    path.write_text(
        one_atom(f"{COLUMNS}:{v}", "H 0 0 0 1 2 3")
        + one_atom(f"{COLUMNS}:{p}", "H 0 0 0 1.008 2.016 3.024")
        + one_atom(f"{COLUMNS}:{v}:{p}", "H 0 0 0 1 2 3 1.008 2.016 3.024")
        + one_atom(f"{COLUMNS}:{v}:{p}", "H 0 0 0 9 9 9 1.008 2.016 3.024")
    )
    frames = read(path)
    for frame in frames:
        assert np.allclose(frame[VELOCITIES], [[1, 2, 3]], rtol=1e-15)
    others = [frame.get((ATOM_PROPERTY, "velocities")) for frame in frames]
    assert others[:3] == [None] * 3
    assert same(others[3], np.array([[9.0, 9.0, 9.0]]))
    by_ase = apt.MoleculeBatch.from_ase(ase.io.read(path, "1:"))
    assert np.allclose(by_ase["velocities"], [[1, 2, 3]] * 3, rtol=1e-15)
    assert by_ase["atom_properties/velocities"][-1].tolist() == [9, 9, 9]


def test_constraints_do_not_touch_momenta() -> None:
    atoms = moving(1)
    atoms.set_constraint(FixAtoms([0]))
    (back,) = apt.MoleculeBatch.from_ase([atoms]).to_ase()
    assert (back.get_momenta() == atoms.get_momenta()).all()
