"""Interpretation of the columns of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atompack_torch.conversion.keys import SourceNames, field_of
from atompack_torch.conversion.sources.arrow_columns import depth_of, kind_of
from atompack_torch.conversion.sources.parquet_blocks import Field, Layout
from atompack_torch.conversion.sources.public_sets import (
    COMMON_DERIVED,
    COMMON_NAMES,
    public_set,
    warn_of_stress,
)
from atompack_torch.conversion.targets.parquet import fields_of
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN, MOLECULE_PROPERTY, FieldId, prefixed_id
from atompack_torch.formats.conversion_report import Report

_STRUCTURE = ("positions", "atomic_numbers")
_LABELS = {
    name: name
    for name in (*_STRUCTURE, "energy", "forces", "stress", "cell", "pbc", "charges", "velocities")
}


def written_fields(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, Layout]]:
    """Returns the fields of the columns of a file that ``parquet_writing`` wrote.

    Args:
        metadata: the metadata of the file.

    Returns:
        Column → name of its field with its scope, and its layout; empty for other files.
    """
    found = {}
    for column, entry in fields_of(metadata).items():
        if not isinstance(entry, dict) or not isinstance(entry.get("field"), str):
            continue
        shape, is_of_atoms = entry.get("shape"), entry.get("level") == "atom"
        is_known = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        layout = Layout(is_of_atoms, tuple(shape or ()) if is_known else None)
        found[column] = entry["field"], layout
    return found


class ColumnPlanner:
    """Assigns the columns of one file to fields.

    Args:
        path: path of the file, for messages.
        schema: its schema.
        written: column → field and layout, of a file that was written here; empty for others.
        given: names that ``key_map`` gives to columns.
        report: receives what is left out.

    Attributes:
        known: the public set that the file belongs to; None: another file.
        has_positions: True if one of its columns is the positions.
    """

    def __init__(
        self,
        path: str,
        schema: Any,
        written: Mapping[str, tuple[str, Layout]],
        given: SourceNames,
        report: Report,
    ) -> None:
        self._path, self._given_names, self._report = path, given, report
        self._columns = dict(zip(schema.names, schema.types, strict=True))
        stated = {field.name: field.metadata or {} for field in schema}
        self._units = {name: m.get(b"units") or m.get(b"unit") for name, m in stated.items()}
        self.known = None if written else public_set(self._columns)
        self._names: Mapping[str, str] = COMMON_NAMES
        self._derived = COMMON_DERIVED
        if self.known is not None:
            self._names = {**_LABELS, **self.known.names}
            self._derived = self.known.derived
        elif written:
            self._names = {column: field for column, (field, _) in written.items()}
            self._derived = frozenset()
        self._layouts = {column: layout for column, (_, layout) in written.items()}
        self._parts = {key: part for key in given.keys if (part := self._part_of(key)) is not None}
        targets = [given.here(key, key, "column") for key in self._parts]
        targets += [self._names.get(name) for name in self._columns if name not in given.keys]
        self.has_positions = "positions" in targets

    def _part_of(self, key: str) -> tuple[tuple[str, ...], Any] | None:
        """Returns the column of a key with the parts of its structs, and their type, if any."""
        if key in self._columns:
            return (key,), self._columns[key]
        name, *parts = key.split(".")
        type_ = self._columns.get(name)
        for part in parts:
            if type_ is None or not _is_struct(type_) or type_.get_field_index(part) < 0:
                return None
            type_ = type_.field(part).type
        return None if type_ is None else ((name, *parts), type_)

    def fields(self) -> list[Field]:
        """Returns the columns to read.

        Returns:
            The columns, with their interpretation.

        Raises:
            FieldError: positions or atomic numbers are missing, or two columns are one label.
        """
        fields = [self._given(key, *part) for key, part in self._parts.items()]
        fields += [f for name in self._columns if (f := self._column(name)) is not None]
        targets = [field.target for field in fields]
        for name in _STRUCTURE:
            if FieldId(BUILTIN, name) not in targets:
                what = "positions" if name == "positions" else "atomic numbers or symbols"
                raise FieldError(
                    f"{self._path}: expected a column of {what}, got none: name it in key_map"
                )
        may_repeat = self.known.names if self.known is not None else ()
        for i, field in enumerate(fields):
            if field.target in targets[:i] and field.column not in may_repeat:
                other = fields[targets.index(field.target)].column
                both = f"{other!r} and {field.column!r}"
                what = field.target.key
                raise FieldError(f"{self._path}: {both} could both be {what}: say which in key_map")
        self._report_names(fields)
        return fields

    def _given(self, key: str, path: tuple[str, ...], type_: Any) -> Field:
        kind, name = kind_of(type_), self._given_names.keys[key]
        if kind not in ("number", "string") or (kind == "string" and not _holds(name, type_)):
            raise FieldError(
                f"{self._path}: key_map: {key!r} holds {type_}, which cannot be {name}"
            )
        target = _target(name)
        is_leveled = target.scope == BUILTIN or prefixed_id(name) is not None
        return Field(key, path, target, kind, is_leveled, is_given=True)

    def _column(self, name: str) -> Field | None:
        """Returns the field of a column that ``keys`` do not name; None if it is left out."""
        if name in self._parts:
            return None
        what, type_ = f"column {name!r}", self._columns[name]
        own = self._given_names.here(name, self._names.get(name, name), "column")
        if own is None:
            return None
        if name in self._derived:
            self._report.skip(what, "it follows from the structure")
            return None
        kind = kind_of(type_)
        if kind == "null":
            return None
        if kind not in ("number", "string"):
            part = " (key_map can name its parts, COLUMN.PART)" if _is_struct(type_) else ""
            self._report.skip(what, f"neither numbers nor strings{part}")
            return None
        if kind == "string" and not _holds(own, type_):
            is_text = depth_of(type_) == 0
            self._report.skip(
                what, "text, where numbers are expected" if is_text else "lists of strings"
            )
            return None
        target = _target(own)
        is_leveled = target.scope == BUILTIN or prefixed_id(own) is not None
        layout = self._layouts.get(name) if target.scope != BUILTIN else None
        return Field(name, (name,), target, kind, is_leveled, is_given=False, layout=layout)

    def _report_names(self, fields: list[Field]) -> None:
        report, known = self._report, self.known
        if known is not None:
            report.note(f"read as {known.title}: {known.units}")
        for field in fields:
            if unit := self._units.get(field.column):
                report.units[field.target.key] = unit.decode(errors="replace")
            if field.column != field.target.key and field.target.scope == BUILTIN:
                report.origin(field.target.key, field.column)
            if known is None or field.is_given or field.target.key != "stress":
                continue
            if known.stress == "unknown":
                warn_of_stress(known.title, field.column, report)


def _target(name: str) -> FieldId:
    return FieldId(BUILTIN, name) if name in _STRUCTURE else field_of(name, MOLECULE_PROPERTY)


def _holds(name: str, type_: Any) -> bool:
    """True if a field can hold strings of a type: symbols, a name, or a property."""
    target = _target(name)
    if target == (BUILTIN, "atomic_numbers"):
        return depth_of(type_) == 1
    return depth_of(type_) == 0 and target in ((BUILTIN, "name"), (MOLECULE_PROPERTY, target.key))


def _is_struct(type_: Any) -> bool:
    import pyarrow.types as of

    return bool(of.is_struct(type_))
