"""MACE: batches of 64 from ``.atp`` compared with extended XYZ in memory, its HDF5 and its LMDB.

Two sets: molecules of 9 atoms, and crystals of 32 atoms with 33 neighbors each. Ours are made from
``.atp``, with edges searched in every epoch, and from memory with their edges, as extended XYZ in
memory keeps them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import ase
import ase.io
import common
import h5py
import mace  # before e3nn, whose constants torch.load refuses otherwise
import numpy as np
import torch
from ase.build import molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase_db_backends.aselmdb import LMDBDatabase
from mace import data, tools
from mace.tools import torch_geometric

import atompack_torch as apt
from atompack_torch.trainers import mace as trainer
from atompack_torch.trainers._steps.mace import Training

N = 768
BATCH = 64
Z_TABLE = tools.AtomicNumberTable([1, 6, 8, *common.ELEMENTS])
assert mace


def molecules() -> list[ase.Atoms]:
    """Distorted molecules of 9 atoms."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(N):
        atoms = molecule("CH3CH2OH")
        atoms.rattle(0.1, rng=rng)
        forces = rng.normal(0, 0.5, (len(atoms), 3))
        atoms.calc = SinglePointCalculator(atoms, energy=float(rng.normal()), forces=forces)
        made.append(atoms)
    return made


def write(folder: Path, made: list[ase.Atoms]) -> dict[str, Path]:
    folder.mkdir()
    paths = {name: folder / f"data.{name}" for name in ("atp", "xyz", "h5", "aselmdb")}
    common.write_atp(paths["atp"], made)
    with LMDBDatabase(str(paths["aselmdb"])) as database:
        for atoms in made:
            database.write(atoms)
    for atoms in made:
        results = atoms.calc.results
        atoms.info["REF_energy"] = results["energy"]
        if "stress" in results:
            atoms.info["REF_stress"] = results["stress"]
        atoms.arrays["REF_forces"] = results["forces"]
        atoms.calc = None
    ase.io.write(paths["xyz"], made, format="extxyz")
    with h5py.File(paths["h5"], "w") as file:
        file.attrs["drop_last"] = False
        data.save_configurations_as_HDF5(configurations(paths["xyz"]), "Default", file)
    return paths


def configurations(path: Path) -> Any:
    keys = data.KeySpecification.from_defaults()
    return data.load_from_xyz(str(path), key_specification=keys)[1]


def order() -> list[int]:
    return torch.randperm(N, generator=torch.Generator().manual_seed(0)).tolist()


def stock(dataset: Any) -> Any:
    return torch_geometric.dataloader.DataLoader(dataset, BATCH, sampler=order())


def compare(paths: dict[str, Path], kind: str) -> None:
    in_memory = [
        data.AtomicData.from_config(one, z_table=Z_TABLE, cutoff=common.CUTOFF)
        for one in configurations(paths["xyz"])
    ]
    options: dict[str, Any] = {"r_max": common.CUTOFF, "z_table": Z_TABLE}
    hdf5 = data.HDF5Dataset(str(paths["h5"]), **options)
    database = data.LMDBDataset(str(paths["aselmdb"]), **options)
    resident = apt.ResidentDataset(
        apt.AtpDataset(paths["atp"], neighbors=apt.NeighborList(common.CUTOFF))
    )
    sides = {
        f"extended XYZ in memory, {kind}": stock(in_memory),
        f"its HDF5, {kind}": stock(hdf5),
        f"its LMDB, {kind}": stock(database),
    }
    mine = {".atp": ours(paths["atp"]), "in memory": ours(resident)}
    common.compare("MACE", sides, mine, N, rounds=2)


def ours(data: Any) -> Any:
    batches = list(torch.utils.data.BatchSampler(order(), BATCH, False))
    return trainer.loader(data, Z_TABLE, common.CUTOFF, batch_sampler=batches, num_threads=1)


def main() -> None:
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as name:
        crystals = write(Path(name) / "crystals", common.structures(N))
        compare(write(Path(name) / "molecules", molecules()), "9 atoms")
        compare(crystals, "32 atoms")
        training = Training(Z_TABLE.zs, common.CUTOFF, torch.device("cpu"))
        share = common.waiting_share(ours(crystals["atp"]), training.step)
        common.report_waiting("MACE", "ours, 32 atoms", share)


if __name__ == "__main__":
    main()
