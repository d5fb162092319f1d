"""Computation of stresses from virials.

ASE's stress is dE/dε / V, the derivative of the energy with respect to a symmetric strain divided
by the volume, in eV/Å³; it is negative for a compressed crystal (``ase.stress``,
``Atoms.get_stress``). The virial of MACE (``virials``), libAtoms, QUIP and GAP (``virial``) is the
energy -dE/dε, so stress = -virial / V. ``mace.modules.utils`` computes both this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch.batch.conversions import momenta_of
from atompack_torch.fields import BUILTIN
from atompack_torch.writers.columns import Array, Column, Columns

if TYPE_CHECKING:
    from atompack_torch.conversion.report import Report


def with_stress(columns: Columns, report: Report | None) -> Columns:
    """Replaces ``stress``, so far a virial in eV, by -virial / volume in eV/Å³.

    Without a cell of nonzero volume, the stress is missing.

    Args:
        columns: columns of the block; cells in Å.
        report: receives notes about virials without a volume; None: they are not reported.

    Returns:
        The block with stresses.
    """
    virial = next((c for c in columns.fields if c[:2] == (BUILTIN, "stress")), None)
    if virial is None:
        return columns
    n = len(columns.ptr) - 1
    mask = np.ones(n, dtype=bool) if virial.mask is None else virial.mask
    volumes = volumes_of(columns)
    lost = mask & ~(volumes > 0)
    if lost.any() and report is not None:
        report.skip("stress", "a virial needs a cell with a volume", int(lost.sum()))
    kept = mask & ~lost
    values = virial.values
    made: Array | list[Array | str | None]
    if isinstance(values, np.ndarray):
        divisors = np.where(kept, volumes, 1.0)[:, None, None]
        made = _over(values, divisors)
    else:
        made = [
            _over(value, volume) if has and isinstance(value, np.ndarray) else None
            for value, volume, has in zip(values, volumes, kept, strict=True)
        ]
    stress = [Column(BUILTIN, "stress", made, kept)] if kept.any() else []
    fields = [column for column in columns.fields if column is not virial]
    return columns._replace(fields=[*fields, *stress])


def _over(virial: Array, volume: Any) -> Array:
    dtype = virial.dtype if virial.dtype.kind == "f" else np.dtype(np.float64)
    stress: Array = (virial.astype(np.float64) / -volume).astype(dtype)
    return stress


def virials_of(stress: Array, volumes: Array) -> Array:
    """Returns the virials that ``with_stress`` converts back, to the last bit where possible.

    Args:
        stress: (B, 3, 3) in eV/Å³.
        volumes: (B,) float64 in Å³, not 0.

    Returns:
        (B, 3, 3) float64, -stress · volume in eV.
    """
    values = stress.reshape(-1, 9).astype(np.float64)
    virials: Array = momenta_of(values, -volumes).reshape(-1, 3, 3)
    return virials


def volumes_of(columns: Columns) -> Array:
    """Returns cell volumes (B,) float64 in Å³; 0 where there is no cell.

    Args:
        columns: the block; cells in Å.

    Returns:
        The volumes.
    """
    volumes = np.zeros(len(columns.ptr) - 1)
    cell = next((c for c in columns.fields if c[:2] == (BUILTIN, "cell")), None)
    if cell is None:
        return volumes
    has = np.ones(len(volumes), dtype=bool) if cell.mask is None else cell.mask
    there = np.flatnonzero(has).tolist()
    if not there:
        return volumes
    cells = np.stack([np.asarray(cell.values[i], dtype=np.float64) for i in there])
    faces = np.cross(cells[:, 1], cells[:, 2])
    found = np.array([abs(np.dot(a, face)) for a, face in zip(cells[:, 0], faces, strict=True)])
    volumes[there] = np.where(np.isfinite(found), found, 0.0)
    return volumes
