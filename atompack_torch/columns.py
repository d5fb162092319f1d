"""Molecules as columns of plain arrays: what writers take and converters make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch import MoleculeBatch
from atompack_torch.fields import STRUCTURE

Array = np.ndarray[Any, Any]


class Column(NamedTuple):
    """One field of a run of B molecules with N atoms in all.

    Attributes:
        scope: ``BUILTIN``, ``ATOM_PROPERTY`` or ``MOLECULE_PROPERTY`` of ``fields``.
        key: its name there.
        values: one array, (N, ...) per atom or (B, ...) per molecule; or a list with one entry a
            molecule: an array of any shape (per atom: n rows), a ``str``, or None (as a molecule
            property: the value None).
        mask: (B,) bool, which molecules have the field; None: all of them.
    """

    scope: int
    key: str
    values: Array | Sequence[Array | str | None]
    mask: Array | None = None


class Columns(NamedTuple):
    """A run of B molecules with N atoms in all.

    Attributes:
        positions: (N, 3) float32 or float64.
        atomic_numbers: (N,) integers.
        ptr: (B + 1,) int64, the first atom of each molecule.
        fields: labels and properties.
    """

    positions: Array
    atomic_numbers: Array
    ptr: Array
    fields: list[Column]


def of_batch(batch: MoleculeBatch) -> Columns:
    """The columns of a batch, over the same memory where it is on the CPU."""
    fields = []
    for name, value in batch._fields.items():
        if name in STRUCTURE:
            continue
        scope, key, _ = batch._infos[name]
        values: Any = array_of(value) if isinstance(value, Tensor) else [*map(_entry, value)]
        mask = array_of(batch.mask(name)) if name in batch._mask_rows else None
        fields.append(Column(scope, key, values, mask))
    structure = (array_of(batch[name]) for name in ("positions", "atomic_numbers", "ptr"))
    return Columns(*structure, fields)


def _entry(value: Any) -> Any:
    return array_of(value) if isinstance(value, Tensor) else value


def array_of(tensor: Tensor) -> Array:
    """NumPy's view of a tensor; bfloat16, which NumPy does not know, is widened."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
