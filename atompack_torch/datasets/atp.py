"""Molecules from .atp files."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from atompack_torch._native import (
    AtpReader,
    ConcatSource,
    JoinedSource,
    MoleculeSource,
    read_atom_counts,
)
from atompack_torch.datasets._base import MoleculeDataset
from atompack_torch.datasets._computed import (
    CacheFeatures,
    Options,
    Stored,
    planned,
    structure_request,
)
from atompack_torch.datasets._forces import ForceChoice
from atompack_torch.datasets._request import DTypes, Missing, Request, Transform
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.descriptors.chebyshev import ChebyshevDescriptor
from atompack_torch.options import check_choice
from atompack_torch.passes.atp_files import files_of, snapshot_of

_AT_ONCE = 1024  # molecules of a batch, where the data set itself looks through its files


class RowSource(Protocol):
    """A ``TorchCache``: fields of molecules that stand elsewhere."""

    def _open_rows(self) -> MoleculeSource: ...

    def _by_reading(self) -> RowSource: ...

    def _stored(self) -> Stored: ...

    def _force_entries(self) -> Tensor: ...


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
        exclude: labels to leave out; names that no file has are ignored.
        dtype: of every floating field but ``energy``; or a dict that casts what it names. Cast
            while copying; None: as stored.
        missing: what becomes of a molecule that lacks one of ``fields``: ``"nan"`` fills NaN (0,
            False, None) and masks it, ``"error"`` raises ``FieldError``, ``"drop"`` leaves it out
            of the batch. ``cell`` and ``pbc`` are not judged: a structure without them is open,
            and has zeros and False there, masked.
        neighbors: a ``NeighborList``: batches then hold the edges of its search.
        cache: a ``TorchCache`` of the same molecules in the same order: its ``"features"`` and
            ``"force_derivatives"`` are fields then.
        descriptor: what computes ``"features"`` and, where they are named in ``fields``,
            ``"force_derivatives"``, unless the cache holds those of this descriptor. Derivatives
            are those of molecules with forces. Computed from positions and cell as stored, between
            the steps (``Loader``) or in the workers (``DataLoader``).
        cache_features: computed features that are kept in memory for the next epoch: ``"none"``,
            ``"all"``, or ``"train"``: but for the parts of ``split()`` behind the first. In this
            process: each DataLoader worker keeps its own, as long as it lives. Derivatives are
            not kept.
        cache_bytes: at most so many are kept, of what comes first; None: no limit.
        force_fraction: share of the molecules with forces (of this data set, or part of it) that
            keep them, and their derivatives; the others come without, as if they had none, and
            ``batch.mask("forces")`` tells. Without a cache, which knows where forces are, opening
            takes a pass over the labels.
        resample_forces: draw them anew for each ``set_epoch``.
        seed: of the choice of forces.
        transform: called with every batch, in the process that made it; what it returns is what
            you get.
        access: advice to the system on how the files will be read: ``"auto"``, ``"random"``,
            ``"sequential"``.
        populate: read the files into memory when they are mapped.
        num_threads: at most this many threads for a batch; None: as many as torch uses. One in
            DataLoader workers.
        nan_is_missing: stored labels and custom properties that are NaN throughout count as
            absent: masked, and ``missing`` judges them. (Values of a ``cache`` are not looked at.)

    Raises:
        CorruptFileError: a header, schema or index contradicts the format.
        UnsupportedFormatError: a version that is not read here, or an option to come.
        FieldError: a field that no file has (one that only some have is masked for the others);
            the message names similar ones.
        OSError: a file cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
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
        access: Literal["auto", "random", "sequential"] = "auto",
        populate: bool = False,
        num_threads: int | None = None,
        nan_is_missing: bool = False,
    ) -> None:
        check_choice("access", access, ("auto", "random", "sequential"))
        self._path = path
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
        self._access: str = access
        self._populate = populate
        if cache is not None and not hasattr(cache, "_open_rows"):
            hint = ""
            if isinstance(cache, (str, os.PathLike)):
                hint = f": pass cache=TorchCache({os.fspath(cache)!r})"
            raise TypeError(f"cache: expected a TorchCache, got {type(cache).__name__}{hint}")
        self._cache = cache
        self._forces = ForceChoice.checked(force_fraction, resample_forces, seed, missing)
        stored = Stored() if cache is None else cache._stored()
        options = Options(descriptor, cache_features, cache_bytes)
        self._request, self._computing = planned(request, stored, options)
        self._keeps = cache_features != "none"
        self._files = files_of(path)
        self._snapshots = [snapshot_of(file) for file in self._files]
        self._with_forces = self._found_forces()
        if self._request.names_fields or cache is not None:
            self._batcher()  # names are checked here and now

    def _size(self) -> int:
        return sum(snapshot.n_molecules for snapshot in self._snapshots)

    def refresh(self) -> bool:
        """Takes up what was committed since, new shards of a folder too; True if there was any.

        Molecules keep their numbers where files only grew at the end; a subset keeps its numbers.
        """
        files = files_of(self._path)
        snapshots = [snapshot_of(file) for file in files]
        before = [(f, s.__getstate__()) for f, s in zip(self._files, self._snapshots, strict=True)]
        after = [(f, s.__getstate__()) for f, s in zip(files, snapshots, strict=True)]
        self._files, self._snapshots, self._native = files, snapshots, None
        self._structures, self._with_forces = None, self._found_forces()
        if self._computing is not None and before != after:
            self._computing.kept.clear()
        return before != after

    def close(self) -> None:
        """Lets go of the mappings; the next read opens them again."""
        self._native = None

    def __enter__(self) -> AtpDataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _found_forces(self) -> Tensor | None:
        """(number of molecules,) bool, where a choice is made among those with forces."""
        if self._forces is None or self._cache is not None:
            return None
        plain = copy.copy(self)  # the generation that this one sees
        plain._request = structure_request(self._request)
        plain._computing = plain._forces = plain._selection = None
        masks = [plain[k : k + _AT_ONCE].mask("forces") for k in range(0, len(plain), _AT_ONCE)]
        return torch.cat([torch.zeros(0, dtype=torch.bool), *masks])

    def _force_entries(self) -> Tensor:
        if self._cache is not None:
            return self._cache._force_entries()
        assert self._with_forces is not None
        return torch.nonzero(self._with_forces).flatten()

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
            **self._request._asdict(),
            "access": self._access,
            "populate": self._populate,
            "cache": self._cache is not None,
            "force_fraction": self._forces,
        }

    def _open_source(self) -> MoleculeSource:
        parts: list[MoleculeSource] = [
            AtpReader(file, snapshot, self._access, self._populate)
            for file, snapshot in zip(self._files, self._snapshots, strict=True)
        ]
        source = self._request.judged(parts[0] if len(parts) == 1 else ConcatSource(parts))
        return source if self._cache is None else JoinedSource(source, self._cache._open_rows())

    def _by_reading(self) -> AtpDataset:
        part = copy.copy(self)
        part._access, part._native = "read", None
        if self._cache is not None:
            part._cache = self._cache._by_reading()
        return part

    def _identity(self) -> Any:
        states = [list(snapshot.__getstate__()) for snapshot in self._snapshots]
        return [self._files, states]

    def __repr__(self) -> str:
        files = f"{self._files[0]!r}" if len(self._files) == 1 else f"{len(self._files)} files"
        return f"AtpDataset({len(self)} molecules in {files})"
