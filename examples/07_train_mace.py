"""Trains a small MACE model on the alloys of the demo, and plots its errors.

    python examples/07_train_mace.py [FILE.atp] [--epochs 8]

The batches, with their edges, come from ``atompack_torch.trainers.mace``; model, loss and file are
MACE's own. The model is written as ``alloys.model``, which ``mace.calculators.MACECalculator``
opens. Needs ``mace-torch``; ``make demo-mace`` installs it into a separate environment.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import alloys
import mace  # before e3nn, whose constants torch.load refuses otherwise
import torch
from e3nn import o3
from evaluation import Predictions, describe, draw, table
from mace import modules, tools

import atompack_torch as apt
from atompack_torch.datasets.statistics import Statistics
from atompack_torch.trainers.mace import loader

CUTOFF = 4.5  # Å
ENERGY_WEIGHT, FORCE_WEIGHT = 10.0, 10.0


def build_model(statistics: Statistics) -> torch.nn.Module:
    """Builds a small MACE with reference energies and neighbor counts of the data."""
    references = statistics.reference_energies
    assert references is not None
    interaction = modules.interaction_classes["RealAgnosticResidualInteractionBlock"]
    return modules.ScaleShiftMACE(
        r_max=CUTOFF,
        num_bessel=6,
        num_polynomial_cutoff=5,
        max_ell=2,
        interaction_cls=interaction,
        interaction_cls_first=interaction,
        num_interactions=2,
        num_elements=len(statistics.elements),
        hidden_irreps=o3.Irreps("16x0e"),
        MLP_irreps=o3.Irreps("16x0e"),
        gate=torch.nn.functional.silu,
        atomic_energies=torch.tensor([references.energies[z] for z in statistics.elements]).numpy(),
        avg_num_neighbors=statistics.mean_neighbors,
        atomic_numbers=[*statistics.elements],
        correlation=2,
        radial_type="bessel",
        atomic_inter_scale=statistics.forces.rms,
        atomic_inter_shift=0.0,
    )


def predict(model: torch.nn.Module, batches: apt.Loader) -> Predictions:
    """Runs the model over all batches."""
    energies, forces = [], []
    for batch in batches:
        found = model(batch.to_dict(), training=False)
        atoms = model.atomic_energies_fn(batch.node_attrs).squeeze(-1)
        n_molecules = len(batch.ptr) - 1
        elements = torch.zeros(n_molecules).index_add(0, batch.batch, atoms)
        rows = torch.stack([batch.energy, found["energy"].detach(), elements.detach()])
        energies.append(rows / batch.ptr.diff())
        forces.append(torch.stack([batch.forces, found["forces"].detach()]).flatten(1))
    return Predictions(*torch.cat(energies, 1), *torch.cat(forces, 1))


def train(
    model: torch.nn.Module, batches: apt.Loader, validation: apt.Loader, epochs: int
) -> list[tuple[float, float]]:
    """Fits the model; returns the validation errors (eV/atom, eV/Å) after each epoch."""
    loss = modules.WeightedEnergyForcesLoss(ENERGY_WEIGHT, FORCE_WEIGHT)
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.02, epochs=epochs, steps_per_epoch=len(batches), pct_start=0.1
    )
    curve, start = [], time.perf_counter()
    for epoch in range(1, epochs + 1):
        for batch in batches:
            optimizer.zero_grad()
            loss(pred=model(batch.to_dict(), training=True), ref=batch).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            schedule.step()
        curve.append(predict(model, validation).errors())
        left = (time.perf_counter() - start) / epoch * (epochs - epoch)
        energy_error, force_error = curve[-1]
        print(
            f"epoch {epoch:2}/{epochs}  validation {1000 * energy_error:6.1f} meV/atom"
            f" {force_error:.3f} eV/Å  {left:.0f} s left",
            flush=True,
        )
    return curve


def parse() -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, help="(default: %(default)s)")
    add("path", nargs="?", type=Path, help="an .atp file with energies, forces, cell and pbc")
    add("--molecules", type=int, default=1600, help="to use (default: %(default)s)")
    add("--epochs", type=int, default=8)
    add("--batch-size", type=int, default=8)
    add("--seed", type=int, default=0)
    add("--out", type=Path, default=Path("build/demo"), help="folder (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    """Reads, trains, tests."""
    options = parse()
    torch.manual_seed(options.seed)
    made = options.out / f"alloys-{options.molecules}-{options.seed}.atp"
    path = options.path or alloys.ensure(made, options.molecules, options.seed)

    dataset = apt.AtpDataset(path, fields=["energy", "forces", "cell", "pbc"])
    dataset = dataset.subset(range(min(options.molecules, len(dataset))))
    parts = dataset.split([0.8, 0.1, 0.1], seed=options.seed)
    sizes = " + ".join(str(len(part)) for part in parts)
    print(f"{path}: {sizes} molecules to train, validate and test")

    labels = parts[0].statistics(cutoff=CUTOFF)
    z_table = tools.AtomicNumberTable([*labels.elements])
    model = build_model(labels)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"MACE with {n_parameters:,} parameters, cutoff {CUTOFF} Å")
    make = partial(loader, z_table=z_table, cutoff=CUTOFF)
    batches = make(parts[0], batch_size=options.batch_size, seed=options.seed)
    validation, test = (make(part, batch_size=32, shuffle=False) for part in parts[1:])

    curve = train(model, batches, validation, options.epochs)
    result = predict(model, test)
    print("\n" + table(result, labels.energy_per_atom.mean))
    options.out.mkdir(parents=True, exist_ok=True)
    torch.save(model, options.out / "alloys.model")
    picture = options.out / "alloys_mace.png"
    model_name = f"MACE {mace.__version__}, {n_parameters:,} parameters, {options.epochs} epochs"
    draw(result, curve, picture, model_name, f"{path.name}: {describe(labels, len(parts[2]))}")
    print(f"picture: {picture}\nmodel: {options.out / 'alloys.model'}")


if __name__ == "__main__":
    main()
