"""Reading of ATLAS stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import torch

from atompack_torch._core import read_held
from atompack_torch.batch.indices import Indices
from atompack_torch.formats.atlas_store.array_schema import ArraySchema
from atompack_torch.formats.atlas_store.array_statistics import ArrayStatistics, Bound
from atompack_torch.formats.atlas_store.column_scan import ColumnScan, Layout
from atompack_torch.formats.atlas_store.store_columns import StoreColumns
from atompack_torch.formats.atlas_store.store_handle import StoreHandle
from atompack_torch.formats.atlas_store.store_names import StoreNames
from atompack_torch.formats.atlas_store.store_statistics import StoreStatistics
from atompack_torch.formats.atlas_store.stored_values import Attribute, Values
from atompack_torch.formats.writer_base import FlushingWriter

if TYPE_CHECKING:
    import xarray


class ReadableAtlasStore(FlushingWriter):
    """Base of ``AtlasStore`` with all that reads: names, attributes, layouts, values."""

    _handle: StoreHandle

    def _own(self, handle: StoreHandle) -> None:
        names = StoreNames(handle)
        self._handle = handle
        self._names = names
        self._statistics = StoreStatistics(handle, names)
        self.columns = StoreColumns(handle, names)

    def __getstate__(self) -> dict[str, object]:
        return self._handle.state()

    def __setstate__(self, state: dict[str, object]) -> None:
        self._own(StoreHandle.of_state(state))

    @property
    def datasets(self) -> list[str]:
        """Names of the datasets, in stored order."""
        return list(self._names.datasets())

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays of all datasets, sorted."""
        return sorted(self._names.arrays())

    def arrays_of(self, dataset: str) -> list[str]:
        """Returns the names of the arrays of one dataset.

        Args:
            dataset: name of the dataset.

        Returns:
            Names in stored order, pending changes included.

        Raises:
            FieldError: there is no such dataset.
        """
        return self._names.arrays_of(dataset)

    def attrs(self, dataset: str) -> dict[str, Attribute]:
        """Returns the attributes of a dataset.

        Args:
            dataset: name of the dataset.

        Returns:
            Key to bool, int, float, str or ``numpy.datetime64`` in nanoseconds, pending changes
            included.

        Raises:
            FieldError: there is no such dataset.
        """
        return self._handle.current().attributes(self._names.dataset_number(dataset))

    @overload
    def schema(self, array: str, dataset: None = None) -> dict[str, ArraySchema]: ...
    @overload
    def schema(self, array: str, dataset: str) -> ArraySchema: ...
    def schema(
        self, array: str, dataset: str | None = None
    ) -> ArraySchema | dict[str, ArraySchema]:
        """Storage layout of an array.

        Args:
            array: its name.
            dataset: name of one dataset; None: all that have the array.

        Returns:
            An ``ArraySchema``, or a dict from dataset to ``ArraySchema``.

        Raises:
            FieldError: no such array or dataset.
            CorruptFileError: the array's file contradicts itself or the metadata.
        """
        columns = self.columns
        return columns.schemas(array) if dataset is None else columns.schema(array, dataset)

    def read(
        self,
        dataset: str,
        array: str,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Values:
        """Reads one array of one dataset, or a slice of it.

        Args:
            dataset: name of the dataset.
            array: name of the array.
            start: the first element along each axis; None: 0.
            shape: number of elements along each axis, clamped to the array; None: to the end.

        Returns:
            A tensor of the stored dtype, timestamps as int64 nanoseconds; strings and binary values
            as ``str`` or ``bytes`` in lists nested once per axis.

        Raises:
            FieldError: no such dataset or array, other axes, or beyond ``max_unstored_bytes``.
            CorruptFileError: the file is damaged.
        """
        reader = self._handle.held_reader
        if reader is not None and start is None and shape is None:
            try:
                held = read_held(reader, dataset, array)
            except TypeError:  # a name that is not a string: as in a scan
                held = None
            if held is not None:
                return held
        return self.columns.read(dataset, array, start, shape)

    def scan(
        self,
        array: str,
        datasets: Sequence[str] | Indices | None = None,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        layout: Layout = "stacked",
        dtype: torch.dtype | None = None,
        *,
        num_threads: int | None = None,
    ) -> ColumnScan:
        """Reads the same slice of one array from many datasets.

        Each block that holds a part of it is decompressed once, on several threads.

        Args:
            array: name of the array.
            datasets: names, or indices into ``datasets``, in any order, repeats allowed; or a bool
                mask with one entry per dataset; None: all, in stored order.
            start: the first element along each axis; None: 0.
            shape: number of elements along each axis, clamped to each array; None: to the end.
            layout: see ``ColumnScan``.
            dtype: cast numbers while copying: floats and integers to floats, integers to integer
                dtypes that can represent all of them.
            num_threads: maximum number of threads; None: as many as torch uses.

        Returns:
            Values of the D datasets, with their mask and names.

        Raises:
            FieldError: no such array or dataset, shapes or dtypes differ where the layout joins
                them, a different number of axes, or a cast that loses range.
            IndexError: an index is out of range, or the mask has the wrong length.
            TypeError: ``datasets`` is neither names nor integers nor a mask.
            CorruptFileError: a file is damaged.
        """
        options = (start, shape, layout, dtype, num_threads)
        return self.columns.scan([array], datasets, *options)[array]

    def scan_many(
        self,
        arrays: Sequence[str],
        datasets: Sequence[str] | Indices | None = None,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        layout: Layout = "stacked",
        dtype: torch.dtype | None = None,
        *,
        num_threads: int | None = None,
    ) -> dict[str, ColumnScan]:
        """Runs ``scan`` for several arrays at once; all tensors share one allocation.

        Args:
            arrays: names of arrays.
            datasets: as for ``scan``.
            start: the first element along each axis of every array; None: 0.
            shape: number of elements along each axis, clamped to each array; None: to the end.
            layout: see ``ColumnScan``.
            dtype: as for ``scan``.
            num_threads: maximum number of threads; None: as many as torch uses.

        Returns:
            Name of each array to its ``ColumnScan``.

        Raises:
            FieldError, IndexError, TypeError, CorruptFileError: as for ``scan``.
        """
        return self.columns.scan(arrays, datasets, start, shape, layout, dtype, num_threads)

    def stats(self, array: str) -> dict[str, ArrayStatistics]:
        """Returns the stored statistics of an array; no data is read.

        Args:
            array: name of the array.

        Returns:
            Dataset to statistics. Datasets whose array was never written are left out, and after a
            killed flush all whose array it changed, until the store is opened for writing.

        Raises:
            FieldError: there is no such array.
        """
        return self._statistics.of_array(array)

    def select(
        self,
        array: str,
        min: Bound | None = None,  # noqa: A002
        max: Bound | None = None,  # noqa: A002
    ) -> list[str]:
        """Datasets whose array may hold a value from ``min`` to ``max``; no data is read.

        The decision rests on the stored statistics, which ignore fill values: arrays without
        statistics may match, arrays that hold only fill values do not.

        Args:
            array: name of the array.
            min: lower bound, inclusive; None: no bound.
            max: upper bound, inclusive; None: no bound.

        Returns:
            Names, in stored order.

        Raises:
            FieldError: no such array, or a numeric bound for an array of strings or the reverse.
            TypeError: a bound is neither a number nor a string nor a ``datetime64``.
        """
        return self._statistics.select(array, min, max)

    def to_xarray(
        self,
        dataset: str | Sequence[str],
        arrays: Sequence[str] | None = None,
        *,
        concat_dim: str = "dataset",
        chunks: Any = None,
    ) -> xarray.Dataset:
        """Opens one dataset, or several as one, with xarray; needs the extra ``xarray``.

        Values are read when they are used, and only those that are; ``.load()`` reads all. They
        are then those of the store at that time. Coordinates, dimensions, attributes of variables
        and ``_FillValue`` are restored as ``from_xarray`` or atlas-python stored them. Several
        datasets are stacked along a new dimension, whose coordinate has their names; their other
        coordinates and attributes are those of the first.

        Args:
            dataset: name of the dataset, or a list of names.
            arrays: names of the arrays; None: all.
            concat_dim: name of the new dimension for a list.
            chunks: None: without dask; ``{}``: dask arrays with the stored chunks; else as for
                ``xarray.open_dataset``.

        Returns:
            The dataset.

        Raises:
            FieldError: no such dataset or array, the dimensions of arrays are inconsistent, or
                layouts differ between the datasets of a list.
        """
        import xarray

        return xarray.open_dataset(
            self,  # type: ignore[arg-type]  # passed on to the engine
            engine="atlas",
            group=dataset,
            arrays=arrays,
            concat_dim=concat_dim,
            chunks=chunks,
        )

    def __len__(self) -> int:
        return len(self._handle.current())

    def __repr__(self) -> str:
        content = f"{len(self)} datasets" if self._handle.is_open else "not open"
        return f"AtlasStore({self._handle.path!r}, {content})"
