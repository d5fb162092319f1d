"""The numbers of a report as plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from atompack_torch.batch.elements import symbol
from atompack_torch.reports.findings import Findings, Label, shared_geometries
from atompack_torch.reports.notes import notes_of


def document_of(found: Sequence[Findings]) -> dict[str, object]:
    """Converts findings to plain JSON values.

    Args:
        found: findings of one or two data sets.

    Returns:
        ``"datasets"`` and ``"n_shared"``.
    """
    n_shared = None
    if len(found) == 2:
        n_shared = shared_geometries(found[0].duplicates, found[1].duplicates)[0]
    return {"datasets": [_document(one) for one in found], "n_shared": n_shared}


def _document(one: Findings) -> dict[str, Any]:
    fit, near = one.reference_energies, one.neighborhoods
    return {
        "name": one.name,
        "n_structures": one.n_structures,
        "n_atoms": one.n_atoms,
        "sizes": {str(size): count for size, count in one.sizes.items()},
        "elements": {
            symbol(z): {"n_atoms": count.n_atoms, "n_structures": count.n_molecules}
            for z, count in one.elements.items()
        },
        "labels": {name: _label(label) for name, label in one.labels.items()},
        "reference_energies": fit
        and {symbol(z): _finite(energy) for z, energy in fit.energies.items()},
        "residual_rms_per_atom": fit and _finite(fit.residual_rms_per_atom),
        "longest_forces": [
            {"structure": i, "formula": formula, "force": _finite(value)}
            for value, i, formula in one.worst_forces
        ],
        "n_cells": one.n_cells,
        "periodicity": one.periodicity,
        "n_duplicates": one.duplicates.n_surplus,
        "neighbors": near
        and {
            "cutoff": near.cutoff,
            "n_structures": near.n_structures,
            "counts": {str(k): n for k, n in near.counts.items()},
            "shortest": [
                {"structure": i, "formula": formula, "distance": -value}
                for value, i, formula in near.closest
            ],
        },
        "notes": [{"text": note.text, "warning": note.is_warning} for note in notes_of(one)],
    }


def _label(label: Label) -> dict[str, Any]:
    is_empty = label.count == 0
    return {
        "dtype": label.dtype,
        "level": label.level,
        "n_present": label.n_present,
        "n_non_finite": label.n_non_finite,
        "min": None if is_empty else _finite(label.low),
        "mean": _finite(label.mean),
        "max": None if is_empty else _finite(label.high),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
