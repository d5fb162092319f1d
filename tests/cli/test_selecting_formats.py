"""split, filter, sample, rename and drop, from and to the formats of other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import ase.io
import h5py
import numpy as np
import pytest
from reference.commands import Command

import atompack_torch as apt
from atompack_torch.conversion import diff

N = 12


class Source(NamedTuple):
    """A file or folder with structures of energies 0, 1, ..., and its options."""

    path: Path
    options: tuple[str, ...] = ()


def molecules(elements: tuple[int, ...] = (8, 1, 6)) -> list[apt.Molecule]:
    """One to three atoms each, with values that float32 holds."""
    draw = np.random.default_rng(3)
    return [
        apt.Molecule(
            draw.normal(size=(1 + i % 3, 3)).astype("f4"),
            list(elements[: 1 + i % 3]),
            energy=float(i),
            forces=draw.normal(size=(1 + i % 3, 3)).astype("f4"),
            cell=np.eye(3) * 5,
            pbc=[True] * 3,
        )
        for i in range(N)
    ]


def written(path: Path) -> Path:
    with apt.AtpWriter(path) as writer:
        writer.write(molecules())
    return path


SUFFIXES = {"atp": ".atp", "extxyz": ".extxyz", "ase-db": ".db", "aselmdb": ".aselmdb"}
SUFFIXES |= {"parquet": ".parquet", "mace-hdf5": ".h5"}


def converted(kind: str, folder: Path) -> Source:
    """A target of ``convert``."""
    path = folder / f"all{SUFFIXES.get(kind, '')}"
    apt.convert(written(folder / "source.atp"), path, target=kind, progress=False)
    return Source(path)


def trajectory(folder: Path) -> Source:
    path = folder / "all.traj"
    ase.io.write(path, apt.AtpDataset(written(folder / "source.atp"))[:].to_ase())
    return Source(path)


def arrays(folder: Path) -> Source:
    """The layout of PhysNet, with padding rows."""
    path = folder / "all.npz"
    batch = apt.MoleculeBatch.from_molecules(molecules())
    dense = batch.dense(pad=0)
    np.savez(
        path,
        R=dense["positions"],
        z=dense["atomic_numbers"],
        n_atoms=batch.n_atoms,
        energy=batch.energy,
        forces=dense["forces"],
    )
    return Source(path)


def hdf5_set(folder: Path) -> Source:
    """The layout of ANI-2x: a group for each number of atoms."""
    path = folder / "ani.h5"
    with h5py.File(path, "w") as file:
        for n in (1, 2, 3):
            own = [m for m in molecules() if len(m) == n]
            group = file.create_group(str(n))
            group["species"] = [m.atomic_numbers.tolist() for m in own]
            group["coordinates"] = np.stack([m.positions.numpy() for m in own])
            group["forces"] = np.stack([m.forces.numpy() for m in own])  # type: ignore[union-attr]
            group["energies"] = [m.energy.item() for m in own]  # type: ignore[union-attr]
    return Source(path, ("--keep-units",))  # published in Hartree


def json_file(folder: Path) -> Source:
    """The layout of MatPES."""
    symbols = {1: "H", 6: "C", 8: "O"}
    entries: list[dict[str, Any]] = []
    for i, m in enumerate(molecules()):
        assert m.forces is not None
        sites = [
            {"species": [{"element": symbols[z], "occu": 1}], "xyz": xyz, "properties": {}}
            for z, xyz in zip(m.atomic_numbers.tolist(), m.positions.tolist(), strict=True)
        ]
        lattice = {"matrix": (np.eye(3) * 5).tolist(), "pbc": [True] * 3}
        entries.append(
            {
                "structure": {"lattice": lattice, "sites": sites},
                "energy": float(i),
                "forces": m.forces.tolist(),
                "matpes_id": f"matpes-{i}",
            }
        )
    path = folder / "all.json"
    path.write_text(json.dumps(entries))
    return Source(path)


def cfg_file(folder: Path) -> Source:
    """Configurations of MLIP, whose types are numbers."""
    text = ""
    for i, m in enumerate(molecules()):
        assert m.forces is not None
        rows = np.hstack([m.positions.numpy(), m.forces.numpy()]).tolist()
        atoms = [f"{j + 1} {j} {' '.join(map(repr, row))}\n" for j, row in enumerate(rows)]
        text += f"BEGIN_CFG\n Size\n {len(m)}\n Supercell\n 5 0 0\n 0 5 0\n 0 0 5\n"
        text += " AtomData: id type cartes_x cartes_y cartes_z fx fy fz\n" + "".join(atoms)
        text += f" Energy\n {i}\nEND_CFG\n"
    path = folder / "all.cfg"
    path.write_text(text)
    return Source(path, ("--key", "0=O", "--key", "1=H", "--key", "2=C"))


MAKERS = {"traj": trajectory, "npz": arrays, "hdf5-set": hdf5_set, "json": json_file}
MAKERS |= {"cfg": cfg_file}
TARGETS = (*SUFFIXES, "deepmd", "metatrain", "shards")


@pytest.fixture(params=[*TARGETS, *MAKERS])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    make = MAKERS.get(request.param)
    return converted(request.param, tmp_path) if make is None else make(tmp_path)


def energies(path: Path) -> list[float]:
    return sorted(apt.AtpDataset(path)[:].energy.tolist())


def test_sources(source: Source, tmp_path: Path, run: Command) -> None:
    path, keys = source
    made = [tmp_path / f"{i}.atp" for i in range(6)]
    run("filter", path, made[0], "energy >= 5 and 'O' in elements", *keys, "--quiet")
    assert energies(made[0]) == [*range(5, N)]
    run("sample", path, made[1], 4, "--seed", 2, *keys, "--quiet")
    assert len({*energies(made[1])}) == 4
    run("split", path, *made[2:4], "--fractions", "0.75,0.25", *keys, "--quiet")
    assert [len(energies(part)) for part in made[2:4]] == [9, 3]
    assert sorted(energies(made[2]) + energies(made[3])) == [*range(N)]
    run("drop", path, made[4], "forces", *keys, "--quiet")
    assert energies(made[4]) == [*range(N)]
    assert "forces" not in apt.AtpDataset(made[4]).schema
    if not keys:  # options of converting alone
        run("rename", path, made[5], "energy=energy_pbe", "--quiet")
        batch = apt.AtpDataset(made[5])[:]
        assert sorted(batch["energy_pbe"].tolist()) == [*range(N)]  # type: ignore[union-attr]
        assert "energy" not in batch


def test_groups_of_formulas(source: Source, tmp_path: Path, run: Command) -> None:
    made = [tmp_path / f"{i}.atp" for i in range(2)]
    by = "--fractions", "0.67,0.33", "--by", "formula", *source.options
    run("split", source.path, *made, *by, "--quiet")
    sizes = [{*apt.AtpDataset(path).n_atoms.tolist()} for path in made]
    assert sizes[0] | sizes[1] == {1, 2, 3}
    assert not sizes[0] & sizes[1]


@pytest.mark.parametrize("kind", TARGETS)
def test_targets(kind: str, tmp_path: Path, run: Command) -> None:
    path = written(tmp_path / "all.atp")
    to = "--to", kind
    names = ("filter", "sample", "a", "b", "drop", "rename")
    made = {name: tmp_path / f"{name}-made{SUFFIXES.get(kind, '')}" for name in names}
    run("filter", path, made["filter"], "energy < 5", *to, "--quiet")
    run("sample", path, made["sample"], 4, *to, "--quiet")
    run("split", path, made["a"], made["b"], "--fractions", "0.5,0.5", *to, "--quiet")
    run("drop", path, made["drop"], "forces", *to, "--quiet")
    run("rename", path, made["rename"], "energy=energy_pbe", *to, "--quiet")
    found = {}
    for name, target in made.items():
        apt.convert(target, tmp_path / f"{name}.atp", progress=False)
        found[name] = apt.AtpDataset(tmp_path / f"{name}.atp")
    assert energies(tmp_path / "filter.atp") == [*range(5)]
    assert len({*energies(tmp_path / "sample.atp")}) == 4
    assert sorted(energies(tmp_path / "a.atp") + energies(tmp_path / "b.atp")) == [*range(N)]
    assert "forces" not in found["drop"].schema
    assert energies(tmp_path / "drop.atp") == [*range(N)]
    assert sorted(found["rename"][:]["energy_pbe"].tolist()) == [*range(N)]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [kind for kind in TARGETS if kind != "deepmd"])
def test_fields_that_some_molecules_lack(kind: str, tmp_path: Path, run: Command) -> None:
    """DeePMD's systems have another order."""
    given = molecules()
    for i, molecule in enumerate(given):
        molecule["dipole"] = np.full(3, i / 8)
        given[i] = apt.Molecule(
            molecule.positions,
            molecule.atomic_numbers,
            energy=float(i),
            **{key: molecule[key] for key in ("cell", "pbc", "forces", "dipole") if i % 3 != 1},
        )
    source, path = tmp_path / "all.atp", tmp_path / f"part{SUFFIXES.get(kind, '')}"
    with apt.AtpWriter(source) as writer:
        writer.write(given)
    apt.convert(source, path, target=kind, progress=False)
    wanted = [float(i) for i in range(N) if i % 3 != 1]
    for number, condition in enumerate(
        ("volume > 100", "max_force > 0", "any(norm(forces) > 0)", "any(dipole > -1)")
    ):
        made = tmp_path / f"{number}.atp"
        run("filter", path, made, condition, "--quiet")
        assert energies(made) == wanted
    options = "--fractions", "0.5,0.5", "--by", "dipole"
    refused = run("split", path, tmp_path / "x.atp", tmp_path / "y.atp", *options, status=1)
    assert "by: expected one value per molecule, got several" in refused.err
    found = diff(source, path)
    assert {"cell", "dipole", "forces"} <= found.fields.keys()
    assert all(field.equal for field in found.fields.values())


