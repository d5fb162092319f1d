"""Batches for MatGL: its dataset in memory, and its converter, compared with ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.io
import common
import torch
from matgl.ext.ase import Atoms2Graph
from matgl.graph.data import collate_fn_pes
from matgl.models import TensorNet
from matgl.utils.training import MGLDatasetLoader, PotentialLightningModule
from torch.utils.data import DataLoader, Dataset

from atompack_torch.trainers import matgl

COUNT = 512
ELEMENTS = ("Al", "Cu")


def measure(folder: Path) -> None:
    made = common.structures(COUNT)
    ase.io.write(folder / "made.extxyz", made)
    path = common.write_atp(folder / "made.atp", made)
    in_memory = MGLDatasetLoader.from_extxyz(
        folder / "made.extxyz",
        cutoff=common.CUTOFF,
        element_types=ELEMENTS,
        save_cache=False,
        root=str(folder / "cache"),
    )
    stock = {
        "MGLDataset in memory and DataLoader": in_memory,
        "Atoms2Graph for each batch and DataLoader": Converted(made, in_memory.labels),
    }
    loaders = {
        name: DataLoader(dataset, batch_size=common.BATCH, collate_fn=collate_fn_pes)
        for name, dataset in stock.items()
    }
    common.compare("matgl", loaders, our_loader(path, shuffle=False), COUNT)
    share = common.waiting_share(our_loader(path), training_step())
    common.report_waiting("matgl", "atompack_torch.trainers.matgl.loader", share)


class Converted(Dataset[Any]):
    """Graphs made when they are asked for."""

    def __init__(self, made: list[Any], labels: dict[str, list[Any]]) -> None:
        self.made, self.labels = made, labels
        self.converter = Atoms2Graph(ELEMENTS, common.CUTOFF)

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        graph, lattice, state = self.converter.get_graph(self.made[number])
        labels = {name: torch.tensor(rows[number]) for name, rows in self.labels.items()}
        return graph, lattice, torch.tensor(state), labels


def our_loader(path: Path, **options: Any) -> Any:
    return matgl.loader(path, ELEMENTS, common.CUTOFF, batch_size=common.BATCH, **options)


def training_step() -> Callable[[Any], None]:
    """A training step of a small model."""
    torch.manual_seed(0)
    model = TensorNet(ELEMENTS, units=16, nblocks=1, cutoff=common.CUTOFF, is_intensive=False)
    module = PotentialLightningModule(model, stress_weight=0.1)
    optimizer = torch.optim.Adam(module.parameters())
    return common.step_of(optimizer, lambda batch: module.step(batch)[0]["Total_Loss"])


if __name__ == "__main__":
    common.in_folder(measure)
