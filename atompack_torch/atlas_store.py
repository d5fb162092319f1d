"""ATLAS stores: thousands of named datasets whose arrays lie together by variable."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from atompack_torch._core import AtlasReader, ColumnScanner
from atompack_torch.column_scan import LAYOUTS, ColumnScan, Layout
from atompack_torch.errors import FieldError

Number = int | float | np.datetime64


class ArraySchema(NamedTuple):
    """How an array is stored.

    Attributes:
        dtype: NumPy's name, or ``"timestamp_ns"`` (int64 nanoseconds since 1970, UTC),
            ``"string"``, ``"binary"``.
        shape: extents, () for a scalar.
        chunk_shape: elements that are stored as one piece.
        dimension_names: as whoever defined the array gave them; not always one an axis.
        fill_value: what elements hold that were never written; None: 0 (strings: ``""``).
    """

    dtype: str
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dimension_names: tuple[str, ...]
    fill_value: int | float | str | None


class ArrayStatistics(NamedTuple):
    """What a flush noted of an array.

    Attributes:
        min: the smallest value that differs from the fill value; strings as ``bytes``; None if
            there is none.
        max: the largest one.
        null_count: elements that are the fill value, or were never written.
        row_count: elements.
    """

    min: int | float | bytes | None
    max: int | float | bytes | None
    null_count: int
    row_count: int


class AtlasStore:
    """A store as it was when it was opened.

        with AtlasStore("profiles") as store:
            column = store.scan("temperature", layout="jagged")

    A handle goes on showing the same datasets while others write; where it would have to read
    files of a later flush it raises, and ``refresh`` takes that up. It can be pickled and used in
    forked processes.

    Args:
        path: the folder.
        mode: ``"r"``: read.

    Raises:
        OSError: the folder or a file cannot be opened.
        CorruptFileError: the metadata contradict the format.
        UnsupportedFormatError: a version that is not read here.
    """

    def __init__(self, path: str | os.PathLike[str], mode: str = "r") -> None:
        self._path = str(Path(path).absolute())
        self._native: AtlasReader | None = None
        self._version: Any = None
        self._numbers: dict[str, int] | None = None
        self._variables: dict[str, int] | None = None
        self._names: list[str] | None = None
        reader = self._reader()
        for text in reader.warnings:
            warnings.warn(text, stacklevel=2)

    def _reader(self) -> AtlasReader:
        # Without a lock (a fork could inherit it locked): opening twice does no harm.
        native = self._native
        if native is None:
            native = AtlasReader(self._path, self._version)
            self._native, self._version = native, native.version
        return native

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "_version": self._version}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._native = self._numbers = self._variables = self._names = None

    @property
    def path(self) -> str:
        """The folder."""
        return self._path

    @property
    def datasets(self) -> list[str]:
        """Names, in stored order."""
        return list(self._dataset_names())

    def _dataset_names(self) -> list[str]:
        if self._names is None:
            self._names = self._reader().dataset_names()
        return self._names

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays that any dataset has, sorted."""
        return sorted(self._variable_numbers())

    def arrays_of(self, dataset: str) -> list[str]:
        """Names of the arrays of one dataset, in stored order.

        Raises:
            FieldError: no such dataset.
        """
        names = self._reader().variable_names()
        return [names[i] for i in self._reader().variables_of(self._number(dataset))]

    def _variable_numbers(self) -> dict[str, int]:
        if self._variables is None:
            used = self._reader().variable_names()
            self._variables = {name: number for number, name in enumerate(used)}
        return self._variables

    def _variable(self, array: str) -> int:
        try:
            return self._variable_numbers()[array]
        except KeyError:
            raise FieldError(f"{self._path}: no dataset has an array {array!r}") from None

    def _number(self, dataset: str) -> int:
        if self._numbers is None:
            self._numbers = {name: i for i, name in enumerate(self._dataset_names())}
        try:
            return self._numbers[dataset]
        except KeyError:
            raise FieldError(f"{self._path}: no dataset {dataset!r}") from None

    def attrs(self, dataset: str) -> dict[str, Any]:
        """Attributes of a dataset: bool, int, float, str or ``numpy.datetime64`` in nanoseconds.

        Raises:
            FieldError: no such dataset.
        """
        return self._reader().attributes(self._number(dataset))

    def schema(self, array: str, dataset: str | None = None) -> Any:
        """How an array is stored.

        Args:
            array: its name.
            dataset: of which dataset; None: of all that have it.

        Returns:
            An ``ArraySchema``, or a dict of them by dataset.

        Raises:
            FieldError: no such array or dataset.
            CorruptFileError: the array's file contradicts itself or the metadata.
        """
        variable = self._variable(array)
        if dataset is not None:
            return _schema(self._reader().array(variable, self._number(dataset)))
        names = self._dataset_names()
        numbers = self._reader().datasets_with(variable)
        return {names[i]: _schema(self._reader().array(variable, i)) for i in numbers}

    def read(
        self,
        dataset: str,
        array: str,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Any:
        """One array of one dataset, or a slice of it.

        Args:
            dataset: its name.
            array: its name.
            start: the first element along each axis; None: 0.
            shape: how many, clamped to the array; None: to the end.

        Returns:
            A tensor of the stored dtype, timestamps as int64 nanoseconds; strings and binary values
            as ``str`` or ``bytes``, in lists for each axis.

        Raises:
            FieldError: no such dataset or array, another number of axes.
            CorruptFileError: the file is damaged.
        """
        scan = self.scan(array, [dataset], start, shape, layout="list")
        assert isinstance(scan.values, list)
        if not bool(scan.mask[0]):
            raise FieldError(f"{self._path}: dataset {dataset!r} has no array {array!r}")
        return scan.values[0]

    def scan(
        self,
        array: str,
        datasets: Sequence[str] | None = None,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        layout: Layout = "stacked",
        dtype: torch.dtype | None = None,
        *,
        num_threads: int | None = None,
    ) -> ColumnScan:
        """The same slice of one array over many datasets.

        Each block that holds a piece of it is decompressed once, on threads.

        Args:
            array: its name.
            datasets: names, in any order, repeats allowed; None: all, in stored order.
            start: the first element along each axis; None: 0.
            shape: how many, clamped to each array; None: to the end.
            layout: see ``ColumnScan``.
            dtype: cast numbers in the copy: floats and integers to floats, integers to integers
                that hold every one of them.
            num_threads: at most as many; None: as many as torch uses.

        Raises:
            FieldError: no such array or dataset; shapes or dtypes differ where the layout joins
                them; another number of axes; a cast that loses range.
            CorruptFileError: a file is damaged.
        """
        scans = self.scan_many(
            [array], datasets, start, shape, layout, dtype, num_threads=num_threads
        )
        return scans[array]

    def scan_many(
        self,
        arrays: Sequence[str],
        datasets: Sequence[str] | None = None,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        layout: Layout = "stacked",
        dtype: torch.dtype | None = None,
        *,
        num_threads: int | None = None,
    ) -> dict[str, ColumnScan]:
        """The same as ``scan`` for several arrays at once; all tensors share one memory."""
        scanner = self._scanner(arrays, start, shape, layout, dtype, num_threads)
        names = self._dataset_names() if datasets is None else list(datasets)
        rows = range(len(names)) if datasets is None else [self._number(name) for name in names]
        _, columns = scanner.scan(rows, None, False)
        return {
            array: ColumnScan(values, offsets, mask, names)
            for array, (values, offsets, mask) in zip(arrays, columns, strict=True)
        }

    def _scanner(
        self,
        arrays: Sequence[str],
        start: Sequence[int] | None,
        shape: Sequence[int] | None,
        layout: str,
        dtype: torch.dtype | None,
        num_threads: int | None,
    ) -> ColumnScanner:
        if layout not in LAYOUTS:
            raise ValueError(f"layout: expected one of {', '.join(LAYOUTS)}, got {layout!r}")
        return ColumnScanner(
            self._reader(),
            [self._variable(array) for array in arrays],
            start=_extents("start", start),
            count=_extents("shape", shape),
            layout=layout,
            dtype=None if dtype is None else str(dtype).removeprefix("torch."),
            max_threads=num_threads or 0,
        )

    def stats(self, array: str) -> dict[str, ArrayStatistics]:
        """What the last flushes noted of an array, by dataset; no data is read.

        Datasets whose array was never written have none.

        Raises:
            FieldError: no such array.
        """
        variable = self._variable(array)
        stored = self._reader().statistics(variable)
        names = self._dataset_names()
        present = (names[i] for i in self._reader().datasets_with(variable))
        return {name: ArrayStatistics(*stored[name]) for name in present if name in stored}

    def select(
        self,
        array: str,
        min: Number | str | None = None,  # noqa: A002
        max: Number | str | None = None,  # noqa: A002
    ) -> list[str]:
        """Datasets whose array may hold a value from ``min`` to ``max``; no data is read.

        Judged by the stored statistics, which leave fill values out: those without statistics may
        match, those that hold nothing but fill values do not.

        Args:
            array: its name.
            min: the least value that is looked for; None: no bound.
            max: the largest one.

        Returns:
            Names, in stored order.

        Raises:
            FieldError: no such array.
        """
        variable = self._variable(array)
        stored = self._reader().statistics(variable)
        names = self._dataset_names()
        least, most = _comparable(min), _comparable(max)
        return [
            names[i]
            for i in self._reader().datasets_with(variable)
            if _may_match(stored.get(names[i]), least, most)
        ]

    def refresh(self) -> bool:
        """Takes up what was flushed since; True if there was anything."""
        before = self._version
        self._native = self._version = None
        self._numbers = self._variables = self._names = None
        self._reader()
        return bool(self._version != before)

    def close(self) -> None:
        """Lets go of the files; the next read opens them again."""
        self._native = None

    def __enter__(self) -> AtlasStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._reader())

    def __repr__(self) -> str:
        return f"AtlasStore({self._path!r}, {len(self)} datasets)"


def _schema(stored: tuple[str, Any, Any, Any, Any]) -> ArraySchema:
    dtype, shape, chunk_shape, names, fill = stored
    return ArraySchema(dtype, tuple(shape), tuple(chunk_shape), tuple(names), fill)


def _extents(name: str, given: Sequence[int] | None) -> list[int] | None:
    if given is None:
        return None
    extents = [int(extent) for extent in given]
    if any(extent < 0 for extent in extents):
        raise ValueError(f"{name}: expected numbers from 0, got {extents}")
    return extents


def _comparable(bound: Number | str | None) -> Any:
    if isinstance(bound, str):
        return bound.encode("utf-8", "surrogateescape")
    if isinstance(bound, np.datetime64):
        return int(bound.astype("datetime64[ns]").astype(np.int64))
    return bound


def _may_match(stored: tuple[Any, Any, int, int] | None, least: Any, most: Any) -> bool:
    if stored is None or (least is None and most is None):
        return True
    low, high, _, _ = stored
    if low is None or high is None:
        return False
    below = least is not None and high < least  # comparisons with NaN are false: it may match
    above = most is not None and low > most
    return not bool(below or above)
