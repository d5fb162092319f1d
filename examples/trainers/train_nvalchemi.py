"""Trains a model of nvalchemi-toolkit on a file of any format that `atompack_torch.open` takes.

python examples/trainers/train_nvalchemi.py train.extxyz
"""

from __future__ import annotations

import sys

import torch
from nvalchemi.models.demo import DemoModel, DemoModelWrapper
from nvalchemi.training import (
    EnergyMSELoss,
    ForceMSELoss,
    OptimizerConfig,
    TrainingStrategy,
    default_training_fn,
)

from atompack_torch.trainers import nvalchemi


def main() -> None:
    torch.manual_seed(0)
    loader = nvalchemi.loader(sys.argv[1], max_atoms=64)
    strategy = TrainingStrategy(
        models=DemoModelWrapper(DemoModel()),  # put your model here
        optimizer_configs=OptimizerConfig(
            optimizer_cls=torch.optim.Adam, optimizer_kwargs={"lr": 1e-3}
        ),
        num_epochs=5,
        training_fn=default_training_fn,
        # Labels that a structure lacks are NaN, and ignored by the loss.
        loss_fn=EnergyMSELoss(ignore_nonfinite=True) + ForceMSELoss(ignore_nonfinite=True),
        devices=[torch.device("cuda" if torch.cuda.is_available() else "cpu")],
    )
    strategy.run(loader)
    print(f"{strategy.step_count} steps in {strategy.epoch_count} epochs")


if __name__ == "__main__":
    main()
