"""Trains a small TensorNet of MatGL with Lightning, on one process or several.

    pip install atompack_torch matgl
    python examples/trainers/train_matgl.py train.atp val.atp
    python examples/trainers/train_matgl.py train.atp val.atp --devices 2
    python examples/trainers/train_matgl.py train.atp val.atp --resume matgl/last.ckpt

Files may be of any format that ``apt.open`` takes: .atp, extended XYZ, ASE LMDB, and so on.
"""

import argparse

import lightning
from ase.data import chemical_symbols
from lightning.pytorch.callbacks import ModelCheckpoint
from matgl.models import TensorNet
from matgl.utils.training import PotentialLightningModule

import atompack_torch as apt
from atompack_torch.trainers import matgl
from atompack_torch.trainers.lightning import DataModule


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("val")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--resume", help="a checkpoint, also from inside an epoch")
    args = parser.parse_args()

    lightning.seed_everything(0, verbose=False)
    statistics = apt.open(args.train).statistics()
    elements = tuple(chemical_symbols[number] for number in statistics.elements)
    energies = statistics.reference_energies.energies  # a fitted energy for each element
    model = TensorNet(elements, units=16, nblocks=1, num_rbf=8, cutoff=4.0, is_intensive=False)
    module = PotentialLightningModule(
        model,
        element_refs=[energies[number] for number in statistics.elements],
        data_std=statistics.forces.rms,
        stress_weight=0.1,
    )
    # Molecules have no stress: pass it as NaN, and exclude it from the loss.
    matgl.ignore_missing_labels(module)
    layout = matgl.layout(model.element_types, model.cutoff, allow_missing=True)
    trainer = lightning.Trainer(
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        max_epochs=args.epochs,
        inference_mode=False,  # validation needs gradients for the forces
        callbacks=[ModelCheckpoint("matgl", save_last=True, every_n_train_steps=5)],
        logger=False,
    )
    trainer.fit(
        module,
        datamodule=DataModule(args.train, args.val, max_atoms=64, layout=layout),
        ckpt_path=args.resume,
    )
    if trainer.is_global_zero:
        for name in ("train_Total_Loss", "val_Energy_MAE", "val_Force_MAE"):
            print(f"{name} {trainer.callback_metrics[name]:.4f}")


if __name__ == "__main__":
    main()
