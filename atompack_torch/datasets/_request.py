"""What a data set of molecules is asked for: labels, dtypes, what becomes of missing ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch

from atompack_torch._core import Collator, MoleculeSource
from atompack_torch.batch import RESERVED, MoleculeBatch
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    DERIVATIVES,
    MOLECULE_PROPERTY,
    STRUCTURE,
    FieldId,
    FieldSpec,
    prefixed_id,
    public_names,
)
from atompack_torch.neighbors import NeighborList
from atompack_torch.options import check_choice, utf8

DTypes = torch.dtype | Mapping[str, torch.dtype]
Missing = Literal["nan", "error", "drop"]
Transform = Callable[[MoleculeBatch], Any]
_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# One name for all columns of derivatives, which are of use together alone.
FORCE_DERIVATIVES = "force_derivatives"


class Request(NamedTuple):
    """The options that all data sets of molecules share; made by ``checked``."""

    fields: tuple[str, ...] | None
    exclude: tuple[str, ...]
    dtype: DTypes | None
    missing: Missing
    neighbors: NeighborList | None
    transform: Transform | None
    num_threads: int | None

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
    ) -> Request:
        """Refuses what no data set takes; names are held against a source in ``collator``."""
        if neighbors is not None and not isinstance(neighbors, NeighborList):
            raise TypeError(f"neighbors: expected a NeighborList, got {type(neighbors).__name__}")
        check_choice("missing", missing, ("nan", "error", "drop"))
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads: expected a positive number or None, got {num_threads}")
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
        )

    @property
    def names_fields(self) -> bool:
        """Whether any name in it can be wrong for a source."""
        return self.fields is not None or bool(self.exclude) or isinstance(self.dtype, Mapping)

    def collator(self, source: MoleculeSource, path: Any) -> Collator:
        """What makes such batches of a source; ``path`` is for errors.

        Raises:
            FieldError: a name that the source does not know.
        """
        declared = declared_by(source)
        names = dict(zip(public_names(declared, RESERVED), declared, strict=True))
        fields = None
        asked: list[str] = []
        if self.fields is not None:
            fields = _ids_of(self.fields, names, path)
            asked = [field.key for field in fields if field not in declared]
            # What the source says of itself is no label, and always there.
            fields += [field for field in declared if field == SOURCE]
        floating, casts = _casts_of(self.dtype, names, path)
        return Collator(
            source,
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


SOURCE = FieldId(BUILTIN, "source")  # of a mixture


def declared_by(source: MoleculeSource) -> dict[FieldId, list[FieldSpec]]:
    """Every field that some file declares, with the differing declarations."""
    declared: dict[FieldId, list[FieldSpec]] = {}
    for _, fields in source.schemas():
        for scope, key, level, dtype, shape in fields:
            kind: Any = dtype if dtype in ("string", "none") else getattr(torch, dtype)
            declared.setdefault(FieldId(scope, key), []).append(FieldSpec(kind, level, shape))
    return declared


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


def _ids_of(names: Sequence[str], known: Mapping[str, FieldId], path: Any) -> list[FieldId]:
    """The fields behind names; builtins may be asked for though no file has them."""
    ids = []
    for name in names:
        if name in STRUCTURE:
            continue
        if name == FORCE_DERIVATIVES and any(key in known for key in DERIVATIVES):
            ids += [known[key] for key in DERIVATIVES if key in known]
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
    if name == FORCE_DERIVATIVES:
        return [FieldId(BUILTIN, key) for key in DERIVATIVES]
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
