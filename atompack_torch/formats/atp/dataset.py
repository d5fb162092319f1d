"""Molecules from .atp files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from atompack_torch._native import AtpReader, MoleculeSource, read_atom_counts
from atompack_torch.datasets.computed_features import CacheFeatures
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.options import DTypes, Missing
from atompack_torch.datasets.request import Transform
from atompack_torch.formats.atp.files import files_of, snapshot_of, warn_of_missing_parts
from atompack_torch.formats.molecule_files import Access, FileOptions, MoleculeFiles, RowSource
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.options import BUFFERS, MEMORY, Buffer, PathLike, is_url
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.memory import MemoryFiles
from atompack_torch.remote.urls import shown_url


class AtpDataset(MoleculeFiles):
    """Molecules of ``.atp`` files as one map-style data set.

        for batch in DataLoader(AtpDataset("data.atp"), batch_size=64, shuffle=True):
            ...

    Opening reads only the headers; the index stays mapped. The data set keeps reading the commit
    that it saw then, in every process that it is sent to, while a writer appends; ``refresh()``
    switches to the last commit. Several threads may use it at once.

    Args:
        path: a file, a list of files, or a folder whose ``**/*.atp`` are shards, sorted by path;
            each a path or a URL (``s3://``, ``gs://``, ``az://``, ``https://``,
            ``hf://datasets/OWNER/NAME/PATH``, or of fsspec). A folder in which parts of
            ``convert(part=)`` are missing is warned of. Bytes of remote files are fetched as
            batches need them; ``Loader`` fetches many ahead. Or the bytes of one file:
            ``bytes``, ``bytearray`` or a ``memoryview`` of any buffer, which is read without a copy
            and must not be changed. Errors name it ``<memory>``; a pickle carries all of it.
        fields: labels to read: builtin fields by name, custom properties by key or with their
            scope (``properties/KEY``, ``atom_properties/KEY``); None: all of the schema. Positions
            and atomic numbers are always read.
        exclude: labels to leave out; names that no file has are ignored.
        dtype: dtype of all floating fields except ``energy``, or a dict from names to dtypes; cast
            while copying. None: as stored.
        missing: treatment of molecules that lack one of ``fields``: ``"nan"`` fills in NaN (0,
            False, None) and masks it, ``"error"`` raises ``FieldError``, ``"drop"`` leaves the
            molecule out. ``cell`` and ``pbc`` are exempt: a molecule without them is not periodic,
            with masked zeros and False.
        neighbors: a ``NeighborList``, whose edges are added to batches, together with ``cell`` and
            ``pbc``, whatever ``fields`` names.
        cache: a ``TorchCache`` of the same molecules in the same order, which provides the fields
            ``"features"`` and ``"force_derivatives"``. The first time that a molecule is read, its
            elements, positions and cell are compared with those that the cache was made of (of
            caches by other programs: elements, and positions or energy).
        descriptor: computes ``"features"`` and, if they are named in ``fields``,
            ``"force_derivatives"``, unless the cache holds those of this descriptor, which are
            then cast to its dtype; entries without a row are computed. Derivatives
            are computed for molecules with forces. Positions and cell are used as stored; the
            computation takes place between the steps (``Loader``) or in the workers
            (``DataLoader``).
        cache_features: features, computed or read from ``cache``, to keep in memory for the next
            epoch: ``"none"``, ``"all"``, or ``"train"`` for the first part of ``split()`` only.
            Each process keeps its own, also each worker of a ``DataLoader``. Derivatives are never
            kept. Stored features can only be kept with ``missing="nan"``, and not beside
            derivatives that are computed.
        cache_bytes: limit on the bytes of kept features, first come, first kept; None: no limit.
        force_fraction: share of the molecules with forces (of this data set or subset) that keep
            them and their derivatives; the others are masked as if they had none. Without a cache,
            opening takes a pass over the labels to find the forces.
        resample_forces: choose these molecules again for each ``set_epoch``.
        seed: seed of that choice.
        transform: called last, with every finished batch, in the process that made it; its result
            is returned instead. Edges are there already: in a batch that has some, other
            positions, another cell or other ``pbc`` are an error.
        access: how the files are read. ``"auto"`` maps them; ``"random"`` and ``"sequential"`` do
            so too, with advice to the system. ``"read"`` reads them without mappings.
            ``"direct"`` reads records past the system's file cache (io_uring and O_DIRECT), which
            is for files larger than memory on fast local disks: up to 64 MiB are kept in each
            process. Files behind URLs are always fetched.
        populate: read the files into memory when they are opened; with ``access="direct"``, start
            reading as much as is kept.
        num_threads: maximum number of threads for a batch; None: as many as torch uses. Always one
            in ``DataLoader`` workers.
        nan_is_missing: treat stored labels and custom properties that are NaN throughout as
            missing. Values of a ``cache`` are not checked.
        storage_options: for URLs: ``endpoint_url``, ``region``, ``profile``, ``key``, ``secret``,
            ``token``, ``anonymous``, ``headers`` and ``credentials`` (a callable); what is left
            out comes from the environment variables of AWS's and Hugging Face's tools. For URLs
            that fsspec opens: its own options.
        block_cache: for URLs: a folder on local disk that keeps what was read, shared by all
            processes; None: blocks are kept in the memory of each process.
        block_cache_bytes: limit of that folder (None: 16 GiB), or of that memory (None: 256 MiB).

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option does not have one of its values.
        CorruptFileError: a header, schema or index violates the format.
        UnsupportedFormatError: the version of a file is not supported.
        FieldError: no file has a field; the message names similar ones. A field that only some
            files have is masked for the others.
        OSError: a file cannot be opened, or ``access="direct"`` is not possible: io_uring is
            forbidden (as in many containers), or the file system has no direct reads. Of a URL:
            FileNotFoundError, PermissionError, TimeoutError, or ESTALE if the object has changed
            since it was opened.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike] | Buffer,
        *,
        fields: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        dtype: DTypes | None = None,
        missing: Missing = "nan",
        neighbors: NeighborList | None = None,
        cache: RowSource | None = None,
        descriptor: ChebyshevDescriptor | None = None,
        cache_features: CacheFeatures = "none",
        cache_bytes: int | None = None,
        force_fraction: float = 1.0,
        resample_forces: bool = False,
        seed: int = 0,
        transform: Transform | None = None,
        access: Access = "auto",
        populate: bool = False,
        num_threads: int | None = None,
        nan_is_missing: bool = False,
        storage_options: Mapping[str, object] | None = None,
        block_cache: PathLike | None = None,
        block_cache_bytes: int | None = None,
    ) -> None:
        options = FileOptions(
            fields=fields,
            exclude=exclude,
            dtype=dtype,
            missing=missing,
            neighbors=neighbors,
            cache=cache,
            descriptor=descriptor,
            cache_features=cache_features,
            cache_bytes=cache_bytes,
            force_fraction=force_fraction,
            resample_forces=resample_forces,
            seed=seed,
            transform=transform,
            access=access,
            populate=populate,
            num_threads=num_threads,
            nan_is_missing=nan_is_missing,
        )
        self._remote = RemoteFiles.checked(storage_options, block_cache, block_cache_bytes, path)
        if isinstance(path, BUFFERS):
            self._remote = MemoryFiles({MEMORY: path})
            path = MEMORY
        self._path = path
        self._take_options(options)
        self._files = files_of(self._path, self._remote)
        warn_of_missing_parts(self._path, self._files)
        self._snapshots = [snapshot_of(file, self._remote) for file in self._files]
        self._check_names()

    def _size(self) -> int:
        return sum(snapshot.n_molecules for snapshot in self._snapshots)

    def refresh(self) -> bool:
        """Switches to the last commit of every file, including new shards of a folder.

        Molecules keep their numbers if files have only grown at the end; a subset keeps its
        numbers.

        Returns:
            True if anything was committed.

        Raises:
            IndexError: molecules of a subset no longer exist; the data set is unchanged.
            CorruptFileError: a header, schema or index violates the format.
        """
        with self._remote.refreshing():
            files = files_of(self._path, self._remote)
            snapshots = [snapshot_of(file, self._remote) for file in files]
            self._check_selection(sum(snapshot.n_molecules for snapshot in snapshots))
        before = [(f, s.__getstate__()) for f, s in zip(self._files, self._snapshots, strict=True)]
        after = [(f, s.__getstate__()) for f, s in zip(files, snapshots, strict=True)]
        self._files, self._snapshots = files, snapshots
        self._reset(has_changed=before != after)
        return before != after

    def _block_sizes(self) -> Tensor:
        return torch.tensor([s.n_molecules for s in self._snapshots], dtype=torch.int64)

    def _atom_counts(self) -> Tensor:
        counts = torch.empty(self._size(), dtype=torch.int64)
        first = 0
        for file, snapshot in zip(self._files, self._snapshots, strict=True):
            part = counts[first : first + snapshot.n_molecules]
            place, store = self._remote.location(file)
            read_atom_counts(place, snapshot, part.data_ptr(), store)
            first += snapshot.n_molecules
        return counts

    def _open_parts(self) -> list[MoleculeSource]:
        if any(map(is_url, self._files)):
            self._needs_process = os.getpid()
        parts: list[MoleculeSource] = []
        for file, snapshot in zip(self._files, self._snapshots, strict=True):
            place, store = self._remote.location(file)
            parts.append(AtpReader(place, snapshot, self._access, self._populate, store))
        return parts

    def _identity(self) -> Any:
        states = [list(snapshot.__getstate__()) for snapshot in self._snapshots]
        return [list(map(shown_url, self._files)), states]

    def __repr__(self) -> str:
        one = len(self._files) == 1
        file = self._files[0]
        shown = repr(shown_url(file) if is_url(file) else file)
        files = shown if one else f"{len(self._files)} files"
        return f"AtpDataset({len(self)} molecules in {files})"
