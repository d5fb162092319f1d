"""metatrain: its folder of arrays, collated and with its own neighbor lists, beside our batches."""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import common

sys.path.pop(0)  # this folder, whose modules are named like packages

import torch
from metatomic.torch import NeighborListOptions
from metatrain.utils.data.dataset import CollateFn, MemmapDataset
from metatrain.utils.neighbor_lists import get_system_with_neighbor_lists_transform
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.trainers.metatrain import loader

N = 512
LISTS = [NeighborListOptions(cutoff=common.CUTOFF, full_list=True, strict=True)]
TARGETS = {
    "energy": {
        "key": "e",
        "quantity": "energy",
        "sample_kind": "system",
        "type": "scalar",
        "num_subtargets": 1,
        "unit": "eV",
        "forces": {"key": "f"},
        "stress": {"key": "s"},
        "virial": False,
    }
}


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with apt.AtpWriter(folder / "data.atp") as writer:
            for atoms in common.structures(N):
                writer.write(apt.Molecule.from_ase(atoms))
        apt.convert(folder / "data.atp", folder / "data", target="metatrain", progress=False)
        options = {"stress": True, "shuffle": False, "num_threads": 1}
        for lists in (LISTS, []):
            searches = [get_system_with_neighbor_lists_transform(lists)] if lists else []
            own = DataLoader(
                MemmapDataset(folder / "data", OmegaConf.create(TARGETS)),
                batch_size=common.BATCH,
                collate_fn=CollateFn(target_keys=["energy"], callables=searches),
            )
            ours: Any = loader(folder / "data.atp", common.BATCH, lists, **options)
            sides = {"stock": own.__iter__, "ours": ours.__iter__}
            seconds = common.seconds_of_epochs(sides)
            what = "memory maps, neighbor lists" if lists else "memory maps, no lists"
            common.report("metatrain", what, seconds["stock"], seconds["ours"], N)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
