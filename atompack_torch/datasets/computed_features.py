"""Features that a dataset computes for its batches and may keep in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.molecule_batch import MoleculeBatch, with_fields
from atompack_torch.datasets.features import Features, Stored
from atompack_torch.datasets.options import DTypes
from atompack_torch.datasets.request import FORCE_DERIVATIVES, Request
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_INDICES, DERIVATIVES, FieldSpec
from atompack_torch.ops.chebyshev import ChebyshevDescriptor

# Input of the descriptor, and the label that decides where derivatives are needed.
STRUCTURE_FIELDS = ("cell", "pbc", "forces")

# Returns molecules with these fields, as stored, by their numbers in the whole dataset.
Structures = Callable[[Tensor], MoleculeBatch]


class FeatureStore:
    """Features by molecule, up to a limit in bytes; rows are never evicted.

    Pickles do not contain the rows. Threads may share a store: a thread that finds it locked skips
    storing, so no thread ever waits, not even for a lock that a fork inherited.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.n_bytes = 0
        self._rows: dict[int, Tensor] = {}
        self._is_full = False
        self._lock = threading.Lock()

    def get(self, number: int) -> Tensor | None:
        """Returns the features of a molecule; None if they are not kept."""
        return self._rows.get(number)

    def put(self, number: int, row: Tensor) -> None:
        """Keeps the features of a molecule, unless the limit is reached."""
        if self._is_full or not self._lock.acquire(blocking=False):
            return
        try:
            self._is_full = self.limit is not None and self.n_bytes + row.nbytes > self.limit
            if not self._is_full and number not in self._rows:
                self._rows[number] = row.clone()  # a view would keep its whole batch alive
                self.n_bytes += row.nbytes
        finally:
            self._lock.release()

    def clear(self) -> None:
        """Removes all rows, because the numbers now denote other molecules."""
        self._rows, self.n_bytes, self._is_full = {}, 0, False

    def __reduce__(self) -> tuple[type[FeatureStore], tuple[int | None]]:
        return FeatureStore, (self.limit,)


