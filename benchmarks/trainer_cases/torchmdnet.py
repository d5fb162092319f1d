"""TorchMD-Net: batches from ``.atp`` compared with its HDF5 and the loader of torch-geometric."""

from __future__ import annotations

import tempfile
from pathlib import Path

import ase
import common
import h5py
import numpy as np
import torch
from torch_geometric.loader import DataLoader
from torchmdnet.datasets import HDF5
from torchmdnet.module import LNNP
from torchmdnet.scripts.train import get_argparse

import atompack_torch as apt
from atompack_torch.trainers.torchmdnet import loader

N = 1024
OPTIONS = {
    "model": "tensornet",
    "embedding_dimension": 64,
    "num_layers": 2,
    "num_rbf": 32,
    "cutoff_upper": common.CUTOFF,
    "max_num_neighbors": 128,
    "derivative": True,
    "y_weight": 0.1,
    "neg_dy_weight": 1.0,
}


def write_hdf5(path: Path, made: list[ase.Atoms]) -> None:
    """Writes structures as TorchMD-Net's dataset HDF5 reads them: one group, equal sizes."""
    with h5py.File(path, "w") as file:
        group = file.create_group("0")
        group["types"] = np.stack([atoms.numbers for atoms in made])
        group["pos"] = np.stack([atoms.positions for atoms in made])
        group["energy"] = np.array([atoms.calc.results["energy"] for atoms in made])
        group["forces"] = np.stack([atoms.calc.results["forces"] for atoms in made])


def task() -> LNNP:
    made = LNNP(vars(get_argparse().parse_args([])) | OPTIONS)
    made.log = lambda *_, **__: None
    return made


def main() -> None:
    torch.set_num_threads(1)
    made = common.structures(N)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = common.write_atp(folder / "data.atp", made)
        write_hdf5(folder / "data.h5", made)
        own = HDF5(str(folder / "data.h5"), dataset_preload_limit=1024)
        ours = loader(path, batch_size=common.BATCH, shuffle=False, num_threads=1)
        stock = {"its HDF5, kept in memory": DataLoader(own, common.BATCH)}
        common.compare("TorchMD-Net", stock, ours, N)
        trained = task()
        optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)
        step = common.step_of(optimizer, lambda batch: trained.training_step(batch, 0))
        few = loader(
            apt.open(path).subset(range(16 * common.BATCH)),
            batch_size=common.BATCH,
            num_threads=1,
        )
        common.report_waiting("TorchMD-Net", "ours", common.waiting_share(few, step))


if __name__ == "__main__":
    main()
