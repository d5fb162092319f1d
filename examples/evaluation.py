"""Errors of a trained potential: measurement, table with simple predictors, and plots."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from potential import Potential
from torch import Tensor

from atompack_torch import MoleculeBatch


@dataclass
class Predictions:
    """True and predicted energies (eV/atom, one a structure) and force components (eV/Å)."""

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
    """Returns the errors on the test structures, with those of predictors that ignore geometry."""
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


def draw(test: Predictions, curve: list[tuple[float, float]], path: Path) -> None:
    """Plots predicted against true values, and the validation errors by epoch."""
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    axes = figure.subplots(1, 3)
    energy_error, force_error = test.errors()
    parity(axes[0], test.true_energy, test.energy, "eV/atom")
    axes[0].set_title(f"Energy: mean error {1000 * energy_error:.1f} meV/atom")
    parity(axes[1], test.true_forces, test.forces, "eV/Å")
    axes[1].set_title(f"Force components: mean error {force_error:.3f} eV/Å")

    names, colors = ("energy, eV/atom", "forces, eV/Å"), ("C0", "C1")
    for k, (name, color) in enumerate(zip(names, colors, strict=True)):
        errors = [epoch[k] for epoch in curve]
        axes[2].semilogy(range(1, len(curve) + 1), errors, color=color, label=name)
        baseline = test.baseline_errors()[k]
        axes[2].axhline(baseline, color=color, linestyle=":", label=f"{name}, geometry ignored")
    axes[2].set(title="Validation error", xlabel="epoch", ylabel="mean absolute error")
    axes[2].legend(fontsize="small")

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def parity(axes: Axes, true: Tensor, predicted: Tensor, unit: str) -> None:
    """Plots predicted against true values with the diagonal."""
    low, high = true.min().item(), true.max().item()
    axes.scatter(true, predicted, s=5, alpha=0.4, linewidths=0)
    axes.plot([low, high], [low, high], color="0.3", linewidth=0.8, linestyle="--")
    axes.set(xlabel=f"EMT, {unit}", ylabel=f"predicted, {unit}")
