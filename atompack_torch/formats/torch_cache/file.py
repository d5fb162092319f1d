"""The file of a feature cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from atompack_torch._core import resolve_index
from atompack_torch._native import TorchCacheReader
from atompack_torch.datasets.features import Stored
from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.formats.torch_cache.attributes import attributes_of
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.options import is_url
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.local_copies import (
    Hint,
    LocalCopy,
    ObjectVersion,
    latest_version,
    local_copy,
)
from atompack_torch.remote.urls import shown_url

# Device, inode and size of a local file, or the version of a remote one.
Identity = tuple[int, int, int] | ObjectVersion


class CacheFile:
    """A cache file, opened on first use in each process; it has to be the same file each time.

    Args:
        path: absolute path or URL. A remote file is read from a local copy.
        identity: identity of the file; None: the file is opened now, and has the one found.
        by_reading: read rows without mapping the file. Opening still reads the headers of HDF5
            objects through a mapping.
        remote: access to remote files.
        copy: copy of a remote file that is open already, or a hint of another process's copy.
    """

    def __init__(
        self,
        path: str,
        identity: Identity | None = None,
        *,
        by_reading: bool = False,
        remote: RemoteFiles | None = None,
        copy: LocalCopy | Hint | None = None,
    ) -> None:
        self.given = path
        self.path = shown_url(path) if is_url(path) else path  # for messages
        self._remote = remote or RemoteFiles()
        self._copy = copy
        self._by_reading = by_reading
        self._reader: TorchCacheReader | None = None
        self._identity = identity
        if identity is None:
            self.reader()

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        if not is_url(self.given):
            return CacheFile, (self.given, self.identity)
        hint = self._copy.hint if isinstance(self._copy, LocalCopy) else self._copy
        return _remote_file, (self.given, self.identity, self._remote, hint)

    @property
    def identity(self) -> Identity:
        """Identity of the file."""
        assert self._identity is not None
        return self._identity

    def reader(self) -> TorchCacheReader:
        """Returns the native reader."""
        # No lock, which a fork could inherit in the locked state; opening twice is harmless.
        reader = self._reader
        if reader is None:
            reader = self._reader = self._open_copy() if is_url(self.given) else self._open()
        return reader

    def _open(self) -> TorchCacheReader:
        expected = cast("tuple[int, int, int] | None", self._identity)
        reader = TorchCacheReader(self.given, expected, by_reading=self._by_reading)
        self._identity = expected or reader.identity
        return reader

    def _open_copy(self) -> TorchCacheReader:
        hint = self._copy.hint if isinstance(self._copy, LocalCopy) else self._copy
        version = None if self._identity is None else ObjectVersion(*self._identity)
        for is_last in (False, False, True):
            copy = self._copy
            if not isinstance(copy, LocalCopy):
                copy = local_copy(self._remote, self.given, version, hint)
            try:
                reader = TorchCacheReader(
                    copy.path, copy.hint[1], by_reading=self._by_reading, name=self.path
                )
            except OSError:  # removed in the meantime, by the process that made it or to make room
                self._copy = hint = None
                if is_last:
                    raise
                continue
            self._copy, self._identity = copy, copy.version
            return reader
        raise AssertionError("unreachable")

    def latest(self) -> CacheFile:
        """Returns the file that is now at the path; this one if it is the same."""
        if is_url(self.given) and latest_version(self._remote, self.given) == self.identity:
            return self
        latest = CacheFile(self.given, remote=self._remote)
        return self if latest.identity == self.identity else latest

    def closed(self) -> CacheFile:
        """Returns the same file, not open."""
        return CacheFile(self.given, self.identity, remote=self._remote)

    def without_mapping(self) -> CacheFile:
        """Returns the same file, whose rows are read without a mapping."""
        if self._by_reading:
            return self
        return CacheFile(
            self.given, self.identity, by_reading=True, remote=self._remote, copy=self._copy
        )

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
            descriptor = None  # of a different kind: stored rows are usable, others not computable
        reader = self.reader()
        return Stored(
            reader.has_features,
            reader.has_force_derivatives,
            descriptor,
            reader.lacks_features,
            reader.lacks_derivatives,
        )

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


def _remote_file(url: str, identity: Identity, remote: RemoteFiles, hint: Hint | None) -> CacheFile:
    return CacheFile(url, identity, remote=remote, copy=hint)


def _tensor(values: np.ndarray[Any, Any], dtype: torch.dtype | None) -> Tensor:
    if not isinstance(dtype, torch.dtype | None):
        raise TypeError(f"dtype: expected a torch dtype, got {dtype!r}")
    return torch.from_numpy(values).to(dtype)


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
