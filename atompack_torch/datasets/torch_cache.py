"""Stored features and derivatives, from the HDF5 files of aenet-python."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atompack_torch import formats
from atompack_torch._core import resolve_index
from atompack_torch._native import MoleculeSource, TorchCacheReader, TorchCacheSource
from atompack_torch.batch.indices import Indices
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets._base import MoleculeDataset
from atompack_torch.datasets._computed import CacheFeatures, Options, Stored, planned
from atompack_torch.datasets._forces import ForceChoice
from atompack_torch.datasets._request import (
    FORCE_DERIVATIVES,
    DTypes,
    Missing,
    Request,
    Transform,
)
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.descriptors.chebyshev import ChebyshevDescriptor
from atompack_torch.errors import FieldError, UnsupportedFormatError
from atompack_torch.options import absolute_path
from atompack_torch.passes.cache_files import attributes_of


class TorchCache:
    """One HDF5 file with a ``/torch_cache`` (schema 2) or ``/force_derivatives`` (legacy 1).

        cache = apt.TorchCache("water.h5")
        cache.load_features(0)  # (n_atoms, n_features)
        ds = apt.AtpDataset("water.atp", cache=cache, fields=["energy", "forces", "features"])

    Opening checks what the file says of itself, with both hashes, and reads where the rows lie;
    after that HDF5 is not used: rows come from a mapping, in any process and thread. Pickles are
    small, and open the file again: the very same file, or it is an OSError.

    Raises:
        CorruptFileError: the file contradicts the format, or itself.
        UnsupportedFormatError: a version that is not read here, or a filter (Blosc, ...).
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = absolute_path(path)
        with formats.opening(path, "a feature cache (HDF5)", "hdf5"):
            self._native: TorchCacheReader | None = TorchCacheReader(self._file)
        self._identity = self._native.identity
        self._reads = False  # by pread, without a mapping
        self._last: tuple[tuple[str, ...], TorchCacheDataset] | None = None  # of batch()

    def _reader(self) -> TorchCacheReader:
        if self._native is None:
            self._native = TorchCacheReader(self._file, self._identity)
        return self._native

    def _by_reading(self) -> TorchCache:
        """A copy that reads rows without mapping the file; see ``MoleculeDataset``.

        Opening it looks at the headers of HDF5 objects through a mapping all the same.
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

    def __copy__(self) -> TorchCache:
        made = TorchCache.__new__(type(self))
        made.__dict__.update({**self.__dict__, "_last": None})
        return made

    def _open_rows(self) -> MoleculeSource:
        """Features and derivatives by entry, for a data set that has molecules of its own."""
        return TorchCacheSource(self._reader(), whole=False)

    def _stored(self) -> Stored:
        try:
            descriptor = self.descriptor
        except UnsupportedFormatError:
            descriptor = None  # of another kind: its rows are of use, but none can be added
        return Stored(self.has_features, self.has_force_derivatives, descriptor)

    def _force_entries(self) -> Tensor:
        return torch.tensor(self._reader().force_entries(), dtype=torch.int64)

    def __len__(self) -> int:
        """Number of entries, with or without rows."""
        return len(self._reader())

    @property
    def path(self) -> str:
        """Of the file, absolute."""
        return self._file

    @property
    def info(self) -> dict[str, Any]:
        """The file's attributes under its own names.

        Those of the cache itself (``schema_version``, ``storage_dtype``, ...) and of the root
        (``energy_filter_...``); ``"descriptor_manifest"`` and ``"force_derivatives"`` hold those
        of these groups, where they are there.
        """
        return attributes_of(self._reader())

    @property
    def descriptor(self) -> ChebyshevDescriptor | None:
        """What made the features, by the file's own settings; None if it does not say.

        Raises:
            UnsupportedFormatError: another descriptor than a ``ChebyshevDescriptor``, or settings
                that it does not take.
        """
        manifest = self.info.get("descriptor_manifest")
        text = manifest["config_json"] if manifest else self.info.get("descriptor_compat_json")
        if text is None:
            return None
        return descriptor_in(text, self.info.get("storage_dtype", "float64"), self)

    @property
    def has_features(self) -> bool:
        """Whether the file stores features."""
        return self._reader().has_features

    @property
    def has_force_derivatives(self) -> bool:
        """Whether the file stores local derivatives."""
        return self._reader().has_force_derivatives

    def load_features(self, index: int, dtype: torch.dtype | None = None) -> Tensor | None:
        """(n_atoms, n_features), of the stored dtype unless another is given.

        None for an entry without a row.

        Raises:
            IndexError: no such entry.
            FieldError: the file stores no features.
            CorruptFileError: the row is damaged.
        """
        values = self._reader().load_features(self._entry(index))
        return None if values is None else _tensor(values, dtype)

    def load_force_derivatives(
        self, index: int, dtype: torch.dtype | None = None
    ) -> dict[str, Tensor] | None:
        """The derivative fields of a batch of this entry alone; atoms are counted in the entry.

        With one species there are no typespins. None for an entry without a row.

        Raises:
            IndexError, FieldError, CorruptFileError: as ``load_features``.
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

    def batch(
        self,
        indices: Indices,
        fields: Sequence[str] = ("features", FORCE_DERIVATIVES),
    ) -> MoleculeBatch:
        """Entries as one batch with these fields, positions and species beside them.

        Raises:
            IndexError, CorruptFileError: as ``load_features``.
            FieldError: a field that the file does not store.
        """
        asked = tuple(fields)
        if self._last is None or self._last[0] != asked:
            there = {"features": self.has_features, FORCE_DERIVATIVES: self.has_force_derivatives}
            for name in asked:
                if not there.get(name, True):
                    raise FieldError(f"{self._file}: no {name} are stored (field {name!r})")
            # Over a copy: a cycle would keep the file mapped until the collector runs.
            self._last = asked, TorchCacheDataset(copy.copy(self), fields=asked)
        batch: MoleculeBatch = self._last[1].batch(indices)
        return batch

    def __repr__(self) -> str:
        held = [
            name
            for name, there in (
                ("features", self.has_features),
                ("force derivatives", self.has_force_derivatives),
            )
            if there
        ]
        return f"TorchCache({self._file!r}: {len(self)} entries, {' and '.join(held) or 'no rows'})"


