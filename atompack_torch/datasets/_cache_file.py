"""Metadata and rows of a feature cache: the base of ``TorchCache``."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from atompack_torch import formats
from atompack_torch._core import resolve_index
from atompack_torch._native import MoleculeSource, TorchCacheReader, TorchCacheSource
from atompack_torch.datasets._computed import Stored
from atompack_torch.descriptors.chebyshev import ChebyshevDescriptor
from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.options import absolute_path, check_choice
from atompack_torch.passes.cache_files import attributes_of

Self = TypeVar("Self", bound="CacheFile")


class CacheFile:
    """Base of ``TorchCache``: an open file, and its rows one by one."""

    def __init__(self, path: str | os.PathLike[str], mode: Literal["r"] = "r") -> None:
        check_choice("mode", mode, ("r",))
        self._file = absolute_path(path)
        with formats.opening(path, "a feature cache (HDF5)", "hdf5"):
            self._native: TorchCacheReader | None = TorchCacheReader(self._file)
        self._identity = self._native.identity
        self._reads = False  # by pread, without a mapping
        self._last: Any = None  # fields and data set of the last batch()

    def _reader(self) -> TorchCacheReader:
        native = self._native
        if native is None:
            native = self._native = TorchCacheReader(self._file, self._identity)
        return native

    def _without_mapping(self: Self) -> Self:
        """A copy that reads rows without mapping the file; see ``MoleculeDataset``.

        Opening still reads the headers of HDF5 objects through a mapping.
        """
        if self._reads:
            return self
        part = copy.copy(self)
        part._reads = True
        part._native = TorchCacheReader(self._file, self._identity, by_reading=True)
        return part

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None, "_reads": False, "_last": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_last": None, **state})  # version 0.1 had no such attribute

    def __copy__(self: Self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update({**self.__dict__, "_last": None})
        return made

    def _open_rows(self) -> MoleculeSource:
        """Opens features and derivatives by entry, for data sets with their own molecules."""
        return TorchCacheSource(self._reader(), whole=False)

    def _stored_features(self) -> Stored:
        try:
            descriptor = self.descriptor
        except UnsupportedFormatError:
            descriptor = None  # of another kind: stored rows are usable, others not computable
        return Stored(self.has_features, self.has_force_derivatives, descriptor)

    def _force_entries(self) -> Tensor:
        return torch.tensor(self._reader().force_entries(), dtype=torch.int64)

    def __len__(self) -> int:
        """Number of entries, with or without rows."""
        return len(self._reader())

    @property
    def path(self) -> Path:
        """Absolute path of the file."""
        return Path(self._file)

    def close(self) -> None:
        """Releases the mapping of the file; the next read opens it again."""
        self._native = self._last = None

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refresh(self) -> bool:
        """Switches to the file that is now at the path.

        Returns:
            True if the file is another one.

        Raises:
            CorruptFileError: the file violates the format.
            OSError: the file cannot be opened.
        """
        current = type(self)(self._file)
        if current._identity == self._identity:
            return False
        self._native, self._identity, self._last = current._native, current._identity, None
        return True

    @property
    def info(self) -> dict[str, Any]:
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
        manifest = self.info.get("descriptor_manifest")
        text = manifest["config_json"] if manifest else self.info.get("descriptor_compat_json")
        if text is None:
            return None
        return descriptor_in(text, self.info.get("storage_dtype", "float64"), self)

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
        values = self._reader().load_features(self._entry(index))
        return None if values is None else _tensor(values, dtype)

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
        columns = self._reader().load_force_derivatives(self._entry(index))
        if columns is None:
            return None
        return {
            name: _tensor(values, dtype if values.dtype.kind == "f" else torch.int64)
            for name, values in columns.items()
            if not name.endswith("typespin") or self._reader().multi
        }

    def _entry(self, index: int) -> int:
        try:
            return resolve_index(index, len(self), None, "entry")
        except IndexError as error:
            raise IndexError(f"{self._file}: {error}") from None


def _tensor(values: np.ndarray[Any, Any], dtype: torch.dtype | None) -> Tensor:
    tensor = torch.from_numpy(values)
    return tensor if dtype is None else tensor.to(dtype)


def descriptor_in(text: str, dtype: str, cache: CacheFile) -> ChebyshevDescriptor:
    """Builds a descriptor from the settings that a file holds as JSON.

    Args:
        text: the settings.
        dtype: dtype, unless the settings contain one.
        cache: the file, for errors.

    Returns:
        The descriptor.

    Raises:
        UnsupportedFormatError: the settings are not those of a ``ChebyshevDescriptor``.
    """
    try:
        return descriptor_of({"dtype": dtype, **json.loads(text)})
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnsupportedFormatError(
            f"{cache.path}: descriptor: expected the settings of a ChebyshevDescriptor, "
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
