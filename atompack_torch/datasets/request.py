"""Requests for fields of molecules: labels, dtypes and the treatment of missing values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from atompack_torch._native import (
    BatchRequest,
    MoleculeSource,
    NanIsMissingSource,
    RenamedSource,
)
from atompack_torch.datasets.augment import NOISE, Augment
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.options import DTypes, Missing, MoleculeOptions, Transform
from atompack_torch.datasets.outputs import Output
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    CANONICAL,
    DERIVATIVES,
    DERIVED,
    GEOMETRY,
    MOLECULE_PROPERTY,
    RESERVED,
    STRUCTURE,
    FieldId,
    FieldSpec,
    prefixed_id,
    public_names,
    similar_names,
)
from atompack_torch.options import redact_path, utf8

# One name for all columns of derivatives, which are only useful together.
FORCE_DERIVATIVES = "force_derivatives"


@dataclass(frozen=True)
class Request:
    """Options that all datasets of molecules share; built by ``of``.

    Attributes:
        optional: builtin labels of ``fields`` that no file has are missing for all molecules; for
            requests of the package itself.
        outputs: tensors in the form that a trainer takes.
        renamed: stored field → field here.
        structure: read positions and atomic numbers; False for columns of labels.
    """

    fields: tuple[str, ...] | None
    exclude: tuple[str, ...]
    dtype: DTypes | None
    missing: Missing
    neighbors: NeighborList | None
    transform: Transform | None
    num_threads: int | None
    nan_is_missing: bool = False
    optional: bool = False
    outputs: tuple[Output, ...] = ()
    renamed: tuple[tuple[FieldId, FieldId], ...] = ()
    augment: Augment | None = None
    structure: bool = True

    def __reduce__(self) -> tuple[Any, ...]:  # without the names: each worker gets one
        return Request, tuple(vars(self).values())

    @classmethod
    def of(cls, options: MoleculeOptions) -> Request:
        """Returns the request of a user; names are compared with a source in ``native``."""
        dtype = options.dtype
        request = cls(
            fields=_names("fields", options.fields),
            exclude=tuple(
                utf8("exclude", name) for name in _names("exclude", options.exclude) or ()
            ),
            dtype=dict(dtype) if isinstance(dtype, Mapping) else dtype,
            missing=options.missing,
            neighbors=None,
            transform=options.transform,
            num_threads=options.num_threads,
            nan_is_missing=options.nan_is_missing,
            augment=options.augment,
        )
        return request if options.neighbors is None else request.with_neighbors(options.neighbors)

    def with_geometry(self) -> Request:
        """Returns a request for the cell and its flags too, whatever ``fields`` names."""
        if self.fields is None:
            return self
        return replace(self, fields=tuple(dict.fromkeys((*self.fields, *sorted(GEOMETRY)))))

    def with_neighbors(self, neighbors: NeighborList) -> Request:
        """Returns a request for edges too, and for the cell and the flags that belong to them."""
        return replace(self.with_geometry(), neighbors=neighbors)

    def plain(self, fields: Iterable[str] | None, **changes: Any) -> Request:
        """Returns a request for these fields of every molecule, as stored but for ``changes``."""
        as_stored: dict[str, Any] = {
            "exclude": (),
            "dtype": None,
            "missing": "nan",
            "neighbors": None,
            "transform": None,
            "outputs": (),
            "augment": None,
        }
        fields = None if fields is None else tuple(fields)
        return replace(self, fields=fields, **(as_stored | changes))

    def of_edges(self) -> Request:
        """Returns a request for the edges of the stored molecules and nothing else."""
        return self.plain((), dtype=self.dtype, neighbors=self.neighbors, optional=True)

    def of_stored_values(self) -> Request:
        """Returns a request for the same labels as stored, without anything that is derived."""
        derived = (*DERIVED, FORCE_DERIVATIVES)
        fields = None if self.fields is None else [f for f in self.fields if f not in derived]
        return self.plain(fields, exclude=(*self.exclude, "features", FORCE_DERIVATIVES))

    @property
    def names_fields(self) -> bool:
        """True if the request contains names that a source may lack."""
        named = self.fields is not None or bool(self.exclude) or isinstance(self.dtype, Mapping)
        return named or self.augment is not None

    def wrap_source(self, source: MoleculeSource) -> MoleculeSource:
        """Returns a source with the names here, without labels that are NaN if so requested."""
        if self.renamed:
            source = RenamedSource(source, self.renamed)
        return NanIsMissingSource(source) if self.nan_is_missing else source

    def native(self, source: MoleculeSource, path: Any, epoch: int = 0) -> BatchRequest:
        """Converts the request for the native core.

        Args:
            source: the molecules.
            path: path of the dataset, for errors.
            epoch: epoch of the augmentation.

        Returns:
            The native request.

        Raises:
            FieldError: the source has no field of a name. A source without molecules accepts every
                label.
        """
        declared = declared_fields(source)
        names = dict(zip(public_names(declared, RESERVED), declared, strict=True))
        fields: set[tuple[int, str]] | None = None
        if self.fields is not None:
            any_label = self.optional or len(source) == 0
            fields = {*_ids_of(self.fields, names, path, BUILTINS if any_label else GEOMETRY)}
            # The number of the source in a mixture is always included.
            fields.update(field for field in declared if field == SOURCE)
            if self.augment is not None and self.augment.keep_noise:
                fields.add(NOISE)
        floating, casts = _casts_of(self.dtype, names, path)
        excluded = {field for name in self.exclude for field in _possible_ids(name, names)}
        _check_casts(casts.keys() - excluded, source, path)
        return BatchRequest(
            fields=fields,
            excluded=excluded,
            floating=floating,
            casts=casts,
            missing=self.missing,
            neighbors=self.neighbors.as_tuple() if self.neighbors else None,
            augment=None if self.augment is None else self._moved(names, path, epoch),
            outputs=[output.native(_field_of(output, names, path)) for output in self.outputs],
            structure=self.structure,
            max_threads=self.num_threads or 0,
        )

    def _moved(self, names: Mapping[str, FieldId], path: Any, epoch: int) -> Any:
        """Returns the options of the augmentation in the form that the native core takes."""
        augment, word = self.augment, (1 << 64) - 1
        assert augment is not None
        return (
            augment.rotate or "none",
            float(augment.noise),
            float(augment.strain),
            bool(augment.keep_noise),
            _ids_of(augment.vectors, names, path, BUILTINS),
            _ids_of(augment.tensors, names, path, BUILTINS),
            augment.seed & word,
            epoch & word,
        )


def specs_of(source: MoleculeSource, request: BatchRequest) -> dict[str, FieldSpec]:
    """Describes every field of a source, requested or not, as batches of a request hold it."""
    positions: torch.dtype = getattr(torch, request.positions(source))
    specs = {
        "positions": FieldSpec(positions, "atom", (3,)),
        "atomic_numbers": FieldSpec(torch.int64, "atom", ()),
    }
    outputs = request.output_fields(source)
    names = public_names([FieldId(scope, key) for scope, key, *_ in outputs], RESERVED)
    for name, (_, _, level, kind, shape) in zip(names, outputs, strict=True):
        dtype: Any = kind if kind in ("string", "none") else getattr(torch, kind)
        specs[name] = FieldSpec(dtype, level, shape)
    return specs


SOURCE = FieldId(BUILTIN, "source")  # number of the dataset in a mixture


def declared_fields(source: MoleculeSource) -> list[FieldId]:
    """Lists every field that any file of a source declares."""
    return [FieldId(scope, key) for scope, key, *_ in BatchRequest().output_fields(source)]


def _names(option: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(names, str):
        raise TypeError(f"{option}: expected a list of names, got the string {names!r}")
    if names is None:
        return None
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{option}: expected names (str), got {name!r}")
    return tuple(names)


def _ids_of(
    names: Sequence[str], known: Mapping[str, FieldId], path: Any, may_be_absent: Iterable[str]
) -> list[FieldId]:
    """Resolves names to fields; only those in ``may_be_absent`` may be missing everywhere."""
    ids = []
    for name in names:
        if name in STRUCTURE:
            continue
        if name == FORCE_DERIVATIVES and any(key in known for key in DERIVATIVES):
            ids += [known[key] for key in DERIVATIVES if key in known]
            continue
        found = known.get(name) or prefixed_id(name) or _by_key(name, known)
        if found not in known.values():
            found = FieldId(BUILTIN, name) if name in may_be_absent else None
        if found is None:
            similar = ", ".join(map(repr, similar_names(name, known)))
            there = f"the file has {similar}; " if similar else ""
            all_known = ", ".join(map(repr, known)) or "none"
            raise FieldError(
                f"{redact_path(path)}: no field {name!r}: {there}expected one of {all_known} "
                f"(field {name!r})"
            )
        ids.append(found)
    return ids


def _field_of(output: Output, known: Mapping[str, FieldId], path: Any) -> FieldId | None:
    """Returns the identity of the field that an output is made of."""
    if output.field is None:
        return None
    if output.field in STRUCTURE:
        return FieldId(BUILTIN, output.field)
    return _ids_of([output.field], known, path, BUILTINS)[0]


def _by_key(name: str, known: Mapping[str, FieldId]) -> FieldId | None:
    """Finds a property that is listed with its scope because its key is the name of a method."""
    if name in CANONICAL:
        return None
    ids = [field for field in known.values() if field.key == name and field.scope != BUILTIN]
    return ids[0] if len(ids) == 1 else None


def place_of(dataset: Any) -> str:
    """Returns the path of a dataset as errors name it; "dataset" for those in memory."""
    return "dataset" if dataset._path is None else redact_path(dataset._path)


def _possible_ids(name: str, known: Mapping[str, FieldId]) -> list[FieldId]:
    """Returns the fields that a name may mean, including ones that no schema lists."""
    if name == FORCE_DERIVATIVES:
        return [FieldId(BUILTIN, key) for key in DERIVATIVES]
    found = known.get(name) or prefixed_id(name) or _by_key(name, known)
    if found is not None:
        return [found]
    if name in BUILTINS:
        return [FieldId(BUILTIN, name)]
    return [FieldId(ATOM_PROPERTY, name), FieldId(MOLECULE_PROPERTY, name)]


def _casts_of(
    dtype: DTypes | None, known: Mapping[str, FieldId], path: Any
) -> tuple[str | None, dict[tuple[int, str], str]]:
    if dtype is None:
        return None, {}
    if isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch."), {}
    casts: dict[tuple[int, str], str] = {}
    for name, wanted in dtype.items():
        is_position = name == "positions"
        ids = [FieldId(BUILTIN, name)] if is_position else _ids_of([name], known, path, BUILTINS)
        for field in ids:
            casts.setdefault(field, str(wanted).removeprefix("torch."))
    return None, casts


def _check_casts(fields: Collection[tuple[int, str]], source: MoleculeSource, path: Any) -> None:
    """Raises an error if one of the fields to cast holds strings."""
    if not fields:
        return
    for scope, key, _, kind, _ in BatchRequest().output_fields(source):
        if kind == "string" and FieldId(scope, key) in fields:
            raise FieldError(f"{redact_path(path)}: dtype: strings cannot be cast (field {key!r})")
