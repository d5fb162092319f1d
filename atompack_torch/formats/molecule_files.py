"""Base of the datasets of molecules in files, which have all options in common."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from atompack_torch._native import ConcatSource, JoinedSource, MoleculeSource
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.computed_features import structure_request
from atompack_torch.datasets.features import RowSource, Stored, features_of
from atompack_torch.datasets.options import Access, MoleculeOptions
from atompack_torch.datasets.request import Request
from atompack_torch.formats.torch_cache.dataset import TorchCache
from atompack_torch.options import shown_path

Self = TypeVar("Self", bound="MoleculeFiles")

_AT_ONCE = 1024  # molecules per batch in passes of the dataset itself


class MoleculeFiles(MoleculeDataset):
    """Molecules of files, in order.

    Subclasses set ``_path``, call ``_use``, find their files, and call ``_check_names``.
    """

    _files: list[str]
    _cache: RowSource | None
    _access: Access
    _with_forces: Tensor | None

    def _open_parts(self) -> list[MoleculeSource]:
        """Opens a source for each file."""
        raise NotImplementedError

    def _use(self, options: MoleculeOptions) -> None:
        """Sets the options.

        Args:
            options: as given by the user.
        """
        features = features_of(options.features)
        cache = features.cache
        if isinstance(cache, (str, os.PathLike)):
            cache = TorchCache(cache, storage_options=options.storage_options)
        self._cache = cache
        self._access = options.access
        stored = Stored() if cache is None else cache._stored_features()
        self._take_options(options, features, stored)

    def _check_names(self) -> None:
        """Raises FieldError if the request names a field that no file has."""
        self._with_forces = self._find_forces()
        if self._request.names_fields or self._cache is not None:
            self.batcher()
        self._check_augment()

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

    def with_request(self: Self, request: Request, *, computes_features: bool = True) -> Self:
        """Makes a copy that reads other things; see ``MoleculeDataset``.

        Args:
            request: replaces that of this dataset.
            computes_features: False for a copy without computed features.

        Returns:
            The copy, which opens the files again.
        """
        part = super().with_request(request, computes_features=computes_features)
        if request.renamed != self._request.renamed:
            part._with_forces = part._find_forces()
        return part

    @property
    def _native_access(self) -> tuple[str, bool]:
        """The options of native sources: advice on the mapping, and whether to read it all."""
        return ("auto", True) if self._access == "populate" else (self._access, False)

    def _find_forces(self) -> Tensor | None:
        """Finds molecules with forces, (number of molecules,) bool, if they are sampled."""
        if self._forces is None or self._cache is not None:
            return None
        plain = copy.copy(self)  # it reads the same commit
        plain._request = structure_request(replace(self._request, augment=None))
        plain._computer = plain._forces = plain._selection = None
        masks = [plain[k : k + _AT_ONCE].mask("forces") for k in range(0, len(plain), _AT_ONCE)]
        return torch.cat([torch.zeros(0, dtype=torch.bool), *masks])

    def _force_entries(self) -> Tensor:
        if self._cache is not None:
            return self._cache._force_entries()
        assert self._with_forces is not None
        return torch.nonzero(self._with_forces).flatten()

    def _place_of(self, number: int) -> tuple[str, int]:
        """Returns the file of a molecule of the whole dataset, and its number in that file."""
        for file, count in zip(self._files, self._block_sizes().tolist(), strict=True):
            if number < count:
                return file, number
            number -= count
        raise IndexError(f"molecule: expected one of {self._size()}, got a later one")

    def _options(self) -> dict[str, Any]:
        return {
            **vars(self._request),
            "access": self._access,
            "cache": self._cache is not None,
            "force_subset": self._forces,
        }

    def _open_source(self) -> MoleculeSource:
        parts = self._open_parts()
        source = self._request.wrap_source(parts[0] if len(parts) == 1 else ConcatSource(parts))
        return source if self._cache is None else JoinedSource(source, self._cache._open_rows())

    def without_mapping(self: Self) -> Self:
        """Returns a copy that reads files without mapping them.

        Returns:
            The copy.
        """
        part = copy.copy(self)
        part._access, part._native = "read", None
        if self._cache is not None:
            part._cache = self._cache.without_mapping()
        return part
