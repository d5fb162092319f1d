"""Comparison of two datasets, molecule by molecule."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.keys import label_of, with_labels
from atompack_torch.conversion.pipe import count_molecules
from atompack_torch.conversion.pipeline import Options
from atompack_torch.conversion.remote_ends import RemoteEnds
from atompack_torch.datasets.selection.blocks import check_known
from atompack_torch.errors import molecules, printable
from atompack_torch.fields import BUILTIN, CANONICAL, GEOMETRY, prefixed_id
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source
from atompack_torch.formats.records import is_per_atom, present, select
from atompack_torch.progress import Progress

_Path = str | os.PathLike[str]
_PARTS = ("atomic_numbers", "positions")


@dataclass
class FieldDifference:
    """Difference of one field.

    Attributes:
        n_compared: number of molecules that have it in both datasets.
        n_different: number of those whose values differ.
        n_only_a: number of molecules that have it in the first only.
        n_only_b: number of molecules that have it in the second only.
        max_difference: largest absolute difference of two finite numbers.
        first: indices of the first molecules that differ in any of these ways, from 0.
        dtypes: dtypes in both, where they differ; values are compared in float64.
    """

    n_compared: int = 0
    n_different: int = 0
    n_only_a: int = 0
    n_only_b: int = 0
    max_difference: float = 0.0
    first: list[int] = field(default_factory=list)
    dtypes: tuple[str, str] | None = None

    @property
    def equal(self) -> bool:
        """True if no molecule differs."""
        return not (self.n_different or self.n_only_a or self.n_only_b)


@dataclass(repr=False)
class Difference:
    """Result of ``diff``; its ``repr`` is a readable summary.

    Attributes:
        n_structures: number of molecules in both datasets.
        fields: field → how it differs, for all fields of either.
    """

    n_structures: tuple[int, int]
    fields: dict[str, FieldDifference]

    @property
    def equal(self) -> bool:
        """True if there is no difference."""
        a, b = self.n_structures
        return a == b and all(found.equal for found in self.fields.values())

    def as_dict(self) -> dict[str, object]:
        """Converts the result to plain values, for JSON.

        Returns:
            Name of the attribute → value.
        """
        fields = {
            name: {**vars(found), "dtypes": found.dtypes and [*found.dtypes]}
            for name, found in self.fields.items()
        }
        return {"equal": self.equal, "n_structures": [*self.n_structures], "fields": fields}

    def __repr__(self) -> str:
        a, b = self.n_structures
        lines = [molecules(a) if a == b else f"{molecules(a)} in A, {b:,} in B"]
        for name, found in self.fields.items():
            lines += [f"{printable(name)}: {text}" for text in _texts(found)]
        return "\n".join([*lines, "equal" if self.equal else "different"])


def _texts(found: FieldDifference) -> list[str]:
    texts = []
    for n, where in ((found.n_only_a, "only in A"), (found.n_only_b, "only in B")):
        if n:
            texts.append(f"{where}, in {molecules(n)}")
    if found.n_different:
        largest = f", by up to {found.max_difference:.6g}" if found.max_difference else ""
        texts.append(f"differs in {found.n_different:,} of {found.n_compared:,}{largest}")
    if texts:
        texts[-1] += f"; first {', '.join(map(str, found.first))}"
    if found.dtypes:
        texts.append(f"{found.dtypes[0]} in A, {found.dtypes[1]} in B")
    return texts


def diff(
    a: _Path,
    b: _Path,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    fields: Collection[str] | None = None,
    exclude: Collection[str] = (),
    max_numbers: int = 5,
    progress: bool = False,
    storage_options: Mapping[str, object] | None = None,
) -> Difference:
    """Compares two datasets, molecule by molecule in their order.

    Both are read in blocks, whatever their formats are. Two numbers are equal if they differ by at
    most ``atol + rtol * max(abs(x), abs(y))``; NaN equals NaN, and an infinite number equals itself
    alone. Labels have the names and units that ``convert`` would write; a cell of zeros counts as
    none.

    Args:
        a: a file or folder of any format that ``convert`` reads.
        b: the other one.
        rtol: relative tolerance.
        atol: absolute tolerance, in the unit of the field.
        fields: compare these only; None: all, with ``positions`` and ``atomic_numbers``.
        exclude: fields to omit. Properties have their key as a name, or one with their scope
            (``"properties/charge"``).
        max_numbers: list the numbers of at most this many molecules for each field.
        progress: show a progress bar on stderr.
        storage_options: options of the store of URLs; see ``AtpDataset``.

    Returns:
        Counts, and the differences of each field.

    Raises:
        ValueError: a tolerance is negative or NaN.
        FieldError: no molecule of either has one of ``fields``.
        FileNotFoundError: there is no such file.
        CorruptFileError: a molecule cannot be read.
    """
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise ValueError(f"{name}: expected a number from 0, got {tolerance}")
    comparison = _Comparison(rtol, atol, fields, exclude, max_numbers)
    options = Options(storage_options=storage_options)
    with RemoteEnds(storage_options, progress=progress) as remote:
        paths = [remote.source(path, None) for path in (a, b)]
        with options.open_sources(paths) as (first, second):
            return comparison.run(first, second, progress=progress)


@dataclass
class _Comparison:
    rtol: float
    atol: float
    fields: Collection[str] | None
    exclude: Collection[str]
    max_numbers: int
    found: dict[str, FieldDifference] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)

    def run(self, a: Source, b: Source, *, progress: bool) -> Difference:
        counts = count_molecules([a, b], "raise", exact=False)
        total = None if None in counts else min(filter(None, counts), default=0)
        done, rest = 0, [0, 0]
        with Progress(total, "molecules", label="comparing", enabled=progress) as bar:
            read = [map(with_labels, source.read(Report())) for source in (a, b)]
            for pair in _paired(*read):
                n = len((pair[0] or pair[1]).ptr) - 1  # type: ignore[union-attr]
                if pair[0] is None or pair[1] is None:
                    rest[pair[0] is None] += n
                    continue
                self._compare(pair[0], pair[1], done)
                done += n
                bar.update(n)
        if self._known:
            for name in self.fields or ():
                check_known(name, self._known, "fields: ")
        return Difference((done + rest[0], done + rest[1]), self.found)

    def _compare(self, a: Columns, b: Columns, first: int) -> None:
        same_size = np.diff(a.ptr) == np.diff(b.ptr)
        numbers = first + np.arange(len(same_size))
        if not same_size.all():
            everywhere = np.ones(len(same_size), bool)
            self._add("atomic_numbers", [everywhere] * 2, ~same_size, 0.0, numbers)
            numbers = numbers[same_size]
            a, b = select(a, same_size), select(b, same_size)
        if not len(numbers):
            return
        named = [
            {name: Column(BUILTIN, name, getattr(columns, name)) for name in _PARTS}
            | {label_of(column): column for column in columns.fields}
            for columns in (a, b)
        ]
        for name in {**named[0], **named[1]}:
            spellings = _spellings_of(name)
            self._known |= spellings
            if self.fields is not None and spellings.isdisjoint(self.fields):
                continue
            if not spellings.isdisjoint(self.exclude):
                continue
            self._compare_columns(name, named[0].get(name), named[1].get(name), a.ptr, numbers)

    def _compare_columns(
        self, name: str, a: Column | None, b: Column | None, ptr: Array, numbers: Array
    ) -> None:
        n = len(ptr) - 1
        has = [_present(column, n) for column in (a, b)]
        differs, largest = np.zeros(n, bool), 0.0
        both = has[0] & has[1]
        if a is not None and b is not None and both.any():
            differs, largest = self._values(a, b, ptr, both)
            if isinstance(a.values, np.ndarray) and isinstance(b.values, np.ndarray):
                dtypes = str(a.values.dtype), str(b.values.dtype)
                if dtypes[0] != dtypes[1]:
                    self.found.setdefault(name, FieldDifference()).dtypes = dtypes
        self._add(name, has, differs & both, largest, numbers)

    def _values(self, a: Column, b: Column, ptr: Array, both: Array) -> tuple[Array, float]:
        """Returns which molecules differ, (B,) bool, and the largest difference."""
        rows = ptr if a.key in _PARTS or is_per_atom(a) else None
        x, y = a.values, b.values
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.shape[1:] == y.shape[1:]:
            keep = both if rows is None else np.repeat(both, np.diff(ptr))
            unequal, largest = self._numbers(x, y, keep)
            each = unequal.reshape(len(unequal), -1).any(axis=1)
            if rows is None:
                return np.asarray(each), largest
            sums = np.concatenate([[0], np.cumsum(each)])
            return sums[ptr[1:]] > sums[ptr[:-1]], largest
        differs, largest = np.zeros(len(both), bool), 0.0
        for i in np.flatnonzero(both).tolist():
            part = i if rows is None else slice(int(ptr[i]), int(ptr[i + 1]))
            p, q = (c.values[part if isinstance(c.values, np.ndarray) else i] for c in (a, b))
            if isinstance(p, str) and isinstance(q, str):
                differs[i] = p != q  # NumPy ignores null characters at the end
                continue
            x, y = np.asarray(p), np.asarray(q)
            if np.shape(x) != np.shape(y):
                differs[i] = True
                continue
            unequal, by = self._numbers(np.atleast_1d(x), np.atleast_1d(y), np.True_)
            differs[i], largest = bool(unequal.any()), max(largest, by)
        return differs, largest

    def _numbers(self, x: Array, y: Array, keep: Any) -> tuple[Array, float]:
        """Returns which values differ, and the largest difference where ``keep`` is True."""
        if x.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
            return np.asarray(x != y), 0.0
        if x.dtype.kind in "biu" and y.dtype.kind in "biu" and not (self.rtol or self.atol):
            unequal = np.asarray(x != y)
        else:
            p, q = x.astype(np.float64), y.astype(np.float64)
            with np.errstate(invalid="ignore"):
                limit = self.atol + self.rtol * np.maximum(np.abs(p), np.abs(q))
                close = (np.abs(p - q) <= limit) & np.isfinite(p) & np.isfinite(q)
                close |= (p == q) | (np.isnan(p) & np.isnan(q))
            unequal = ~close
        with np.errstate(invalid="ignore"):
            gaps = np.abs(x.astype(np.float64) - y.astype(np.float64))[keep]
        finite = gaps[np.isfinite(gaps)]
        return unequal, float(finite.max()) if finite.size else 0.0

    def _add(
        self, name: str, has: Sequence[Array], differs: Array, largest: float, numbers: Array
    ) -> None:
        found, (in_a, in_b) = self.found.setdefault(name, FieldDifference()), has
        found.n_compared += int((in_a & in_b).sum())
        found.n_different += int(differs.sum())
        found.n_only_a += int((in_a & ~in_b).sum())
        found.n_only_b += int((in_b & ~in_a).sum())
        found.max_difference = max(found.max_difference, largest)
        if len(found.first) < self.max_numbers:
            any_way = np.flatnonzero(differs | (in_a != in_b))[: self.max_numbers]
            found.first = sorted({*found.first, *numbers[any_way].tolist()})[: self.max_numbers]


def _spellings_of(label: str) -> set[str]:
    """Returns the names of a field: properties have one without their scope too."""
    scoped = prefixed_id(label)
    return {label} if scoped is None or scoped.key in CANONICAL else {label, scoped.key}


def _present(column: Column | None, n: int) -> Array:
    """Returns which molecules have a field; a zero cell and no periodic axis count as absent."""
    there = present(column, n)
    if column is not None and column.scope == BUILTIN and column.key in GEOMETRY:
        rows = np.asarray(column.values).reshape(n, -1)
        there = there & np.asarray((rows != 0).any(axis=1))
    return there


def _paired(
    a: Iterator[Columns], b: Iterator[Columns]
) -> Iterator[tuple[Columns | None, Columns | None]]:
    """Yields blocks of both with the same number of molecules; None where one has ended."""
    sources = [(block for block in blocks if len(block.ptr) > 1) for blocks in (a, b)]
    x: Columns | None = None
    y: Columns | None = None
    while True:
        x, y = x or next(sources[0], None), y or next(sources[1], None)
        sizes = [len(columns.ptr) - 1 for columns in (x, y) if columns is not None]
        if not sizes:
            return
        (first, x), (second, y) = (_cut(columns, min(sizes)) for columns in (x, y))
        yield first, second


def _cut(columns: Columns | None, n: int) -> tuple[Columns | None, Columns | None]:
    """Splits a block after ``n`` structures."""
    if columns is None or len(columns.ptr) - 1 == n:
        return columns, None
    is_first = np.arange(len(columns.ptr) - 1) < n
    return select(columns, is_first), select(columns, ~is_first)
