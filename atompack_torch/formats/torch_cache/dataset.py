"""Features and derivatives stored in the HDF5 files of aenet-python."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from atompack_torch import formats
from atompack_torch._core import resolve_index
from atompack_torch._native import MoleculeSource, TorchCacheReader, TorchCacheSource
from atompack_torch.batch.indices import Indices
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.features import Stored, features_of
from atompack_torch.datasets.options import MoleculeOptions
from atompack_torch.datasets.request import FORCE_DERIVATIVES
from atompack_torch.errors import FieldError, UnsupportedFormatError
from atompack_torch.formats.torch_cache.attributes import attributes_of
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.options import (
    PathLike,
    absolute_location,
    check_choice,
    is_url,
    redact_path,
    shown_path,
    with_fields,
)
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.local_copies import (
    Hint,
    LocalCopy,
    ObjectVersion,
    local_copy,
    version_of,
)

# Device, inode and size of a local file, or the version of a remote one.
Identity = tuple[int, int, int] | ObjectVersion

Self = TypeVar("Self", bound="TorchCache")


class TorchCache:
    """An HDF5 file with ``/torch_cache`` (schema 2) or ``/force_derivatives`` (legacy 1).

        cache = apt.TorchCache("water.h5")
        cache.load_features(0)  # (n_atoms, n_features)
        ds = apt.AtpDataset("water.atp", features=cache, fields=["energy", "forces", "features"])

    Opening checks the metadata and both hashes, and reads the locations of all rows. After that,
    HDF5 is not used: rows come from a mapping, in any process and thread. Pickles are small and
    open the file again, which must be the same one.

    Args:
        path: the file, or its URL (``s3://``, ``gs://``, ``https://``), which is downloaded whole.
        mode: ``"r"``: read; ``build_cache`` writes caches.
        storage_options: options of the remote store; see ``AtpDataset``. ``cache`` keeps the
            download for later runs, and for all processes, of which the files used longest ago are
            removed above ``cache_bytes``; without it there is a temporary file, which goes with the
            last handle that has it open.

    Raises:
        CorruptFileError: the file violates the format.
        UnsupportedFormatError: the version or a filter (Blosc, ...) is not supported.
        OSError: the file cannot be opened, or a pickle finds another file. For a URL also:
            FileNotFoundError, PermissionError, TimeoutError, or ENOSPC if the limit is too small.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Literal["r"] = "r",
        *,
        storage_options: Mapping[str, object] | None = None,
    ) -> None:
        check_choice("mode", mode, ("r",))
        self._remote = RemoteFiles.checked(storage_options)
        self._given = absolute_location(path)
        self._shown = redact_path(self._given)
        self._by_reading = False
        self._identity: Identity | None = None  # that of the file found when it is first opened
        # Of a remote file; a hint: that of another process.
        self._copy: LocalCopy | Hint | None = None
        self._native: TorchCacheReader | None = None
        self._last: tuple[tuple[str, ...], TorchCacheDataset] | None = None  # of batch()
        with formats.opening(path, "a feature cache (HDF5)", "hdf5"):
            self._reader()

    def __getstate__(self) -> dict[str, Any]:
        hint = self._copy.hint if isinstance(self._copy, LocalCopy) else self._copy
        return {**self.__dict__, "_copy": hint, "_native": None, "_last": None}

    def __copy__(self: Self) -> Self:
        part = object.__new__(type(self))
        part.__dict__.update({**self.__dict__, "_last": None})
        return part

    def _reader(self) -> TorchCacheReader:
        # No lock, which a fork could inherit in the locked state; opening twice is harmless.
        reader = self._native
        if reader is None:
            reader = self._native = self._open_copy() if is_url(self._given) else self._open()
        return reader

    def _open(self) -> TorchCacheReader:
        expected = cast("tuple[int, int, int] | None", self._identity)
        reader = TorchCacheReader(self._given, expected, by_reading=self._by_reading)
        self._identity = expected or reader.identity
        return reader

    def _open_copy(self) -> TorchCacheReader:
        hint = self._copy.hint if isinstance(self._copy, LocalCopy) else self._copy
        version = None if self._identity is None else ObjectVersion(*self._identity)
        for is_last in (False, False, True):
            found = self._copy
            if not isinstance(found, LocalCopy):
                found = local_copy(self._remote, self._given, version, hint)
            try:
                reader = TorchCacheReader(
                    found.path, found.hint[1], by_reading=self._by_reading, name=self._shown
                )
            except OSError:  # removed in the meantime, by the process that made it or to make room
                self._copy = hint = None
                if is_last:
                    raise
                continue
            self._copy, self._identity = found, found.version
            return reader
        raise AssertionError("unreachable")

    def _stored_features(self) -> Stored:
        try:
            descriptor = self.descriptor
        except UnsupportedFormatError:
            descriptor = None  # of a different kind: stored rows are usable, others not computable
        reader = self._reader()
        return Stored(
            reader.has_features,
            reader.has_force_derivatives,
            descriptor,
            reader.lacks_features,
            reader.lacks_derivatives,
        )

    def _entry(self, index: int) -> int:
        try:
            return resolve_index(index, len(self), None, "entry")
        except IndexError as error:
            raise IndexError(f"{self._shown}: {error}") from None

    def _force_entries(self) -> Tensor:
        return torch.tensor(self._reader().force_entries(), dtype=torch.int64)

    def __len__(self) -> int:
        """Number of entries, with or without rows."""
        return len(self._reader())

    @property
    def path(self) -> Path | str:
        """Absolute path of the file, or the URL as it was given."""
        path = shown_path(self._given)
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
        attributes = self.info
        manifest: Any = attributes.get("descriptor_manifest")
        text = manifest["config_json"] if manifest else attributes.get("descriptor_compat_json")
        if text is None:
            return None
        dtype = attributes.get("storage_dtype", "float64")
        return _descriptor_in(str(text), str(dtype), self._shown)

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
        reader = self._reader()
        columns = reader.load_force_derivatives(self._entry(index))
        if columns is None:
            return None
        return {
            name: _tensor(values, dtype if values.dtype.kind == "f" else torch.int64)
            for name, values in columns.items()
            if reader.multi or not name.endswith("typespin")
        }

    def without_mapping(self) -> TorchCache:
        """Returns a copy that reads rows without mapping the file; see ``MoleculeDataset``.

        Returns:
            The copy.
        """
        part = copy.copy(self)
        if not self._by_reading:
            part._by_reading, part._native = True, None
        return part

    def _open_rows(self) -> MoleculeSource:
        """Opens features and derivatives by entry, for datasets with their own molecules."""
        return TorchCacheSource(self._reader(), whole=False)

    def close(self) -> None:
        """Releases the mapping of the file; the next read opens it again."""
        self._native = self._copy = self._last = None

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refresh(self) -> bool:
        """Switches to the file that is now at the path.

        Returns:
            True if the file is a different one.

        Raises:
            CorruptFileError: the file violates the format.
            OSError: the file cannot be opened.
        """
        current = copy.copy(self)
        current._identity = current._copy = current._native = None
        with formats.opening(self._given, "a feature cache (HDF5)", "hdf5"):
            is_remote = is_url(self._given)
            if is_remote:
                present = version_of(self._remote.open_object(self._given))
                if present == self._identity:
                    return False
            current._reader()
        if current._identity == self._identity:
            return False
        self.__dict__.update(current.__dict__)
        return True

    def batch(
        self,
        indices: Indices,
        fields: Sequence[str] = ("features", FORCE_DERIVATIVES),
    ) -> MoleculeBatch:
        """Reads entries into one batch with these fields, positions and species.

        Args:
            indices: entries, as for ``TorchCacheDataset.batch``.
            fields: names of fields.

        Returns:
            The batch.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            FieldError: the file does not store a field.
            CorruptFileError: a row is damaged.
        """
        asked = tuple(fields)
        if self._last is None or self._last[0] != asked:
            there = {"features": self.has_features, FORCE_DERIVATIVES: self.has_force_derivatives}
            for name in asked:
                if not there.get(name, True):
                    raise FieldError(f"{self._shown}: no {name} are stored (field {name!r})")
            # A copy, because a reference cycle would keep the file mapped.
            self._last = asked, TorchCacheDataset(copy.copy(self), fields=asked)
        return self._last[1].batch(indices)

    def __repr__(self) -> str:
        kinds = {"features": self.has_features, "force derivatives": self.has_force_derivatives}
        rows = " and ".join(kind for kind, is_stored in kinds.items() if is_stored) or "no rows"
        return f"TorchCache({self._shown!r}: {len(self)} entries, {rows})"


