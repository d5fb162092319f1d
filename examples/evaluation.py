"""Errors of a trained potential: measurement, table with simple predictors, and plots."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from ase.data import chemical_symbols
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from potential import Potential
from torch import Tensor

from atompack_torch import MoleculeBatch
from atompack_torch.datasets.statistics import Statistics


@dataclass
class Predictions:
    """True and predicted energies (eV/atom, one per molecule) and force components (eV/Å)."""

    true_energy: Tensor
    energy: Tensor
    element_energy: Tensor  # prediction of the model's reference energies alone
    true_forces: Tensor
    forces: Tensor

    def errors(self) -> tuple[float, float]:
        """Returns the mean absolute errors of energy (eV/atom) and forces (eV/Å)."""
        return mean_error(self.energy, self.true_energy), mean_error(self.forces, self.true_forces)

    def baseline_errors(self) -> tuple[float, float]:
        """Returns the same errors for energies by element and zero forces."""
        return mean_error(self.element_energy, self.true_energy), mean_error(0.0, self.true_forces)


def mean_error(predicted: Tensor | float, true: Tensor) -> float:
    """Returns the mean absolute error."""
    return (predicted - true).abs().mean().item()


def predict(model: Potential, batches: Iterable[MoleculeBatch]) -> Predictions:
    """Runs the model over all batches."""
    model.eval()
    energies, components = [], []
    for batch in batches:
        energy, forces = model(batch)
        three = torch.stack([batch.energy, energy.detach(), model.reference_energy(batch)])
        energies.append(three / batch.n_atoms)
        components.append(torch.stack([batch.forces, forces]).flatten(1))
    model.train()
    return Predictions(*torch.cat(energies, 1), *torch.cat(components, 1))


def table(test: Predictions, mean_energy: float) -> str:
    """Returns the errors on the test molecules, with those of predictors that ignore geometry."""
    element_error, zero_error = test.baseline_errors()
    energy_error, force_error = test.errors()
    rows = (
        ("mean energy per atom, no forces", mean_error(mean_energy, test.true_energy), zero_error),
        ("energies by element, no forces", element_error, zero_error),
        ("this potential", energy_error, force_error),
    )
    lines = [f"{'mean absolute error, test set':32}{'meV/atom':>10}{'eV/Å':>10}"]
    lines += [f"{name:32}{1000 * energy:10.1f}{force:10.3f}" for name, energy, force in rows]
    return "\n".join(lines)


def describe(labels: Statistics, n_test: int) -> str:
    """Describes a dataset in a few words, for the title of a picture."""
    symbols = ", ".join(chemical_symbols[z] for z in labels.elements)
    return (
        f"{n_test:,} test molecules of {labels.min_atoms} to {labels.max_atoms} atoms ({symbols})"
    )


def draw(
    test: Predictions,
    curve: list[tuple[float, float]],
    path: Path,
    model: str = "this potential",
    data: str = "test molecules",
) -> None:
    """Plots predictions and their errors; the title names the model and the data."""
    figure = Figure(figsize=(10.5, 8.4), layout="constrained")
    figure.suptitle(f"{model}\n{data}", fontsize="large")
    axes = figure.subplots(2, 2)
    energy_error, force_error = test.errors()
    parity(axes[0, 0], test.true_energy, test.energy, "energy, eV/atom")
    axes[0, 0].set_title(f"Energies: mean absolute error {1000 * energy_error:.1f} meV/atom")
    parity(axes[0, 1], test.true_forces, test.forces, "force component, eV/Å")
    axes[0, 1].set_title(f"Forces: mean absolute error {1000 * force_error:.0f} meV/Å")
    distribution(axes[1, 0], test)
    history(axes[1, 1], test, curve)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def parity(axes: Axes, true: Tensor, predicted: Tensor, quantity: str) -> None:
    """Plots predicted against true values with the diagonal."""
    low, high = true.min().item(), true.max().item()
    axes.scatter(true, predicted, s=5, alpha=0.4, linewidths=0, rasterized=True)
    axes.plot([low, high], [low, high], color="0.3", linewidth=0.8, linestyle="--")
    axes.set(xlabel=f"EMT {quantity}", ylabel=f"predicted {quantity}")
    axes.grid(alpha=0.3)


def distribution(axes: Axes, test: Predictions) -> None:
    """Plots which share of the test set has errors up to each size."""
    quantities = {
        "energy, meV/atom": test.energy - test.true_energy,
        "force component, meV/Å": test.forces - test.true_forces,
    }
    for name, errors in quantities.items():
        ordered = 1000 * errors.abs().sort().values.clamp(min=1e-5)
        share = torch.linspace(0, 100, len(ordered))
        median = ordered[len(ordered) // 2].item()
        axes.semilogx(ordered, share, label=f"{name} (median {median:.3g})")
    axes.set(title="Errors on the test set", xlabel="absolute error", ylabel="share with less, %")
    axes.set_xlim(left=0.1)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)


def history(axes: Axes, test: Predictions, curve: list[tuple[float, float]]) -> None:
    """Plots the validation errors by epoch, and those of predictors that ignore geometry."""
    for k, name in enumerate(("energy, meV/atom", "force component, meV/Å")):
        errors = [1000 * epoch[k] for epoch in curve]
        epochs = range(1, len(curve) + 1)
        axes.semilogy(epochs, errors, ".-", color=f"C{k}", label=name)
        baseline = 1000 * test.baseline_errors()[k]
        axes.axhline(baseline, color=f"C{k}", linestyle=":", label=f"{name}, geometry ignored")
    axes.set(title="Training", xlabel="epoch", ylabel="mean absolute validation error")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
