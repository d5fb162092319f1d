"""Structures stored in a few large arrays, and the assignment of rows to molecules and atoms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.conversion.keys import ELEMENTS, field_of, shaped
from atompack_torch.conversion.sources.hdf5_files import fetch
from atompack_torch.conversion.sources.rows import HeldRows, Rows
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, BUILTINS, MOLECULE_PROPERTY, FieldId
from atompack_torch.formats.conversion_report import Report

BLOCK_STRUCTURES = 4096
BLOCK_ATOMS = 1 << 16

Level = Literal["molecule", "atom", "shared"]
_COUNTS = ("n_atoms", "ptr")


class Member(NamedTuple):
    """One array of a file.

    Attributes:
        key: name in the file.
        name: name here.
        rows: the values.
        unit: unit that the file states for it, if any.
        what: ``"array"``, or ``"attribute"`` of a group.
        is_gradient: True if the field has the other sign.
    """

    key: str
    name: str
    rows: Rows
    unit: str = ""
    what: str = "array"
    is_gradient: bool = False


class System:
    """Arrays of M molecules, in one of three layouts.

    Stacked: positions (M, n, 3), atomic numbers (n,) or (M, n); with ``n_atoms`` (M,), the
    rows after the atoms are padding. Flat: positions (N, 3), with ``n_atoms`` (M,) or ``ptr``
    (M + 1,). Single: positions (n, 3) and neither of them.

    Args:
        where: path and group, for messages.
        members: the arrays, by their names here.
        padding: atomic number of padding rows; None: there are none.
        name: name of every molecule, if not empty and there is no array of names.
        is_known: True if the file is of a known dataset, so that other shapes are damage, and rows
            of one number are numbers.

    Attributes:
        lost: what of its group is not read → the reason.

    Raises:
        FieldError: positions or atomic numbers are missing, or shapes fit no layout;
            CorruptFileError if the file is of a known dataset.
    """

    def __init__(
        self, where: str, members: dict[str, Member], padding: int | None, name: str, is_known: bool
    ) -> None:
        self.where, self._padding, self.name, self._is_known = where, padding, name, is_known
        self._error = CorruptFileError if is_known else FieldError
        self.lost: dict[str, str] = {}
        self.members = members
        for name in ("positions", "atomic_numbers"):
            if name not in self.members:
                raise self._error(
                    f"{where}: expected an array of {name}, got none: name it in key_map"
                )
        shape = self._shape("positions")
        counted = [name for name in _COUNTS if name in self.members]
        if len(shape) == 2 and not counted:
            self._hold_as_stacked()
            shape = self._shape("positions")
        if len(shape) not in (2, 3) or shape[-1] != 3:
            raise self._error(f"{where}: positions: expected (M, n, 3) or (N, 3), got {shape}")
        if shape[0] and 0 in shape:  # otherwise a few bytes could declare any number of molecules
            raise self._error(f"{where}: positions: expected atoms, got {shape}")
        self.is_stacked = len(shape) == 3
        self._ptr = np.zeros(0, dtype=np.int64) if self.is_stacked else self._read_ptr(counted)
        self.n_structures = shape[0] if self.is_stacked else len(self._ptr) - 1
        self.n_atoms = shape[1] if self.is_stacked else None  # per molecule
        is_padded = self.is_stacked and bool(counted)
        self._counts = self._read_counts(counted[0]) if is_padded else None
        self._check_numbers()

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.members[name].rows.shape

    def _hold_as_stacked(self) -> None:
        """Reshapes a single molecule to a stack of one."""
        ends = {
            key: one.rows.shape[0] if one.rows.shape else 1 for key, one in self.members.items()
        }
        fetch((self.members[name].rows, 0, end) for name, end in ends.items())
        for name, member in self.members.items():
            values = member.rows.read(0, ends[name])
            held = HeldRows(values if name == "atomic_numbers" else values[None])
            self.members[name] = member._replace(rows=held)

    def _read_ptr(self, counted: list[str]) -> Array:
        if len(counted) == 2:
            raise self._error(f"{self.where}: expected n_atoms or ptr, got both")
        rows = self.members[counted[0]].rows
        if len(rows.shape) != 1 or rows.dtype.kind not in "iu":
            got = f"{rows.shape} {rows.dtype}"
            raise self._error(f"{self.where}: {counted[0]}: expected integers (M,), got {got}")
        values = rows.read(0, rows.shape[0]).astype(np.int64)
        ptr = values if counted[0] == "ptr" else np.concatenate([[0], np.cumsum(values)])
        n = self._shape("positions")[0]
        if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != n or (np.diff(ptr) < 0).any():
            what = "ascending from 0" if counted[0] == "ptr" else "counts"
            raise CorruptFileError(f"{self.where}: {counted[0]}: expected {what}, up to {n} atoms")
        return ptr

    def _read_counts(self, name: str) -> Array:
        """Returns the number of atoms of each stacked molecule."""
        rows, of_all = self.members[name].rows, (self.n_structures, self.n_atoms)
        values = rows.read(0, rows.shape[0] if rows.shape else 1)
        counts = np.diff(values) if name == "ptr" else values
        if counts.shape in ((), (1,)):
            counts = np.repeat(counts.reshape(1), self.n_structures)
        is_count = counts.shape == of_all[:1] and counts.dtype.kind in "iu"
        if not is_count or ((counts < 0) | (counts > self.n_atoms)).any():
            key, got = self.members[name].key, f"{values.dtype} {values.shape}"
            expected = f"{of_all[0]} numbers of atoms up to {of_all[1]}"
            raise self._error(f"{self.where}: {key}: expected {expected}, got {got}")
        return counts

    def _check_numbers(self) -> None:
        shape = self._shape("atomic_numbers")
        positions = self._shape("positions")
        allowed = [positions[:-1], positions[1:2]] if self.is_stacked else [positions[:1]]
        if shape not in allowed:
            expected = " or ".join(map(str, allowed))
            raise self._error(f"{self.where}: atomic_numbers: expected {expected}, got {shape}")

    def fields(self) -> list[Member]:
        """Returns the members that are labels or properties."""
        structure = ("positions", "atomic_numbers", *_COUNTS)
        return [member for name, member in self.members.items() if name not in structure]

    def levels(self, member: Member) -> set[Level]:
        """Returns the levels possible for a member's shape; only one if its name decides.

        Args:
            member: the member.

        Returns:
            The possible levels.

        Raises:
            FieldError: the shape does not fit the name.
        """
        shape, of_structures = member.rows.shape, (self.n_structures,)
        of_atoms = self._shape("positions")[: 2 if self.is_stacked else 1]
        possible: set[Level] = set()
        if shape[: len(of_atoms)] == of_atoms:
            possible.add("atom")
        if shape[:1] == of_structures:
            possible.add("molecule")
        if shape in ((), (1,)):
            possible.add("shared")
        said = said_level(member.name)
        if said is None:
            return possible
        if member.name in BUILTINS and shape == BUILTINS[member.name].shape != ():
            return {"shared"}  # one cell for all
        if member.name == "name" and "molecule" not in possible and "shared" in possible:
            return {"shared"}  # one name for all, as in sGDML
        if said not in possible:
            expected = of_atoms if said == "atom" else of_structures
            raise self._error(f"{self.where}: {member.key}: expected {expected} rows, got {shape}")
        return {said}

    def blocks(
        self, levels: Mapping[str, Level], report: Report, first: int, last: int
    ) -> Iterator[Columns]:
        """Yields molecules in order.

        Args:
            levels: levels of the members to include, by key.
            report: receives changes of representation.
            first: number of the first molecule.
            last: one past the last molecule.

        Yields:
            Blocks of molecules.
        """
        while first < last:
            end = self._end_of_block(first, last)
            yield self._block(first, end, levels, report)
            first = end

    def _end_of_block(self, first: int, last: int) -> int:
        last = min(first + BLOCK_STRUCTURES, last)
        if self.n_atoms is not None:
            return min(last, first + max(BLOCK_ATOMS // max(self.n_atoms, 1), 1))
        by_atoms = int(np.searchsorted(self._ptr, self._ptr[first] + BLOCK_ATOMS, side="right")) - 1
        return max(min(last, by_atoms), first + 1)

    def _block(self, first: int, last: int, levels: Mapping[str, Level], report: Report) -> Columns:
        if self.n_atoms is not None:
            atoms = (first, last)
            ptr = np.arange(last - first + 1, dtype=np.int64) * self.n_atoms
        else:
            atoms = int(self._ptr[first]), int(self._ptr[last])
            ptr = self._ptr[first : last + 1] - self._ptr[first]
        rows = {"positions": atoms}
        for member in self.fields():
            if levels.get(member.key) in ("atom", "molecule"):
                rows[member.name] = atoms if levels[member.key] == "atom" else (first, last)
        fetch((self.members[name].rows, *bounds) for name, bounds in rows.items())
        numbers = self._numbers(atoms, last - first)
        kept = self._kept(numbers, first, last)
        if self._padding is None and self.is_stacked and not numbers[kept].all():
            report.note("atomic number 0 occurs: padding=0 would leave such rows out")
        if not isinstance(kept, slice):
            starts = np.concatenate([[0], np.cumsum(kept)])
            ptr = starts[ptr]
        fields = []
        for member in self.fields():
            level = levels.get(member.key)
            if level is None:
                continue
            values = self._values(member, level, rows.get(member.name, (first, last)))
            fields.append(self._column(member, level, values[kept] if level == "atom" else values))
        fields = [shaped(f, report) if f.scope == BUILTIN else f for f in fields]
        if self.name and "name" not in self.members:
            fields.append(Column(BUILTIN, "name", [self.name] * (last - first)))
        positions = self._values(self.members["positions"], "atom", atoms)
        return Columns(positions[kept], numbers[kept], ptr, fields)

    def _kept(self, numbers: Array, first: int, last: int) -> Any:
        """Returns which rows of some molecules are atoms, not padding."""
        if self._padding is not None:
            return numbers != self._padding
        if self._counts is None:
            return slice(None)
        counts = self._counts[first:last]
        kept = (np.arange(self._shape("positions")[1]) < counts[:, None]).reshape(-1)
        if (numbers[~kept] > 0).any():
            key = next(self.members[name].key for name in _COUNTS if name in self.members)
            what = "expected atomic numbers of 0 after the atoms, got others"
            raise CorruptFileError(f"{self.where}: {key}: {what}: key_map can name it otherwise")
        return kept

    def _numbers(self, atoms: tuple[int, int], n_structures: int) -> Array:
        member = self.members["atomic_numbers"]
        shape = member.rows.shape
        if self.is_stacked and len(shape) == 1:
            shared = numbers_of(member.rows.read(0, shape[0]), self.where)
            return np.tile(shared, n_structures)
        return numbers_of(member.rows.read(*atoms), self.where).reshape(-1)

    def _values(self, member: Member, level: Level, rows: tuple[int, int]) -> Array:
        """Reads rows of atoms (n, ...), or of structures."""
        if level == "shared":
            shape = member.rows.shape
            value = member.rows.read(0, shape[0] if shape else 1)
            value = value.reshape(()) if shape == (1,) else value
            return np.repeat(value[None], rows[1] - rows[0], axis=0)
        values = member.rows.read(*rows)
        if level == "atom" and self.is_stacked:
            values = values.reshape(-1, *values.shape[2:])
        if self._is_known and values.shape[1:] == (1,):
            values = values[:, 0]
        return -values if member.is_gradient else values

    def _column(self, member: Member, level: Level, values: Array) -> Column:
        scope = ATOM_PROPERTY if level == "atom" else MOLECULE_PROPERTY
        target: FieldId = field_of(member.name, scope)
        if values.dtype.kind in "SUO" and level != "atom" and values.ndim == 1:
            n = 1 if level == "shared" else len(values)
            texts = [_text(value, self.where) for value in values[:n].tolist()]
            return Column(*target, texts * (len(values) // max(n, 1)))
        return Column(*target, values)


def _text(value: Any, where: str) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise CorruptFileError(f"{where}: expected UTF-8 text, got {value!r:.40}") from None


def said_level(name: str) -> Level | None:
    """Returns the level that a name implies: that of a label, or of its scope prefix."""
    field = field_of(name, BUILTIN)
    if field.scope == BUILTIN:
        builtin = BUILTINS.get(field.key)
        return builtin.level if builtin is not None and builtin.owns_key else None
    return "atom" if field.scope == ATOM_PROPERTY else "molecule"


def numbers_of(values: Array, where: str) -> Array:
    """Converts numbers or element symbols to atomic numbers.

    Args:
        values: atomic numbers, or symbols as strings or bytes.
        where: name of the array, for messages.

    Returns:
        Atomic numbers, int64, of the same shape.

    Raises:
        CorruptFileError: the values are neither.
    """
    if values.dtype.kind in "iu":
        return values
    if values.dtype.kind not in "SUO":
        raise CorruptFileError(f"{where}: atomic_numbers: expected integers, got {values.dtype}")
    if values.dtype.kind == "O":
        texts = [_text(value, where) for value in values.reshape(-1).tolist()]
        values = np.array(texts, dtype=str).reshape(values.shape)
    different, inverse = np.unique(values, return_inverse=True)
    symbols = [_text(value, where) for value in different.tolist()]
    known = {**ELEMENTS, SYMBOLS[0]: 0}
    if unknown := [symbol for symbol in symbols if symbol not in known]:
        raise CorruptFileError(f"{where}: expected element symbols, got {unknown[0]!r:.40}")
    numbers = np.array([known[symbol] for symbol in symbols], dtype=np.int64)
    return numbers[inverse].reshape(values.shape)


def joined(blocks: Iterable[Columns]) -> Iterator[Columns]:
    """Joins small blocks in a row that have the same fields, in the same types and shapes of rows.

    Args:
        blocks: blocks without masks, whose lists hold strings.

    Yields:
        The same molecules in the same order.
    """
    pending: list[Columns] = []
    for columns in blocks:
        if pending and _form(columns) != _form(pending[0]):
            yield _join(pending)
            pending = []
        pending.append(columns)
        n_structures = sum(len(one.ptr) - 1 for one in pending)
        n_atoms = sum(len(one.positions) for one in pending)
        if n_structures >= BLOCK_STRUCTURES or n_atoms >= BLOCK_ATOMS:
            yield _join(pending)
            pending = []
    if pending:
        yield _join(pending)


def _form(columns: Columns) -> list[object]:
    form: list[object] = [columns.positions.dtype]
    for scope, key, values, _ in columns.fields:
        own = (values.dtype, values.shape[1:]) if isinstance(values, np.ndarray) else ()
        form.append((scope, key, own))
    return form


def _join(blocks: list[Columns]) -> Columns:
    if len(blocks) == 1:
        return blocks[0]
    counts = np.concatenate([np.diff(block.ptr) for block in blocks])
    fields = []
    for columns in zip(*(block.fields for block in blocks), strict=True):
        parts: list[Any] = [column.values for column in columns]
        is_array = isinstance(parts[0], np.ndarray)
        whole = np.concatenate(parts) if is_array else [*chain(*parts)]
        fields.append(columns[0].with_values(whole))
    return Columns(
        np.concatenate([block.positions for block in blocks]),
        np.concatenate([block.atomic_numbers for block in blocks]),
        np.concatenate([[0], np.cumsum(counts)]),
        fields,
    )
