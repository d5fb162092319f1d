"""Molecules from .atp files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from atompack_torch._core import (
    AtpReader,
    AtpSnapshot,
    Collator,
    ConcatSource,
    MoleculeSource,
    read_atom_counts,
)
from atompack_torch.batch import RESERVED
from atompack_torch.datasets._base import MoleculeDataset, Transform, declared_by
from atompack_torch.errors import FieldError, UnsupportedFormatError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    DERIVED,
    MOLECULE_PROPERTY,
    STRUCTURE,
    FieldId,
    prefixed_id,
    public_names,
)
from atompack_torch.neighbors import NeighborList

DTypes = torch.dtype | Mapping[str, torch.dtype]
_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class AtpDataset(MoleculeDataset):
    """Molecules of ``.atp`` files as one map-style data set.

        for batch in DataLoader(AtpDataset("data.atp"), batch_size=64, shuffle=True):
            ...

    Opening reads the headers alone; the index stays mapped. The data set goes on reading the
    generation that it saw then, in every process that it is sent to, while a writer appends;
    ``refresh()`` moves on. It may be used from several threads at once.

    Args:
        path: a file, a list of files, or a folder whose ``**/*.atp`` are shards, in the plain
            order of their paths.
        fields: labels to read (builtins by name, custom properties by key, or with their scope as
            ``properties/KEY``, ``atom_properties/KEY``); None: all of the schema. Positions and
            atomic numbers are always there.
        exclude: labels to leave out.
        dtype: of every floating field but ``energy``; or a dict that casts what it names. Cast
            while copying; None: as stored.
        missing: what becomes of a molecule that lacks one of ``fields``: ``"nan"`` fills NaN (0,
            False, None) and masks it, ``"error"`` raises ``FieldError``, ``"drop"`` leaves it out
            of the batch.
        neighbors: a ``NeighborList``: batches then hold the edges of its search.
        cache: not available yet.
        transform: called with every batch, in the process that made it; what it returns is what
            you get.
        access: advice to the system on how the files will be read: ``"auto"``, ``"random"``,
            ``"sequential"``.
        populate: read the files into memory when they are mapped.
        num_threads: at most this many threads for a batch; None: as many as torch uses. One in
            DataLoader workers.

    Raises:
        CorruptFileError: a header, schema or index contradicts the format.
        UnsupportedFormatError: a version that is not read here, or an option to come.
        FieldError: a field that no file has.
        OSError: a file cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        fields: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        dtype: DTypes | None = None,
        missing: Literal["nan", "error", "drop"] = "nan",
        neighbors: NeighborList | None = None,
        cache: Any = None,
        transform: Transform | None = None,
        access: Literal["auto", "random", "sequential"] = "auto",
        populate: bool = False,
        num_threads: int | None = None,
    ) -> None:
        if cache is not None:
            raise UnsupportedFormatError("cache= is not available in this version")
        if neighbors is not None and not isinstance(neighbors, NeighborList):
            raise TypeError(f"neighbors: expected a NeighborList, got {type(neighbors).__name__}")
        _check_choice("missing", missing, ("nan", "error", "drop"))
        _check_choice("access", access, ("auto", "random", "sequential"))
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads: expected a positive number or None, got {num_threads}")
        if transform is not None and not callable(transform):
            raise TypeError(f"transform: expected a callable, got {type(transform).__name__}")
        self._path = path
        self._fields = _names("fields", fields)
        self._exclude = _names("exclude", exclude) or ()
        self._dtype = _checked_dtype(dtype)
        self._missing = missing
        self._neighbors = neighbors
        self._transform = transform
        self._access = access
        self._populate = populate
        self._num_threads = num_threads
        self._files = files_of(path)
        self._snapshots = [AtpSnapshot.take(file) for file in self._files]
        if self._fields is not None or self._exclude or isinstance(self._dtype, Mapping):
            self._collator()  # names are checked here and now

    def _size(self) -> int:
        return sum(snapshot.n_molecules for snapshot in self._snapshots)

    def refresh(self) -> bool:
        """Takes up what was committed since, new shards of a folder too; True if there was any.

        Molecules keep their numbers where files only grew at the end; a subset keeps its numbers.
        """
        files = files_of(self._path)
        snapshots = [AtpSnapshot.take(file) for file in files]
        before = [(f, s.__getstate__()) for f, s in zip(self._files, self._snapshots, strict=True)]
        after = [(f, s.__getstate__()) for f, s in zip(files, snapshots, strict=True)]
        self._files, self._snapshots, self._native = files, snapshots, None
        return before != after

    def close(self) -> None:
        """Lets go of the mappings; the next read opens them again."""
        self._native = None

    def __enter__(self) -> AtpDataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _atom_counts(self) -> Tensor:
        counts = torch.empty(self._size(), dtype=torch.int64)
        first = 0
        for file, snapshot in zip(self._files, self._snapshots, strict=True):
            part = counts[first : first + snapshot.n_molecules]
            read_atom_counts(file, snapshot, part.data_ptr())
            first += snapshot.n_molecules
        return counts

    def _options(self) -> dict[str, Any]:
        return {
            "fields": self._fields,
            "exclude": self._exclude,
            "dtype": self._dtype,
            "missing": self._missing,
            "transform": self._transform,
            "access": self._access,
            "populate": self._populate,
            "neighbors": self._neighbors,
            "num_threads": self._num_threads,
        }

    def _open_source(self) -> MoleculeSource:
        parts: list[MoleculeSource] = [
            AtpReader(file, snapshot, self._access, self._populate)
            for file, snapshot in zip(self._files, self._snapshots, strict=True)
        ]
        return parts[0] if len(parts) == 1 else ConcatSource(parts)

    def _collator_over(self, source: MoleculeSource) -> Collator:
        declared = declared_by(source)
        names = dict(zip(public_names(declared, RESERVED), declared, strict=True))
        fields = None
        asked: list[str] = []
        if self._fields is not None:
            fields = _ids_of(self._fields, names, self._path)
            asked = [field.key for field in fields if field not in declared]
            # What the source says of itself is no label, and always there.
            fields += [
                field for field in declared if field.scope == BUILTIN and field.key in DERIVED
            ]
        floating, casts = _casts_of(self._dtype, names, self._path)
        return Collator(
            source,
            fields=fields,
            excluded=[field for name in self._exclude for field in _any_scope(name, names)],
            defaults=[
                (BUILTIN, key, builtin.level, builtin.dtype, builtin.shape)
                for key, builtin in BUILTINS.items()
                if key in asked
            ],
            floating=floating,
            casts=casts,
            missing=self._missing,
            neighbors=self._neighbors.as_tuple() if self._neighbors else None,
            max_threads=self._num_threads or 0,
        )

    def __repr__(self) -> str:
        files = f"{self._files[0]!r}" if len(self._files) == 1 else f"{len(self._files)} files"
        return f"AtpDataset({len(self)} molecules in {files})"


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{option}: expected one of {', '.join(choices)}, got {value!r}")


def _names(option: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(names, str):
        raise TypeError(f"{option}: expected a list of names, got the string {names!r}")
    return None if names is None else tuple(names)


def _checked_dtype(dtype: DTypes | None) -> DTypes | None:
    if dtype is None:
        return None
    named = dict(dtype) if isinstance(dtype, Mapping) else {"every field": dtype}
    for name, wanted in named.items():
        if not isinstance(wanted, torch.dtype):
            raise TypeError(f"dtype: expected torch dtypes, got {wanted!r} for {name}")
        is_label = BUILTINS[name].dtype.startswith("float") if name in BUILTINS else False
        if wanted not in _FLOATING and (is_label or not isinstance(dtype, Mapping)):
            raise ValueError(f"dtype: expected a floating dtype for {name}, got {wanted}")
    return named if isinstance(dtype, Mapping) else dtype


def files_of(path: Any) -> list[str]:
    """Of a data set; absolute, so that a worker with another current folder finds them too."""
    if isinstance(path, (str, os.PathLike)):
        if Path(path).is_dir():
            return _shards_of(Path(path).absolute())
        return [str(Path(path).absolute())]
    files = [str(Path(file).absolute()) for file in path]
    if not files:
        raise ValueError("path: expected at least one file, got an empty list")
    return files


def _shards_of(folder: Path) -> list[str]:
    files = [file for file in folder.rglob("*.atp") if file.is_file()]
    if not files:
        raise FileNotFoundError(f"{folder}: no .atp file in this folder")
    return [str(file) for file in sorted(files, key=lambda file: file.as_posix())]


def _ids_of(names: Sequence[str], known: Mapping[str, FieldId], path: Any) -> list[FieldId]:
    """The fields behind names; builtins may be asked for though no file has them."""
    ids = []
    for name in names:
        if name in STRUCTURE:
            continue
        found = known.get(name) or prefixed_id(name)
        if found not in known.values():
            found = FieldId(BUILTIN, name) if name in BUILTINS else None
        if found is None:
            there = ", ".join(map(repr, known)) or "none"
            raise FieldError(f"{path}: no field {name!r}: expected one of {there} (field {name!r})")
        ids.append(found)
    return ids


def _any_scope(name: str, known: Mapping[str, FieldId]) -> list[FieldId]:
    """What a name may stand for, also in a record whose schema does not list it."""
    found = known.get(name) or prefixed_id(name)
    if found is not None:
        return [found]
    if name in BUILTINS:
        return [FieldId(BUILTIN, name)]
    return [FieldId(ATOM_PROPERTY, name), FieldId(MOLECULE_PROPERTY, name)]


def _casts_of(
    dtype: DTypes | None, known: Mapping[str, FieldId], path: Any
) -> tuple[str | None, list[tuple[FieldId, str]]]:
    if dtype is None:
        return None, []
    if isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch."), []
    casts = []
    for name, wanted in dtype.items():
        target = str(wanted).removeprefix("torch.")
        if name == "positions":
            casts.append((FieldId(BUILTIN, name), target))
        else:
            casts += [(field, target) for field in _ids_of([name], known, path)]
    return None, casts
