"""Batches for NequIP: its LMDB and ASE data sets with neighbor lists, beside ours."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
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
import torch
from nequip.data import AtomicDataDict
from nequip.data.ase import from_ase
from nequip.data.dataset import ASEDataset, NequIPLMDBDataset
from nequip.data.transforms import ChemicalSpeciesToAtomTypeMapper, NeighborListTransform
from nequip.model import NequIPGNNModel
from nequip.train import EnergyForceLoss
from nequip.utils.global_state import set_global_state
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.trainers.nequip import loader

COUNT = 512
TYPES = ["Al", "Cu"]


def main() -> None:
    set_global_state()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))


def measure(folder: Path) -> None:
    made = structures(COUNT)
    with apt.AtpWriter(folder / "a.atp") as writer:
        for atoms in made:
            writer.write(apt.Molecule.from_ase(atoms))
    ase.io.write(folder / "a.extxyz", made)
    frames = (from_ase(atoms) for atoms in made)
    NequIPLMDBDataset.save_from_iterator(str(folder / "a.lmdb"), frames, map_size=1 << 30)
    ours = loader(folder / "a.atp", TYPES, CUTOFF, batch_size=BATCH, shuffle=False)
    sides: dict[str, Callable[[], Any]] = {
        "NequIPLMDBDataset, edges for each batch": stock(
            NequIPLMDBDataset(str(folder / "a.lmdb"), transforms())
        ),
        "ASEDataset in memory, edges for each batch": stock(
            ASEDataset(str(folder / "a.extxyz"), transforms())
        ),
        "ours": lambda: ours,
    }
    seconds = seconds_of_epochs(sides)
    for name in list(sides)[:-1]:
        report("nequip", name, seconds[name], seconds["ours"], COUNT)
    again = loader(folder / "a.atp", TYPES, CUTOFF, batch_size=BATCH)
    share = waiting_share(again, Step())
    report_waiting("nequip", "atompack_torch.trainers.nequip.loader", share)


def transforms() -> list[Any]:
    return [ChemicalSpeciesToAtomTypeMapper(TYPES), NeighborListTransform(CUTOFF)]


def stock(dataset: Any) -> Callable[[], Any]:
    loader = DataLoader(dataset, BATCH, collate_fn=AtomicDataDict.batched_from_list)
    return lambda: loader


class Step:
    """Training step of a small model."""

    def __init__(self) -> None:
        self._model = NequIPGNNModel(
            seed=1,
            model_dtype="float32",
            type_names=TYPES,
            r_max=CUTOFF,
            num_layers=2,
            l_max=1,
            num_features=8,
            avg_num_neighbors=60.0,
        )
        self._loss = EnergyForceLoss(type_names=TYPES)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=1e-3)

    def __call__(self, batch: Any) -> None:
        loss = self._loss(self._model(batch), batch)["weighted_sum"]
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()


if __name__ == "__main__":
    main()
