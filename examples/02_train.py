"""Trains a small message-passing potential on energies and forces read from an .atp file.

    python examples/02_train.py [FILE.atp] [--epochs 10]

Without a file it first makes one with alloy molecules (see alloys.py). At the end it prints the
errors on test molecules, compared with those of simple predictors, and plots them.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import alloys
import torch
from evaluation import describe, draw, predict, table
from potential import Potential, element_energies
from torch.utils.data import DataLoader

import atompack_torch as apt

FIELDS = ["energy", "forces", "cell", "pbc"]  # the labels for training; stress is not read
CUTOFF = 5.0  # Å
ENERGY_WEIGHT = 2.0  # of an error of 1 eV/atom relative to a force error of 1 eV/Å
LEARNING_RATE = 0.012

Batches = Iterable[apt.MoleculeBatch]


class Clock:
    """Iterates over a loader and measures the time spent waiting for batches."""

    def __init__(self) -> None:
        self.waited = self.total = 0.0
        self.molecules = 0

    def watch(self, loader: Batches) -> Iterator[apt.MoleculeBatch]:
        """Yields the batches of one epoch."""
        start = asked = time.perf_counter()
        for batch in loader:
            self.waited += time.perf_counter() - asked
            self.molecules += len(batch)
            yield batch
            asked = time.perf_counter()
        self.total += time.perf_counter() - start

    @property
    def rate(self) -> float:
        """Molecules per second of training."""
        return self.molecules / self.total


def train(
    model: Potential,
    loader: apt.Loader,
    validation: Batches,
    epochs: int,
) -> list[tuple[float, float]]:
    """Fits the model; returns the validation errors (eV/atom, eV/Å) after each epoch."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, epochs=epochs, steps_per_epoch=len(loader), pct_start=0.1
    )
    clock, curve, start = Clock(), [], time.perf_counter()
    for epoch in range(1, epochs + 1):
        for batch in clock.watch(loader):
            energy, forces = model(batch)
            # Absolute errors, not squares: a few large forces must not dominate the fit.
            energy_loss = ((energy - batch.energy) / batch.n_atoms).abs().mean()
            force_loss = (forces - batch.forces).norm(dim=1).mean()
            optimizer.zero_grad()
            (ENERGY_WEIGHT * energy_loss + force_loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            schedule.step()
        curve.append(predict(model, validation).errors())
        left = (time.perf_counter() - start) / epoch * (epochs - epoch)
        energy_error, force_error = curve[-1]
        print(
            f"epoch {epoch:3}/{epochs}  validation {1000 * energy_error:6.1f} meV/atom"
            f" {force_error:.3f} eV/Å  {clock.rate:,.0f} molecules/s  {left:.0f} s left",
            flush=True,
        )
    share = clock.waited / clock.total
    print(f"trained at {clock.rate:,.0f} molecules/s; {share:.2%} of a step waited for data")
    return curve


def parse() -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, help="(default: %(default)s)")
    add("path", nargs="?", type=Path, help="an .atp file with energies, forces, cell and pbc")
    add("--molecules", type=int, default=4800, help="to make (default: %(default)s)")
    add("--epochs", type=int, default=10)
    add("--batch-size", type=int, default=32)
    add("--threads", type=int, default=1, help="of the loader (default: %(default)s)")
    add("--seed", type=int, default=0)
    add("--out", type=Path, default=Path("build/demo"), help="folder (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    """Reads, trains, tests."""
    options = parse()
    torch.manual_seed(options.seed)
    made = options.out / f"alloys-{options.molecules}-{options.seed}.atp"
    path = options.path or alloys.ensure(made, options.molecules, options.seed)

    # missing="error": a molecule without one of these labels raises instead of giving NaN.
    neighbors = apt.NeighborList(CUTOFF, full=False, vectors=True)
    dataset = apt.AtpDataset(
        path, fields=FIELDS, dtype=torch.float32, missing="error", neighbors=neighbors
    )
    parts = dataset.split([0.8, 0.1, 0.1], seed=options.seed)
    validation, test = (DataLoader(part, batch_size=256) for part in parts[1:])
    sizes = " + ".join(str(len(part)) for part in parts)
    print(f"{path}: {sizes} molecules to train, validate and test")
    # Its threads compute the edges of the next batches while the model works on this one.
    loader = apt.Loader(
        parts[0], options.batch_size, shuffle=True, seed=options.seed, num_threads=options.threads
    )

    labels = parts[0].statistics()
    model = Potential(element_energies(labels), CUTOFF)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{n_parameters:,} parameters")

    curve = train(model, loader, validation, options.epochs)
    result = predict(model, test)
    print("\n" + table(result, labels.energy_per_atom.mean))
    picture = options.out / "alloys.png"
    model_name = f"Message-passing potential, {n_parameters:,} parameters, {options.epochs} epochs"
    draw(result, curve, picture, model_name, f"{path.name}: {describe(labels, len(parts[2]))}")
    print(f"picture: {picture}")
    print("next: `make demo-mace` trains a MACE model on the same molecules")


if __name__ == "__main__":
    main()
