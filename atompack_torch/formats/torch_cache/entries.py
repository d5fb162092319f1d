"""Encoding of batches as cache entries, with checks before native code reads them."""

from __future__ import annotations

import torch
from torch import Tensor

from atompack_torch._core import CacheHeader, EncodedEntries, encode_cache_entries
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError
from atompack_torch.fields import DERIVATIVES, centers_of

_LABELS = {
    "energy": torch.float64,
    "forces": torch.float64,
    "cell": torch.float64,
    "pbc": torch.bool,
}


def _check_made(batch: MoleculeBatch, header: CacheHeader) -> None:
    """Rejects fields whose shapes contradict ``compat``."""
    for name, shape in _shapes(batch, header).items():
        expected = (torch.int64,) if name.endswith("_idx") else (torch.float32, torch.float64)
        value = batch[name]
        if tuple(value.shape) != shape or value.dtype not in expected:
            raise FieldError(
                f"compute: expected {expected[-1]} of shape {shape}, got {value.dtype} of "
                f"{tuple(value.shape)} (field {name!r})"
            )
        if name.endswith("_idx"):
            _check_atoms(batch, name)


def _shapes(batch: MoleculeBatch, header: CacheHeader) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    if header.features:
        shapes["features"] = (len(batch.positions), header.n_features)
    for name in DERIVATIVES if header.force_derivatives else ():
        rows = len(batch[centers_of(name)])
        if name.endswith("_idx"):
            shapes[name] = (rows,)
        elif not name.endswith("typespin"):
            n = header.n_radial if name.startswith("radial") else header.n_angular
            shapes[name] = (rows, n, 3)
        elif header.multi:
            shapes[name] = (rows,)
    return shapes


def _check_atoms(batch: MoleculeBatch, name: str) -> None:
    """Checks that rows are ordered by molecule and refer only to atoms of their own molecule."""
    atoms, centers = batch[name], batch[centers_of(name)]
    inside = bool(((atoms >= 0) & (atoms < len(batch.positions))).all())
    if not inside or not torch.equal(batch.batch[atoms], batch.batch[centers]):
        raise FieldError(f"compute: expected atoms of one molecule in a row (field {name!r})")
    if name == centers_of(name) and bool((batch.batch[atoms].diff() < 0).any()):
        raise FieldError(f"compute: expected rows molecule by molecule (field {name!r})")


def encode(batch: MoleculeBatch, header: CacheHeader) -> EncodedEntries:
    """Encodes a batch, which must have all fields that the header declares."""
    _check_made(batch, header)
    columns: dict[str, Tensor | None] = {
        "ptr": batch.ptr,
        "positions": batch.positions.double().contiguous(),
        "atomic_numbers": batch.atomic_numbers,
    }
    for name, dtype in _LABELS.items():
        if name in batch:
            columns[name] = batch[name].to(dtype).contiguous()
            columns[f"{name}_mask"] = batch.mask(name).contiguous()
    if header.features:
        columns["features"] = batch.features.contiguous()
    if header.force_derivatives:
        columns |= {name: batch[name].contiguous() for name in DERIVATIVES if name in batch}
        columns["edge_ptr"] = batch._first_rows("radial_center_idx")
        columns["triplet_ptr"] = batch._first_rows("angular_center_idx")
    names = list(batch["name"]) if "name" in batch else []
    return encode_cache_entries(columns, names, list(SYMBOLS), header)
