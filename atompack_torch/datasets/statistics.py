"""Statistics of datasets: counts, elements, the spread of labels, atomic reference energies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from atompack_torch._native import BatchRequest, MoleculeSource, StatisticsPass
from atompack_torch.batch.elements import symbol
from atompack_torch.datasets.html import statistics_html
from atompack_torch.datasets.sweeping import OnProgress, steps
from atompack_torch.errors import printable
from atompack_torch.fields import RESERVED, FieldId, public_names, with_usual_unit

N_ELEMENTS = 256  # atomic numbers are one byte

_MOST_LABELS = 30  # in repr

Array = np.ndarray[Any, np.dtype[np.float64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Equations = tuple[Array, Array, float]  # sums of c c^T, c e and e^2 (composition, energy)


@dataclass(frozen=True)
class Spread:
    """Statistics of finite values; NaN where there are none.

    Attributes:
        count: finite values.
        n_non_finite: values that are NaN or infinite; excluded from everything else.
        mean: arithmetic mean.
        std: square root of the mean squared distance from the mean (divided by ``count``).
        rms: square root of the mean square.
        min: smallest value.
        max: largest value.
    """

    count: int
    n_non_finite: int
    mean: float
    std: float
    rms: float
    min: float
    max: float


@dataclass(frozen=True)
class ElementCount:
    """Occurrence of an element and the forces on its atoms.

    Attributes:
        n_atoms: number of its atoms.
        n_molecules: number of molecules that contain it.
        force_rms: square root of the mean square of the finite force components on its atoms; None
            where there are none.
    """

    n_atoms: int
    n_molecules: int
    force_rms: float | None = None


@dataclass(frozen=True)
class ReferenceEnergies:
    """One energy per element, fitted to the total energies: E = sum of count x reference.

    Ordinary least squares over all molecules that have atoms and a finite energy. If the
    compositions do not determine all elements (``rank`` below their number), this is the
    minimum-norm solution, which predicts the same energies as any other. Compositions whose ratios
    differ by less than about one in a million count as the same.

    Attributes:
        energies: atomic number → energy, in the unit of the stored energies.
        rank: number of independent compositions.
        n_molecules: number of molecules in the fit.
        residual_rms: RMS of the residual energy per molecule.
        residual_rms_per_atom: the same, with each residual divided by its number of atoms.
    """

    energies: dict[int, float]
    rank: int
    n_molecules: int
    residual_rms: float
    residual_rms_per_atom: float


@dataclass(frozen=True, repr=False)
class Statistics:
    """The result of ``dataset.statistics()``; values are in the units of the file.

    Attributes:
        n_molecules: number of molecules (without those dropped by ``missing="drop"``).
        n_atoms: total number of their atoms.
        sizes: number of atoms → number of molecules, ascending.
        elements: atomic number → counts of atoms and molecules, ascending.
        energy: spread of total energies; None if no molecule has one.
        energy_per_atom: spread of energy per atom, excluding molecules without atoms.
        forces: spread of force components; None if no molecule has forces.
        max_force: length of the longest force vector (with finite components).
        max_force_molecule: index, in this dataset, of the first molecule that has it; None if
            there is none.
        reference_energies: fitted energies; None if no molecule has atoms and a finite energy.
        coverage: label → number of molecules that have it, for every label of the dataset.
        isolated_atoms: atomic number → energies of single atoms: molecules of one atom without a
            periodic image of itself within 6 Å, or within ``cutoff`` if that is larger.
        cutoff: cutoff of the neighbor count; None: neighbors were not counted.
        mean_neighbors: mean number of neighbors of an atom within ``cutoff``, periodic images
            included; NaN where there are no atoms, None without ``cutoff``.
        features: spread of each column of stored features, or None.
    """

    n_molecules: int
    n_atoms: int
    sizes: dict[int, int]
    elements: dict[int, ElementCount]
    energy: Spread | None
    energy_per_atom: Spread | None
    forces: Spread | None
    max_force: float | None
    reference_energies: ReferenceEnergies | None
    coverage: dict[str, int]
    max_force_molecule: int | None = None
    isolated_atoms: dict[int, Spread] = field(default_factory=dict)
    cutoff: float | None = None
    mean_neighbors: float | None = None
    features: tuple[Spread, ...] | None = None

    @property
    def min_atoms(self) -> int:
        """Number of atoms of the smallest molecule; 0 in an empty dataset."""
        return min(self.sizes, default=0)

    @property
    def max_atoms(self) -> int:
        """Number of atoms of the largest molecule; 0 in an empty dataset."""
        return max(self.sizes, default=0)

    @property
    def mean_atoms(self) -> float:
        """Mean number of atoms per molecule; NaN in an empty dataset."""
        return ratio(self.n_atoms, self.n_molecules)

    def spreads(self) -> tuple[tuple[str, str, Spread | None], ...]:
        """Returns name, name with its usual unit, and spread of each label that has one."""
        names = {"energy": "energy", "energy_per_atom": "energy", "forces": "forces"}
        return tuple(
            (name, with_usual_unit(name, label), getattr(self, name))
            for name, label in names.items()
        )

    def as_dict(self) -> dict[str, object]:
        """Converts the statistics to plain values, for JSON.

        Returns:
            Name → value: keys of nested dicts are strings, non-finite numbers are None.
        """
        plain: dict[str, Any] = {
            "n_molecules": self.n_molecules,
            "n_atoms": self.n_atoms,
            "min_atoms": self.min_atoms,
            "max_atoms": self.max_atoms,
            "mean_atoms": self.mean_atoms,
            "sizes": self.sizes,
            "elements": {z: vars(count) for z, count in self.elements.items()},
            **{name: spread and vars(spread) for name, _, spread in self.spreads()},
            "max_force": self.max_force,
            "max_force_molecule": self.max_force_molecule,
            "reference_energies": self.reference_energies and vars(self.reference_energies),
            "isolated_atoms": {z: vars(spread) for z, spread in self.isolated_atoms.items()},
            "cutoff": self.cutoff,
            "mean_neighbors": self.mean_neighbors,
            "features": None if self.features is None else [vars(one) for one in self.features],
            "coverage": self.coverage,
        }
        result: dict[str, Any] = plain_values(plain)
        return result

    def __repr__(self) -> str:
        lines = [f"{self.n_molecules:,} molecules, {self.n_atoms:,} atoms"]
        if self.n_molecules:
            sizes = f"{self.min_atoms:,} to {self.max_atoms:,} a molecule"
            lines[0] += f" ({sizes}, mean {self.mean_atoms:.4g})"
        for _, head, spread in self.spreads():
            if spread is not None:
                lines.append(f"{head}: {_described(spread)}")
        if self.max_force is not None:
            molecule = self.max_force_molecule
            where = "" if molecule is None else f" (molecule {molecule})"
            longest = with_usual_unit(f"longest force: {self.max_force:.6g}", "forces")
            lines.append(f"{longest}{where}")
        if self.mean_neighbors is not None:
            radius = with_usual_unit(f"{self.cutoff:g}", "positions")
            lines.append(f"neighbors within {radius}: {self.mean_neighbors:.6g} an atom")
        for column, one in enumerate(self.features or ()):
            lines.append(f"feature {column}: {_described(one)}")
        lines += self._elements_table() if self.elements else []
        lines += [
            f"{printable(name)}: {count:,} of {self.n_molecules:,} molecules"
            for name, count in islice(self.coverage.items(), _MOST_LABELS)
        ]
        if (more := len(self.coverage) - _MOST_LABELS) > 0:
            lines.append(f"... and {more:,} more labels (see coverage)")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return statistics_html(self)

    def _elements_table(self) -> list[str]:
        fit = self.reference_energies
        rms = {z: count.force_rms for z, count in self.elements.items()}
        energies = {} if fit is None else fit.energies
        isolated = {z: spread.mean for z, spread in self.isolated_atoms.items()}
        columns: dict[str, Mapping[int, str]] = {
            "force RMS": {z: f"{value:.6g}" for z, value in rms.items() if value is not None},
            "E0": {z: f"{energy:.6f}" for z, energy in energies.items()},
            "isolated": {z: f"{energy:.6f}" for z, energy in isolated.items()},
        }
        shown = {name: column for name, column in columns.items() if column}
        head = "".join(f"{name:>16}" for name in shown)
        lines = [f"{'element':<8}{'atoms':>14}{'molecules':>14}{head}"]
        for z, count in self.elements.items():
            line = f"{symbol(z):<8}{count.n_atoms:>14,}{count.n_molecules:>14,}"
            line += "".join(f"{column.get(z, ''):>16}" for column in shown.values())
            lines.append(line.rstrip())
        for z, spread in self.isolated_atoms.items():
            if spread.count > 1 and spread.min != spread.max:
                lines.append(f"isolated {symbol(z)}: {_described(spread)}")
        if fit is not None:
            lines.append(
                f"E0 fitted to {fit.n_molecules:,} molecules: residual RMS {fit.residual_rms:.4g} "
                f"a molecule, {fit.residual_rms_per_atom:.4g} an atom"
            )
            if fit.rank < len(fit.energies):
                lines.append(
                    f"E0 are not unique: {fit.rank} independent compositions for "
                    f"{len(fit.energies)} elements; the solution of least norm is shown"
                )
        return lines


def ratio(count: int, total: int) -> float:
    """Divides; NaN for a total of 0."""
    return count / total if total else math.nan


def plain_values(value: Any) -> Any:
    """Returns nested mappings as dicts with strings as keys, None for numbers that JSON lacks."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_values(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _described(spread: Spread) -> str:
    text = (
        f"mean {spread.mean:.6g}, std {spread.std:.6g}, RMS {spread.rms:.6g}, "
        f"{spread.min:.6g} to {spread.max:.6g}"
    )
    if spread.n_non_finite:
        text += f" ({spread.n_non_finite:,} values are not finite and ignored)"
    return text


