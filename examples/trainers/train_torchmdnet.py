"""Trains TensorNet of TorchMD-Net on any data.

    python examples/trainers/train_torchmdnet.py train.atp --epochs 10

The data are anything that ``apt.open`` takes. Needs ``torchmd-net``.
"""

import argparse

import lightning
from torchmdnet.module import LNNP
from torchmdnet.scripts.train import get_argparse

import atompack_torch as apt
from atompack_torch.trainers.torchmdnet import DataModule

OPTIONS = {
    "model": "tensornet",
    "embedding_dimension": 32,
    "num_layers": 1,
    "num_rbf": 16,
    "cutoff_upper": 4.5,  # Å
    "max_num_neighbors": 128,
    "derivative": True,
    "y_weight": 0.1,
    "neg_dy_weight": 1.0,
    "lr": 1e-3,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="anything that apt.open takes")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    lightning.seed_everything(0, verbose=False)
    train, val = apt.open(args.data).split([0.9, 0.1], seed=0)
    data = DataModule(train, val, batch_size=8)
    task = LNNP(vars(get_argparse().parse_args([])) | OPTIONS)
    trainer = lightning.Trainer(max_epochs=args.epochs, accelerator="auto", logger=False)
    trainer.fit(task, datamodule=data)
    print(f"validation loss {float(trainer.callback_metrics['val_total_mse_loss']):.4f}")


if __name__ == "__main__":
    main()
