"""Rows of single entries of a feature cache."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from atompack_torch._native import TorchCacheReader
from atompack_torch.datasets.computed_features import Stored
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