def gather(
    source: MoleculeSource,
    request: BatchRequest,
    selection: Numbers | None,
    n_threads: int,
    report: OnProgress | None,
    cutoff: float | None,
    *,
    features: bool,
) -> Statistics:
    """Gathers statistics of the molecules of a selection, read as requested.

    Args:
        source: the molecules.
        request: fields and treatment of missing labels, as for a batch.
        selection: (m,) indices of the molecules; None: all.
        n_threads: number of threads.
        report: called with the number of molecules done since the last call; None: it is not.
        cutoff: radius in which neighbors are counted; None: they are not.
        features: gather those of stored features too.

    Returns:
        The statistics.

    Raises:
        CorruptFileError, FieldError: as for ``dataset.statistics()``.
    """
    n = len(source) if selection is None else len(selection)
    sample: Numbers = np.arange(0, n, max(1, n // 4096), dtype=np.int64)
    if selection is not None:
        sample = selection[sample]
    no_references = [0.0] * N_ELEMENTS
    few = StatisticsPass(source, request, sample, no_references, None, n_threads)
    # Energies by atomic number, which are subtracted before sums are formed.
    guess = solve_normal(_found_by(few, None)["equations"])[0]
    whole = StatisticsPass(source, request, selection, guess.tolist(), cutoff, n_threads, features)
    found = _found_by(whole, report)
    names = public_names([FieldId(scope, key) for scope, key, *_ in found["coverage"]], RESERVED)
    forces = _spread(found["forces"])
    finite_forces = forces is not None and forces.count > 0
    return Statistics(
        n_molecules=found["n_molecules"],
        n_atoms=found["n_atoms"],
        sizes=dict(sorted(found["sizes"].items())),
        elements={
            z: ElementCount(atoms, found["molecules_of"][z], _force_rms(found, z))
            for z, atoms in enumerate(found["atoms_of"])
            if atoms
        },
        energy=_spread(found["energy"]),
        energy_per_atom=_spread(found["energy_per_atom"]),
        forces=forces,
        max_force=found["largest_force"] if finite_forces else None,
        reference_energies=fit_reference_energies(
            found["equations"], found["equations_per_atom"], found["energy_per_atom"][0], guess
        ),
        coverage={name: one[3] for name, one in zip(names, found["coverage"], strict=True)},
        max_force_molecule=_place_of(found["largest_force_at"], selection),
        isolated_atoms={
            z: spread
            for z, moments in found["isolated_atoms"].items()
            if (spread := _spread(moments)) is not None
        },
        cutoff=cutoff,
        mean_neighbors=None if cutoff is None else ratio(found["n_pairs"], found["n_atoms"]),
        features=(
            tuple(_spread(one) or Spread(0, 0, *(math.nan,) * 5) for one in found["features"])
            if features
            else None
        ),
    )


def _found_by(native: StatisticsPass, report: OnProgress | None) -> dict[str, Any]:
    """Runs a pass to its end and returns its sums."""
    for _ in steps(native, report):
        pass
    return native.found()


def _force_rms(found: Mapping[str, Any], z: int) -> float | None:
    n_components = found["force_components"][z]
    return math.sqrt(found["force_squares"][z] / n_components) if n_components else None


def _place_of(index: int, selection: Numbers | None) -> int | None:
    """Converts an index in the source to one in the selection; None if the index is -1."""
    if index < 0 or selection is None:
        return None if index < 0 else index
    return int(np.flatnonzero(selection == index)[0])


def _spread(moments: tuple[int, int, float, float, float, float]) -> Spread | None:
    count, n_non_finite, mean, scatter, low, high = moments
    if count == 0:
        nothing = (math.nan,) * 5
        return Spread(0, n_non_finite, *nothing) if n_non_finite else None
    std = math.sqrt(scatter / count)
    return Spread(count, n_non_finite, mean, std, math.hypot(mean, std), low, high)


# NumPy, because torch's parallel regions would hang in a forked child.
def solve_normal(equations: Equations) -> tuple[Array, int, Array]:
    """Solves G x = b where G may be singular.

    Args:
        equations: G (256, 256), b (256,) and a number that is not used.

    Returns:
        A solution (256,), the rank, and an orthonormal basis (256, k) of the null space.
    """
    gram, right = equations[0], equations[1]
    present = gram.diagonal() > 0
    # Scaled so that rare elements count as much as common ones in determining the rank.
    scale = 1 / np.sqrt(gram.diagonal()[present])
    values, vectors = np.linalg.eigh(gram[present][:, present] * scale[:, None] * scale)
    is_kept = values > 1e-12 * values.max(initial=0.0)
    kept = vectors[:, is_kept]
    solution = np.zeros(N_ELEMENTS)
    solution[present] = scale * (kept @ ((kept.T @ (scale * right[present])) / values[is_kept]))
    free = np.zeros((N_ELEMENTS, int((~is_kept).sum())))
    free[present] = np.linalg.qr(scale[:, None] * vectors[:, ~is_kept])[0]
    return solution, int(is_kept.sum()), free


def fit_reference_energies(
    equations: Equations, equations_per_atom: Equations, n_molecules: int, guess: Array
) -> ReferenceEnergies | None:
    """Fits the reference energies to what is left of the energies after a guess.

    Args:
        equations: sums over molecules with atoms and a finite energy.
        equations_per_atom: the same, with each composition and energy divided by the number of
            atoms.
        n_molecules: number of these molecules.
        guess: (256,) energies that were subtracted before the sums were formed.

    Returns:
        The fit; None without molecules.
    """
    if n_molecules == 0:
        return None
    change, rank, free = solve_normal(equations)
    energies = guess + change
    energies = energies - free @ (free.T @ energies)  # the minimum-norm solution
    present = equations[0].diagonal() > 0
    return ReferenceEnergies(
        energies={int(z): float(energies[z]) for z in np.flatnonzero(present)},
        rank=rank,
        n_molecules=n_molecules,
        residual_rms=_residual(equations, change, n_molecules),
        residual_rms_per_atom=_residual(equations_per_atom, change, n_molecules),
    )


def _residual(equations: Equations, change: Array, n_molecules: int) -> float:
    gram, right, squares = equations[0], equations[1], equations[2]
    with np.errstate(over="ignore", invalid="ignore"):  # absurd energies give absurd residuals
        left_over = squares - float(2 * change @ right) + float(change @ gram @ change)
    return math.sqrt(max(left_over, 0.0) / n_molecules)
