"""Trains by DeePMD-kit on one of several ranks of CPUs, and notes the frames of each step.

usage: deepmd_train_rank.py INPUT DATA|- RESULT

``-`` runs ``dp --pt train INPUT``; otherwise its ``Trainer`` gets batches of our loader over DATA.
DeePMD-kit joins ranks by NCCL and takes a CUDA device for each; here gloo and the CPU take their
place. RESULT, in JSON: ``frames``, the numbers of the frames of each step, and ``weights``, the sum
of each parameter at the end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import operators  # noqa: F401
import torch
import torch.distributed
from deepmd.main import main as dp
from deepmd.pt.entrypoints.main import get_trainer
from deepmd.pt.train import training
from deepmd.utils.argcheck import normalize

from atompack_torch.trainers.deepmd import endless, loader

BATCH = 2
frames: list[list[int]] = []
trainers: list[training.Trainer] = []
join, parallel = torch.distributed.init_process_group, training.DDP


class NotingTrainer(training.Trainer):
    """Trainer that notes the frames that it trains on."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        trainers.append(self)

    def get_data(self, is_train: bool = True, task_key: str = "Default") -> Any:
        found = super().get_data(is_train, task_key)
        if is_train:
            frames.append([int(number) for number in found[2]["fid"]])
        return found


def join_by_gloo(backend: str) -> None:
    assert "nccl" in backend
    join("gloo")


def without_devices(module: Any, device_ids: Any, output_device: Any, **options: Any) -> Any:
    return parallel(module, **options)


def main(input_file: str, data: str, result: str) -> None:
    torch.cuda.set_device = lambda _: None
    training.DDP = without_devices
    training.Trainer = NotingTrainer
    if data == "-":
        torch.distributed.init_process_group = join_by_gloo
        dp(["--pt", "train", "--skip-neighbor-stat", input_file])
    else:
        join("gloo")
        config = normalize(json.loads(Path(input_file).read_text()))
        trainer = get_trainer(config)
        type_map = config["model"]["type_map"]
        trainer.training_data = endless(loader(data, BATCH, type_map, seed=1))
        trainer.run()
    parameters = trainers[0].wrapper.named_parameters()
    weights = {name: value.detach().sum().item() for name, value in parameters}
    Path(result).write_text(json.dumps({"frames": frames, "weights": weights}))


if __name__ == "__main__":
    main(*sys.argv[1:])
