"""Base of the datasets whose molecules are parsed when they are read."""

from __future__ import annotations

import copy
import errno
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from atompack_torch._native import FieldMap, MoleculeSource, ParsedIndex
from atompack_torch.datasets.options import MoleculeOptions
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY, FileLevel, checked_names
from atompack_torch.formats.extxyz.keys import (
    FoundKey,
    Kind,
    NativeTarget,
    field_map,
    found_keys,
)
from atompack_torch.formats.indexes import FileVersion
from atompack_torch.formats.label_hints import name_warnings
from atompack_torch.formats.molecule_files import MoleculeFiles
from atompack_torch.formats.paths import listed
from atompack_torch.options import ChangeOptions, PathLike, absolute_path, bytes_at, is_url
from atompack_torch.remote.files import RemoteFiles

_KINDS: tuple[Kind, ...] = ("null", "flag", "integer", "real", "text")

Self = TypeVar("Self", bound="ParsedFiles")


@dataclass(frozen=True)
class ParsedOptions(MoleculeOptions):
    """Options of datasets of files that are parsed when they are read.

    Labels that are NaN throughout are always missing; ``nan_is_missing`` is about custom
    properties alone.

    Attributes:
        key_map: name in the file → label or name of a custom property, for instance
            ``{"REF_energy": "energy", "REF_forces": "forces"}``; takes precedence over the names
            that are known.
        index: keep the index; False: make it again each time, including in workers that are
            spawned.
    """

    path: PathLike | Sequence[PathLike]
    _: KW_ONLY
    key_map: Mapping[str, str] | None = None
    index: bool = True