def test_mistyped_names(source: Source, tmp_path: Path, run: Command) -> None:
    for number, (command, message) in enumerate(
        (
            (["filter", "enrgy > 1"], "unknown name 'enrgy': did you mean 'energy'?"),
            (["filter", "velocities == 1"], "no molecule has the label 'velocities'"),
            (["drop", "enrgy"], "did you mean 'energy'?"),
        )
    ):
        target = tmp_path / f"{number}.atp"
        assert (
            message
            in run(
                command[0], source.path, target, command[1], *source.options, "--quiet", status=2
            ).err
        )
        assert not target.exists()


@pytest.mark.parametrize("kind", ["deepmd", "metatrain", "hdf5-set", "parquet", "npz"])
def test_filter_finds_mistyped_names_before_it_reads(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    from atompack_torch.conversion import selecting

    path = tmp_path / f"all.{kind}"
    if kind == "npz":
        np.savez(path, R=np.zeros((N, 1, 3)), z=[26], E=np.arange(N, dtype=float), step=range(N))
    elif kind == "hdf5-set":
        path = hdf5_set(tmp_path).path
    else:
        apt.convert(written(tmp_path / "all.atp"), path, target=kind, progress=False)

    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("it reads the structures")

    run("filter", path, tmp_path / "found.atp", "energy >= 3 and n_atoms < 3", "--quiet")
    monkeypatch.setattr(selecting, "convert_edited", unexpected)
    for expression in ("enrgy > 1", "velocities == 1", "field('stp') == 1"):
        assert "'" in run("filter", path, tmp_path / "x.atp", expression, "--quiet", status=2).err
    with pytest.raises(AssertionError, match="it reads"):
        run("filter", path, tmp_path / "x.atp", "energy > 1 and has(forces)", "--quiet")
