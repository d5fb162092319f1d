"""Batches for MatGL: its dataset in memory, and its converter, compared with ours."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ase.io
import torch
from common import BATCH, CUTOFF, compare, report_waiting, structures, waiting_share, write_atp
from matgl.ext.ase import Atoms2Graph
from matgl.graph.data import collate_fn_pes
from matgl.models import TensorNet
from matgl.utils.training import MGLDatasetLoader, PotentialLightningModule
from torch.utils.data import DataLoader, Dataset

from atompack_torch.trainers import matgl

COUNT = 512
ELEMENTS = ("Al", "Cu")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))


def measure(folder: Path) -> None:
    made = structures(COUNT)
    ase.io.write(folder / "made.extxyz", made)
    path = write_atp(folder / "made.atp", made)
    in_memory = MGLDatasetLoader.from_extxyz(
        folder / "made.extxyz",
        cutoff=CUTOFF,
        element_types=ELEMENTS,
        save_cache=False,
        root=str(folder / "cache"),
    )
    stock = {
        "MGLDataset in memory and DataLoader": in_memory,
        "Atoms2Graph for each batch and DataLoader": Converted(made, in_memory.labels),
    }
    loaders = {
        name: DataLoader(dataset, batch_size=BATCH, collate_fn=collate_fn_pes)
        for name, dataset in stock.items()
    }
    compare("matgl", loaders, our_loader(path, shuffle=False), COUNT)
    share = waiting_share(our_loader(path), Step())
    report_waiting("matgl", "atompack_torch.trainers.matgl.loader", share)


class Converted(Dataset[Any]):
    """Graphs made when they are asked for."""

    def __init__(self, made: list[Any], labels: dict[str, list[Any]]) -> None:
        self.made, self.labels = made, labels
        self.converter = Atoms2Graph(ELEMENTS, CUTOFF)

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        graph, lattice, state = self.converter.get_graph(self.made[number])
        labels = {name: torch.tensor(rows[number]) for name, rows in self.labels.items()}
        return graph, lattice, torch.tensor(state), labels


def our_loader(path: Path, **options: Any) -> Any:
    return matgl.loader(path, ELEMENTS, CUTOFF, batch_size=BATCH, **options)


class Step:
    """A training step of a small model."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        model = TensorNet(ELEMENTS, units=16, nblocks=1, cutoff=CUTOFF, is_intensive=False)
        self.module = PotentialLightningModule(model, stress_weight=0.1)
        self.optimizer = torch.optim.Adam(self.module.parameters())

    def __call__(self, batch: Any) -> None:
        results, _ = self.module.step(batch)
        self.optimizer.zero_grad()
        results["Total_Loss"].backward()
        self.optimizer.step()


if __name__ == "__main__":
    main()
