"""HTML of batches and molecules for notebooks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import CollatedFields
from atompack_torch.batch.elements import symbol
from atompack_torch.display.charts import meter
from atompack_torch.display.fragments import chips, field_table, fragment, size_histogram
from atompack_torch.display.markup import Markup, percent, short
from atompack_torch.fields import STRUCTURE

if TYPE_CHECKING:
    from atompack_torch.batch.molecule_batch import Molecule

_MOST_VALUES = 6
_LONGEST_STRING = 60


def batch_html(batch: CollatedFields) -> str:
    """Returns a table of the fields of a batch, its elements, and the sizes of its molecules."""
    n = len(batch)
    rows = []
    for name, value in batch.items():
        covered: Markup | str = ""
        if name not in STRUCTURE:
            there = int(batch.mask(name).sum())
            covered = meter(there, n, percent(there, n))
        rows.append((name, _kind(value), _shape(value), batch.level(name), covered))
    facts = f"{n:,} molecules, {len(batch.atomic_numbers):,} atoms, on {batch.ptr.device}"
    return fragment(
        type(batch).__name__,
        facts,
        element_chips(batch.atomic_numbers),
        field_table(("field", "dtype", "shape", "one row per", "present"), rows),
        size_histogram(Counter(batch.n_atoms.tolist())),
    )


def molecule_html(molecule: Molecule) -> str:
    """Returns a table of the fields of a molecule, and its elements."""
    rows = []
    for name in molecule.keys():
        if name in molecule._faults:
            rows.append((name, "", "", short(molecule._faults[name])))
            continue
        value = molecule[name]
        rows.append((name, _kind(value), _shape(value), _values(value)))
    return fragment(
        type(molecule).__name__,
        f"{len(molecule):,} atoms",
        element_chips(molecule.atomic_numbers),
        field_table(("field", "dtype", "shape", "first values"), rows),
    )


def element_chips(atomic_numbers: Tensor) -> Markup:
    """Returns chips of the elements of atoms (N,) with the number of each."""
    found, counts = torch.unique(atomic_numbers.cpu(), return_counts=True)
    return chips(dict(zip(found.tolist(), counts.tolist(), strict=True)), symbol, most=24)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(value.dtype).removeprefix("torch.")
    return "string" if isinstance(value, str) else "list"


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(tuple(value.shape))
    return "" if isinstance(value, str) else f"{len(value):,} values"


def _values(value: Any) -> str:
    if isinstance(value, str):
        return short(repr(value), _LONGEST_STRING)
    flat = value.flatten()[:_MOST_VALUES].tolist()
    texts = [f"{one:.5g}" if isinstance(one, float) else str(one) for one in flat]
    return " ".join(texts) + (" …" if value.numel() > _MOST_VALUES else "")
