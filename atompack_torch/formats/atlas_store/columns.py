"""Columns of a store: names in it, scans of one array of many datasets, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from atompack_torch._core import ColumnBatcher, scan_columns
from atompack_torch._native import AtlasReader, AtlasWriter
from atompack_torch.batch.indices import Indices, names_in
from atompack_torch.display.charts import Series, bins_of, histogram, meter
from atompack_torch.display.fragments import fragment
from atompack_torch.display.markup import Markup, percent, short, table
from atompack_torch.errors import FieldError
from atompack_torch.formats.atlas_store.array_schema import ArraySchema
from atompack_torch.formats.atlas_store.handles import StoreHandle, Version
from atompack_torch.formats.atlas_store.stored_values import Attribute, Values, extents
from atompack_torch.options import check_choice, check_threads, short_list, utf8

_MOST_DATASETS, _MOST_VALUES = 8, 100_000


def scan_html(scan: ColumnScan, layout: str, values: str) -> str:
    """Returns the coverage of a scan, the names of some datasets, and a histogram.

    Args:
        scan: the scan.
        layout: name of its layout.
        values: its values in words.

    Returns:
        The HTML.
    """
    n, there = len(scan.mask), int(scan.mask.sum())
    names = ", ".join(short(name, 40) for name in scan.datasets[:_MOST_DATASETS])
    names += ", …" if n > _MOST_DATASETS else ""
    rows: list[tuple[object, object]] = [
        ("layout", layout),
        ("values", values),
        ("datasets with the array", meter(there, n, f"{percent(there, n)} ({there:,})")),
        ("datasets", names),
    ]
    return fragment("ColumnScan", f"{n:,} datasets", table((), rows), _histogram(scan))


def _histogram(scan: ColumnScan) -> Markup:
    if not isinstance(scan.values, Tensor) or scan.values.dtype == torch.bool:
        return Markup()
    flat = scan.values.flatten()
    flat = flat[:: max(1, -(-len(flat) // _MOST_VALUES))].double()
    finite = flat[flat.isfinite()]
    if len(finite) < 2:
        return Markup()
    low, high = finite.aminmax()
    edges = bins_of(low.item(), high.item(), 40)
    counts = torch.histc(finite, 40, edges[0], edges[-1]).long().tolist()
    return histogram(edges, [Series("", counts)], label="values", unit="values")


Layout = Literal["stacked", "jagged", "list"]
LAYOUTS = ("stacked", "jagged", "list")


@dataclass(frozen=True, repr=False)
class ColumnScan:
    """Values of one array in D datasets.

    Attributes:
        values: layout ``"stacked"``: (D, *shape), rows of datasets without the array are NaN (0 for
            integers) and masked; ``"jagged"``: (sum of lengths, *rest), concatenated along the
            first axis; ``"list"``: D tensors, each in its own shape, None where the array is
            missing. Strings and binary values: a list with one entry per dataset (``"jagged"``:
            one per value) of ``str`` or ``bytes``, in lists nested once per axis. Timestamps are
            int64 nanoseconds since 1970 (UTC).
        offsets: (D + 1,) int64, layout ``"jagged"``: dataset i has rows ``offsets[i]`` to
            ``offsets[i + 1]``.
        mask: (D,) bool, True for datasets that have the array.
        datasets: names of the datasets.
    """

    values: Tensor | Sequence[Values | None]
    offsets: Tensor | None
    mask: Tensor
    datasets: Sequence[str]

    def __repr__(self) -> str:
        layout, values = self._described()
        names = short_list(self.datasets, len(self.datasets), most=3)
        n_missing = len(self.mask) - int(self.mask.sum())
        return (
            f"ColumnScan({layout}, values: {values}, {len(self.datasets):,} datasets"
            f"{f' ({n_missing:,} without the array)' if n_missing else ''}"
            f"{f': {names}' if names else ''})"
        )

    def _repr_html_(self) -> str:
        return scan_html(self, *self._described())

    def _described(self) -> tuple[str, str]:
        """Returns the layout, and the values in words."""
        if self.offsets is not None:
            layout = "jagged"
        else:
            layout = "stacked" if isinstance(self.values, Tensor) else "list"
        if not isinstance(self.values, Tensor):
            return layout, f"list of {len(self.values):,}"
        dtype = str(self.values.dtype).removeprefix("torch.")
        return layout, f"{tuple(self.values.shape)} {dtype}"

    def nested(self) -> Tensor:
        """Views jagged values as a ``torch.nested`` tensor of layout ``torch.jagged``.

        Returns:
            (D, lengths, *rest), sharing the memory of ``values``.

        Raises:
            ValueError: the layout is not ``"jagged"``, or the values are strings.
        """
        if self.offsets is None or not isinstance(self.values, Tensor):
            raise ValueError('nested: expected a column of numbers with layout="jagged"')
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)


class StoreNames:
    """Names in a store, pending changes included where nothing else is said.

    Args:
        handle: handle of the store.
    """

    def __init__(self, handle: StoreHandle) -> None:
        self._handle = handle
        self._n_changes = -1  # those of the handle that the names below include
        self._datasets: list[str] | None = None
        self._arrays: dict[str, int] | None = None

    def _forget_older(self) -> None:
        if self._n_changes != self._handle.n_changes:
            self._n_changes, self._datasets, self._arrays = self._handle.n_changes, None, None

    def datasets(self) -> list[str]:
        """Returns the names of the datasets, in stored order; not to be modified."""
        self._forget_older()
        names = self._datasets
        if names is None:
            names = self._datasets = self._handle.current().dataset_names()
        return names

    def flushed_datasets(self) -> list[str]:
        """Returns the names of the flushed datasets, in the order of the reader's numbers."""
        if self._handle.writer is None:
            return self.datasets()
        return self._handle.reader().dataset_names()

    def arrays(self) -> dict[str, int]:
        """Returns the numbers of the arrays by name; not to be modified."""
        self._forget_older()
        numbers = self._arrays
        if numbers is None:
            names = self._handle.current().variable_names()
            numbers = self._arrays = {x: i for i, x in enumerate(names) if x is not None}
        return numbers

    def arrays_of(self, dataset: str) -> list[str]:
        """Returns the names of the arrays of a dataset, in stored order."""
        handle = self._handle.current()
        names = handle.variable_names()
        return [str(names[i]) for i in handle.variables_of(self.dataset_number(dataset))]

    def array_number(self, array: str) -> int:
        """Returns the number of an array; FieldError if none has this name."""
        try:
            return self.arrays()[array]
        except KeyError:
            raise self._no_array(array) from None

    def flushed_array_number(self, array: str) -> int:
        """Returns the reader's number for a flushed array; FieldError if it is missing."""
        if self._handle.writer is None:
            return self.array_number(array)
        try:
            return self._handle.reader().variable_names().index(array)
        except ValueError:
            raise self._no_array(array) from None

    def dataset_number(self, dataset: str) -> int:
        """Returns the number of a dataset; FieldError if none has this name."""
        return self.dataset_numbers(self._handle.current(), [dataset])[0]

    def dataset_numbers(self, handle: AtlasReader | AtlasWriter, datasets: list[str]) -> list[int]:
        """Returns the numbers that a native handle has for datasets.

        Args:
            handle: the native reader or writer.
            datasets: names.

        Returns:
            The numbers, in the order of the names.

        Raises:
            FieldError: no such dataset.
            TypeError: a name is not a string.
        """
        try:
            return handle.find_datasets(datasets)
        except FieldError as error:
            raise FieldError(f"{self._handle.path}: {error}") from None
        except TypeError:  # not strings, or not representable in UTF-8
            for name in datasets:
                utf8(f"{self._handle.path}: dataset", name)
            raise

    def _no_array(self, array: str) -> FieldError:
        return FieldError(f"{self._handle.path}: no dataset has an array {array!r}")


