"""Trains PaiNN of SchNetPack on any data.

    python examples/trainers/train_schnetpack.py train.atp --epochs 10

The data are anything that ``apt.open`` takes. Needs ``schnetpack``.
"""

import argparse

import pytorch_lightning as pl
import torch

import atompack_torch as apt
from atompack_torch.trainers.schnetpack import DataModule  # before SchNetPack

import schnetpack as spk  # isort: skip
import schnetpack.task  # isort: skip
import schnetpack.transform as trn  # isort: skip

CUTOFF = 5.0  # Å


def build_task() -> spk.task.AtomisticTask:
    """Builds a small model, its losses and optimizer."""
    model = spk.model.NeuralNetworkPotential(
        representation=spk.representation.PaiNN(
            n_atom_basis=32,
            n_interactions=2,
            radial_basis=spk.nn.GaussianRBF(n_rbf=16, cutoff=CUTOFF),
            cutoff_fn=spk.nn.CosineCutoff(CUTOFF),
        ),
        input_modules=[spk.atomistic.PairwiseDistances()],
        output_modules=[
            spk.atomistic.Atomwise(n_in=32, output_key="energy"),
            spk.atomistic.Forces(energy_key="energy", force_key="forces"),
        ],
        # Predictions get back the mean energy that the data module removes.
        postprocessors=[trn.CastTo64(), trn.AddOffsets("energy", add_mean=True)],
    )
    losses = {"energy": 0.01, "forces": 0.99}
    outputs = [
        spk.task.ModelOutput(name, torch.nn.MSELoss(), weight, metrics={})
        for name, weight in losses.items()
    ]
    return spk.task.AtomisticTask(model, outputs, optimizer_args={"lr": 5e-4})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="anything that apt.open takes")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    pl.seed_everything(0, verbose=False)
    train, val = apt.open(args.data).split([0.9, 0.1], seed=0)
    data = DataModule(train, val, cutoff=CUTOFF, batch_size=8, remove_mean=["energy"])
    trainer = pl.Trainer(max_epochs=args.epochs, accelerator="auto", logger=False)
    trainer.fit(build_task(), datamodule=data)
    print(f"validation loss {float(trainer.callback_metrics['val_loss']):.4f}")


if __name__ == "__main__":
    main()
