"""Stages that select molecules, and rename or drop fields."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.keys import KeyMap, field_of, label_of
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.datasets.selection.blocks import Field, check_known, one_of
from atompack_torch.datasets.selection.expressions import Expression
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    MOLECULE_PROPERTY,
    STRUCTURE,
    FieldId,
    prefixed_id,
)
from atompack_torch.formats.records import is_per_atom, select


class ColumnsBlock:
    """Columns as a block for expressions and groups.

    Args:
        columns: the structures.
        first: number of the first one in all sources.
    """

    def __init__(self, columns: Columns, first: int) -> None:
        self._columns, self._first = columns, first
        self.ptr = columns.ptr

    @property
    def atomic_numbers(self) -> Array:
        """(N,) integers."""
        return self._columns.atomic_numbers

    @property
    def names(self) -> Set[str]:
        """Names of the fields of the block."""
        return names_in(self._columns)

    def find(self, name: str) -> Field | None:
        """Returns a field by its name, None if no structure of the block has it."""
        if name == "index":
            n = len(self.ptr) - 1
            return Field(np.arange(self._first, self._first + n), is_per_atom=False)
        if name in ("positions", "atomic_numbers"):
            return Field(getattr(self._columns, name), is_per_atom=True)
        column = column_named(name, self._columns)
        if column is None or (column.mask is not None and not column.mask.any()):
            return None
        return Field(column.values, is_per_atom(column), column.mask)


def column_named(name: str, columns: Columns) -> Column | None:
    """Returns the column that a name denotes, as in ``selection.blocks.one_of``.

    Args:
        name: the name of a label or a property, with or without its scope.
        columns: a block.

    Returns:
        The column; None if there is none.

    Raises:
        FieldError: atoms and structures both have a property of that key.
    """
    by_label = {label_of(column): column for column in columns.fields}
    ids = [FieldId(column.scope, column.key) for column in columns.fields]
    found = one_of(name, ids, by_label)
    return None if found is None else by_label[found]


def names_in(columns: Columns) -> set[str]:
    """Returns the names by which expressions may use the fields of a block."""
    return names_of(map(label_of, columns.fields))


def names_of(labels: Iterable[str]) -> set[str]:
    """Returns the names by which expressions may use fields.

    Args:
        labels: names of the fields, as ``label_of`` gives them.

    Returns:
        The names, with and without scopes, and those of parts of every structure.
    """
    labels = [*labels]
    keys = {scoped.key for label in labels if (scoped := prefixed_id(label)) is not None}
    return {"positions", "atomic_numbers", "index", *keys, *labels}


class Filter(Stage):
    """Drops the molecules for which an expression is not true.

    Args:
        expression: the expression.
    """

    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    def begin(self, run: Run) -> None:
        """Counts molecules from 0."""
        self._first = 0
        self._known: set[str] = set()

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Selects the molecules of a block."""
        self._known |= names_in(columns)
        keep = self._expression.evaluate(ColumnsBlock(columns, self._first))
        self._first += len(keep)
        return columns if keep.all() else select(columns, keep)

    def finish(self, run: Run) -> None:
        """Checks that some molecule had each field."""
        if self._first:
            self._expression.check(self._known)


class Numbers(Stage):
    """Drops all molecules but those with certain numbers.

    Args:
        numbers: (m,) numbers in all sources, ascending.
    """

    def __init__(self, numbers: Array) -> None:
        self._numbers = numbers

    def begin(self, run: Run) -> None:
        """Counts molecules from 0."""
        self._first = 0

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Selects the molecules of a block."""
        n = len(columns.ptr) - 1
        begin, end = np.searchsorted(self._numbers, [self._first, self._first + n])
        keep = np.zeros(n, bool)
        keep[self._numbers[begin:end] - self._first] = True
        self._first += n
        return columns if keep.all() else select(columns, keep)

    def finish(self, run: Run) -> None:
        """Checks that all numbers occurred."""
        if len(self._numbers) and self._numbers[-1] >= self._first:
            raise FieldError(
                f"expected at least {self._numbers[-1] + 1} structures, got {self._first}"
            )


class Rename(Stage):
    """Renames fields; a field that exists already is not replaced.

    Args:
        keys: old name → new name.

    Raises:
        ValueError: two fields would get one name, or the name is that of a part of every molecule.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        if not keys:
            raise ValueError("key_map: expected at least one old=new, got none")
        self._keys = dict(keys)
        self._map = KeyMap(keys)

    def begin(self, run: Run) -> None:
        """Looks for the names again."""
        self._map = KeyMap(self._keys)

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Renames the fields of a block."""
        for new in self._keys.values():
            targets = {field_of(new, scope) for scope in (ATOM_PROPERTY, MOLECULE_PROPERTY)}
            for column in columns.fields:
                is_renamed = {column.key, label_of(column)} & self._keys.keys()
                if FieldId(column.scope, column.key) in targets and not is_renamed:
                    raise FieldError(f"{new!r}: exists already: drop it first, or rename it too")
        return self._map.apply(columns, run.block_report)

    def finish(self, run: Run) -> None:
        """Checks that every old name occurred."""
        for key in self._map.missing:
            raise FieldError(f"key_map: no structure has a field {key!r}")


class Drop(Stage):
    """Drops fields.

    Args:
        names: names of labels and properties.

    Raises:
        ValueError: no name, or that of a part of every molecule.
    """

    def __init__(self, names: Collection[str]) -> None:
        if isinstance(names, str) or not names:
            raise ValueError(f"fields: expected at least one name in a list, got {names!r}")
        for name in names:
            if name in STRUCTURE:
                raise ValueError(f"fields: {name!r} is part of every structure")
        self._names = [*names]

    def begin(self, run: Run) -> None:
        """Looks for the names again."""
        self._known: set[str] = set()
        self._found: set[str] = set()

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Drops fields of a block."""
        self._known |= names_in(columns)
        dropped = []
        for name in self._names:
            column = column_named(name, columns)
            if column is not None:
                self._found.add(name)
                dropped.append(label_of(column))
        return columns._replace(
            fields=[column for column in columns.fields if label_of(column) not in dropped]
        )

    def finish(self, run: Run) -> None:
        """Checks that every name occurred."""
        for name in self._names:
            if name not in self._found:
                check_known(name, self._known - {name}, "fields: ")
                raise FieldError(f"fields: no structure has {name!r}")
