"""Molecules from .atp files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from atompack_torch._native import AtpReader, MoleculeSource, read_atom_counts
from atompack_torch.datasets.options import MoleculeOptions
from atompack_torch.formats.atp.files import files_of, snapshot_of, warn_of_missing_parts
from atompack_torch.formats.molecule_files import MoleculeFiles
from atompack_torch.options import (
    BUFFERS,
    MEMORY,
    Buffer,
    PathLike,
    is_url,
    redact_path,
    with_fields,
)
from atompack_torch.remote.files import MemoryFiles, RemoteFiles


@dataclass(frozen=True)
class AtpOptions(MoleculeOptions):
    """Options of ``AtpDataset``."""

    path: PathLike | Sequence[PathLike] | Buffer


class AtpDataset(MoleculeFiles):
    """Molecules of ``.atp`` files as one map-style dataset.

        for batch in DataLoader(AtpDataset("data.atp"), batch_size=64, shuffle=True):
            ...

    Opening reads only the headers; the index stays mapped. The dataset keeps reading the commit
    that it saw then, in every process that it is sent to, while a writer appends; ``refresh()``
    switches to the last commit. Several threads may use it at the same time.
    """

    @with_fields(AtpOptions)
    def __init__(self, path: PathLike | Sequence[PathLike] | Buffer, **options: Any) -> None:
        """Opens the files.

        Args:
            path: a file, a list of files, or a folder whose ``**/*.atp`` are shards, sorted by
                path; each a path or a URL (``s3://``, ``gs://``, ``az://``, ``https://``,
                ``hf://datasets/OWNER/NAME/PATH``, or of fsspec). A folder in which parts of
                ``convert(part=)`` are missing is warned of. Bytes of remote files are fetched as
                batches need them; ``Loader`` fetches many ahead. Or the bytes of one file:
                ``bytes``, ``bytearray`` or a ``memoryview`` of any buffer, which is read without a
                copy and must not be changed. Errors name it ``<memory>``; a pickle carries all of
                it.
            **options: the fields of ``MoleculeOptions``.

        Raises:
            TypeError: an option has the wrong type.
            ValueError: an option does not have one of its values.
            CorruptFileError: a header, schema or index violates the format.
            UnsupportedFormatError: the version of a file is not supported.
            FieldError: no file has a field; the message names similar ones. A field that only some
                files have is masked for the others.
            OSError: a file cannot be opened, or ``access="direct"`` is not possible: io_uring is
                forbidden (as in many containers), or the file system has no direct reads. For a
                URL: FileNotFoundError, PermissionError, TimeoutError, or ESTALE if the object has
                changed since it was opened.
        """
        given = AtpOptions.of(path, options)
        self._remote = RemoteFiles.checked(given.storage_options, path)
        if isinstance(path, BUFFERS):
            self._remote = MemoryFiles({MEMORY: path})
            path = MEMORY
        self._path = path
        self._use(given)
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
            IndexError: molecules of a subset no longer exist; the dataset is unchanged.
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
            read_atom_counts(self._remote.location(file), snapshot, part.numpy())
            first += snapshot.n_molecules
        return counts

    def _open_parts(self) -> list[MoleculeSource]:
        if any(map(is_url, self._files)):
            self._needs_process = os.getpid()
        parts: list[MoleculeSource] = []
        for file, snapshot in zip(self._files, self._snapshots, strict=True):
            parts.append(AtpReader(self._remote.location(file), snapshot, *self._native_access))
        return parts

    def _identity(self) -> Any:
        states = [list(snapshot.__getstate__()) for snapshot in self._snapshots]
        return [list(map(redact_path, self._files)), states]

    def __repr__(self) -> str:
        one = len(self._files) == 1
        file = self._files[0]
        files = repr(redact_path(file)) if one else f"{len(self._files)} files"
        return f"AtpDataset({len(self)} molecules in {files})"
