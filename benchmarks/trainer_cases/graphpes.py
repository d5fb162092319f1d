"""Batches for graph-pes: its loader of graphs, in memory and made in every epoch, and ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import torch
from graph_pes.data.datasets import ASEToGraphsConverter
from graph_pes.data.loader import GraphDataLoader
from graph_pes.models import SchNet
from graph_pes.training.loss import PropertyLoss, TotalLoss

from atompack_torch.trainers import graphpes

COUNT = 256


def measure(folder: Path) -> None:
    made = common.structures(COUNT)
    path = common.write_atp(folder / "made.atp", made)
    graphs = ASEToGraphsConverter(made, common.CUTOFF, {"energy": "energy", "forces": "forces"})
    stock = {"graphs in memory": list(graphs), "graphs made in every epoch": graphs}
    loaders = {name: GraphDataLoader(some, batch_size=common.BATCH) for name, some in stock.items()}
    ours = graphpes.loader(path, common.CUTOFF, batch_size=common.BATCH, shuffle=False)
    common.compare("graph-pes", loaders, ours, COUNT)
    share = common.waiting_share(
        graphpes.loader(path, common.CUTOFF, batch_size=common.BATCH), training_step()
    )
    common.report_waiting("graph-pes", "atompack_torch.trainers.graphpes.loader", share)


def training_step() -> Callable[[Any], None]:
    """A training step of a small model."""
    torch.manual_seed(0)
    model = SchNet(cutoff=common.CUTOFF, channels=16, layers=2)
    loss = TotalLoss([PropertyLoss("energy", "RMSE"), PropertyLoss("forces", "RMSE")])

    def loss_of(batch: Any) -> torch.Tensor:
        return loss(model, batch, model.predict(batch, ["energy", "forces"])).loss_value

    return common.step_of(torch.optim.Adam(model.parameters()), loss_of)


if __name__ == "__main__":
    common.in_folder(measure)
