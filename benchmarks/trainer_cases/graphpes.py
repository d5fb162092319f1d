"""Batches for graph-pes: its loader of graphs, in memory and made in every epoch, and ours."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from common import BATCH, CUTOFF, compare, report_waiting, structures, waiting_share, write_atp
from graph_pes.data.datasets import ASEToGraphsConverter
from graph_pes.data.loader import GraphDataLoader
from graph_pes.models import SchNet
from graph_pes.training.loss import PropertyLoss, TotalLoss

from atompack_torch.trainers import graphpes

COUNT = 256


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder) / "made.atp")


def measure(path: Path) -> None:
    made = structures(COUNT)
    write_atp(path, made)
    graphs = ASEToGraphsConverter(made, CUTOFF, {"energy": "energy", "forces": "forces"})
    stock = {"graphs in memory": list(graphs), "graphs made in every epoch": graphs}
    loaders = {name: GraphDataLoader(some, batch_size=BATCH) for name, some in stock.items()}
    ours = graphpes.loader(path, CUTOFF, batch_size=BATCH, shuffle=False)
    compare("graph-pes", loaders, ours, COUNT)
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
