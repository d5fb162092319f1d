"""The file behind a ``TorchCache``: reopening, rows as tensors, and its descriptor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atompack_torch._core import resolve_index
from atompack_torch._native import TorchCacheReader
from atompack_torch.datasets._computed import Stored
from atompack_torch.descriptors.chebyshev import ChebyshevDescriptor
from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.passes.cache_files import attributes_of

Identity = tuple[int, int, int]  # of a file: its device, inode and size


class CacheFile:
    """A cache file, opened on first use in each process; it has to be the same file each time.

    Args:
        path: absolute path.
        identity: identity of the file; None: the file is opened now, and has the one found.
        by_reading: read rows without mapping the file. Opening still reads the headers of HDF5
            objects through a mapping.
    """

    def __init__(
        self, path: str, identity: Identity | None = None, *, by_reading: bool = False
    ) -> None:
        self.path = path
        self._by_reading = by_reading
        self._reader: TorchCacheReader | None = None
        if identity is None:
            self._reader = TorchCacheReader(path)
            identity = self._reader.identity
        self.identity = identity

    def __reduce__(self) -> tuple[type[CacheFile], tuple[str, Identity]]:
        return CacheFile, (self.path, self.identity)

    def reader(self) -> TorchCacheReader:
        """Returns the native reader."""
        # No lock, which a fork could inherit in the locked state; opening twice is harmless.
        reader = self._reader
        if reader is None:
            reader = self._reader = TorchCacheReader(
                self.path, self.identity, by_reading=self._by_reading
            )
        return reader

    def closed(self) -> CacheFile:
        """Returns the same file, not open."""
        return CacheFile(self.path, self.identity)

    def without_mapping(self) -> CacheFile:
        """Returns the same file, whose rows are read without a mapping."""
        return self if self._by_reading else CacheFile(self.path, self.identity, by_reading=True)

    def descriptor(self) -> ChebyshevDescriptor | None:
        """Builds the descriptor from the settings in the file; None without settings."""
        attributes = attributes_of(self.reader())
        manifest = attributes.get("descriptor_manifest")
        text = manifest["config_json"] if manifest else attributes.get("descriptor_compat_json")
        if text is None:
            return None
        return descriptor_in(text, attributes.get("storage_dtype", "float64"), self.path)

    def stored_features(self) -> Stored:
        """Returns the sections of the file, and their descriptor."""
        try:
            descriptor = self.descriptor()
        except UnsupportedFormatError:
            descriptor = None  # of another kind: stored rows are usable, others not computable
        reader = self.reader()
        return Stored(reader.has_features, reader.has_force_derivatives, descriptor)

    def features(self, index: int, dtype: torch.dtype | None) -> Tensor | None:
        """Reads the features of an entry; see ``TorchCache.load_features``."""
        values = self.reader().load_features(self._entry(index))
        return None if values is None else _tensor(values, dtype)

    def derivatives(self, index: int, dtype: torch.dtype | None) -> dict[str, Tensor] | None:
        """Reads the derivatives of an entry; see ``TorchCache.load_force_derivatives``."""
        reader = self.reader()
        columns = reader.load_force_derivatives(self._entry(index))
        if columns is None:
            return None
        return {
            name: _tensor(values, dtype if values.dtype.kind == "f" else torch.int64)
            for name, values in columns.items()
            if reader.multi or not name.endswith("typespin")
        }

    def _entry(self, index: int) -> int:
        try:
            return resolve_index(index, len(self.reader()), None, "entry")
        except IndexError as error:
            raise IndexError(f"{self.path}: {error}") from None


def _tensor(values: np.ndarray[Any, Any], dtype: torch.dtype | None) -> Tensor:
    tensor = torch.from_numpy(values)
    return tensor if dtype is None else tensor.to(dtype)


def descriptor_in(text: str, dtype: str, path: Path | str) -> ChebyshevDescriptor:
    """Builds a descriptor from the settings that a file holds as JSON.

    Args:
        text: the settings.
        dtype: dtype, unless the settings contain one.
        path: path of the file, for errors.

    Returns:
        The descriptor.

    Raises:
        UnsupportedFormatError: the settings are not those of a ``ChebyshevDescriptor``.
    """
    try:
        return descriptor_of({"dtype": dtype, **json.loads(text)})
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnsupportedFormatError(
            f"{path}: descriptor: expected the settings of a ChebyshevDescriptor, "
            f"got {text[:400]} ({type(error).__name__}: {error})"
        ) from None


def descriptor_of(config: dict[str, Any]) -> ChebyshevDescriptor:
    """Builds a descriptor from settings by name."""
    return ChebyshevDescriptor(
        config["species"],
        config["rad_order"],
        config["rad_cutoff"],
        config["ang_order"],
        config["ang_cutoff"],
        config["min_cutoff"],
        dtype="float32" if config["dtype"] == "float32" else "float64",
    )
