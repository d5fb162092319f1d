"""Trains a small SchNet of graph-pes, in a loop of your own.

    python examples/trainers/train_graphpes.py train.atp --epochs 3

The data are anything that ``apt.open`` takes. The page of graph-pes shows its own command,
``graph-pes-train``, with our datasets in the config. Needs ``graph-pes``.
"""

import argparse

import torch
from graph_pes.models import SchNet
from graph_pes.training.loss import PropertyLoss, TotalLoss

from atompack_torch.trainers import graphpes

CUTOFF = 5.0  # Å


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="anything that apt.open takes")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(0)
    batches = graphpes.loader(args.data, CUTOFF, batch_size=8)
    model = SchNet(cutoff=CUTOFF, channels=16, layers=2)
    loss = TotalLoss([PropertyLoss("energy", "RMSE"), PropertyLoss("forces", "RMSE")])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        total = 0.0
        for batch in batches:  # every pass is a new epoch, in a different order
            optimizer.zero_grad()
            found = model.predict(batch, ["energy", "forces"])
            value = loss(model, batch, found).loss_value
            value.backward()
            optimizer.step()
            total += value.item()
        print(f"epoch {epoch:3d}  loss {total / len(batches):10.4f}", flush=True)


if __name__ == "__main__":
    main()
