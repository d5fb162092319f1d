"""Options that all datasets have in common, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from dataclasses import fields as fields_of
from typing import Any, ClassVar, Literal, TypeVar, get_args

import torch

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.augment import Augment
from atompack_torch.datasets.features import Features, RowSource
from atompack_torch.datasets.force_subset import ForceSubset
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.fields import BUILTINS
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.options import (
    ChangeOptions,
    PathLike,
    check_choice,
    check_flags,
    check_threads,
    check_type,
)

DTypes = torch.dtype | Mapping[str, torch.dtype]
Missing = Literal["nan", "error", "drop"]
Access = Literal["auto", "populate", "random", "sequential", "direct", "read"]
Transform = Callable[[MoleculeBatch], Any]

_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

_Options = TypeVar("_Options", bound="MoleculeOptions")


@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """Options of every dataset, checked when they are made.

    Attributes:
        dtype: dtype of floating fields, or a dict from names to dtypes; None: as stored.
        missing: what becomes of items that lack a field: ``"nan"``, ``"error"`` or ``"drop"``.
        transform: called with every batch; None: batches stay as they are.
        num_threads: maximum number of threads for a batch; None: as many as torch uses.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option does not have one of its values.
    """

    dtype: DTypes | None = None
    missing: Missing = "nan"
    transform: Callable[[Any], Any] | None = None
    num_threads: int | None = None

    def __post_init__(self) -> None:
        _check_common(self)


@dataclass(frozen=True)
class MoleculeOptions:
    """Options of all datasets of molecules in files, checked when they are made.

    Attributes:
        path: where the molecules are, as for each class.
        fields: labels to read: builtin fields by name, custom properties by key or with their
            scope (``properties/KEY``, ``atom_properties/KEY``); None: all of the schema. Positions
            and atomic numbers are always read.
        exclude: labels to skip; names that no file has are ignored.
        dtype: dtype of all floating fields except ``energy``, or a dict from names to dtypes; cast
            while copying. None: as stored.
        missing: treatment of molecules that lack one of ``fields``: ``"nan"`` fills in NaN (0,
            False, None) and masks it, ``"error"`` raises ``FieldError``, ``"drop"`` skips the
            molecule. ``cell`` and ``pbc`` are exempt: a molecule without them is not periodic,
            with masked zeros and False.
        nan_is_missing: treat stored labels and custom properties that are NaN throughout as
            missing. Values of a feature cache are not checked.
        augment: an ``Augment``, random rotation, strain and noise of every molecule; None:
            molecules as stored.
        neighbors: a ``NeighborList``, whose edges are added to batches, together with ``cell`` and
            ``pbc``, whatever ``fields`` names.
        features: provides the fields ``"features"`` and ``"force_derivatives"``: a ``TorchCache``
            or its path (stored), a ``ChebyshevDescriptor`` (computed), or ``Features``, which can
            be both and may keep features in memory.
        force_subset: a ``ForceSubset``, the share of the molecules with forces that keep them;
            None: all.
        transform: called last, with every finished batch, in the process that made it; its result
            is returned instead. Edges are already present: in a batch that has some, other
            positions, another cell or other ``pbc`` are an error.
        access: how the files are read. ``"auto"`` maps them; ``"random"`` and ``"sequential"`` do
            so too, with advice to the system, and ``"populate"`` reads them into memory when they
            are opened. ``"read"`` reads them without mappings. ``"direct"`` reads records past the
            system's file cache (io_uring and O_DIRECT), which is for files larger than memory on
            fast local disks: up to 64 MiB are kept in each process. Files behind URLs are always
            fetched.
        num_threads: maximum number of threads for a batch; None: as many as torch uses. Always one
            in ``DataLoader`` workers.
        storage_options: for URLs: ``endpoint_url``, ``region``, ``profile``, ``key``, ``secret``,
            ``token``, ``anonymous``, ``headers`` and ``credentials`` (a callable); what is absent
            comes from the environment variables of AWS's and Hugging Face's tools. ``cache`` is a
            folder on local disk that keeps what was read, shared by all processes (None: blocks
            are kept in the memory of each process); ``cache_bytes`` the limit of that folder
            (None: 16 GiB), or of that memory (None: 256 MiB). For URLs that fsspec opens: these
            two and its own options.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option does not have one of its values.
    """

    former: ClassVar[Mapping[str, str]] = {
        "cache": "features=cache",
        "descriptor": "features=descriptor",
        "cache_features": "features=Features(..., keep=...)",
        "cache_bytes": "features=Features(..., max_bytes=...)",
        "force_fraction": "force_subset=ForceSubset(fraction)",
        "resample_forces": "force_subset=ForceSubset(fraction, resample=True)",
        "seed": "force_subset=ForceSubset(fraction, seed=...)",
        "populate": "access='populate'",
        "block_cache": "storage_options={'cache': ...}",
        "block_cache_bytes": "storage_options={'cache_bytes': ...}",
    }

    path: Any
    _: KW_ONLY
    fields: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    dtype: DTypes | None = None
    missing: Missing = "nan"
    nan_is_missing: bool = False
    augment: Augment | None = None
    neighbors: NeighborList | None = None
    features: Features | RowSource | ChebyshevDescriptor | PathLike | None = None
    force_subset: ForceSubset | None = None
    transform: Transform | None = None
    access: Access = "auto"
    num_threads: int | None = None
    storage_options: Mapping[str, object] | None = None

    @classmethod
    def of(cls: type[_Options], path: Any, options: Mapping[str, Any]) -> _Options:
        """Checks what a constructor was called with.

        Args:
            path: its path.
            options: its options by name.

        Returns:
            The options.

        Raises:
            TypeError: an option is unknown, or has the wrong type.
            ValueError: an option does not have one of its values.
        """
        known = [option.name for option in fields_of(cls)][1:]
        for name in options:
            if name in cls.former:
                raise TypeError(f"{name}: unknown option: use {cls.former[name]}")
            if name not in known:
                of_convert = ["key_map", *(option.name for option in fields_of(ChangeOptions))]
                hint = "; apt.convert has it, and makes a file" if name in of_convert else ""
                raise TypeError(f"{name}: unknown option: expected one of {', '.join(known)}{hint}")
        return cls(path, **options)

    def __post_init__(self) -> None:
        _check_common(self)
        check_choice("access", self.access, get_args(Access))
        check_flags(nan_is_missing=self.nan_is_missing)
        given: object = self.neighbors
        hint = f": pass neighbors=NeighborList({given})" if type(given) in (int, float) else ""
        check_type("neighbors", self.neighbors, NeighborList, hint)
        check_type("augment", self.augment, Augment)
        check_type("force_subset", self.force_subset, ForceSubset)
        if self.samples_forces and self.missing != "nan":
            raise ValueError(
                "force_subset: expected missing='nan', because molecules without forces stay, "
                f"got {self.missing!r}"
            )

    @property
    def samples_forces(self) -> bool:
        """True if some molecules lose their forces."""
        return self.force_subset is not None and self.force_subset.fraction < 1


def _check_common(options: DatasetOptions | MoleculeOptions) -> None:
    check_choice("missing", options.missing, ("nan", "error", "drop"))
    check_threads(options.num_threads)
    if options.transform is not None and not callable(options.transform):
        kind = type(options.transform).__name__
        raise TypeError(f"transform: expected a callable, got {kind}")
    if options.dtype is not None:
        _check_dtype(options.dtype)


def _check_dtype(dtype: DTypes) -> None:
    named = dtype if isinstance(dtype, Mapping) else {"every field": dtype}
    for name, wanted in named.items():
        if not isinstance(name, str):
            raise TypeError(f"dtype: expected names (str), got {name!r}")
        if not isinstance(wanted, torch.dtype):
            raise TypeError(f"dtype: expected torch dtypes, got {wanted!r} for {name}")
        is_label = BUILTINS[name].dtype.startswith("float") if name in BUILTINS else False
        if wanted not in _FLOATING and (is_label or not isinstance(dtype, Mapping)):
            raise ValueError(f"dtype: expected a floating dtype for {name}, got {wanted}")
