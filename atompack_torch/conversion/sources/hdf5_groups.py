"""Conversion of groups of HDF5 arrays, one per molecule, to blocks of structures of many groups."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.keys import field_of
from atompack_torch.conversion.sources.hdf5_files import ForeignFile, HdfRows, Listing, fetch
from atompack_torch.conversion.sources.rows import HeldRows, Rows
from atompack_torch.conversion.sources.systems import BLOCK_ATOMS, BLOCK_STRUCTURES, numbers_of
from atompack_torch.errors import AtompackError, CorruptFileError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    FieldId,
)
from atompack_torch.formats.conversion_report import Report, described

_STRUCTURE = ("positions", "atomic_numbers")
_OF_ATOMS = re.compile(r"charges|volumes|mbis_|forces|gradient")
_OF_PAIRS = re.compile(r"(wiberg|mayer).*indices")


class HdfSet(NamedTuple):
    """A data set.

    Attributes:
        title: its name, for messages.
        names: name in the file → part of a structure, or label.
        gradient: name of an array of gradients, which become forces; empty if there is none.
        units: label → unit that it is published in, unless the file states another.
        subgroups: groups in a group that are groups of structures too.
    """

    title: str
    names: Mapping[str, str]
    units: Mapping[str, str]
    gradient: str = ""
    subgroups: tuple[str, ...] = ()


class _Piece(NamedTuple):
    """Structures of one group.

    Attributes:
        positions: (N, 3).
        numbers: (N,) atomic numbers.
        n_atoms: number of atoms of each structure.
        n_structures: number of structures.
        name: name of the structures.
        fields: values of each field, an array of all rows or one string for all structures.
    """

    positions: Array
    numbers: Array
    n_atoms: int
    n_structures: int
    name: str
    fields: dict[FieldId, Array | str]


class GroupReader:
    """Reads the groups of one file.

    Args:
        file: the file.
        known: its set.
        keys: name in the file → name here.
        report: receives the interpretation of names, and what was dropped.
    """

    def __init__(
        self, file: ForeignFile, known: HdfSet, keys: Mapping[str, str], report: Report
    ) -> None:
        self._file, self._path = file, file.path
        self._known, self._keys, self._report = known, keys, report
        self._missing = set(keys)
        self._pending: list[_Piece] = []
        self._listed: tuple[str, Listing] | None = None
        if len({*keys.values()}) < len(keys):
            raise ValueError("key_map: expected each name once, got one twice")
        taken = {*keys.values()}
        names = {**{k: n for k, n in known.names.items() if n not in taken}, **keys}
        self._places = next(key for key, name in names.items() if name == "positions")
        self._targets: dict[str, FieldId | None] = {}
        report.note(f"read as {known.title}")
        report.units.update(known.units)

    def count(self, group: str) -> int:
        """Counts the structures of a group.

        Args:
            group: path of the group in the file.

        Returns:
            Their number.

        Raises:
            CorruptFileError: there are no positions.
        """
        stored = self._listing(group).datasets.get(self._places)
        return self._count(group, None if stored is None else stored.shape)

    def total(self, groups: list[str]) -> int:
        """Counts the structures of groups.

        Args:
            groups: their paths.

        Returns:
            The sum of their numbers.

        Raises:
            CorruptFileError: there are no positions.
        """
        shapes = self._file.shapes([f"{group}/{self._places}" for group in groups])
        return sum(self._count(*one) for one in zip(groups, shapes, strict=True))

    def _count(self, group: str, shape: tuple[int, ...] | AtompackError | None) -> int:
        if shape is None or isinstance(shape, CorruptFileError):
            got = "none" if shape is None else str(shape).removeprefix(f"{self._path}: ")
            fault = f"expected an array {self._places!r}, got {got}"
            raise CorruptFileError(f"{self._path}: {group}: {fault}")
        if isinstance(shape, AtompackError):
            raise shape
        if len(shape) != 3 or shape[2] != 3 or 0 in shape[1:]:
            raise self._wrong_shape(group, self._places, "(M, n, 3)", shape)
        return shape[0]

    def _listing(self, group: str) -> Listing:
        if self._listed is None or self._listed[0] != group:
            self._listed = group, self._file.listing(group)
        return self._listed[1]

    def names(self, group: str) -> set[str]:
        """Returns the names of the fields that a group may have.

        Args:
            group: path of the group in the file.

        Returns:
            Labels, and properties with their scope.
        """
        found = self._listing(group)
        names = (*found.datasets, *found.attrs)
        targets = {target for name in names if (target := self._target(name)) is not None}
        return {PREFIXES.get(scope, "") + key for scope, key in targets}

    def missing_keys(self) -> list[str]:
        """Returns the keys that were in no group."""
        return sorted(self._missing)

    def read(self, group: str, name: str, first: int, last: int) -> Iterator[Columns]:
        """Yields blocks that are complete after some structures of a group.

        Args:
            group: path of the group in the file.
            name: name of its structures.
            first: number of the first of them.
            last: one past the last.

        Yields:
            Blocks of structures, of this and earlier groups.

        Raises:
            CorruptFileError: the group is damaged.
        """
        try:
            arrays = self._arrays(group)
            n_atoms = arrays[self._places].shape[1]
            step = max(1, min(BLOCK_STRUCTURES, BLOCK_ATOMS // n_atoms))
            for begin in range(first, last, step):
                piece = self._piece(group, arrays, name, begin, min(begin + step, last))
                if self._pending and not _fit(self._pending, piece):
                    yield from self.rest()
                self._pending.append(piece)
                n_structures = sum(one.n_structures for one in self._pending)
                n_rows = sum(len(one.numbers) for one in self._pending)
                if n_structures >= BLOCK_STRUCTURES or n_rows >= BLOCK_ATOMS:
                    yield from self.rest()
        except AtompackError:
            raise
        except Exception as error:  # damaged arrays can fail in many ways
            raise CorruptFileError(f"{self._path}: {group}: {described(error)}") from error

    def rest(self) -> Iterator[Columns]:
        """Yields the structures read since the last block, if there are any."""
        if self._pending:
            pieces, self._pending = self._pending, []
            yield _block(pieces)

    def _arrays(self, group: str) -> dict[str, Rows]:
        """Returns the arrays and attributes of a group that are read."""
        found = self._listing(group)
        for what, why in found.unread().items():
            self._report.skip(what, why)
        for key in found.groups:
            if key not in self._known.subgroups:
                self._report.skip(f"group {key!r}", "a group in a group of structures")
        arrays: dict[str, Rows] = {}
        for key, stored in found.readable().items():
            is_new, target = key not in self._targets, self._target(key)
            if target is None:
                continue
            arrays[key] = rows = HdfRows(self._file, f"{group}/{key}", stored)
            # Those of properties are for the report alone: one group is enough.
            if (is_new or target.scope == BUILTIN) and (unit := rows.unit()):
                self._report.units[target.key] = unit
        shape = arrays[self._places].shape[:2]
        given = {self._target(key) for key in arrays}
        for key, value in found.attrs.items():
            target = None if key in arrays else self._target(key)
            held = None
            if target is not None and target not in given:
                held = _attribute_rows(target, value, shape)
            if held is None:
                self._report.skip(f"attribute {key!r}", "it is no value of these structures")
            else:
                arrays[key] = held
        return arrays

    def _target(self, name: str) -> FieldId | None:
        """Returns the field of an array; None if it is left out."""
        if name not in self._targets:
            self._targets[name] = self._new_target(name)
        return self._targets[name]

    def _new_target(self, name: str) -> FieldId | None:
        report, is_given = self._report, name in self._keys
        self._missing.discard(name)
        own = self._keys.get(name) or self._known.names.get(name, name)
        if not is_given and own in self._keys.values():
            if own == name:
                report.skip(f"array {name!r}", "key_map gives its name to another")
                return None
            own = name
        if not is_given and _OF_PAIRS.search(name):
            report.skip(f"array {name!r}", "values of all pairs of atoms: key_map can name it")
            return None
        if own in _STRUCTURE:
            return FieldId(BUILTIN, own)
        is_of_atoms = _OF_ATOMS.search(name) or _OF_PAIRS.search(name)
        target = field_of(own, ATOM_PROPERTY if is_of_atoms else MOLECULE_PROPERTY)
        if self._is_gradient(name):
            report.note(f"{name!r} read as forces, times -1")
        elif target.scope == BUILTIN and target.key != name:
            report.origin(target.key, name)
        return target

    def _is_gradient(self, name: str) -> bool:
        return name == self._known.gradient and name not in self._keys

    def _piece(
        self, group: str, arrays: Mapping[str, Rows], name: str, first: int, last: int
    ) -> _Piece:
        """Reads structures of a group."""
        n_all, n_atoms = arrays[self._places].shape[:2]
        n = last - first
        fetch((rows, first, last) for rows in arrays.values() if rows.shape[:1] == (n_all,))
        fields: dict[FieldId, Array | str] = {}
        numbers = None
        for key, rows in arrays.items():
            target = self._target(key)
            assert target is not None
            if target.key == "atomic_numbers" and target.scope == BUILTIN:
                numbers = self._numbers(group, key, rows, (n_all, n_atoms), first, last)
            elif target.key != "positions" or target.scope != BUILTIN:
                value = self._value(group, key, target, rows, (n_all, n_atoms), first, last)
                if value is not None:
                    fields[target] = value
        if numbers is None:
            raise CorruptFileError(f"{self._path}: {group}: expected atomic numbers, got none")
        places = arrays[self._places].read(first, last).reshape(-1, 3)
        return _Piece(places, numbers, n_atoms, n, name, fields)

    def _numbers(
        self, group: str, key: str, rows: Rows, shape: tuple[int, int], first: int, last: int
    ) -> Array:
        where = f"{self._path}: {group}"
        if rows.shape == shape[1:]:
            return np.tile(_numbers_of(rows.read(0, shape[1]), where), last - first)
        if rows.shape == shape:
            return _numbers_of(rows.read(first, last), where).reshape(-1)
        raise self._wrong_shape(group, key, f"{shape[1:]} or {shape}", rows.shape)

    def _value(
        self,
        group: str,
        key: str,
        target: FieldId,
        rows: Rows,
        shape: tuple[int, int],
        first: int,
        last: int,
    ) -> Array | str | None:
        """Reads the values of a field; None if they fit neither structures nor atoms."""
        is_label = target.scope == BUILTIN
        of_atoms = target.scope == ATOM_PROPERTY
        if is_label:
            of_atoms = BUILTINS[target.key].level == "atom"
        axes = shape if of_atoms else shape[:1]
        if rows.dtype.kind in "SUO":
            if math.prod(rows.shape) == 1 and not of_atoms:
                value = np.asarray(rows.read(0, 1)).reshape(-1)[0]
                return value.decode() if isinstance(value, bytes) else str(value)
            self._report.skip(f"array {key!r}", "strings, but not one for the group")
            return None
        if rows.shape[: len(axes)] != axes:
            if is_label:
                raise self._wrong_shape(group, key, f"{axes} rows", rows.shape)
            what = "its rows are not those of the structures" + (" and atoms" if of_atoms else "")
            self._report.skip(f"array {key!r}", what)
            return None
        values = rows.read(first, last)
        row = rows.shape[len(axes) :]
        if is_label:
            expected = BUILTINS[target.key].shape
            if math.prod(row) != math.prod(expected):
                raise self._wrong_shape(group, key, (*axes, *expected), rows.shape)
            row = expected
        elif row == (1,):
            row = ()
        values = values.reshape(-1, *row)
        return -values if self._is_gradient(key) else values

    def _wrong_shape(self, group: str, key: str, expected: object, got: object) -> CorruptFileError:
        return CorruptFileError(f"{self._path}: {group}: {key}: expected {expected}, got {got}")


def _attribute_rows(target: FieldId, value: Any, shape: tuple[int, ...]) -> Rows | None:
    """Returns an attribute of a group as rows of its structures; None if it has no place there.

    Args:
        target: the field that it has the name of.
        value: its value.
        shape: numbers of structures and atoms.
    """
    if isinstance(value, str):
        is_text = target.scope != BUILTIN or target.key == "name"
        return HeldRows(np.array([value], object)) if is_text else None
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        return None
    if target.key == "atomic_numbers" and target.scope == BUILTIN:
        return HeldRows(array) if array.shape in (shape[1:], shape) else None
    if target.scope == BUILTIN and target.key in BUILTINS:
        known = BUILTINS[target.key]
        axes = shape if known.level == "atom" else shape[:1]
        fits = array.size == math.prod((*axes, *known.shape)) or array.shape == known.shape != ()
        if not fits or target.key == "name":
            return None
        if array.shape == known.shape != ():
            array = np.broadcast_to(array, (*axes, *known.shape))
        return HeldRows(array.reshape(*axes, *known.shape))
    axes = shape if target.scope == ATOM_PROPERTY else shape[:1]
    if array.shape[: len(axes)] == axes:
        return HeldRows(array)
    return None if len(axes) > 1 else HeldRows(np.broadcast_to(array, (*axes, *array.shape)))


def _numbers_of(values: Array, where: str) -> Array:
    """Converts numbers or symbols to atomic numbers, each different symbol once."""
    if values.dtype.kind in "iu":
        return values
    if values.dtype.kind == "O":
        values = values.astype("S")
    different, inverse = np.unique(values, return_inverse=True)
    return numbers_of(different, where)[inverse].reshape(values.shape)


def _fit(pieces: list[_Piece], piece: _Piece) -> bool:
    """True if the fields of a piece have the types and shapes of those before."""
    last = pieces[-1]
    if last.positions.dtype != piece.positions.dtype:
        return False
    for field, values in piece.fields.items():
        for other in pieces:
            known = other.fields.get(field)
            if known is not None:
                if _form(known) != _form(values):
                    return False
                break
    return True


def _form(values: Array | str) -> object:
    return "string" if isinstance(values, str) else (values.dtype, values.shape[1:])


def _block(pieces: list[_Piece]) -> Columns:
    """Joins structures of several groups."""
    counts = np.repeat(
        [piece.n_atoms for piece in pieces], [piece.n_structures for piece in pieces]
    )
    ptr = np.concatenate([[0], np.cumsum(counts)])
    fields = [*dict.fromkeys(field for piece in pieces for field in piece.fields)]
    names: list[Array | str | None] = []
    for piece in pieces:
        names += [piece.name] * piece.n_structures
    columns = [_column(field, pieces) for field in fields]
    if FieldId(BUILTIN, "name") not in fields:
        columns.append(Column(BUILTIN, "name", names))
    places = np.concatenate([piece.positions for piece in pieces])
    numbers = np.concatenate([piece.numbers for piece in pieces])
    return Columns(places, numbers, ptr, columns)


def _column(field: FieldId, pieces: list[_Piece]) -> Column:
    """Joins a field; pieces without it are zeros, and masked."""
    present = [piece.fields.get(field) is not None for piece in pieces]
    mask = None
    if not all(present):
        mask = np.repeat(present, [piece.n_structures for piece in pieces])
    first = next(value for piece in pieces if (value := piece.fields.get(field)) is not None)
    if isinstance(first, str):
        entries: list[Array | str | None] = []
        for piece in pieces:
            value = piece.fields.get(field)
            entries += [value if isinstance(value, str) else None] * piece.n_structures
        return Column(*field, entries, mask)
    is_of_atoms = field.scope == ATOM_PROPERTY or (
        field.scope == BUILTIN and BUILTINS[field.key].level == "atom"
    )
    arrays = []
    for piece in pieces:
        value = piece.fields.get(field)
        n_rows = len(piece.numbers) if is_of_atoms else piece.n_structures
        absent = np.zeros((n_rows, *first.shape[1:]), first.dtype)
        arrays.append(value if isinstance(value, np.ndarray) else absent)
    return Column(*field, np.concatenate(arrays), mask)
