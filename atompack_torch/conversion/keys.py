"""Labels by name: mapping from keys of a source, and properties that are labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    FieldId,
    check_targets,
    prefixed_id,
)
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.records import filled, is_per_atom, present, stress_of_six

# Symbol → atomic number.
ELEMENTS = {symbol: z for z, symbol in enumerate(SYMBOLS) if z}


def label_of(column: Column) -> str:
    """Returns the name of a field in reports and key maps."""
    return PREFIXES.get(column.scope, "") + column.key


def elements_in(keys: Mapping[str, str], types: Collection[str]) -> dict[str, int]:
    """Returns the atomic numbers that keys give to types of atoms, such as ``{"OW": "O"}``.

    Args:
        keys: name in the source → name here.
        types: names of the types in the source.

    Returns:
        Name of a type → atomic number, 0 for ``"X"``, which is not an element.
    """
    given = {key: name for key, name in keys.items() if key in types and name in SYMBOLS}
    return {key: SYMBOLS.index(name) for key, name in given.items()}


def numbers_of_types(symbols: Iterable[object], elements: dict[str, int]) -> list[int]:
    """Returns the atomic numbers of types of atoms; -1 where the element is unknown.

    Args:
        symbols: names of the types, which are symbols of elements unless ``elements`` has them.
        elements: name of a type → atomic number.

    Returns:
        The numbers.
    """
    known = ELEMENTS | elements
    return [known.get(str(symbol), -1) for symbol in symbols]


def element_hint(name: object) -> str:
    """Returns the advice for a type of atoms whose element is unknown."""
    return f"name its element in key_map (--key {name!s:.40}=SYMBOL)"


class SourceNames:
    """Names of the values of a source that gives some of them a meaning by their names.

    Args:
        keys: name in the source → name here, as the user gives them.
        report: receives values that lose their name, and keys that do not occur.
    """

    def __init__(self, keys: Mapping[str, str], report: Report) -> None:
        self.keys, self._report = keys, report
        self._given = {*keys.values()}
        self._missing = {*keys}

    def here(self, key: str, usual: str, what: str) -> str | None:
        """Returns the name that a value of the source gets in this package.

        Args:
            key: its name in the source.
            usual: what that name means unless ``keys`` says otherwise.
            what: the kind of value, for the report.

        Returns:
            The name; None if ``keys`` gives it to another value, so that this one is dropped.
        """
        self._missing.discard(key)
        if key in self.keys or usual not in self._given:
            return self.keys.get(key, usual)
        if usual != key:
            return key
        self._report.skip(f"{what} {key!r}", "key_map gives its name to another")
        return None

    def check_all_found(self, path: object, nothing: str) -> None:
        """Reports the keys that ``here`` was not asked about.

        Args:
            path: path of the source.
            nothing: what the source lacks, as ``"no array"``.

        Raises:
            FieldError: no source has one of them.
        """
        for key in sorted(self._missing):
            error = FieldError(f"{path}: key_map: {nothing} {key!r}")
            self._report.miss_key(key, error)


class KeyMap:
    """Renaming of the fields of blocks, which also makes labels of what ``with_labels`` describes.

    Args:
        keys: name in the source (a key, or with its scope as ``properties/KEY``) → a label such as
            ``energy``, or the name of a custom property. If a label is mapped, a field of the
            source that already has its name is dropped in all molecules.

    Raises:
        ValueError: two keys have one name, or a name is that of a part of every molecule.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        check_targets(keys)
        self._keys = dict(keys)
        self._missing = set(keys)

    def apply(self, columns: Columns, report: Report) -> Columns:
        """Renames the fields of a block.

        Args:
            columns: the block.
            report: receives the renamings.

        Returns:
            The block with renamed fields.

        Raises:
            FieldError: a value does not have the shape of the label it is mapped to.
        """
        fields = [self._rename(column, columns.ptr, report) for column in columns.fields]
        return with_labels(columns.with_fields([field for field in fields if field is not None]))

    @property
    def missing(self) -> list[str]:
        """Keys that occurred in no molecule so far."""
        return sorted(self._missing)

    def _rename(self, column: Column, ptr: Array, report: Report) -> Column | None:
        source = column.key if column.key in self._keys else label_of(column)
        if source not in self._keys:
            target = field_of(label_of(column), column.scope)
            taken = [k for k, name in self._keys.items() if field_of(name, column.scope) == target]
            if not taken:
                return column
            count = len(ptr) - 1 if column.mask is None else int(column.mask.sum())
            report.skip(label_of(column), f"{taken[0]!r} takes its name", count)
            return None
        self._missing.discard(source)
        scope = column.scope
        if scope == BUILTIN:
            scope = ATOM_PROPERTY if is_per_atom(column) else MOLECULE_PROPERTY
        target = field_of(self._keys[source], scope)
        renamed = Column(*target, column.values, column.mask)
        report.note(f"{source!r} became {label_of(renamed)!r}")
        report.origin(label_of(renamed), source)
        if is_per_atom(renamed) != is_per_atom(column):
            renamed = _of_the_atoms(source, renamed, ptr)
        return shaped(renamed, report) if target.scope == BUILTIN else renamed


