"""Trains a small Orb on any data, in a loop of your own.

    python examples/trainers/train_orb.py train.atp --epochs 3

The data are anything that ``apt.open`` takes. The model is Orb v3 with few channels and random
weights; for trained ones, use ``pretrained.orb_v3_conservative_inf_omat(train=True)``, which
returns a model and its adapter, with the radius. Needs ``orb-models``.
"""

import argparse

import torch
from orb_models.common.training.util import get_optim
from orb_models.forcefield import pretrained

import atompack_torch as apt
from atompack_torch.trainers import orb

RADIUS = 6.0  # Å, of Orb v3
NEIGHBORS = 120  # of an atom, at most


def build_model(dataset: apt.AtpDataset) -> torch.nn.Module:
    """Builds a small Orb v3 with reference energies of the data."""
    model = pretrained.orb_v3_conservative_architecture(
        latent_dim=32,
        base_mlp_hidden_dim=64,
        base_mlp_depth=1,
        head_mlp_hidden_dim=32,
        num_message_passing_steps=2,
        has_stress=False,  # which molecules do not have
        device="cpu",
    )
    model.loss_weights = {"energy": 1.0, "grad_forces": 1.0, "confidence": 1.0}
    references = model.heads["energy"].reference.linear.weight  # by atomic number
    with torch.no_grad():
        for number, energy in dataset.statistics().reference_energies.energies.items():
            references[number] = energy
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="anything that apt.open takes")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(0)
    dataset = apt.open(args.data)
    batches = orb.loader(dataset, RADIUS, NEIGHBORS, batch_size=8)
    model = build_model(dataset)
    optimizer, scheduler = get_optim(1e-3, args.epochs * len(batches), model)
    for epoch in range(args.epochs):
        total = 0.0
        for batch in batches:  # every pass is a new epoch, in a different order
            optimizer.zero_grad()
            loss = model.loss(batch).loss
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
        print(f"epoch {epoch:3d}  loss {total / len(batches):10.4f}", flush=True)


if __name__ == "__main__":
    main()