class FeatureComputer:
    """Adds features, derivatives or both to each batch; features may be kept in memory.

    Args:
        options: the user's options; the descriptor may be None if all features are stored.
        dtype: dtypes of the dataset.
        features: features are computed.
        derivatives: derivatives are computed.
        is_stored: features are read; the descriptor, if any, computes those of entries without.
    """

    def __init__(
        self,
        options: Features,
        dtype: DTypes | None,
        *,
        features: bool = False,
        derivatives: bool = False,
        is_stored: bool = False,
    ) -> None:
        self.descriptor = options.descriptor
        self.keeps_all = options.keep == "all"
        self.features, self.derivatives = features, derivatives
        self.kept = FeatureStore(options.max_bytes)
        self._dtype, self._is_stored = dtype, is_stored

    def input_request(self, request: Request) -> Request:
        """Returns the request for the stored features, and for what others are computed from."""
        if not self._is_stored:
            return structure_request(request)
        fields = ("features",) if self.descriptor is None else ("features", "cell", "pbc")
        wanted = self._given_dtype("features")
        dtype = None if wanted is None else {"features": wanted}
        return request.plain(fields, dtype=dtype, augment=request.augment)

    def names(self) -> list[str]:
        """Returns the names of the computed fields that are added to a batch."""
        derivatives = _derivatives_of(self.descriptor) if self.derivatives else []
        return ["features"] * self.features + derivatives

    def specs(self, inputs: Callable[[], Mapping[str, FieldSpec]]) -> dict[str, FieldSpec]:
        """Returns the entries of these fields in a schema; ``inputs`` returns that of the input."""
        descriptor = self.descriptor
        if self._is_stored or descriptor is None:
            return {"features": inputs()["features"]}
        shapes = {"features": (descriptor.n_features,), "radial_dG_drij": (descriptor.n_radial, 3)}
        shapes |= {name: (descriptor.n_angular, 3) for name in DERIVATIVES if "grads" in name}
        return {
            name: FieldSpec(
                torch.int64 if name in ATOM_INDICES else self._dtype_of(name, descriptor),
                DERIVATIVES.get(name, "atom"),
                shapes.get(name, ()),
            )
            for name in self.names()
        }

    def _given_dtype(self, name: str) -> torch.dtype | None:
        return self._dtype.get(name) if isinstance(self._dtype, Mapping) else self._dtype

    def _dtype_of(self, name: str, descriptor: ChebyshevDescriptor) -> torch.dtype:
        return self._given_dtype(name) or _dtype_of(descriptor)

    def add_to(self, batch: MoleculeBatch, structures: Structures, keep: bool) -> MoleculeBatch:
        """Returns the batch with these fields for the molecules in its ``index``."""
        made: dict[str, Tensor] = {}
        masks: dict[str, Tensor] = {}
        rows: list[Tensor | None] = [None] * len(batch)
        if self.derivatives:
            labelled = batch if "forces" in batch else structures(batch.index)
            has = labelled.mask("forces")
            found = self._compute(structures(batch.index[has]), derivatives=True)
            # Atoms of molecules with forces → atoms of the batch.
            atoms = torch.nonzero(has[batch.batch]).flatten()
            for name in _derivatives_of(self.descriptor):
                made[name] = atoms[found[name]] if name in ATOM_INDICES else found[name]
                masks[name] = has
            parts = torch.split(found.features, found.n_atoms.tolist()) if len(found) else ()
            for place, row in zip(has.nonzero().flatten().tolist(), parts, strict=True):
                rows[place] = row
        if self.features or self._is_stored:
            features, masks["features"] = self._features(rows, batch.index, structures, keep)
            made = {"features": features, **made}
        return with_fields(batch, made, masks)

    def _features(
        self, rows: list[Tensor | None], numbers: Tensor, structures: Structures, keep: bool
    ) -> tuple[Tensor, Tensor]:
        """Returns features, of which some are known already, and which molecules have some."""
        for place, number in enumerate(numbers.tolist()):
            if rows[place] is None:
                rows[place] = self.kept.get(number)
        has = torch.ones(len(rows), dtype=torch.bool)
        absent = [place for place, row in enumerate(rows) if row is None]
        if absent or not rows:
            found = structures(numbers[absent])
            if self._is_stored:
                has[absent] = self._complete(found, structures)
            else:
                found = self._compute(found)
            if not rows:
                return found.features, has
            parts = torch.split(found.features, found.n_atoms.tolist())
            for place, row in zip(absent, parts, strict=True):
                rows[place] = row
                if keep and has[place]:
                    self.kept.put(int(numbers[place]), row)
        return torch.cat(rows), has  # type: ignore[arg-type]

    def _compute(self, batch: MoleculeBatch, *, derivatives: bool = False) -> MoleculeBatch:
        """Computes features and derivatives, in the dtypes of the dataset."""
        assert self.descriptor is not None
        made = self.descriptor.compute(batch, derivatives)
        fields = contents_of(made).fields
        for name in ["features", *(_derivatives_of(self.descriptor) if derivatives else ())]:
            if name not in ATOM_INDICES:
                fields[name] = made[name].to(self._dtype_of(name, self.descriptor))
        return made

    def _complete(self, found: MoleculeBatch, stored: Structures) -> Tensor:
        """Computes the features that are not stored; returns which molecules have some."""
        has = found.mask("features")
        if self.descriptor is None or bool(has.all()):
            return has
        made = self.descriptor.compute(stored(found.index[~has]))
        found.features[~has[found.batch]] = made.features.to(found.features.dtype)
        return torch.ones_like(has)


def _derivatives_of(descriptor: ChebyshevDescriptor | None) -> list[str]:
    """Returns the names of the derivatives; with a single species there are no typespins."""
    is_multi = descriptor is not None and descriptor.multi
    return [name for name in DERIVATIVES if is_multi or not name.endswith("typespin")]


def plan_features(
    request: Request, stored: Stored, options: Features
) -> tuple[Request, FeatureComputer | None]:
    """Splits a request into fields that are read and fields that are computed.

    Stored rows are read if they belong to the requested descriptor.

    Args:
        request: the requested fields.
        stored: sections of the cache, if any.
        options: the user's options.

    Returns:
        The request for stored fields, and the object that adds the others, if any.

    Raises:
        FieldError: features should be kept, but no descriptor is known, or stored ones cannot be
            kept with the other options; or they are of molecules that ``augment`` changes.
    """
    if request.augment is not None:
        _check_augmented(request, stored, options)
    named = request.fields or ()
    keeps = options.keep != "none"
    is_given = options.descriptor is not None
    known = stored.descriptor
    descriptor = options.descriptor or known
    is_same = known is not None and known.compat_sha256 == (descriptor or known).compat_sha256
    usable = is_same or not is_given
    reads_features = stored.features and usable
    # Rows of edges and triplets cannot be completed one by one.
    reads_derivatives = (
        stored.derivatives and usable and not (is_given and stored.lacks_derivatives)
    )
    by_default = {
        "features": keeps or is_given,
        FORCE_DERIVATIVES: is_same and stored.derivatives,
    }
    wants_features, wants_derivatives = (
        name in named or (request.fields is None and is_default and name not in request.exclude)
        for name, is_default in by_default.items()
    )
    features = wants_features and not reads_features
    derivatives = wants_derivatives and not reads_derivatives
    if keeps and features and descriptor is None:
        raise FieldError("keep: expected a descriptor, got none (field 'features')")
    if options.descriptor is not None:
        request = _in_dtype_of(options.descriptor, request, reads_features, reads_derivatives)
    completes = is_given and stored.lacks_features
    if wants_features and reads_features and (keeps or (completes and not derivatives)):
        return _keep_stored(request, options, completes, derivatives)
    features |= wants_features and completes
    others = ("features",) * (stored.features and (features or not reads_features))
    others += (FORCE_DERIVATIVES,) * (stored.derivatives and not reads_derivatives)
    request = replace(request, exclude=request.exclude + others)
    if descriptor is None or not (features or derivatives):
        return request, None
    computer = FeatureComputer(
        replace(options, descriptor=descriptor),
        request.dtype,
        features=features,
        derivatives=derivatives,
    )
    return _stored_request(request, computer), computer


