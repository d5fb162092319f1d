"""Batches for NequIP: its LMDB and ASE datasets with neighbor lists, compared with ours.

Ours are made from ``.atp``, with edges searched in every epoch, and from memory with their edges.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import ase.io
import common
import nequip.utils  # noqa: F401
import numpy as np
import torch
from ase.build import molecule
from ase.calculators.singlepoint import SinglePointCalculator
from nequip.data import AtomicDataDict
from nequip.data.ase import from_ase
from nequip.data.dataset import ASEDataset, NequIPLMDBDataset
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.trainers._steps.nequip import Training
from atompack_torch.trainers.nequip import loader

COUNT = 512
TRAINING = Training([1, 6, 8, 13, 29], common.CUTOFF, torch.device("cpu"))
NAMES = ("C6H6", "CH3CH2OCH3", "isobutane", "trans-butane")


def main() -> None:
    kinds = {
        "crystals of 32 atoms": common.structures(COUNT),
        "molecules of 12 to 14 atoms": molecules(),
    }
    for kind, made in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), kind, made)


def molecules() -> list[ase.Atoms]:
    """Distorted organic molecules with energy and forces."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(COUNT):
        atoms = molecule(NAMES[number % len(NAMES)])
        atoms.rattle(0.05, rng=rng)
        energy, forces = float(rng.normal(-100, 1)), rng.normal(0, 0.5, (len(atoms), 3))
        atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=forces)
        made.append(atoms)
    return made


def measure(folder: Path, kind: str, made: list[ase.Atoms]) -> None:
    path = common.write_atp(folder / "a.atp", made)
    ase.io.write(folder / "a.extxyz", made)
    frames = (from_ase(atoms) for atoms in made)
    NequIPLMDBDataset.save_from_iterator(str(folder / "a.lmdb"), frames, map_size=1 << 30)
    ours = {
        name: loader(data, TRAINING.types, common.CUTOFF, batch_size=common.BATCH, shuffle=False)
        for name, data in ((".atp", path), ("in memory", in_memory(path)))
    }
    transforms = TRAINING.transforms()
    stock = {
        "NequIPLMDBDataset": NequIPLMDBDataset(str(folder / "a.lmdb"), transforms),
        "ASEDataset in memory": ASEDataset(str(folder / "a.extxyz"), transforms),
    }
    loaders = {
        f"{name}, {kind}": DataLoader(
            dataset, common.BATCH, collate_fn=AtomicDataDict.batched_from_list
        )
        for name, dataset in stock.items()
    }
    common.compare("nequip", loaders, ours, COUNT, rounds=5)
    again = loader(path, TRAINING.types, common.CUTOFF, batch_size=common.BATCH)
    share = common.waiting_share(again, TRAINING.step)
    common.report_waiting("nequip", f"atompack_torch.trainers.nequip.loader, {kind}", share)


def in_memory(path: Path) -> apt.ResidentDataset:
    return apt.ResidentDataset(apt.AtpDataset(path, neighbors=apt.NeighborList(common.CUTOFF)))


if __name__ == "__main__":
    main()
