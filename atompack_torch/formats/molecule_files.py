"""Base of the data sets of molecules in files, which have all options in common."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from atompack_torch._native import ConcatSource, JoinedSource, MoleculeSource
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.computed_features import (
    CacheFeatures,
    Options,
    Stored,
    plan_features,
    structure_request,
)
from atompack_torch.datasets.epoch import SharedEpoch
from atompack_torch.datasets.force_subset import ForceChoice
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.options import DTypes, Missing
from atompack_torch.datasets.request import Request, Transform
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.options import check_choice, shown_path

Access = Literal["auto", "random", "sequential", "read", "direct"]
Self = TypeVar("Self", bound="MoleculeFiles")

_AT_ONCE = 1024  # molecules per batch in passes of the data set itself


class RowSource(Protocol):
    """A ``TorchCache``: additional fields of the molecules."""

    def _open_rows(self) -> MoleculeSource: ...

    def _without_mapping(self) -> RowSource: ...

    def _stored_features(self) -> Stored: ...

    def _force_entries(self) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options of all data sets of molecules in files; see ``AtpDataset``."""

    fields: Sequence[str] | None
    exclude: Sequence[str]
    dtype: DTypes | None
    missing: Missing
    neighbors: NeighborList | None
    cache: RowSource | None
    descriptor: ChebyshevDescriptor | None
    cache_features: CacheFeatures
    cache_bytes: int | None
    force_fraction: float
    resample_forces: bool
    seed: int
    transform: Transform | None
    access: Access
    populate: bool
    num_threads: int | None
    nan_is_missing: bool


class MoleculeFiles(MoleculeDataset):
    """Molecules of files, in order.

    Subclasses set ``_path``, call ``_take_options``, find their files, and call ``_check_names``.
    """

    _files: list[str]
    _cache: RowSource | None
    _access: str
    _populate: bool
    _with_forces: Tensor | None

    def _open_parts(self) -> list[MoleculeSource]:
        """Opens a source for each file."""
        raise NotImplementedError

    def _take_options(self, options: FileOptions) -> None:
        """Checks and sets the options.

        Args:
            options: as given by the user.

        Raises:
            TypeError: an option has the wrong type.
            ValueError: an option does not have one of its values.
        """
        check_choice("access", options.access, get_args(Access))
        request = Request.checked(
            fields=options.fields,
            exclude=options.exclude,
            dtype=options.dtype,
            missing=options.missing,
            neighbors=options.neighbors,
            transform=options.transform,
            num_threads=options.num_threads,
            nan_is_missing=options.nan_is_missing,
        )
        self._access = options.access
        self._populate = options.populate
        cache = options.cache
        if cache is not None and not hasattr(cache, "_open_rows"):
            hint = ""
            if isinstance(cache, (str, os.PathLike)):
                hint = f": pass cache=TorchCache({os.fspath(cache)!r})"
            raise TypeError(f"cache: expected a TorchCache, got {type(cache).__name__}{hint}")
        self._cache = cache
        self._forces = ForceChoice.checked(
            options.force_fraction, options.resample_forces, options.seed, options.missing
        )
        self._clock = SharedEpoch() if self._resamples else None
        stored = Stored() if cache is None else cache._stored_features()
        computed = Options(options.descriptor, options.cache_features, options.cache_bytes)
        self._request, self._computer = plan_features(request, stored, computed)
        self._keeps_features = options.cache_features != "none"

    def _check_names(self) -> None:
        """Raises FieldError if no file has a field that is named, once the files are known."""
        self._with_forces = self._find_forces()
        if self._request.names_fields or self._cache is not None:
            self._batcher()

    def _reset(self, *, has_changed: bool) -> None:
        """Drops what was made of the former state of the files."""
        self._native = self._structures = self._digests = None
        self._with_forces = self._find_forces()
        if self._computer is not None and has_changed:
            self._computer.kept.clear()

    @property
    def path(self) -> Path | str | tuple[Path | str, ...]:
        """Path as given: a ``Path``, a URL as a string, or a tuple of them for a list.

        ``"<memory>"`` for a buffer.
        """
        return shown_path(self._path)

    def _find_forces(self) -> Tensor | None:
        """Finds molecules with forces, (number of molecules,) bool, if they are sampled."""
        if self._forces is None or self._cache is not None:
            return None
        plain = copy.copy(self)  # it reads the same commit
        plain._request = structure_request(self._request)
        plain._computer = plain._forces = plain._selection = None
        masks = [plain[k : k + _AT_ONCE].mask("forces") for k in range(0, len(plain), _AT_ONCE)]
        return torch.cat([torch.zeros(0, dtype=torch.bool), *masks])

    def _force_entries(self) -> Tensor:
        if self._cache is not None:
            return self._cache._force_entries()
        assert self._with_forces is not None
        return torch.nonzero(self._with_forces).flatten()

    def _place_of(self, number: int) -> tuple[str, int]:
        """Returns the file of a molecule of the whole data set, and its number in that file."""
        for file, count in zip(self._files, self._block_sizes().tolist(), strict=True):
            if number < count:
                return file, number
            number -= count
        raise IndexError(f"molecule: expected one of {self._size()}, got a later one")

    def _options(self) -> dict[str, Any]:
        return {
            **self._request._asdict(),
            "access": self._access,
            "populate": self._populate,
            "cache": self._cache is not None,
            "force_fraction": self._forces,
        }

    def _open_source(self) -> MoleculeSource:
        parts = self._open_parts()
        source = self._request.wrap_source(parts[0] if len(parts) == 1 else ConcatSource(parts))
        return source if self._cache is None else JoinedSource(source, self._cache._open_rows())

    def _without_mapping(self: Self) -> Self:
        part = copy.copy(self)
        part._access, part._native = "read", None
        if self._cache is not None:
            part._cache = self._cache._without_mapping()
        return part
