"""Computation of stresses from virials.

ASE's stress is dE/dε / V, the derivative of the energy with respect to a symmetric strain divided
by the volume, in eV/Å³; it is negative for a compressed crystal (``ase.stress``,
``Atoms.get_stress``). The virial of MACE (``virials``), libAtoms, QUIP and GAP (``virial``) is the
energy -dE/dε, so stress = -virial / V. ``mace.modules.utils`` computes both this way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.conversions import momenta_of
from atompack_torch.conversion.keys import shaped
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN, MOLECULE_PROPERTY
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.records import filled, label_in, label_rows, present

_NAMES = ("virial", "virials")


def take_virial(columns: Columns, report: Report) -> tuple[Columns, Column | None]:
    """Makes the property ``virial`` or ``virials`` the stress, of which it is still the virial.

    Args:
        columns: the block.
        report: receives the renaming.

    Returns:
        The block, and the stress that it had under that name; None if it had none.

    Raises:
        FieldError: there are both properties, or the virial is not 3 x 3 numbers.
    """
    own = label_in(columns, "stress")
    named = [c for c in columns.fields if c.scope == MOLECULE_PROPERTY and c.key in _NAMES]
    if len(named) > 1:
        raise FieldError(
            "stress_from: expected virial or virials, got both: key_map={'virial': 'stress'} or "
            "key_map={'virials': 'stress'} chooses one"
        )
    removed = [id(column) for column in (own, *named)]
    fields = [column for column in columns.fields if id(column) not in removed]
    for column in named:
        virial = shaped(column._replace(scope=BUILTIN, key="stress"), report)
        values: Any = virial.values
        for value in values:
            is_numbers = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
            if value is None or (is_numbers and value.shape == (3, 3)):
                continue
            got = "a string" if isinstance(value, str) else f"{value.shape} {value.dtype}"
            raise FieldError(f"stress_from: {column.key}: expected 3 x 3 numbers, got {got}")
        report.note(f"{column.key!r} became 'stress'")
        report.origin("stress", column.key)
        fields.append(virial)
    return columns.with_fields(fields), own


def count_stresses(columns: Columns) -> int:
    """Returns the number of molecules that have a stress."""
    return int(present(label_in(columns, "stress"), len(columns.ptr) - 1).sum())


def with_own_stress(columns: Columns, own: Column | None, report: Report) -> Columns:
    """Gives molecules without a virial the stress that they had.

    Args:
        columns: the block, whose stresses were made of virials.
        own: the stresses that it had; None if it had none.
        report: receives the number of stresses that virials replace.

    Returns:
        The block.
    """
    if own is None:
        return columns
    made = label_in(columns, "stress")
    is_made, has_own = (present(column, len(columns.ptr) - 1) for column in (made, own))
    replaced, left = int((has_own & is_made).sum()), int((has_own & ~is_made).sum())
    if replaced:
        report.skip("stress", "stress_from='virial' takes the virial's", replaced)
    if left:
        report.note(
            "stress: molecules without a virial keep their own: key_map={'stress': 'stress'} says "
            "that it is a virial"
        )
    fields = [column for column in columns.fields if column is not made]
    stress = own if made is None else filled(made, own, np.diff(columns.ptr))
    return columns.with_fields([*fields, stress])


def with_stress(columns: Columns, report: Report, source: str | None = None) -> Columns:
    """Replaces ``stress``, so far a virial in eV, by -virial / volume in eV/Å³.

    Without a cell of nonzero volume, the stress is missing.

    Args:
        columns: columns of the block; cells in Å.
        report: receives notes about virials without a volume.
        source: name of the virial in a format that has nothing else, for a note; None: no note.

    Returns:
        The block with stresses.
    """
    virial = label_in(columns, "stress")
    if virial is None:
        return columns
    if source is not None:
        report.note(f"{source!r} read as stress: -{source} / volume")
    mask = present(virial, len(columns.ptr) - 1)
    volumes = volumes_of(columns)
    lost = mask & ~(volumes > 0)
    if lost.any():
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
    return columns.with_fields([*fields, *stress])


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
    cells, has_cell = label_rows(columns, "cell")
    volumes = np.zeros(len(cells))
    there = np.flatnonzero(has_cell)
    faces = np.cross(cells[there, 1], cells[there, 2])
    found = [abs(np.dot(a, face)) for a, face in zip(cells[there, 0], faces, strict=True)]
    volumes[there] = np.where(np.isfinite(found), found, 0.0)
    return volumes
