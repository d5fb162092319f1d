"""What a data set of molecules is asked for: labels, dtypes, what becomes of missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch

from atompack_torch._core import MoleculeBatcher
from atompack_torch._native import BatchRequest, MoleculeSource, NanIsMissingSource
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    CANONICAL,
    DERIVATIVES,
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
from atompack_torch.options import check_choice, check_threads, utf8

DTypes = torch.dtype | Mapping[str, torch.dtype]
Missing = Literal["nan", "error", "drop"]
Transform = Callable[[MoleculeBatch], Any]
_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# One name for all columns of derivatives, which are of use together alone.
FORCE_DERIVATIVES = "force_derivatives"


class Request(NamedTuple):
    """The options that all data sets of molecules share; made by ``checked``.

    Attributes:
        optional: pass over ``fields`` that no file has, for what the package itself looks up.
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

    @classmethod
    def checked(
        cls,
        *,
        fields: Sequence[str] | None,
        exclude: Sequence[str],
        dtype: DTypes | None,
        missing: Missing,
        neighbors: NeighborList | None,
        transform: Transform | None,
        num_threads: int | None,
        nan_is_missing: bool,
    ) -> Request:
        """Refuses what no data set takes; names are held against a source in ``batcher``."""
        if neighbors is not None and not isinstance(neighbors, NeighborList):
            _refuse_neighbors(neighbors)
        if not isinstance(nan_is_missing, bool):
            kind = type(nan_is_missing).__name__
            raise TypeError(f"nan_is_missing: expected True or False, got {kind}")
        check_choice("missing", missing, ("nan", "error", "drop"))
        check_threads(num_threads)
        if transform is not None and not callable(transform):
            raise TypeError(f"transform: expected a callable, got {type(transform).__name__}")
        return cls(
            fields=_names("fields", fields),
            exclude=tuple(utf8("exclude", name) for name in _names("exclude", exclude) or ()),
            dtype=_checked_dtype(dtype),
            missing=missing,
            neighbors=neighbors,
            transform=transform,
            num_threads=num_threads,
            nan_is_missing=nan_is_missing,
        )

    @property
    def names_fields(self) -> bool:
        """Whether any name in it can be wrong for a source."""
        return self.fields is not None or bool(self.exclude) or isinstance(self.dtype, Mapping)

    def judged(self, source: MoleculeSource) -> MoleculeSource:
        """The molecules of a source, without the labels that count as missing."""
        return NanIsMissingSource(source) if self.nan_is_missing else source

    def native(self, source: MoleculeSource, path: Any) -> BatchRequest:
        """The request as the native core takes it, for one source; ``path`` is for errors.

        Raises:
            FieldError: a name that the source does not know. Of a source without molecules nothing
                is known, and any label may be asked for.
        """
        declared = declared_by(source)
        names = dict(zip(public_names(declared, RESERVED), declared, strict=True))
        fields = None
        asked: list[str] = []
        if self.fields is not None:
            any_label = self.optional or len(source) == 0
            fields = _ids_of(self.fields, names, path, BUILTINS if any_label else GEOMETRY)
            asked = [field.key for field in fields if field not in declared]
            # What the source says of itself is no label, and always there.
            fields += [field for field in declared if field == SOURCE]
        floating, casts = _casts_of(self.dtype, names, path)
        return BatchRequest(
            fields=fields,
            excluded=[field for name in self.exclude for field in _any_scope(name, names)],
            defaults=[
                (BUILTIN, key, builtin.level, builtin.dtype, builtin.shape)
                for key, builtin in BUILTINS.items()
                if key in asked
            ],
            floating=floating,
            casts=casts,
            missing=self.missing,
            neighbors=self.neighbors.as_tuple() if self.neighbors else None,
            max_threads=self.num_threads or 0,
        )

    def batcher(self, source: MoleculeSource, path: Any) -> MoleculeBatcher:
        """Makes such batches of a source.

        Raises:
            FieldError: as ``native`` does.
        """
        return MoleculeBatcher(source, self.native(source, path))


def specs_of(source: MoleculeSource, request: BatchRequest) -> dict[str, FieldSpec]:
    """Every field of a source as batches of a request hold it, asked for or not."""
    positions: torch.dtype = getattr(torch, request.positions(source))
    specs = {
        "positions": FieldSpec(positions, "atom", (3,)),
        "atomic_numbers": FieldSpec(torch.int64, "atom", ()),
    }
    promises = request.promises(source)
    names = public_names([FieldId(scope, key) for scope, key, *_ in promises], RESERVED)
    for name, (_, _, level, kind, shape) in zip(names, promises, strict=True):
        dtype: Any = kind if kind in ("string", "none") else getattr(torch, kind)
        specs[name] = FieldSpec(dtype, level, shape)
    return specs


SOURCE = FieldId(BUILTIN, "source")  # of a mixture


def declared_by(source: MoleculeSource) -> list[FieldId]:
    """Every field that some file of a source declares."""
    return [FieldId(scope, key) for scope, key, *_ in BatchRequest().promises(source)]


def _refuse_neighbors(neighbors: Any) -> None:
    is_number = isinstance(neighbors, (int, float)) and not isinstance(neighbors, bool)
    hint = f": pass neighbors=NeighborList({float(neighbors)!r})" if is_number else ""
    raise TypeError(f"neighbors: expected a NeighborList, got {type(neighbors).__name__}{hint}")


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


def _ids_of(
    names: Sequence[str], known: Mapping[str, FieldId], path: Any, may_be_absent: Iterable[str]
) -> list[FieldId]:
    """The fields behind names; those that may be absent are no error where no file has them."""
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
                f"{_place(path)}: no field {name!r}: {there}expected one of {all_known} "
                f"(field {name!r})"
            )
        ids.append(found)
    return ids


def _by_key(name: str, known: Mapping[str, FieldId]) -> FieldId | None:
    """The property of a key that is listed with its scope because a method has its name."""
    if name in CANONICAL:
        return None
    ids = [field for field in known.values() if field.key == name and field.scope != BUILTIN]
    return ids[0] if len(ids) == 1 else None


def _place(path: Any) -> str:
    if isinstance(path, (list, tuple)) and len(path) > 1:
        return f"{path[0]} and {len(path) - 1} more"
    return str(path[0] if isinstance(path, (list, tuple)) else path)


def _any_scope(name: str, known: Mapping[str, FieldId]) -> list[FieldId]:
    """What a name may stand for, also in a record whose schema does not list it."""
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
            casts += [(field, target) for field in _ids_of([name], known, path, BUILTINS)]
    return None, casts
