"""Trains a small pair potential with Lightning, on one process or several.

    pip install atompack_torch lightning
    python examples/trainers/train_lightning.py train.atp val.atp
    python examples/trainers/train_lightning.py train.atp val.atp --devices 2
    python examples/trainers/train_lightning.py train.atp val.atp --resume lightning/last.ckpt

Files may be of any format that ``apt.open`` takes: .atp, extended XYZ, ASE LMDB, and so on. They
need energies and forces.
"""

import argparse
import math

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn

import atompack_torch as apt
from atompack_torch.trainers.lightning import DataModule

CUTOFF = 4.0  # Å


class PairPotential(lightning.LightningModule):
    """Energy as a sum over atoms and pairs of neighbors; forces are its derivative."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.atoms = nn.Embedding(119, 1)  # energy of an atom by atomic number
        self.elements = nn.Embedding(119, channels)
        self.pairs = nn.Sequential(
            nn.Linear(channels + 8, channels), nn.SiLU(), nn.Linear(channels, 1)
        )

    def forward(self, batch: apt.MoleculeBatch) -> tuple[Tensor, Tensor]:
        """Returns energies (B,) in eV and forces (N, 3) in eV/Å."""
        i, j = batch.edge_index
        vector = batch.edge_vector.requires_grad_()  # r_j - r_i, also across cells
        distance = vector.norm(dim=1)
        waves = torch.arange(1, 9, device=self.device) * math.pi / CUTOFF
        basis = torch.sin(distance[:, None] * waves) * (1 - distance[:, None] / CUTOFF) ** 2
        pair = self.elements(batch.atomic_numbers[i]) * self.elements(batch.atomic_numbers[j])
        energies = self.pairs(torch.cat([pair, basis], dim=1)).squeeze(1)
        atoms = self.atoms(batch.atomic_numbers).squeeze(1).index_add(0, i, energies)
        # Validation has no gradients unless they are asked for.
        (pull,) = torch.autograd.grad(energies.sum(), vector, create_graph=self.training)
        forces = torch.zeros_like(batch.positions).index_add(0, i, pull).index_add(0, j, -pull)
        total = torch.zeros(len(batch), device=self.device).index_add(0, batch.batch, atoms)
        return total, forces

    def loss(self, batch: apt.MoleculeBatch, name: str) -> Tensor:
        """Returns the mean error; a molecule without forces counts by its energy only."""
        energy, forces = self(batch)
        loss = ((energy - batch.energy) / batch.n_atoms).abs().mean()
        has_forces = batch.mask("forces")[batch.batch]
        if has_forces.any():
            loss = loss + (forces - batch.forces)[has_forces].norm(dim=1).mean()
        # Lightning cannot find the number of molecules by itself.
        self.log(name, loss, batch_size=len(batch), prog_bar=True, sync_dist=True)
        return loss

    def training_step(self, batch: apt.MoleculeBatch) -> Tensor:
        """Returns the loss of a batch."""
        return self.loss(batch, "loss")

    def validation_step(self, batch: apt.MoleculeBatch) -> None:
        """Logs the loss of a batch."""
        with torch.enable_grad():
            self.loss(batch, "validation")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main() -> None:
    """Trains from the files on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("val")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--max-atoms", type=int, default=256)
    parser.add_argument("--resume", help="checkpoint to continue from, also inside an epoch")
    parser.add_argument("--out", default="lightning", help="folder of the checkpoints")
    args = parser.parse_args()

    lightning.seed_everything(0, verbose=False)
    data = DataModule(
        args.train,
        args.val,
        max_atoms=args.max_atoms,
        fields=["energy", "forces", "cell", "pbc"],
        dtype=torch.float32,
        neighbors=apt.NeighborList(CUTOFF, vectors=True),
    )
    trainer = lightning.Trainer(
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        max_epochs=args.epochs,
        inference_mode=False,  # forces are gradients
        logger=False,
        callbacks=[ModelCheckpoint(args.out, save_last=True, every_n_train_steps=10)],
    )
    trainer.fit(PairPotential(), datamodule=data, ckpt_path=args.resume)
    print(f"validation loss {float(trainer.callback_metrics['validation']):.4f}")


if __name__ == "__main__":
    main()
