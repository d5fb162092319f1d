"""Reading of arrays of a store: single ones, and scans over many datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, cast

import torch

from atompack_torch._core import ColumnBatcher, scan_columns
from atompack_torch._native import AtlasReader
from atompack_torch.batch.indices import Indices, names_in
from atompack_torch.errors import FieldError
from atompack_torch.formats.atlas_store.array_schema import ArraySchema
from atompack_torch.formats.atlas_store.column_scan import LAYOUTS, ColumnScan, Layout
from atompack_torch.formats.atlas_store.store_handle import StoreHandle, Version
from atompack_torch.formats.atlas_store.store_names import StoreNames
from atompack_torch.formats.atlas_store.stored_values import Values, extents
from atompack_torch.options import check_choice, check_threads, utf8


class _ScanOptions(TypedDict):
    """Options of a scan in the form that the native core takes."""

    start: list[int] | None
    count: list[int] | None
    layout: str
    dtype: str | None
    max_threads: int
    max_unstored_bytes: int | None


class StoreColumns:
    """Arrays of a store; methods have the arguments of those of ``AtlasStore``.

    Args:
        handle: handle of the store.
        names: its names.
    """

    def __init__(self, handle: StoreHandle, names: StoreNames) -> None:
        self._handle = handle
        self._names = names

    @property
    def version(self) -> Version | None:
        """Identity of the flush that scans show; None: the latest one when it is first read."""
        return self._handle.version

    @property
    def reader(self) -> AtlasReader:
        """Native reader in this process, of the flush that scans show."""
        return self._handle.reader()

    def schemas(self, array: str) -> dict[str, ArraySchema]:
        """Returns the storage layout of an array in all datasets that have it."""
        number, handle = self._names.array_number(array), self._handle.current()
        present = set(handle.datasets_with(number))
        names = self._names.datasets()
        numbers = self._names.dataset_numbers(handle, names)
        having = {name: i for name, i in zip(names, numbers, strict=True) if i in present}
        if self._handle.writer is not None:
            return {name: self._schema(number, array, name) for name in having}
        found: dict[str, ArraySchema] = {}
        stored = schema = None
        for name, layout in zip(
            having, self.reader.arrays(number, list(having.values())), strict=True
        ):
            if schema is None or layout is not stored:
                stored, schema = layout, ArraySchema.of(layout)
            found[name] = schema
        return found

    def schema(self, array: str, dataset: str) -> ArraySchema:
        """Returns the storage layout of an array in one dataset."""
        return self._schema(self._names.array_number(array), array, dataset)

    def _schema(self, number: int, array: str, dataset: str) -> ArraySchema:
        writer = self._handle.writer
        if writer is not None:
            place = utf8("dataset", dataset), utf8("array", array)
            return ArraySchema.of(writer.definition(*place))
        return ArraySchema.of(
            self._handle.reader().array(number, self._names.dataset_number(dataset))
        )

    def read(
        self,
        dataset: str,
        array: str,
        start: Sequence[int] | None,
        shape: Sequence[int] | None,
    ) -> Values:
        """Reads one array of one dataset, or a slice of it."""
        writer = self._handle.writer
        if writer is not None:
            place = utf8("dataset", dataset), utf8("array", array)
            schema = ArraySchema.of(writer.definition(*place))
            first, counts = schema.box(start, shape)
            return schema.loaded(writer.read(dataset, array, first, counts), counts)
        # A scan takes numbers too.
        names = [utf8("dataset", dataset)]
        scan = self.scan([array], names, start, shape, "list", None, None)[array]
        values = scan.values[0]
        if values is None:
            raise FieldError(f"{self._handle.path}: dataset {dataset!r} has no array {array!r}")
        return values

    def scan(
        self,
        arrays: Sequence[str],
        datasets: Sequence[str] | Indices | None,
        start: Sequence[int] | None,
        shape: Sequence[int] | None,
        layout: Layout,
        dtype: torch.dtype | None,
        num_threads: int | None,
    ) -> dict[str, ColumnScan]:
        """Reads the same slice of several arrays from many datasets."""
        named = None if datasets is None else names_in(datasets)
        rows = cast("Indices | None", datasets if named is None else None)
        options = self._scan_options(start, shape, layout, dtype, num_threads)
        variables = [self._names.flushed_array_number(array) for array in arrays]
        try:
            made = scan_columns(self._handle.reader(), variables, rows, named, **options)
        except TypeError:  # a name that is no string, or not representable in UTF-8
            for name in named or ():
                utf8(f"{self._handle.path}: dataset", name)
            raise
        _, columns, names = made
        return {
            array: ColumnScan(values, offsets, mask, names)
            for array, (values, offsets, mask) in zip(arrays, columns, strict=True)
        }

    def batcher(
        self,
        arrays: Sequence[str],
        start: Sequence[int] | None,
        shape: Sequence[int] | None,
        layout: Layout,
        dtype: torch.dtype | None,
        num_threads: int | None,
        missing: Literal["nan", "error", "drop"] = "nan",
    ) -> ColumnBatcher:
        """Returns a native source of batches of flushed arrays, with checked options."""
        options = self._scan_options(start, shape, layout, dtype, num_threads)
        variables = [self._names.flushed_array_number(array) for array in arrays]
        return ColumnBatcher(self._handle.reader(), variables, **options, missing=missing)

    def _scan_options(
        self,
        start: Sequence[int] | None,
        shape: Sequence[int] | None,
        layout: Layout,
        dtype: torch.dtype | None,
        num_threads: int | None,
    ) -> _ScanOptions:
        check_choice("layout", layout, LAYOUTS)
        check_threads(num_threads)
        return {
            "start": extents("start", start),
            "count": extents("shape", shape),
            "layout": layout,
            "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
            "max_threads": num_threads or 0,
            "max_unstored_bytes": self._handle.limits.max_unstored_bytes,
        }

    def blocks(self, array: str, datasets: Sequence[int]) -> list[int]:
        """Returns the number of the block that holds the array's first chunk in each dataset."""
        return self._handle.reader().blocks(self._names.flushed_array_number(array), datasets)