class ScanOptions(NamedTuple):
    """Slice of each array that a scan reads, and form of its result; see ``AtlasStore.scan``."""

    start: Sequence[int] | None = None
    shape: Sequence[int] | None = None
    layout: Layout = "stacked"
    dtype: torch.dtype | None = None
    num_threads: int | None = None

    def native(self, max_unstored_bytes: int | None) -> dict[str, Any]:
        """Checks the options, and returns them as the native core takes them."""
        check_choice("layout", self.layout, LAYOUTS)
        check_threads(self.num_threads)
        return {
            "start": extents("start", self.start),
            "count": extents("shape", self.shape),
            "layout": self.layout,
            "dtype": None if self.dtype is None else str(self.dtype).removeprefix("torch."),
            "max_threads": self.num_threads or 0,
            "max_unstored_bytes": max_unstored_bytes,
        }


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

    @property
    def has_array_attributes(self) -> bool:
        """True if arrays have attributes of their own, as in all but the oldest stores."""
        return self._handle.writer is None and self.reader.has_array_attributes

    def attributes(self, dataset: str, array: str) -> dict[str, Attribute]:
        """Returns the attributes of an array that are its own."""
        number = self._names.dataset_number(dataset)
        return self.reader.attributes(number, self._names.array_number(array))

    def attributes_in_doubt(self, dataset: str, array: str | None) -> list[str]:
        """Returns keys of attributes whose value may be wrong or missing."""
        number = self._names.dataset_number(dataset)
        if self._handle.writer is not None:
            return []
        variable = None if array is None else self._names.array_number(array)
        return self.reader.attributes_in_doubt(number, variable)

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
        scan = self.scan([array], names, ScanOptions(start, shape, "list"))[array]
        values = scan.values[0]
        if values is None:
            raise FieldError(f"{self._handle.path}: dataset {dataset!r} has no array {array!r}")
        return values

    def scan(
        self,
        arrays: Sequence[str],
        datasets: Sequence[str] | Indices | None,
        options: ScanOptions,
    ) -> dict[str, ColumnScan]:
        """Reads the same slice of several arrays from many datasets."""
        named = None if datasets is None else names_in(datasets)
        rows = cast("Indices | None", datasets if named is None else None)
        native = options.native(self._handle.limits.max_unstored_bytes)
        variables = [self._names.flushed_array_number(array) for array in arrays]
        try:
            made = scan_columns(self._handle.reader(), variables, rows, named, **native)
        except TypeError:  # a name that is not a string, or not representable in UTF-8
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
        options: ScanOptions,
        missing: Literal["nan", "error", "drop"] = "nan",
    ) -> ColumnBatcher:
        """Returns a native source of batches of flushed arrays, with checked options."""
        native = options.native(self._handle.limits.max_unstored_bytes)
        variables = [self._names.flushed_array_number(array) for array in arrays]
        return ColumnBatcher(self._handle.reader(), variables, **native, missing=missing)

    def blocks(self, array: str, datasets: Sequence[int]) -> list[int]:
        """Returns the number of the block that holds the array's first chunk in each dataset."""
        return self._handle.reader().blocks(self._names.flushed_array_number(array), datasets)