def _tensor(values: np.ndarray[Any, Any], dtype: torch.dtype | None) -> Tensor:
    tensor = torch.from_numpy(values)
    return tensor if dtype is None else tensor.to(dtype)


def descriptor_in(text: str, dtype: str, cache: TorchCache) -> ChebyshevDescriptor:
    """A descriptor by the settings that a file holds as JSON; ``dtype`` unless they name one.

    Raises:
        UnsupportedFormatError: they are not those of a ``ChebyshevDescriptor``.
    """
    try:
        return descriptor_of({"dtype": dtype, **json.loads(text)})
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnsupportedFormatError(
            f"{cache.path}: descriptor: expected the settings of a ChebyshevDescriptor, "
            f"got {text[:400]} ({type(error).__name__}: {error})"
        ) from None


def descriptor_of(config: dict[str, Any]) -> ChebyshevDescriptor:
    """A descriptor by the settings that a file holds."""
    return ChebyshevDescriptor(
        config["species"],
        config["rad_order"],
        config["rad_cutoff"],
        config["ang_order"],
        config["ang_cutoff"],
        config["min_cutoff"],
        dtype="float32" if config["dtype"] == "float32" else "float64",
    )


class TorchCacheDataset(MoleculeDataset):
    """The entries of one cache file as molecules.

        for batch in DataLoader(TorchCacheDataset("water.h5"), batch_size=32, shuffle=True):
            energy = model(batch.features, batch.atomic_numbers)
            forces = apt.contract_forces(batch, torch.autograd.grad(energy.sum(), ...)[0])

    ``positions`` (float64), ``atomic_numbers``, ``energy``, ``forces``, ``cell``, ``pbc`` and
    ``name`` come from the structures that the file itself holds; their pickles are read without
    being run. A cell without flags is periodic in all directions.

    Args:
        path: a file, or an open ``TorchCache``.
        fields: labels and ``"features"``, ``"force_derivatives"``; None: all there is.
        exclude: labels to leave out.
        dtype: as of ``AtpDataset``.
        missing: as of ``AtpDataset``; judges entries without a row as it does those without a
            label.
        neighbors: a ``NeighborList``: batches then hold the edges of its search.
        descriptor: what computes features, and derivatives that are named in ``fields``, where the
            file does not store those of this descriptor. None: that of the file, for what is named
            in ``fields`` and not stored.
        cache_features: as of ``AtpDataset``; without a ``descriptor``, keeping asks for the
            features of the file's own.
        cache_bytes: at most so many are kept, of what comes first; None: no limit.
        force_fraction: as of ``AtpDataset``.
        resample_forces: draw the entries with forces anew for each ``set_epoch``.
        seed: of the choice of forces.
        transform: called with every batch, in the process that made it.
        num_threads: at most this many threads for a batch; None: as many as torch uses.
        nan_is_missing: labels that are NaN throughout count as absent, as of ``AtpDataset``. (An
            energy of NaN always does: it is how the format stores none.)

    Raises:
        CorruptFileError, UnsupportedFormatError, OSError: as ``TorchCache``.
        FieldError: a field that the file does not have, and no descriptor is known to compute it.
        TypeError, ValueError: an option out of its range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | TorchCache,
        *,
        fields: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        dtype: DTypes | None = None,
        missing: Missing = "nan",
        neighbors: NeighborList | None = None,
        descriptor: ChebyshevDescriptor | None = None,
        cache_features: CacheFeatures = "none",
        cache_bytes: int | None = None,
        force_fraction: float = 1.0,
        resample_forces: bool = False,
        seed: int = 0,
        transform: Transform | None = None,
        num_threads: int | None = None,
        nan_is_missing: bool = False,
    ) -> None:
        self._cache = path if isinstance(path, TorchCache) else TorchCache(path)
        self._path = self._cache.path
        request = Request.checked(
            fields=fields,
            exclude=exclude,
            dtype=dtype,
            missing=missing,
            neighbors=neighbors,
            transform=transform,
            num_threads=num_threads,
            nan_is_missing=nan_is_missing,
        )
        self._forces = ForceChoice.checked(force_fraction, resample_forces, seed, missing)
        options = Options(descriptor, cache_features, cache_bytes)
        self._request, self._computing = planned(request, self._cache._stored(), options)
        self._keeps = cache_features != "none"
        if self._request.names_fields:
            self._batcher()  # names are checked here and now

    @property
    def cache(self) -> TorchCache:
        """The file."""
        return self._cache

    def aenet_split(
        self, test_fraction: float, seed: int
    ) -> tuple[TorchCacheDataset, TorchCacheDataset]:
        """The training and test set that aenet-python makes of as many entries with this seed.

        Raises:
            ValueError: the fraction is not in 0 to 1.
        """
        if not 0 <= test_fraction <= 1:
            raise ValueError(f"test_fraction: expected a number from 0 to 1, got {test_fraction}")
        order = list(range(len(self)))
        random.Random(seed).shuffle(order)
        n_test = int(len(order) * test_fraction)
        train, test = self._parted([order[n_test:], order[:n_test]])
        return train, test

    def _force_entries(self) -> Tensor:
        return self._cache._force_entries()

    def _options(self) -> dict[str, Any]:
        return {**self._request._asdict(), "force_fraction": self._forces}

    def _size(self) -> int:
        return len(self._cache)

    def _atom_counts(self) -> Tensor:
        return torch.from_numpy(self._cache._reader().atom_counts())

    def _identity(self) -> Any:
        return [self._path, self._cache._identity]

    def _by_reading(self) -> TorchCacheDataset:
        part = copy.copy(self)
        part._cache, part._native = self._cache._by_reading(), None
        return part

    def _open_source(self) -> MoleculeSource:
        return self._request.judged(TorchCacheSource(self._cache._reader(), whole=True))

    def __repr__(self) -> str:
        return f"TorchCacheDataset({len(self)} entries of {self._path!r})"
