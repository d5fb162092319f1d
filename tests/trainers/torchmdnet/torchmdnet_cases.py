"""A small model of TorchMD-Net that the tests share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from structures import CUTOFF
from torchmdnet.module import LNNP
from torchmdnet.scripts.train import get_argparse

OPTIONS = {
    "model": "tensornet",
    "embedding_dimension": 16,
    "num_layers": 1,
    "num_rbf": 8,
    "cutoff_upper": CUTOFF,
    "derivative": True,
    "y_weight": 0.1,
    "neg_dy_weight": 1.0,
    "lr": 1e-3,
    "lr_warmup_steps": 0,
    "max_num_neighbors": 64,
    "check_errors": True,
    "static_shapes": False,
}


def task(dtype: torch.dtype) -> LNNP:
    """A task with random weights."""
    torch.manual_seed(0)
    hparams = vars(get_argparse().parse_args([])) | OPTIONS
    hparams["precision"] = 64 if dtype == torch.float64 else 32
    return LNNP(hparams)


def losses(batches: Iterable[Any], dtype: torch.dtype) -> list[float]:
    """Losses of steps of the task."""
    trained = task(dtype)
    trained.log = lambda *_, **__: None
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)
    found = []
    for number, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = trained.training_step(batch, number)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found
