"""Conversion of velocities to ASE's momenta (velocities times masses) for extended XYZ."""

from __future__ import annotations

import numpy as np

from atompack_torch.batch.columns import Array, Column
from atompack_torch.batch.conversions import are_same, masses_of, momenta_of
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN
from atompack_torch.formats.extxyz.keys import MOMENTA, Report


def as_momenta(columns: list[Column], numbers: Array, ptr: Array, report: Report) -> list[Column]:
    """Converts velocities to the column ``momenta`` that ASE reads.

    Masses are those of the atom property ``masses`` where a molecule has it, else those of the
    elements. The column ``velocities`` is kept as well in molecules where some quotient
    momentum / mass does not reproduce the velocity exactly, and kept alone where momenta cannot
    represent it at all (masses of 0, atomic numbers of no element, overflow).

    Args:
        columns: columns of a block.
        numbers: (N,) int64, atomic numbers.
        ptr: (B + 1,) int64.
        report: receives notes about values that ASE will not read.

    Returns:
        The columns with momenta.
    """
    given = next((c for c in columns if c[:2] == (BUILTIN, "velocities")), None)
    if given is None:
        return columns
    n = len(ptr) - 1
    mask = np.ones(n, dtype=bool) if given.mask is None else np.asarray(given.mask, dtype=bool)
    own = next((c for c in columns if c[:2] == (ATOM_PROPERTY, "masses")), None)
    velocities = _stacked(given, mask, ptr)
    if velocities is None or len(mask) != n:
        return columns  # wrong shape: reported elsewhere
    masses = _masses(own, numbers, ptr)
    momenta = momenta_of(velocities, masses)
    with np.errstate(all="ignore"):
        back = momenta / masses[:, None]
        exact = np.asarray(_are_identical(back, velocities).all(axis=1))
    # NaN agrees with NaN times any mass, also the mass of an unknown element.
    wrong = ~are_same(velocities, back) | ~(masses > 0)
    lost = mask & (_sums(wrong, ptr) > 0)
    rounded = lost | (mask & (_sums(~exact, ptr) > 0))
    if lost.any():
        report.note("velocities: no momenta give some of them back; ASE reads 0 there")
    held = [column for column in columns if column is not given]
    if not lost.all() and (mask & ~lost).any():
        held.append(Column(BUILTIN, MOMENTA, momenta, mask & ~lost))
    if rounded.any():
        held.append(Column(BUILTIN, "velocities", velocities, rounded))
    return held


def _are_identical(a: Array, b: Array) -> Array:
    """Elementwise comparison of bits, ignoring NaN payloads."""
    equal = (a == b) & (np.signbit(a) == np.signbit(b))
    return np.asarray(equal | (np.isnan(a) & np.isnan(b)))


def _stacked(column: Column, mask: Array, ptr: Array) -> Array | None:
    """Stacks a column as (N, 3) float64, zeros where absent; None if the shapes do not fit."""
    stacked = np.zeros((int(ptr[-1]), 3))
    if isinstance(column.values, np.ndarray):
        return column.values.astype(np.float64) if column.values.shape == stacked.shape else None
    if len(column.values) != len(mask):
        return None
    for i in np.flatnonzero(mask).tolist():
        rows, value = stacked[ptr[i] : ptr[i + 1]], np.asarray(column.values[i])
        if value.shape != rows.shape:
            return None
        rows[:] = value
    return stacked


def _masses(own: Column | None, numbers: Array, ptr: Array) -> Array:
    masses = masses_of(numbers)
    if own is None:
        return np.asarray(masses)
    for i in range(len(ptr) - 1):
        if own.mask is not None and not own.mask[i]:
            continue
        rows = slice(ptr[i], ptr[i + 1])
        of_all = isinstance(own.values, np.ndarray)
        value = np.asarray(own.values[rows] if of_all else own.values[i])
        if value.dtype.kind in "biuf" and value.size == len(masses[rows]):
            masses[rows] = value.reshape(-1)
    return np.asarray(masses)


def _sums(flags: Array, ptr: Array) -> Array:
    """Counts the True rows of each molecule."""
    sums = np.concatenate([[0], np.cumsum(flags)])
    return np.asarray(sums[ptr[1:]] - sums[ptr[:-1]])
