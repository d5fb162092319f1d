"""One rank: trains a model of graph-pes for two epochs, with gradients summed over the ranks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from graph_pes.models import SchNet
from graph_pes.training.loss import PropertyLoss
from structures import CUTOFF

from atompack_torch.trainers import graphpes

path, result = sys.argv[1:]
dist.init_process_group("gloo")
torch.manual_seed(0)
model = SchNet(cutoff=CUTOFF, channels=8, layers=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loss = PropertyLoss("energy", "RMSE")
loader = graphpes.loader(path, CUTOFF, batch_size=4)
epochs = []
for _ in range(2):
    seen = []
    for batch in loader:
        seen.append(batch.properties["energy"].tolist())
        optimizer.zero_grad()
        loss(model, batch, {"energy": model.predict_energy(batch)}).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        optimizer.step()
    epochs.append(seen)
weights = float(sum(parameter.sum() for parameter in model.parameters()))
Path(result).write_text(json.dumps({"epochs": epochs, "weights": weights}))
dist.destroy_process_group()