def _check_augmented(request: Request, stored: Stored, options: Features) -> None:
    """Raises an error if features of the molecules as stored would get into batches."""
    groups = {"features": stored.features, FORCE_DERIVATIVES: stored.derivatives}
    for name, is_stored in groups.items():
        is_named = request.fields is None or name in request.fields
        if is_stored and is_named and name not in request.exclude:
            raise FieldError(
                "augment: expected features that are computed after it, got stored ones: give "
                f"features=descriptor, or exclude=[{name!r}] (field {name!r})"
            )
    if options.keep != "none":
        raise FieldError(
            f"keep: expected 'none' with augment=, got {options.keep!r}, as molecules change in "
            "each epoch (field 'features')"
        )


def _dtype_of(descriptor: ChebyshevDescriptor) -> torch.dtype:
    return torch.float32 if descriptor.dtype == "float32" else torch.float64


def _in_dtype_of(
    descriptor: ChebyshevDescriptor, request: Request, features: bool, derivatives: bool
) -> Request:
    """Returns a request whose stored values have the dtype of the requested descriptor."""
    if isinstance(request.dtype, torch.dtype):
        return request  # of every field
    names = ["features"] * features
    if derivatives:
        names += [name for name in _derivatives_of(descriptor) if name not in ATOM_INDICES]
    if not names:
        return request
    return replace(
        request, dtype={**dict.fromkeys(names, _dtype_of(descriptor)), **(request.dtype or {})}
    )


def _keep_stored(
    request: Request, options: Features, completes: bool, computes_derivatives: bool
) -> tuple[Request, FeatureComputer]:
    """Returns the request without the stored features, and what adds and keeps them."""
    reason = (
        "the derivatives that the file does not store are computed together with features"
        if computes_derivatives
        else f"missing={request.missing!r} reads every row in every batch"
        if request.missing != "nan" and not completes
        else None
    )
    if reason is not None:
        raise FieldError(
            f"keep: expected 'none' for stored features, got {options.keep!r}: "
            f"{reason} (field 'features')"
        )
    fields, dtype = request.fields, request.dtype
    if fields is not None:
        fields = tuple(name for name in fields if name != "features")
    if isinstance(dtype, Mapping):
        dtype = {name: wanted for name, wanted in dtype.items() if name != "features"}
    exclude = request.exclude if fields is not None else (*request.exclude, "features")
    kept = replace(request, fields=fields, dtype=dtype, exclude=exclude)
    options = replace(options, descriptor=options.descriptor if completes else None)
    return kept, FeatureComputer(options, request.dtype, is_stored=True)


def _stored_request(request: Request, computer: FeatureComputer) -> Request:
    """Returns the request without the computed fields."""
    groups = {"features": computer.features, FORCE_DERIVATIVES: computer.derivatives}
    computed = {name for name, is_computed in groups.items() if is_computed}
    fields = request.fields
    if fields is not None:
        fields = tuple(name for name in fields if name not in computed)
        # Only molecules with forces get derivatives: `missing` must see the forces.
        if computer.derivatives and request.missing != "nan" and "forces" not in fields:
            fields = (*fields, "forces")
    dtype = request.dtype
    if isinstance(dtype, Mapping):
        casts = (set(computer.names()) - ATOM_INDICES) & dtype.keys()
        for name in casts:
            if not dtype[name].is_floating_point:
                kind = str(dtype[name]).removeprefix("torch.")
                raise FieldError(f"dtype: floats cannot be cast to {kind} (field {name!r})")
        dtype = {name: wanted for name, wanted in dtype.items() if name not in casts}
    return replace(request, fields=fields, dtype=dtype)


def structure_request(request: Request) -> Request:
    """Returns a request for the input of the descriptor, as stored."""
    return request.plain(STRUCTURE_FIELDS, augment=request.augment, optional=True)
