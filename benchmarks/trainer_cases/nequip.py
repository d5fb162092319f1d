"""Batches for NequIP: its LMDB and ASE datasets with neighbor lists, compared with ours.

Ours are made from ``.atp``, with edges searched in every epoch, and from memory with their edges.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from common import (
    BATCH,
    CUTOFF,
    report,
    report_waiting,
    seconds_of_epochs,
    structures,
    waiting_share,
)

sys.path.pop(0)  # this folder, where `nequip` is this file

import ase.io
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
TRAINING = Training([1, 6, 8, 13, 29], CUTOFF, torch.device("cpu"))
NAMES = ("C6H6", "CH3CH2OCH3", "isobutane", "trans-butane")


def main() -> None:
    kinds = {"crystals of 32 atoms": structures(COUNT), "molecules of 12 to 14 atoms": molecules()}
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
    with apt.AtpWriter(folder / "a.atp") as writer:
        for atoms in made:
            writer.write(apt.Molecule.from_ase(atoms))
    ase.io.write(folder / "a.extxyz", made)
    frames = (from_ase(atoms) for atoms in made)
    NequIPLMDBDataset.save_from_iterator(str(folder / "a.lmdb"), frames, map_size=1 << 30)
    resident = in_memory(folder / "a.atp")
    ours = {
        name: loader(data, TRAINING.types, CUTOFF, batch_size=BATCH, shuffle=False)
        for name, data in ((".atp", folder / "a.atp"), ("in memory", resident))
    }
    transforms = TRAINING.transforms()
    sides: dict[str, Callable[[], Any]] = {
        "NequIPLMDBDataset": stock(NequIPLMDBDataset(str(folder / "a.lmdb"), transforms)),
        "ASEDataset in memory": stock(ASEDataset(str(folder / "a.extxyz"), transforms)),
        **{name: partial(iter, batches) for name, batches in ours.items()},
    }
    seconds = seconds_of_epochs(sides, rounds=5)
    for name in ("NequIPLMDBDataset", "ASEDataset in memory"):
        for side in ours:
            label = f"{name}, {kind} (ours: {side})"
            report("nequip", label, seconds[name], seconds[side], COUNT)
    again = loader(folder / "a.atp", TRAINING.types, CUTOFF, batch_size=BATCH)
    share = waiting_share(again, TRAINING.step)
    report_waiting("nequip", f"atompack_torch.trainers.nequip.loader, {kind}", share)


def in_memory(path: Path) -> apt.ResidentDataset:
    return apt.ResidentDataset(apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF)))


def stock(dataset: Any) -> Callable[[], Any]:
    loader = DataLoader(dataset, BATCH, collate_fn=AtomicDataDict.batched_from_list)
    return lambda: loader


if __name__ == "__main__":
    main()