def _tensor(values: np.ndarray[Any, Any], dtype: torch.dtype | None) -> Tensor:
    if not isinstance(dtype, torch.dtype | None):
        raise TypeError(f"dtype: expected a torch dtype, got {dtype!r}")
    return torch.from_numpy(values).to(dtype)


def _descriptor_in(text: str, dtype: str, path: str) -> ChebyshevDescriptor:
    """Builds a descriptor from settings as JSON, which may contain another dtype."""
    try:
        config = {"dtype": dtype, **json.loads(text)}
        return ChebyshevDescriptor(
            config["species"],
            config["rad_order"],
            config["rad_cutoff"],
            config["ang_order"],
            config["ang_cutoff"],
            config["min_cutoff"],
            dtype="float32" if config["dtype"] == "float32" else "float64",
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnsupportedFormatError(
            f"{path}: descriptor: expected the settings of a ChebyshevDescriptor, "
            f"got {text[:400]} ({type(error).__name__}: {error})"
        ) from None


@dataclass(frozen=True)
class CacheOptions(MoleculeOptions):
    """Options of ``TorchCacheDataset``."""

    path: PathLike | TorchCache


class TorchCacheDataset(MoleculeDataset):
    """Entries of a cache file as molecules.

        for batch in DataLoader(TorchCacheDataset("water.h5"), batch_size=32, shuffle=True):
            energy = model(batch.features, batch.atomic_numbers)
            forces = apt.contract_forces(batch, torch.autograd.grad(energy.sum(), ...)[0])

    ``positions`` (float64), ``atomic_numbers``, ``energy``, ``forces``, ``cell``, ``pbc`` and
    ``name`` come from the molecules in the file, whose pickles are decoded without being
    executed. A cell without flags is periodic in all directions.
    """

    @with_fields(CacheOptions)
    def __init__(self, path: PathLike | TorchCache, **options: Any) -> None:
        """Opens the file.

        Args:
            path: a file or its URL, or an open ``TorchCache``.
            **options: the fields of ``MoleculeOptions``. ``fields=None`` is all that is stored.
                ``features`` is a ``ChebyshevDescriptor``, or ``Features`` without a cache, for
                features and derivatives that are named in ``fields``, if the file does not store
                those of this descriptor; without a descriptor, that of the file computes fields
                that are named and not stored. ``missing`` applies to entries without a row too. An
                energy of NaN is always missing, as the format has no other way to store that.
                ``access`` is ``"auto"`` or ``"read"``.

        Raises:
            TypeError: an option has the wrong type.
            ValueError: an option is out of range.
            FieldError: the file lacks a field, and no descriptor is known that computes it.
            CorruptFileError: the file violates the format.
            UnsupportedFormatError: the version or a filter is not supported.
            OSError: the file cannot be opened.
        """
        given = CacheOptions.of(path, options)
        check_choice("access", given.access, ("auto", "read"))
        features = features_of(given.features)
        if features.cache is not None:
            raise ValueError("features: expected a descriptor, got a cache: it is the path")
        if not isinstance(path, TorchCache):
            path = TorchCache(path, storage_options=given.storage_options)
        self._cache = path.without_mapping() if given.access == "read" else path
        self._path = self._cache._shown
        self._take_options(given, features, self._cache._stored_features())
        if self._request.names_fields:
            self.batcher()  # checks names
        self._check_augment()

    @property
    def path(self) -> Path | str:
        """Absolute path of the file, or the URL as it was given."""
        return self._cache.path

    @property
    def cache(self) -> TorchCache:
        """Cache that the entries come from."""
        return self._cache

    def refresh(self) -> bool:
        """Switches to the file that is now at the path; ``cache`` is unchanged.

        Returns:
            True if the file is a different one.

        Raises:
            IndexError: entries of a subset no longer exist; the dataset is unchanged.
            FieldError: the file has other sections, so that the dataset must be opened again.
            CorruptFileError: the file violates the format.
        """
        current = copy.copy(self._cache)
        if not current.refresh():
            return False
        self._check_selection(len(current))
        if current._stored_features() != self._cache._stored_features():
            raise FieldError(
                f"{self._path}: expected the sections and descriptor of the earlier file, got "
                "others: open the dataset again"
            )
        self._cache, self._digests = current, None
        self.close()
        if self._computer is not None:
            self._computer.kept.clear()
        return True

    def close(self) -> None:
        """Releases the mapping of the file; the next read opens it again."""
        super().close()
        self._cache = copy.copy(self._cache)
        self._cache.close()

    def _block_sizes(self) -> Tensor:
        return torch.tensor([len(self._cache)], dtype=torch.int64)

    def aenet_split(
        self, test_fraction: float, seed: int
    ) -> tuple[TorchCacheDataset, TorchCacheDataset]:
        """Splits the entries into the same training and test set as aenet-python.

        Args:
            test_fraction: share of the test set, from 0 to 1.
            seed: seed of the split.

        Returns:
            Training and test set.

        Raises:
            ValueError: the fraction is not in 0 to 1.
        """
        if not 0 <= test_fraction <= 1:
            raise ValueError(f"test_fraction: expected a number from 0 to 1, got {test_fraction}")
        order = list(range(len(self)))
        random.Random(seed).shuffle(order)
        n_test = int(len(order) * test_fraction)
        train, test = self._split([order[n_test:], order[:n_test]])
        return train, test

    def _force_entries(self) -> Tensor:
        return self._cache._force_entries()

    def _options(self) -> dict[str, Any]:
        return {**vars(self._request), "force_subset": self._forces}

    def _size(self) -> int:
        return len(self._cache)

    def _atom_counts(self) -> Tensor:
        return torch.from_numpy(self._cache._reader().atom_counts())

    def _identity(self) -> Any:
        return [self._path, self._cache._identity]

    def without_mapping(self) -> TorchCacheDataset:
        """Returns a copy that reads files without mapping them.

        Returns:
            The copy.
        """
        part = copy.copy(self)
        part._cache, part._native = self._cache.without_mapping(), None
        return part

    def _open_source(self) -> MoleculeSource:
        return self._request.wrap_source(TorchCacheSource(self._cache._reader(), whole=True))

    def __repr__(self) -> str:
        return f"TorchCacheDataset({len(self)} entries of {self._path!r})"
