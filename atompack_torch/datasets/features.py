"""Options on features: where they come from, and which of them stay in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from torch import Tensor

from atompack_torch._native import MoleculeSource
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.options import PathLike, check_choice, check_type, checked_integer

Keep = Literal["none", "train", "all"]


class Stored(NamedTuple):
    """Sections of a cache file, their descriptor, and whether entries lack rows in them."""

    features: bool = False
    derivatives: bool = False
    descriptor: ChebyshevDescriptor | None = None
    lacks_features: bool = False
    lacks_derivatives: bool = False


class RowSource(Protocol):
    """A ``TorchCache``: additional fields of the molecules."""

    def _open_rows(self) -> MoleculeSource: ...

    def without_mapping(self) -> RowSource:
        """Returns a copy that reads files without mapping them."""

    def _stored_features(self) -> Stored: ...

    def _force_entries(self) -> Tensor: ...


@dataclass(frozen=True)
class Features:
    """Features of a dataset of molecules: stored, computed or both, and kept in memory.

        descriptor = apt.ChebyshevDescriptor(["O", "H"], 8, 5.0, 3, 3.5)
        apt.AtpDataset("water.atp", features=apt.Features(descriptor=descriptor, keep="train"))

    Args:
        cache: a ``TorchCache``, or its path, of the same molecules in the same order. The first
            time that a molecule is read, its elements, positions and cell are compared with those
            that the cache was made of (of caches by other programs: elements, and positions or
            energy).
        descriptor: computes ``"features"`` and, if they are named in ``fields``,
            ``"force_derivatives"``, unless the cache holds those of this descriptor, which are
            then cast to its dtype; entries without a row are computed. Derivatives are computed
            for molecules with forces. Positions and cell are used as stored; the computation takes
            place between the steps (``Loader``) or in the workers (``DataLoader``).
        keep: features, computed or stored, to keep in memory for the next epoch: ``"none"``,
            ``"all"``, or ``"train"`` for the first part of ``split()`` only. Each process keeps its
            own, also each worker of a ``DataLoader``. Derivatives are never kept. Stored features
            can only be kept with ``missing="nan"``, and not along with derivatives that are
            computed.
        max_bytes: limit on the bytes of kept features, first come, first kept; None: no limit.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option is out of range.
    """

    cache: RowSource | PathLike | None = None
    descriptor: ChebyshevDescriptor | None = None
    keep: Keep = "none"
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if not (self.cache is None or _is_cache(self.cache)):
            raise TypeError(f"cache: expected a TorchCache, got {type(self.cache).__name__}")
        check_type("descriptor", self.descriptor, ChebyshevDescriptor)
        check_choice("keep", self.keep, ("none", "train", "all"))
        if self.max_bytes is not None:
            checked_integer("max_bytes", self.max_bytes, 0)


def features_of(given: Any) -> Features:
    """Returns what a user gave as ``features=`` with all its options.

    Args:
        given: a ``Features``, a cache or its path, a descriptor, or None.

    Returns:
        The options.

    Raises:
        TypeError: it is something else.
    """
    if given is None or isinstance(given, Features):
        return given or Features()
    if isinstance(given, ChebyshevDescriptor):
        return Features(descriptor=given)
    if _is_cache(given):
        return Features(given)
    raise TypeError(
        "features: expected a TorchCache, a path, a ChebyshevDescriptor or Features, got "
        f"{type(given).__name__}"
    )


def _is_cache(value: object) -> bool:
    return isinstance(value, (str, os.PathLike)) or hasattr(value, "_open_rows")
