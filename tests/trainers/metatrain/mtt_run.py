"""Runs ``mtt train`` and notes the loss and the structures of every step.

usage: mtt_run.py OPTIONS [--restart CHECKPOINT] RESULT

With RANK, this is one task of a SLURM job: metatrain then trains with its DistributedDataParallel,
here on the CPU with gloo, where it would take a CUDA device and NCCL.
RESULT, in JSON: ``losses``, ``structures``, the numbers of those that were read for each step, and
``weights``, the sum of the parameters after it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import metatrain.__main__
import metatrain.pet.trainer as pet
import torch
import torch.distributed
from metatrain.utils.data import get_dataset as opening  # the function of the module's name
from metatrain.utils.data.dataset import MemmapDataset
from metatrain.utils.loss import LossAggregator
from torch.optim.optimizer import register_optimizer_step_post_hook

losses: list[float] = []
structures: list[list[int]] = []
read: list[int] = []
weights: list[float] = []
last: list[float] = []


class NotingDataset(MemmapDataset):
    """Dataset that notes which structures of the folder ``train`` are read."""

    def __init__(self, path: str, *args: Any, **options: Any) -> None:
        super().__init__(path, *args, **options)
        self._is_training = Path(path).name == "train"

    def __getitem__(self, i: int) -> Any:
        if self._is_training:
            read.append(int(i))
        return super().__getitem__(i)


class NotingLoss(LossAggregator):
    """Loss that notes its value."""

    def compute(self, *args: Any, **options: Any) -> torch.Tensor:
        loss: torch.Tensor = super().compute(*args, **options)
        last[:] = [loss.item()]
        return loss


def note_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    losses.extend(last)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    weights.append(sum(parameter.detach().sum().item() for parameter in parameters))
    structures.append([*read])
    read.clear()


def join_by_gloo(_: int) -> tuple[torch.device, int, int]:
    torch.distributed.init_process_group("gloo")
    return torch.device("cpu"), torch.distributed.get_world_size(), torch.distributed.get_rank()


def become_slurm_task() -> None:
    os.environ |= {"SLURM_JOB_ID": "1", "SLURM_NTASKS": os.environ["WORLD_SIZE"]}
    os.environ |= {"SLURM_PROCID": os.environ["RANK"], "SLURM_LOCALID": os.environ["LOCAL_RANK"]}
    pet.initialize_slurm_nccl_process_group = join_by_gloo
    parallel = pet.DistributedDataParallel
    pet.DistributedDataParallel = lambda model, device_ids: parallel(model)


if __name__ == "__main__":
    *arguments, result = sys.argv[1:]
    if "RANK" in os.environ:
        become_slurm_task()
    sys.modules[opening.__module__].MemmapDataset = NotingDataset  # type: ignore[attr-defined]
    pet.LossAggregator = NotingLoss
    register_optimizer_step_post_hook(note_step)
    sys.argv = ["mtt", "train", *arguments]
    metatrain.__main__.main()
    found = {"losses": losses, "structures": structures, "weights": weights}
    Path(result).write_text(json.dumps(found))
