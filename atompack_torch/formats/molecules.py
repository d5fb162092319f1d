"""Formatting of molecules and size histograms as text and as plain JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from atompack_torch.batch.elements import formula as hill_formula
from atompack_torch.batch.elements import symbol
from atompack_torch.fields import usual_unit
from atompack_torch.formats.text import first_of, plain, printable, table

if TYPE_CHECKING:
    from atompack_torch.batch.molecule_batch import Molecule

_MOST_VALUES = 12  # of one field, in text
_BINS = 10
_WIDTH = 40


def formula(atomic_numbers: list[int]) -> str:
    """Formula in Hill order of the atoms."""
    return hill_formula(Counter(map(symbol, atomic_numbers)))


def molecule_text(number: int, molecule: Molecule) -> str:
    """Formats a molecule as one line, followed by one per field."""
    numbers = molecule["atomic_numbers"].tolist()
    rows = []
    for name in molecule.keys():
        value = molecule[name]
        if value is None or isinstance(value, str):
            kind, shape, shown = "string" if value is not None else "none", "", repr(value)
        else:
            kind = str(value.dtype).removeprefix("torch.")
            shape, shown = str(tuple(value.shape)), first_of(value, _MOST_VALUES)
        unit = usual_unit(name)
        rows.append((printable(name), kind, shape, unit and f"usually {unit}", printable(shown)))
    return f"molecule {number}: {formula(numbers)}, {len(numbers)} atoms\n{table(rows, '  ')}"


def molecule_document(number: int, molecule: Molecule) -> dict[str, Any]:
    """Converts a molecule to plain JSON values."""
    fields: dict[str, Any] = {}
    for name in molecule.keys():
        value = molecule[name]
        if value is None or isinstance(value, str):
            fields[name] = {"dtype": "none" if value is None else "string", "values": value}
            continue
        fields[name] = {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "values": plain(value),
        }
    return {"molecule": number, "n_atoms": len(molecule), "fields": fields}


def histogram(sizes: dict[int, int]) -> list[str]:
    """Draws bars for the number of molecules by number of atoms."""
    if not sizes:
        return []
    low, high = min(sizes), max(sizes)
    step = (high - low) // _BINS + 1
    counts = [0] * ((high - low) // step + 1)
    for n_atoms, molecules in sizes.items():
        counts[(n_atoms - low) // step] += molecules
    lines = ["atoms a molecule:"]
    for i, count in enumerate(counts):
        first, last = low + i * step, min(low + (i + 1) * step - 1, high)
        name = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        bar = "#" * -(-count * _WIDTH // max(counts))
        lines.append(f"{name:>16} {count:>12,} {bar}".rstrip())
    return lines
