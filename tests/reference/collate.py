"""The obvious collate: one torch.cat or torch.stack a field, from reference molecules.

It knows the rules of a batch (which keys, levels, dtypes, fill values and masks) and nothing of
how the package gets there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from reference import atp_record as rec
from reference.atp_file import ELEMENT_BYTES, AtpFile, SchemaEntry
from reference.atp_record import BadFileError, BadValueError, Molecule
from reference.names import BUILTINS

STRUCTURE = ("positions", "atomic_numbers", "batch", "ptr", "n_atoms", "index")
GEOMETRY = (("builtin", "cell"), ("builtin", "pbc"))
ABSENT = object()

FORMS = {rec.STRING: "string", rec.NONE: "none", rec.BOOL3: "bool"}
FORMS |= dict.fromkeys(rec.SCALARS, "scalar") | dict.fromkeys(rec.MATRICES, "matrix")
FORMS |= dict.fromkeys(rec.ARRAYS, "array") | dict.fromkeys(rec.VECTORS, "vectors")
FORMS |= dict.fromkeys(rec.TENSORS, "tensor")
DTYPES = {**rec.SCALARS, **rec.MATRICES, **rec.ARRAYS, **rec.VECTORS, **rec.TENSORS}

Field = tuple[str, str]  # (scope, key)


class FieldClashError(Exception):
    """One name holds different kinds of value within a batch, or a value is missing."""


@dataclass
class Expected:
    """What a batch must hold: values, masks and levels by name."""

    values: dict[str, Any] = field(default_factory=dict)
    masks: dict[str, torch.Tensor] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)


@dataclass
class ReferenceDataset:
    """Some .atp files as one list of molecules.

    Attributes:
        files: in order.
        reserved: names that a custom property cannot have without its scope in front.
    """

    files: list[AtpFile]
    reserved: Collection[str] = ()

    def __post_init__(self) -> None:
        self.schemas = [f.scanned_schema() for f in self.files]
        self.places = [(f, i) for f, file in enumerate(self.files) for i in range(len(file))]

    def __len__(self) -> int:
        return len(self.places)

    def molecule(self, i: int) -> Molecule:
        """Molecule ``i`` of all."""
        file, inside = self.places[i]
        return self.files[file].molecule(inside)

    def entries(self, name: Field, files: Collection[int] = ()) -> list[SchemaEntry]:
        """The schema entries of a field, of some files or of all."""
        chosen = [s for f, s in enumerate(self.schemas) if not files or f in files]
        return [s[name] for s in chosen if name in s]

    def fields(self) -> list[Field]:
        """Every field of the dataset but those that each molecule has."""
        names = {name for schema in self.schemas for name in schema}
        return sorted(n for n in names if n[0] != "builtin" or n[1] in BUILTINS)

    def public_name(self, name: Field) -> str:
        """The name in ``keys()``."""
        scope, key = name
        if scope == "builtin":
            return key
        other = ("molecule" if scope == "atom" else "atom", key)
        if key in self.reserved or self.entries(other):
            return ("atom_properties/" if scope == "atom" else "properties/") + key
        return key

    def batch(
        self,
        indices: Sequence[int],
        *,
        fields: Collection[str] | None = None,
        exclude: Collection[str] = (),
        dtype: torch.dtype | Mapping[str, torch.dtype] | None = None,
        missing: str = "nan",
    ) -> Expected:
        """What ``AtpDataset(..., fields, exclude, dtype, missing).batch(indices)`` must give.

        Raises:
            BadFileError: a record or a chosen value is damaged.
            FieldClashError: a field is missing under ``missing="error"``, or types differ.
        """
        numbers = [int(i) + len(self) if i < 0 else int(i) for i in indices]
        molecules = [self.molecule(i) for i in numbers]
        chosen = [
            n
            for n in sorted({*self.fields(), *_extra(molecules)})
            if self.public_name(n) not in exclude
            and (fields is None or self.public_name(n) in fields)
        ]
        touched = {self.places[i][0] for i in numbers}
        values = {n: [_value_of(m, n) for m in molecules] for n in chosen}
        judged = [n for n in chosen if fields is not None or n in self.fields()]
        keep = [
            all(values[n][b] is not ABSENT for n in judged if n not in GEOMETRY) or missing == "nan"
            for b in range(len(molecules))
        ]
        if missing == "error" and not all(keep):
            raise FieldClashError(f"molecule {numbers[keep.index(False)]} lacks a field")
        molecules = [m for m, kept in zip(molecules, keep, strict=True) if kept]
        numbers = [i for i, kept in zip(numbers, keep, strict=True) if kept]
        result = _structure(molecules, numbers, [file.wide for file in self.files])
        for name in chosen:
            column = [v for v, kept in zip(values[name], keep, strict=True) if kept]
            everywhere = self.entries(name)
            entries = self.entries(name, touched) or everywhere
            public = self.public_name(name)
            result.values[public] = _column(name, column, entries, everywhere, molecules)
            result.masks[public] = torch.tensor([v is not ABSENT for v in column], dtype=torch.bool)
            result.levels[public] = "atom" if _is_per_atom(name) else "molecule"
        for public in result.values:
            result.values[public] = _cast(public, result.values[public], dtype)
        return result


def _extra(molecules: Sequence[Molecule]) -> set[Field]:
    """Fields of these molecules, whether the schema knows them or not."""
    found: set[Field] = set()
    for m in molecules:
        found |= {("builtin", k) for k in m.builtins} | {("atom", k) for k in m.atom_properties}
        found |= {("molecule", k) for k in m.properties}
    return found


def _is_per_atom(name: Field) -> bool:
    return name[0] == "atom" or (name[0] == "builtin" and name[1] in rec.PER_ATOM_BUILTINS)


def _value_of(molecule: Molecule, name: Field) -> Any:
    scope, key = name
    held = molecule.builtins if scope == "builtin" else molecule.custom(scope)
    value = held.get(key, ABSENT)
    if isinstance(value, BadValueError):
        raise BadFileError(f"{key}: {value}")
    return value


def _structure(molecules: list[Molecule], numbers: list[int], wide: list[bool]) -> Expected:
    n_atoms = torch.tensor([m.n_atoms for m in molecules], dtype=torch.int64)
    dtype = torch.float64 if any(wide) else torch.float32
    positions = [tensor_of(m.positions).to(dtype) for m in molecules]
    z = [tensor_of(m.atomic_numbers).to(torch.int64) for m in molecules]
    values = {
        "positions": torch.cat([torch.zeros(0, 3, dtype=dtype), *positions]),
        "atomic_numbers": torch.cat([torch.zeros(0, dtype=torch.int64), *z]),
        "batch": torch.tensor(
            [b for b, m in enumerate(molecules) for _ in range(m.n_atoms)]
        ).long(),
        "ptr": torch.cat([torch.zeros(1, dtype=torch.int64), n_atoms.cumsum(0)]),
        "n_atoms": n_atoms,
        "index": torch.tensor(numbers, dtype=torch.int64),
    }
    atom_level = ("positions", "atomic_numbers", "batch")
    levels = {k: "atom" if k in atom_level else "molecule" for k in values}
    return Expected(values, {}, levels)


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """A torch tensor with the same bits and shape, 0-d included."""
    return torch.from_numpy(np.array(array, copy=True))


def _column(
    name: Field,
    column: list[Any],
    entries: list[SchemaEntry],
    everywhere: list[SchemaEntry],
    molecules: list[Molecule],
) -> Any:
    """One field of the batch: a tensor, or a list where no tensor can hold it.

    Kinds and shapes are those of the files of the batch, the width is that of all files.
    """
    tags = {v.tag for v in column if v is not ABSENT} | {e.tag for e in entries}
    kinds = {_kind(tag) for tag in tags}
    if len(kinds) != 1:
        raise FieldClashError(f"{name}: type tags {sorted(tags)}")
    if kinds & {"string", "none"}:
        return [None if v is ABSENT else v.data for v in column]
    dtype = _dtype(name, tags | {e.tag for e in everywhere if _kind(e.tag) in kinds})
    given = [None if v is ABSENT else tensor_of(v.data).to(dtype) for v in column]
    suffixes = _suffixes(name, given, tags) or {_schema_suffix(e) for e in entries}
    if len(suffixes) != 1 or None in suffixes:
        return given
    (suffix,) = suffixes
    assert suffix is not None
    if _is_per_atom(name):
        absent = [_filled(name, (m.n_atoms, *suffix), dtype) for m in molecules]
        pairs = zip(given, absent, strict=True)
        parts = [other if t is None or not len(t) else t for t, other in pairs]
        return torch.cat([_filled(name, (0, *suffix), dtype), *parts])
    rows = [_filled(name, suffix, dtype) if t is None else t for t in given]
    return torch.stack(rows) if rows else _filled(name, (0, *suffix), dtype)


def _kind(tag: int) -> str:
    """What must agree within a batch: widths and shapes may differ, this may not."""
    form = FORMS[tag]
    if form in ("string", "none", "bool"):
        return form
    return "float" if np.dtype(DTYPES[tag]).kind == "f" else "integer"


def _dtype(name: Field, tags: set[int]) -> torch.dtype:
    if tags == {rec.BOOL3}:
        return torch.bool
    if name == ("builtin", "energy"):
        return torch.float64
    widest = max((np.dtype(DTYPES[tag]) for tag in tags), key=lambda d: d.itemsize)
    return tensor_of(np.zeros(0, widest)).dtype


def _suffixes(
    name: Field, given: list[torch.Tensor | None], tags: set[int]
) -> set[tuple[int, ...] | None]:
    """The row shapes that the values of a batch have.

    A per-atom tensor of no atoms has no row whose shape could matter. Its suffix counts only where
    there is no other and no absent molecule that would need rows of it.
    """
    present = [t for t in given if t is not None]
    if not _is_per_atom(name):
        return {tuple(t.shape) for t in present}
    with_rows: set[tuple[int, ...] | None] = {tuple(t.shape[1:]) for t in present if len(t)}
    if with_rows or not tags <= set(rec.TENSORS) or len(present) < len(given):
        return with_rows
    return {tuple(t.shape[1:]) for t in present}


def _schema_suffix(entry: SchemaEntry) -> tuple[int, ...] | None:
    """Shape of one molecule's (or one atom's) value as far as the schema settles it."""
    form = FORMS[entry.tag]
    fixed: dict[str, tuple[int, ...]] = {"scalar": (), "matrix": (3, 3), "bool": (3,)}
    if form in fixed:
        return fixed[form]
    if form == "tensor":
        return entry.shape
    suffix = (3,) if form == "vectors" else ()
    return suffix if entry.per_atom else (entry.slot_bytes // ELEMENT_BYTES[entry.tag], *suffix)


def _filled(name: Field, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    absent = torch.nan if dtype.is_floating_point and name not in GEOMETRY else 0
    return torch.full(shape, absent, dtype=dtype)


def _cast(name: str, value: Any, dtype: torch.dtype | Mapping[str, torch.dtype] | None) -> Any:
    if isinstance(value, list):
        return [_cast(name, v, dtype) for v in value]
    if not isinstance(value, torch.Tensor) or dtype is None:
        return value
    if isinstance(dtype, Mapping):
        return value.to(dtype.get(name, value.dtype))
    return value.to(dtype) if value.is_floating_point() and name != "energy" else value