class MapKeys(Stage):
    """Renames fields by ``key_map``, where a source does not do so itself, and finds labels.

    Args:
        keys: name in the source → name here.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = keys

    def begin_source(self, run: Run) -> None:
        """Looks for the keys again."""
        self._map = KeyMap(run.source.other_keys(self._keys))

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Renames the fields of a block."""
        return self._map.apply(columns, run.block_report)

    def end_source(self, run: Run) -> None:
        """Reports the keys that no molecule of the source has."""
        for key in self._map.missing if run.reads_whole_source else ():
            error = FieldError(f"{run.source.path}: key_map: no molecule has a field {key!r}")
            run.report.miss_key(key, error)


# Labels that share their key with custom properties → scope of those.
_SHARED = {
    key: ATOM_PROPERTY if builtin.level == "atom" else MOLECULE_PROPERTY
    for key, builtin in BUILTINS.items()
    if not builtin.owns_key
}


def with_labels(columns: Columns) -> Columns:
    """Makes labels of properties with the key of a label that shares it, and with its form.

    Args:
        columns: a block.

    Returns:
        The block; values of other types and shapes stay properties.
    """
    for key, scope in _SHARED.items():
        fields = {column[:2]: column for column in columns.fields}
        held, label = fields.get((scope, key)), fields.get((BUILTIN, key))
        if held is None:
            continue
        there = present(held, len(columns.ptr) - 1)
        fits = there & _have_form(held, BUILTINS[key].shape)
        if label is not None:
            fits &= ~present(label, len(there))
        if not fits.any():
            continue
        made = filled(label, held._replace(scope=BUILTIN, mask=fits), np.diff(columns.ptr))
        rest = [] if (there == fits).all() else [held._replace(mask=there & ~fits)]
        kept = [column for column in columns.fields if column is not label]
        at = next(i for i, column in enumerate(kept) if column is held)
        columns = columns._replace(fields=[*kept[:at], made, *rest, *kept[at + 1 :]])
    return columns


def stored_field(field: Column | FieldId) -> FieldId:
    """Returns the field as which ``.atp`` stores a field: some labels are properties there."""
    scope = _SHARED.get(field.key, BUILTIN) if field.scope == BUILTIN else field.scope
    return FieldId(scope, field.key)


def _have_form(column: Column, shape: tuple[int, ...]) -> Array:
    """Returns (B,) bool, True for molecules whose values are floats in rows of a shape."""
    if isinstance(column.values, np.ndarray):
        return np.array(column.values.dtype.kind == "f" and column.values.shape[1:] == shape)
    start = int(is_per_atom(column))
    return np.array(
        [
            isinstance(value, np.ndarray)
            and value.dtype.kind == "f"
            and value.shape[start:] == shape
            for value in column.values
        ],
        dtype=bool,
    )


def field_of(name: str, scope: int) -> FieldId:
    """Returns the field that a name denotes; ``scope`` is that of custom ones without a prefix.

    A label that shares its key with properties is one until ``with_labels`` has seen its values.
    """
    is_label = name in BUILTINS and BUILTINS[name].owns_key
    return FieldId(BUILTIN, name) if is_label else prefixed_id(name) or FieldId(scope, name)


def _of_the_atoms(source: str, column: Column, ptr: Array) -> Column:
    """Converts a per-structure value with one row per atom to per-atom rows."""
    if not is_per_atom(column):
        raise FieldError(f"key_map: {source!r} has rows for atoms, {label_of(column)!r} has none")
    counts = np.diff(ptr)
    values = column.values
    if isinstance(values, np.ndarray):
        values = [*values]
    has = np.ones(len(counts), bool) if column.mask is None else column.mask
    for i in np.flatnonzero(has).tolist():
        value = values[i]
        got = value.shape if isinstance(value, np.ndarray) else ()
        if got[:1] != (counts[i],):
            raise FieldError(
                f"key_map: {source!r}: expected {counts[i]} rows, one an atom, got {got}"
            )
    return column.with_values(values)


def shaped(column: Column, report: Report) -> Column:
    """Reshapes a label to the format's shape if it is an equivalent form of it."""
    shape = BUILTINS[column.key].shape
    start = 1 if isinstance(column.values, np.ndarray) or is_per_atom(column) else 0

    def fitting(value: Array | str | None) -> Array | str | None:
        if not isinstance(value, np.ndarray) or value.shape[start:] == shape:
            return value
        own = value.shape[start:]
        if column.key == "stress" and own == (6,):
            return stress_of_six(value, report)
        if own == (1, *shape) or (own == (9,) and shape == (3, 3)) or own == (*shape, 1):
            return value.reshape((*value.shape[:start], *shape))
        return value

    if isinstance(column.values, np.ndarray):
        whole = fitting(column.values)
        assert isinstance(whole, np.ndarray)
        return column.with_values(whole)
    return column.with_values([fitting(value) for value in column.values])
