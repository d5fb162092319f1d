"""One rank: trains MACE for two epochs under DistributedDataParallel, by its own loop."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from mace import modules

sys.path.insert(0, str(Path(__file__).parent))

from mace.tools.train import take_step
from mace_cases import OUTPUTS, Z_TABLE, model
from structures import CUTOFF

from atompack_torch.trainers import mace

path, result = sys.argv[1:]
torch.set_default_dtype(torch.float64)
dist.init_process_group("gloo")
trained = torch.nn.parallel.DistributedDataParallel(model())
optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
loss = modules.WeightedEnergyForcesStressLoss(1.0, 10.0, 1.0)
loader = mace.loader(path, Z_TABLE, CUTOFF, batch_size=4)
epochs = []
for _ in range(2):
    seen = []
    for batch in loader:
        seen.append(batch.index.tolist())
        take_step(
            model=trained,
            loss_fn=loss,
            batch=batch,
            optimizer=optimizer,
            ema=None,
            output_args=OUTPUTS,
            max_grad_norm=10.0,
            device=torch.device("cpu"),
        )
    epochs.append(seen)
weights = float(sum(parameter.sum() for parameter in trained.parameters()))
Path(result).write_text(json.dumps({"epochs": epochs, "weights": weights}))
dist.destroy_process_group()
