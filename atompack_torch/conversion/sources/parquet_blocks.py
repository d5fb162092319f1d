"""Conversion of batches of Arrow columns to blocks of structures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.keys import ELEMENTS
from atompack_torch.conversion.sources.public_sets import PublicSet, stress_from_vasp
from atompack_torch.conversion.targets.parquet import NUMBERS, POSITIONS
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, BUILTINS, FieldId
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.records import filled, stress_of_six

if TYPE_CHECKING:
    import pyarrow as pa

_VOIGT = (6,)
_STRUCTURE = (POSITIONS, NUMBERS)


class Layout(NamedTuple):
    """Level and shape of the values of a property.

    Attributes:
        is_of_atoms: True if it has rows of atoms.
        shape: shape of a row, or of the value of a molecule; None if it varies.
    """

    is_of_atoms: bool
    shape: tuple[int, ...] | None


_UNKNOWN = Layout(is_of_atoms=True, shape=None)  # no atom has a value so far


class Field(NamedTuple):
    """A column to read.

    Attributes:
        column: its name in the file; with the name of a part, ``COLUMN.PART``.
        path: name of the column and, if it has structs, of the parts on the way to its values.
        target: the field that it becomes; ``positions`` and ``atomic_numbers`` as labels.
        kind: ``"number"`` or ``"string"``.
        is_leveled: True if the target says whether there are values of atoms.
        is_given: True if ``keys`` names it, and values stay as they are.
        layout: its level and row shape; None: learned from its values.
    """

    column: str
    path: tuple[str, ...]
    target: FieldId
    kind: str
    is_leveled: bool
    is_given: bool
    layout: Layout | None = None


class BlockReader:
    """Converts the batches of one file.

    Args:
        path: path of the file, for messages.
        fields: the columns to read, positions and atomic numbers among them.
        known: the public set that the file belongs to; None: another file.
        report: receives molecules that are refused, and values that are omitted.
    """

    def __init__(
        self, path: str, fields: Sequence[Field], known: PublicSet | None, report: Report
    ) -> None:
        self._path, self._known, self._report = path, known, report
        self._structure = {f.target.key: f for f in fields if f.target in _STRUCTURE}
        self._fields = [field for field in fields if field.target not in _STRUCTURE]
        self._layouts: dict[str, Layout | None] = {}

    def columns(self, batch: Any, first: int) -> Columns | None:
        """Converts a batch.

        Args:
            batch: an Arrow record batch.
            first: number of its first molecule in the source.

        Returns:
            The molecules; None if none of them is complete.

        Raises:
            CorruptFileError: a molecule is incomplete, unless such are skipped.
            FieldError: atomic numbers are neither integers nor symbols.
        """
        index = np.arange(len(batch)) + first
        while len(batch):
            fields = (*self._fields, *self._structure.values())
            arrays = {field.column: _values_at(batch, field) for field in fields}
            block = _Block({name: leaves_of(array) for name, array in arrays.items()})
            numbers = self._numbers(block)
            self._check_labels(block)
            if not block.faults:
                return self._made(block, numbers)
            for i, fault in sorted(block.faults.items()):
                self._report.refuse(
                    CorruptFileError(f"{self._path}: {fault} (molecule {int(index[i])})")
                )
            keep = np.delete(np.arange(len(batch)), [*block.faults])
            batch, index = batch.take(keep), index[keep]
        return None

    def _numbers(self, block: _Block) -> Array:
        """Returns the atomic numbers; finds molecules without them, or without positions."""
        field = self._structure["atomic_numbers"]
        found = block.leaves[field.column]
        block.n_atoms = np.diff(found.offsets)
        places = block.leaves[self._structure["positions"].column]
        for name, present in (
            ("atomic_numbers", found.present),
            ("positions", without_nulls(places)),
        ):
            for i in np.flatnonzero(~present).tolist():
                block.faults.setdefault(i, f"{name}: expected values, got null")
        block.fault_of_shape("positions", places, block.n_atoms, (3,))
        if field.kind == "string":
            indices, symbols = symbols_of(found)
            table = np.array([ELEMENTS.get(symbol, 0) for symbol in symbols] + [0], dtype=np.uint8)
            numbers = table[indices]
            for atom in np.flatnonzero((numbers == 0) & (indices >= 0)).tolist():
                i = int(np.searchsorted(found.offsets, atom, side="right")) - 1
                symbol = symbols[indices[atom]]
                block.faults.setdefault(i, f"expected symbols of elements, got {symbol!r:.40}")
            return numbers
        good = np.ones(len(found.present), dtype=bool)
        numbers = dense(found, good, block.n_atoms, ())
        if numbers.dtype.kind not in "iu":
            where = f"{self._path}: {field.column}"
            raise FieldError(f"{where}: expected integers or symbols, got {numbers.dtype}")
        return numbers

    def _check_labels(self, block: _Block) -> None:
        """Finds molecules with labels of other shapes."""
        for field in self._fields:
            if _is_label(field):
                found = block.leaves[field.column]
                counts, shape = self._form(block, field.target.key, found)
                block.fault_of_shape(field.column, found, counts, shape)

    def _form(self, block: _Block, key: str, found: Leaves) -> tuple[Array, tuple[int, ...]]:
        """Returns the number of rows of each molecule for a label, and their shape in the file."""
        shape, counts = BUILTINS[key].shape, block.counts(is_of_atoms=BUILTINS[key].level == "atom")
        if key == "pbc" and found.depth == 0:
            return counts, ()
        if key == "stress" and found.depth == 1 and found.present.any():
            first = int(found.counts[found.present][0])
            return counts, _VOIGT if first == _VOIGT[0] else shape
        return counts, shape

    def _made(self, block: _Block, numbers: Array) -> Columns:
        made: dict[FieldId, Column] = {}
        for field in self._fields:
            own = self._column(block, field)
            if own is not None and (own.mask is None or own.mask.any()):
                made[field.target] = filled(made.get(field.target), own, block.n_atoms)
        ptr = np.concatenate([[0], np.cumsum(block.n_atoms)])
        everything = np.ones(len(block.n_atoms), dtype=bool)
        found = block.leaves[self._structure["positions"].column]
        places = dense(found, everything, block.n_atoms, (3,))
        return Columns(places, numbers, ptr, [*made.values()])

    def _column(self, block: _Block, field: Field) -> Column | None:
        """Returns the values of a field; None if no molecule has it."""
        found = block.leaves[field.column]
        if not found.present.any():
            return None
        if _is_label(field):
            return self._label(block, field, found)
        if field.kind == "number" and field.target.scope != BUILTIN:
            return self._property(block, field, found)
        texts: Any = found.values.to_pylist()
        if field.kind == "number":  # a name
            texts = np.asarray(found.values).astype(str).tolist()
        return Column(*field.target, texts, _or_none(found.present))

    def _label(self, block: _Block, field: Field, found: Leaves) -> Column:
        key = field.target.key
        counts, shape = self._form(block, key, found)
        values = dense(found, found.present, counts, shape)
        if key == "pbc":
            values = np.broadcast_to(values.reshape(len(values), -1) != 0, (len(values), 3))
        if key == "stress":
            known = None if field.is_given else self._known
            if shape == _VOIGT:
                values = stress_of_six(values, self._report, is_voigt=known is not None)
            if known is not None and known.stress == "vasp":
                values = stress_from_vasp(values, self._report, field.column)
        return Column(BUILTIN, key, values, _or_none(found.present))

    def _property(self, block: _Block, field: Field, found: Leaves) -> Column | None:
        """Returns a numeric property; None if no molecule has it in the shape of the first."""
        if field.column not in self._layouts:
            learned = field.layout or self._layout(field, found, block.n_atoms)
            if learned is _UNKNOWN:  # not equal: rows of atoms may vary in shape, too
                return None
            self._layouts[field.column] = learned
        layout = self._layouts[field.column]
        what = f"column {field.column!r}"
        n_there = int(found.present.sum())
        if layout is None:
            self._report.skip(what, "its lists vary in length, and not with the atoms", n_there)
            return None
        counts = block.counts(is_of_atoms=layout.is_of_atoms)
        scope = ATOM_PROPERTY if layout.is_of_atoms else field.target.scope
        if layout.shape is None:
            good, entries = entries_of(found, counts if layout.is_of_atoms else None)
            made = Column(scope, field.target.key, entries, _or_none(good))
        else:
            good = fits(found, counts, layout.shape)
            values = dense(found, good, counts, layout.shape)
            made = Column(scope, field.target.key, values, _or_none(good))
        if n_lost := n_there - int(good.sum()):
            why = f"expected {'rows of atoms' if layout.is_of_atoms else layout.shape}, got others"
            self._report.skip(what, why, n_lost)
        return made if good.any() else None

    def _layout(self, field: Field, found: Leaves, n_atoms: Array) -> Layout | None:
        """Determines the level and the row shape of a property."""
        if found.depth == 0:
            return Layout(is_of_atoms=False, shape=())
        counts, n_atoms = found.counts[found.present], n_atoms[found.present]
        may_be_atoms = bool((counts == n_atoms).all())
        may_be_one = bool((counts == counts[0]).all())
        of_atoms = field.target.scope == ATOM_PROPERTY
        if not field.is_leveled:
            of_atoms = may_be_atoms
            if may_be_atoms and may_be_one:
                of_atoms = int(counts[0]) != 3 or found.depth > 1
                level = "each atom" if of_atoms else "the molecule"
                self._report.note(
                    f"{field.column!r} taken as a property of {level}; key_map can say otherwise"
                )
        if not (may_be_atoms if of_atoms else may_be_one):
            return None
        sizes = np.diff(found.offsets)[found.present]
        rows = counts if of_atoms else np.ones_like(counts)
        if not rows.sum():
            return _UNKNOWN
        n_values = int(sizes.sum()) // int(rows.sum())
        width = int(found.widths[0]) if found.widths is not None and len(found.widths) else 0
        n_axes = found.depth - of_atoms
        if n_axes == 0:
            return Layout(of_atoms, ())
        if n_axes == 1 or not width or n_values % width:
            return Layout(of_atoms, (n_values,))
        return Layout(of_atoms, (n_values // width, width))


class _Block:
    """Values of one batch, and the molecules found to be incomplete."""

    def __init__(self, leaves: dict[str, Leaves]) -> None:
        self.leaves = leaves
        self.faults: dict[int, str] = {}
        self.n_atoms = np.zeros(0, dtype=np.int64)

    def counts(self, *, is_of_atoms: bool) -> Array:
        """Returns the number of rows of each molecule: its atoms, or 1."""
        return self.n_atoms if is_of_atoms else np.ones_like(self.n_atoms)

    def fault_of_shape(
        self, name: str, leaves: Leaves, counts: Array, shape: tuple[int, ...]
    ) -> None:
        """Records the molecules that have a different number of values, or other rows."""
        wrong = leaves.present & ~fits(leaves, counts, shape)
        for i in np.flatnonzero(wrong).tolist():
            expected = int(counts[i]) * int(np.prod(shape))
            got = int(leaves.offsets[i + 1] - leaves.offsets[i])
            rows = f" in rows of {shape[-1]}" if shape else ""
            fault = f"{name}: expected {expected} values{rows}, got {got}"
            self.faults.setdefault(i, fault)


def _values_at(batch: Any, field: Field) -> Any:
    """Returns the array of a column, or of a part of its structs."""
    import pyarrow.compute as pc

    column, *parts = field.path
    return pc.struct_field(batch.column(column), parts) if parts else batch.column(column)


def _is_label(field: Field) -> bool:
    """True for numbers of a label."""
    is_builtin = field.target.scope == BUILTIN and field.target.key != "name"
    return is_builtin and field.kind == "number"


def _or_none(mask: Array) -> Array | None:
    return None if mask.all() else mask


class Leaves(NamedTuple):
    """Values of B rows of an array, in order, with nested lists flattened.

    Attributes:
        values: the innermost values, an Arrow array without lists.
        offsets: (B + 1,) index of the first value of each row.
        present: (B,) bool, False for rows that are null, or have null among values that are not
            floats.
        counts: (B,) lengths of the outermost lists; 1 if a row is one value.
        widths: (R,) lengths of the innermost lists; None if a row is one value.
        rows: (B + 1,) index of the first innermost list of each row.
        depth: number of nested lists.
    """

    values: Any
    offsets: Array
    present: Array
    counts: Array
    widths: Array | None
    rows: Array
    depth: int


def form_of(type_: pa.DataType) -> tuple[str, int]:
    """Returns the kind of the innermost values of a type, and its depth.

    Args:
        type_: type of an Arrow column.

    Returns:
        ``"number"``, ``"string"``, or the type as text if columns have no place for it; and the
        number of nested lists.
    """
    import pyarrow.types as of

    depth = 0
    while _is_list(type_) or isinstance(type_, _extension()):
        depth += _is_list(type_)
        type_ = type_.value_type if _is_list(type_) else type_.storage_type
    if of.is_dictionary(type_):
        type_ = type_.value_type
    if of.is_floating(type_) or of.is_integer(type_) or of.is_boolean(type_):
        return "number", depth
    is_string = of.is_string(type_) or of.is_large_string(type_) or of.is_string_view(type_)
    return "string" if is_string else str(type_), depth


def leaves_of(array: pa.Array) -> Leaves:
    """Flattens the nested lists of an array.

    Args:
        array: an Arrow array of values or lists.

    Returns:
        Its values.
    """
    import pyarrow.compute as pc
    import pyarrow.types as of

    present = _numpy(array.is_valid())
    offsets = rows = np.arange(len(array) + 1, dtype=np.int64)
    counts = np.ones(len(array), dtype=np.int64)
    widths, depth = None, 0
    while True:
        if isinstance(array.type, _extension()):
            array = array.storage
        if not _is_list(array.type):
            break
        widths = _numpy(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
        rows, offsets = offsets, np.concatenate([[0], np.cumsum(widths)])[offsets]
        counts = counts if depth else widths
        array = array.flatten()
        depth += 1
    found = Leaves(array, offsets, present, counts, widths, rows, depth)
    return found if of.is_floating(array.type) else found._replace(present=without_nulls(found))


def fits(leaves: Leaves, counts: Array, shape: tuple[int, ...]) -> Array:
    """Finds the rows whose values have the expected number and shape.

    Values may also be one flat list.

    Args:
        leaves: the values.
        counts: (B,) number of entries per row, such as its number of atoms.
        shape: shape of an entry.

    Returns:
        (B,) bool; False for rows that are null.
    """
    good = leaves.present & (np.diff(leaves.offsets) == counts * int(np.prod(shape)))
    if leaves.depth > 1 and shape and leaves.widths is not None:
        wrong = np.flatnonzero(leaves.widths != shape[-1])
        good[np.searchsorted(leaves.rows, wrong, side="right") - 1] = False
    return np.asarray(good)


def dense(leaves: Leaves, good: Array, counts: Array, shape: tuple[int, ...]) -> Array:
    """Returns the values of some rows as one array; those of the others are zeros.

    Args:
        leaves: values, numbers.
        good: (B,) bool, rows that ``fits`` found.
        counts: (B,) number of entries per row.
        shape: shape of an entry.

    Returns:
        (sum of ``counts``, *shape) numbers; null in a list of floats is NaN.
    """
    values = _numpy(leaves.values)
    if good.all():
        return values.reshape(int(counts.sum()), *shape)
    made = np.zeros((int(counts.sum()), *shape), dtype=values.dtype)
    lengths = np.diff(leaves.offsets)
    made[np.repeat(good, counts)] = values[np.repeat(good, lengths)].reshape(-1, *shape)
    return made


def entries_of(leaves: Leaves, counts: Array | None) -> tuple[Array, list[Array | str | None]]:
    """Returns the values of each row as an array of its own shape, of up to three axes.

    Args:
        leaves: values, numbers.
        counts: (B,) expected lengths of the outermost lists; None: any.

    Returns:
        (B,) bool, False for rows that are null or whose lists differ in length; and the values,
        None for those rows.
    """
    flat, good = _numpy(leaves.values), leaves.present.copy()
    entries: list[Array | str | None] = [None] * len(good)
    for i in np.flatnonzero(good).tolist():
        lists = slice(leaves.rows[i], leaves.rows[i + 1])
        widths = [] if leaves.widths is None or leaves.depth < 2 else leaves.widths[lists].tolist()
        n, size = int(leaves.counts[i]), int(leaves.offsets[i + 1] - leaves.offsets[i])
        width = widths[0] if widths else 0
        shape: tuple[int, ...] = (
            (n, width) if leaves.depth == 2 else (n, len(widths) // max(n, 1), width)
        )
        shape = (n,) if leaves.depth == 1 else shape
        is_expected = counts is None or n == counts[i]
        if size != int(np.prod(shape)) or not is_expected or len({*widths}) > 1:
            good[i] = False
        else:
            entries[i] = flat[leaves.offsets[i] : leaves.offsets[i + 1]].reshape(shape)
    return good, entries


def without_nulls(leaves: Leaves) -> Array:
    """Finds the rows that have no null among their values.

    Args:
        leaves: the values.

    Returns:
        (B,) bool.
    """
    good = leaves.present.copy()
    if leaves.values.null_count:
        nulls = np.flatnonzero(_numpy(leaves.values.is_null()))
        good[np.searchsorted(leaves.offsets, nulls, side="right") - 1] = False
    return good


def symbols_of(leaves: Leaves) -> tuple[Array, list[Any]]:
    """Returns (V,) indices of strings, -1 for null, and the strings themselves, each once."""
    import pyarrow.types as of

    array = leaves.values
    if not of.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = _numpy(array.indices.cast("int64").fill_null(-1))
    return indices, array.dictionary.to_pylist()


def _numpy(array: Any) -> Array:
    """Converts an array without lists; null becomes NaN in floats, and 0 elsewhere."""
    import pyarrow.types as of

    if of.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        is_bool = of.is_boolean(array.type)
        array = array.fill_null(
            float("nan") if of.is_floating(array.type) else False if is_bool else 0
        )
    values: Array = array.to_numpy(zero_copy_only=False)
    return values


def _is_list(type_: Any) -> bool:
    import pyarrow.types as of

    return bool(of.is_list(type_) or of.is_large_list(type_) or of.is_fixed_size_list(type_))


def _extension() -> type:
    import pyarrow as pa

    extension: type = pa.BaseExtensionType
    return extension
