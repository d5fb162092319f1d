"""Train a small message-passing potential on energies and forces read from an .atp file.

    python examples/02_train.py [FILE.atp] [--epochs 20]

Without a file it first makes one of alloy structures (see alloys.py). At the end it prints the
errors on structures kept aside, next to those of simple predictors, and draws them.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import alloys
import torch
from evaluation import draw, predict, table
from potential import NeighborTable, Potential
from torch import Tensor
from torch.utils.data import DataLoader

import atompack_torch as apt

FIELDS = ["energy", "forces", "cell", "pbc"]  # what training reads; the stress stays in the file
CUTOFF = 5.0  # Å
ENERGY_WEIGHT = 2.0  # of an error of 1 eV/atom, against a force that is wrong by 1 eV/Å
LEARNING_RATE = 0.012

Batches = Iterable[apt.MoleculeBatch]


class Clock:
    """Passes on a loader's batches, and measures how long the loop waited for them."""

    def __init__(self) -> None:
        self.waited = self.total = 0.0
        self.molecules = 0

    def watch(self, loader: Batches) -> Iterator[apt.MoleculeBatch]:
        """Yield the batches of one epoch."""
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


def fit_elements(batches: Batches) -> tuple[Tensor, float]:
    """Fit one energy per element to the total energies, by least squares.

    Returns:
        Those energies by atomic number, (119,) float64, and the mean energy per atom, in eV.
    """
    counts, energies = [], []
    for batch in batches:
        count = torch.zeros(len(batch), 119, dtype=torch.float64)
        one = torch.ones((), dtype=torch.float64)
        counts.append(count.index_put_((batch.batch, batch.atomic_numbers), one, accumulate=True))
        energies.append(batch.energy)
    count, energy = torch.cat(counts), torch.cat(energies)
    # gelsd: an element that does not occur is a column of zeros, and gets the energy zero.
    fit = torch.linalg.lstsq(count, energy.unsqueeze(1), driver="gelsd")
    return fit.solution.squeeze(1), (energy / count.sum(1)).mean().item()


def train(
    model: Potential,
    neighbors: NeighborTable,
    loader: DataLoader[apt.Molecule],
    validation: Batches,
    epochs: int,
) -> list[tuple[float, float]]:
    """Fit the model; return the validation errors (eV/atom, eV/Å) after each epoch."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, epochs=epochs, steps_per_epoch=len(loader), pct_start=0.1
    )
    clock, curve, start = Clock(), [], time.perf_counter()
    for epoch in range(1, epochs + 1):
        for batch in clock.watch(loader):
            energy, forces = model(batch, neighbors)
            # Absolute errors, not squares: a few large forces must not rule the fit.
            energy_loss = ((energy - batch.energy) / batch.n_atoms).abs().mean()
            force_loss = (forces - batch.forces).norm(dim=1).mean()
            optimizer.zero_grad()
            (ENERGY_WEIGHT * energy_loss + force_loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            schedule.step()
        curve.append(predict(model, neighbors, validation).errors())
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
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, help="(default: %(default)s)")
    add("path", nargs="?", type=Path, help="an .atp file with energies, forces, cell and pbc")
    add("--structures", type=int, default=4800, help="to make (default: %(default)s)")
    add("--epochs", type=int, default=20)
    add("--batch-size", type=int, default=32)
    add("--workers", type=int, default=0, help="worker processes of the DataLoader (default: none)")
    add("--seed", type=int, default=0)
    add("--out", type=Path, default=Path("build/demo"), help="folder (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    """Read, train, test."""
    options = parse()
    torch.manual_seed(options.seed)
    made = options.out / f"alloys-{options.structures}-{options.seed}.atp"
    path = options.path or alloys.ensure(made, options.structures, options.seed)

    # missing="error": a structure without one of these labels stops the run, here and not as a NaN.
    dataset = apt.AtpDataset(path, fields=FIELDS, missing="error")
    parts = dataset.split([0.8, 0.1, 0.1], seed=options.seed)
    training, validation, test = (DataLoader(part, batch_size=256) for part in parts)
    sizes = " + ".join(str(len(part)) for part in parts)
    print(f"{path}: {sizes} structures to train, validate and test")
    loader = DataLoader(
        parts[0],
        batch_size=options.batch_size,
        shuffle=True,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )

    neighbors = NeighborTable(dataset, CUTOFF)
    elements, mean_energy = fit_elements(training)
    model = Potential(elements, CUTOFF)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{neighbors.pair.shape[1]:,} neighbors, {n_parameters:,} parameters")

    curve = train(model, neighbors, loader, validation, options.epochs)
    result = predict(model, neighbors, test)
    print("\n" + table(result, mean_energy))
    picture = options.out / "alloys.png"
    draw(result, curve, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
