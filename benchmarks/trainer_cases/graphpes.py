"""Batches for graph-pes: its loader of graphs, in memory and made in every epoch, and ours."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import (
    BATCH,
    CUTOFF,
    report,
    report_waiting,
    seconds_of_epochs,
    structures,
    waiting_share,
)
from graph_pes.data.datasets import ASEToGraphsConverter
from graph_pes.data.loader import GraphDataLoader
from graph_pes.models import SchNet
from graph_pes.training.loss import PropertyLoss, TotalLoss

import atompack_torch as apt
from atompack_torch.trainers import graphpes

COUNT = 256


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder) / "made.atp")


def measure(path: Path) -> None:
    made = structures(COUNT)
    with apt.AtpWriter(path) as writer:
        for atoms in made:
            writer.write(apt.Molecule.from_ase(atoms))
    graphs = ASEToGraphsConverter(made, CUTOFF, {"energy": "energy", "forces": "forces"})
    stock = {"graphs in memory": list(graphs), "graphs made in every epoch": graphs}
    loaders: dict[str, Any] = {
        name: GraphDataLoader(some, batch_size=BATCH) for name, some in stock.items()
    }
    loaders["ours"] = graphpes.loader(path, CUTOFF, batch_size=BATCH, shuffle=False)
    seconds = seconds_of_epochs({name: partial(iter, loader) for name, loader in loaders.items()})
    for name in stock:
        report("graph-pes", name, seconds[name], seconds["ours"], COUNT)
    share = waiting_share(graphpes.loader(path, CUTOFF, batch_size=BATCH), Step())
    report_waiting("graph-pes", "atompack_torch.trainers.graphpes.loader", share)


class Step:
    """A training step of a small model."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = SchNet(cutoff=CUTOFF, channels=16, layers=2)
        self.loss = TotalLoss([PropertyLoss("energy", "RMSE"), PropertyLoss("forces", "RMSE")])
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def __call__(self, batch: Any) -> None:
        found = self.model.predict(batch, ["energy", "forces"])
        self.optimizer.zero_grad()
        self.loss(self.model, batch, found).loss_value.backward()
        self.optimizer.step()


if __name__ == "__main__":
    main()
