"""Entries and rows of feature caches in the form that native code stores."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from atompack_torch._core import CacheHeader, EncodedEntries, encode_cache_entries
from atompack_torch._native import TorchCacheReader
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.features import Stored
from atompack_torch.errors import FieldError
from atompack_torch.fields import DERIVATIVES, centers_of
from atompack_torch.formats.torch_cache.attributes import attributes_of
from atompack_torch.formats.torch_cache.file import CacheFile
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.options import shown_path


class CacheRows:
    """Base of ``TorchCache`` with what reads the file and single entries."""

    _handle: CacheFile

    def _reader(self) -> TorchCacheReader:
        return self._handle.reader()

    def _stored_features(self) -> Stored:
        return self._handle.stored_features()

    def _force_entries(self) -> Tensor:
        return torch.tensor(self._reader().force_entries(), dtype=torch.int64)

    def __len__(self) -> int:
        """Number of entries, with or without rows."""
        return len(self._reader())

    @property
    def path(self) -> Path | str:
        """Absolute path of the file, or the URL as it was given."""
        path = shown_path(self._handle.given)
        assert not isinstance(path, tuple)
        return path

    @property
    def info(self) -> dict[str, object]:
        """Attributes of the file under their stored names.

        Those of the cache (``schema_version``, ``storage_dtype``, ...) and of the root
        (``energy_filter_...``); ``"descriptor_manifest"`` and ``"force_derivatives"`` hold the
        attributes of these groups if they exist.
        """
        return attributes_of(self._reader())

    @property
    def descriptor(self) -> ChebyshevDescriptor | None:
        """Descriptor of the features, from the settings in the file; None without settings.

        Raises:
            UnsupportedFormatError: the settings are not those of a ``ChebyshevDescriptor``.
        """
        return self._handle.descriptor()

    @property
    def has_features(self) -> bool:
        """True if the file stores features."""
        return self._reader().has_features

    @property
    def has_force_derivatives(self) -> bool:
        """True if the file stores local derivatives."""
        return self._reader().has_force_derivatives

    def load_features(self, index: int, dtype: torch.dtype | None = None) -> Tensor | None:
        """Reads the features of an entry.

        Args:
            index: number of the entry, negative ones from the end.
            dtype: dtype of the result; None: as stored.

        Returns:
            (n_atoms, n_features), or None for an entry without a row.

        Raises:
            IndexError: there is no such entry.
            FieldError: the file stores no features.
            CorruptFileError: the row is damaged.
        """
        return self._handle.features(index, dtype)

    def load_force_derivatives(
        self, index: int, dtype: torch.dtype | None = None
    ) -> dict[str, Tensor] | None:
        """Reads the derivatives of an entry, under the names of the derivative fields of a batch.

        Args:
            index: number of the entry, negative ones from the end.
            dtype: dtype of the floating fields; None: as stored. Indices are int64.

        Returns:
            Name to tensor, with indices of the entry's own atoms, and without typespins if there
            is one species; or None for an entry without a row.

        Raises:
            IndexError: there is no such entry.
            FieldError: the file stores no derivatives.
            CorruptFileError: the row is damaged.
        """
        return self._handle.derivatives(index, dtype)


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