class ParsedFiles(MoleculeFiles):
    """Molecules of text files, found by an index of each file.

    Indexes are not part of pickles: another process reads those that were kept, or makes them
    again. Fields and types are those of all files together.
    """

    _format: str  # for messages
    _keeps_index: bool
    _versions: list[FileVersion]
    _counts: list[int]
    _targets: list[NativeTarget]
    _ignored: list[tuple[FileLevel, str]]  # keys that became no field
    _has_cells: bool
    _indexes: list[ParsedIndex] | None = None
    _keeps_nan = False
    _key_map: dict[str, str]

    def _open_path(self, options: ParsedOptions) -> None:
        """Sets the options, and finds the molecules."""
        self._path = options.path
        RemoteFiles.checked(options.storage_options)
        self._keeps_index = options.index
        self._key_map = checked_names(options.key_map)
        named = {name: [key] for key, name in self._key_map.items()}
        for warning in name_warnings(named, ChangeOptions(), " of apt.convert"):
            warnings.warn(f"key_map: {warning}", stacklevel=4)
        self._use(options)
        self._take_files(*self._index_files())
        self._check_names()

    def _files_in(self, folder: str) -> list[str]:
        """Lists the files of a folder."""
        raise NotImplementedError

    def _find_files(self) -> list[str]:
        """Lists the files as absolute paths."""
        files: list[str] = []
        for path in listed(self._path):
            if is_url(path):
                raise ValueError(
                    f"path: expected a local path of {self._format}, got a URL: download it, or "
                    "convert it"
                )
            whole = absolute_path(path)
            files += self._files_in(whole) if Path(whole).is_dir() else [whole]
        return files

    @property
    def _shown(self) -> str:
        """The path for messages; of several paths only what they are."""
        return os.fspath(self._path) if isinstance(self._path, (str, os.PathLike)) else "files"

    def _index_file(self, file: str) -> tuple[ParsedIndex, FileVersion]:
        """Returns the index of a file, and the version that it belongs to."""
        raise NotImplementedError

    def _map_fields(self, found: list[FoundKey]) -> list[NativeTarget]:
        """Returns the fields that the keys of all files become."""
        raise NotImplementedError

    def _open_file(
        self, file: str, version: FileVersion, index: ParsedIndex, fields: FieldMap
    ) -> MoleculeSource:
        """Opens a file."""
        raise NotImplementedError

    def _index_files(self) -> tuple[list[str], list[ParsedIndex], list[FileVersion]]:
        files = self._find_files()
        found = [self._index_file(file) for file in files]
        return files, [index for index, _ in found], [version for _, version in found]

    def _take_files(
        self, files: list[str], indexes: list[ParsedIndex], versions: list[FileVersion]
    ) -> None:
        fields = _joined_fields(found_keys(index.survey) for index in indexes)
        self._targets = self._map_fields(fields)
        of_atoms = {one[3] for one in self._targets if one[2] == ATOM_PROPERTY and one[4] != "text"}
        for _, _, scope, key, *_ in self._targets:
            if scope == MOLECULE_PROPERTY and key in of_atoms:
                text = f"properties/{key} omitted where the atoms have a property of this key"
                warnings.warn(f"{self._shown}: {text}", stacklevel=5)
        mapped = {target[:2] for target in self._targets}
        self._ignored = [field[:2] for field in fields if field[:2] not in mapped]
        self._files, self._indexes, self._versions = files, indexes, versions
        self._counts = [len(index) for index in indexes]
        self._has_cells = any(index.survey.has_cells for index in indexes)

    def _loaded_indexes(self) -> list[ParsedIndex]:
        if self._indexes is None:  # in another process
            indexes = []
            for file, before in zip(self._files, self._versions, strict=True):
                index, version = self._index_file(file)
                if version != before:
                    raise OSError(
                        errno.ESTALE, "the file was changed since it was opened: refresh()", file
                    )
                indexes.append(index)
            self._indexes = indexes
        return self._indexes

    def _size(self) -> int:
        return sum(self._counts)

    def refresh(self) -> bool:
        """Reads the present state of the files, including new files of a folder.

        Returns:
            True if anything has changed.

        Raises:
            IndexError: molecules of a subset no longer exist; the dataset is unchanged.
            CorruptFileError: a file is damaged.
            FieldError: keys denote one field.
        """
        files, indexes, versions = self._index_files()
        has_changed = (files, versions) != (self._files, self._versions)
        if has_changed:
            self._check_selection(sum(map(len, indexes)))
            self._take_files(files, indexes, versions)
            self._reset(has_changed=True)
        return has_changed

    def _block_sizes(self) -> Tensor:
        return torch.tensor(self._counts, dtype=torch.int64)

    def _atom_counts(self) -> Tensor:
        counts = torch.empty(self._size(), dtype=torch.int64)
        first = 0
        for index in self._loaded_indexes():
            part = counts[first : first + len(index)]
            index.copy_counts(part.numpy())
            first += len(index)
        return counts

    def _open_parts(self) -> list[MoleculeSource]:
        fields = field_map(
            self._targets, self._has_cells, keeps_nan=self._keeps_nan, ignored=self._ignored
        )
        opened = zip(self._files, self._versions, self._loaded_indexes(), strict=True)
        parts = []
        for file, version, index in opened:
            try:
                parts.append(self._open_file(file, version, index, fields))
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                text = "too many open files: raise the limit (`ulimit -n`), or join the files"
                raise OSError(error.errno, f"{text} by `convert`", file) from None
        return parts

    def _identity(self) -> Any:
        return [self._files, [list(version) for version in self._versions]]

    def _with_nan_labels(self: Self) -> Self:
        """Returns a copy in which labels that are NaN throughout are not missing."""
        part = copy.copy(self)
        part._keeps_nan, part._native = True, None
        return part

    def _describe_files(self) -> list[dict[str, Any]]:
        """Returns path, counts and size of each file."""
        n_atoms = [int(part.sum()) for part in torch.split(self._atom_counts(), self._counts)]
        return [
            {"path": file, "n_molecules": n, "n_atoms": atoms, "file_bytes": bytes_at(Path(file))}
            for file, n, atoms in zip(self._files, self._counts, n_atoms, strict=True)
        ]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_indexes", None)
        return state

    def __repr__(self) -> str:
        one = len(self._files) == 1
        files = repr(self._files[0]) if one else f"{len(self._files)} files"
        return f"{type(self).__name__}({len(self)} molecules in {files})"


def _joined_fields(found: Iterable[list[FoundKey]]) -> list[FoundKey]:
    """Returns the keys of several files: the widest kind, and the shape if they agree."""
    fields: dict[tuple[str, str], FoundKey] = {}
    for of_file in found:
        for new in of_file:
            old = fields.setdefault((new.level, new.key), new)
            if old.kind == "null" or new.kind == "null":
                fields[new.level, new.key] = max(old, new, key=lambda f: _KINDS.index(f.kind))
                continue
            kind = max(old.kind, new.kind, key=_KINDS.index)
            shape = old.shape if old.shape == new.shape else None
            is_narrow = old.is_narrow and new.is_narrow and old.kind == new.kind
            fields[new.level, new.key] = FoundKey(new.level, new.key, kind, shape, is_narrow)
    return list(fields.values())
