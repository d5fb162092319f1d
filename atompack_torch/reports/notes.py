"""Notes of a report: what is unusual in the values, and what they suggest about units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from atompack_torch.batch.elements import symbol
from atompack_torch.display.markup import short
from atompack_torch.errors import molecules
from atompack_torch.fields import similar_names
from atompack_torch.reports.findings import Findings

# All-electron energies of single atoms in Hartree, to about 2 %.
_HARTREE = {1: -0.5, 6: -37.8, 7: -54.6, 8: -75.1, 9: -99.7, 16: -398.0, 17: -460.0}
_ENERGY_UNITS = {"Hartree": 1.0, "eV": 27.211386, "kcal/mol": 627.5095, "kJ/mol": 2625.4996}
_HYDROGEN = 1.0  # Å from a hydrogen atom to the nearest H, C, N, O or F
_LENGTH_UNITS = {"Å": 1.0, "Bohr": 1.8897261, "nm": 0.1, "pm": 100.0}
_TOO_CLOSE = 0.5  # Å
_HUGE_FORCE = 50.0  # eV/Å
_MAIN_LABELS = ("energy", "forces")


class Note(NamedTuple):
    """One line for the reader.

    Attributes:
        text: the line.
        is_warning: True if something is probably wrong.
    """

    text: str
    is_warning: bool


def notes_of(found: Findings) -> list[Note]:
    """Returns the notes on a dataset, warnings first."""
    notes = [*_unit_notes(found), *_value_notes(found), *_geometry_notes(found)]
    return sorted(notes, key=lambda note: not note.is_warning)


def _unit_notes(found: Findings) -> Iterator[Note]:
    yield Note(
        "Files do not store units. Å, eV and their combinations are the convention; values are "
        "shown as they are stored.",
        False,
    )
    if (unit := energy_unit(found)) is not None:
        text = "The reference energies are close to all-electron energies of atoms in"
        yield Note(f"{text} {unit}.", unit != "eV")
    if (unit := length_unit(found)) is not None:
        distance = found.neighborhoods.hydrogen
        text = f"Hydrogen atoms have H, C, N, O or F at {distance:.3g} (median)"
        if unit != "Å":
            yield Note(f"{text}: positions seem to be in {unit}, not in Å.", True)


def energy_unit(found: Findings) -> str | None:
    """Returns the unit in which reference energies are all-electron energies of atoms.

    Args:
        found: the findings.

    Returns:
        The unit; None if they are in none of these, or not unique.
    """
    fit = found.reference_energies
    if fit is None or fit.rank < len(fit.energies):
        return None
    known = {z: energy for z, energy in fit.energies.items() if z in _HARTREE and z > 1}
    for unit, scale in _ENERGY_UNITS.items():
        if known and all(abs(e / (scale * _HARTREE[z]) - 1) < 0.03 for z, e in known.items()):
            return unit
    return None


def length_unit(found: Findings) -> str | None:
    """Returns the unit in which hydrogen atoms have a bond of about 1 Å.

    Args:
        found: the findings.

    Returns:
        The unit; None without such hydrogen, or in none.
    """
    near = found.neighborhoods
    if near.hydrogen is None:
        return None
    for unit, scale in _LENGTH_UNITS.items():
        if 0.72 <= near.hydrogen / (scale * _HYDROGEN) <= 1.3:
            return unit
    return None


def _value_notes(found: Findings) -> Iterator[Note]:
    for name in _MAIN_LABELS:
        label = found.labels.get(name)
        if label is None or label.n_present == 0:
            alike = [other for other in similar_names(name, found.labels) if other != name]
            hint = f"; there is {', '.join(map(short, alike))}" if alike else ""
            yield Note(f"No molecule has the label {name}{hint}.", bool(alike))
        elif label.n_present < found.n_structures:
            missing = found.n_structures - label.n_present
            yield Note(f"{missing:,} of {found.n_structures:,} molecules lack {name}.", False)
    for name, label in found.labels.items():
        if label.n_non_finite:
            first = ", ".join(map(str, label.first_non_finite))
            text = f"{short(name)} has NaN or infinite values in {molecules(label.n_non_finite)}"
            yield Note(f"{text} (first: {first}).", True)
    if found.worst_forces and found.worst_forces[0][0] > _HUGE_FORCE:
        value, number, formula = found.worst_forces[0]
        yield Note(
            f"The longest force is {value:.4g}, in molecule {number} ({formula}): more than "
            f"{_HUGE_FORCE:g} eV/Å, if that is the unit.",
            True,
        )
    fit = found.reference_energies
    if fit is not None and fit.rank < len(fit.energies):
        yield Note(
            f"Reference energies are not unique: {fit.rank} independent compositions for "
            f"{len(fit.energies)} elements; the solution of least norm is shown.",
            False,
        )
    if 0 in found.elements:
        yield Note(
            f"{found.elements[0].n_atoms:,} atoms have the atomic number 0, which is no element.",
            True,
        )


def _geometry_notes(found: Findings) -> Iterator[Note]:
    if found.sizes.get(0):
        yield Note(f"Without atoms: {molecules(found.sizes[0])}.", True)
    if found.n_flat_cells:
        yield Note(f"Periodic, with a cell without volume: {molecules(found.n_flat_cells)}.", True)
    if found.n_left_handed:
        yield Note(f"Left-handed cell vectors: {molecules(found.n_left_handed)}.", False)
    if surplus := found.duplicates.n_surplus:
        about = "about " if found.duplicates.share > 1 else ""
        yield Note(f"Same geometry as an earlier molecule: {about}{molecules(surplus)}.", True)
    near = found.neighborhoods
    if near.fault is not None:
        yield Note(f"The neighbor search failed: {short(near.fault, 300)}", True)
    if near.closest and -near.closest[0][0] < _TOO_CLOSE and length_unit(found) in (None, "Å"):
        distance, number, formula = near.closest[0]
        yield Note(
            f"Two atoms of molecule {number} ({formula}) are {-distance:.3g} apart.",
            True,
        )


def lonely_elements(found: Findings) -> list[str]:
    """Returns the symbols of elements that are in fewer than ten molecules of a large set."""
    if found.n_structures < 1000:
        return []
    return [symbol(z) for z, count in found.elements.items() if count.n_molecules < 10]


def energy_outliers(found: Findings, most: int) -> list[tuple[int, float, float]]:
    """Returns molecules of the sample that the reference energies describe worst.

    Args:
        found: the findings.
        most: maximum number of molecules.

    Returns:
        (number, energy per atom, the same less reference energies), the largest deviation from the
        median first.
    """
    numbers, raw, left = found.energies()
    if not len(left):
        return []
    distance = np.nan_to_num(np.abs(left - np.median(left)), nan=np.inf)
    worst = np.argsort(-distance, kind="stable")[:most]
    return [(int(numbers[i]), float(raw[i]), float(left[i])) for i in worst]
