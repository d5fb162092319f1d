"""ATLAS stores: thousands of named datasets whose arrays are stored together by variable."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch

from atompack_torch import formats
from atompack_torch._core import ColumnBatcher, scan_columns
from atompack_torch._native import AtlasReader, AtlasWriter
from atompack_torch.batch.indices import Indices, names_in
from atompack_torch.errors import FieldError, file_exists
from atompack_torch.options import (
    MAX_METADATA_BYTES,
    absolute_path,
    check_choice,
    check_level,
    check_limits,
    check_threads,
    utf8,
)
from atompack_torch.stores.array_schema import ArraySchema
from atompack_torch.stores.array_statistics import (
    ArrayStatistics,
    Bound,
    check_bounds,
    comparable,
    may_match,
)
from atompack_torch.stores.atlas_changes import StoreChanges
from atompack_torch.stores.column_scan import LAYOUTS, ColumnScan, Layout
from atompack_torch.stores.stored_values import extents
from atompack_torch.stores.xarray_datasets import XarrayDatasets

FORMS = ("json", "json.zst", "json.lz4", "msgpack", "msgpack.zst", "msgpack.lz4")


class AtlasStore(StoreChanges, XarrayDatasets):
    """Handle of an ATLAS store, a folder of named datasets.

        with AtlasStore("profiles") as store:
            column = store.scan("temperature", layout="jagged")

        with AtlasStore("profiles", "x") as store:
            store.create_dataset("cast-1")
            store.define_array("cast-1", "temperature", "float32", (50,))
            store.write("cast-1", "temperature", values)

    A handle opened for reading keeps showing the same datasets while other processes write. It
    raises when it would have to read files of a later flush; ``refresh`` then moves it to that
    flush. It can be pickled and used in forked processes.

    In a handle opened for writing, changes are pending until ``flush``, which makes them visible
    atomically: after a crash at any point the store is in the state of the last flush or of this
    one. ``datasets``, ``attrs``, ``schema`` and ``read`` include pending changes; ``scan``,
    ``stats`` and ``select`` show the last flush. Leaving the ``with`` block flushes, unless an
    exception is raised in it.

    Args:
        path: the folder.
        mode: ``"r"``: read; ``"x"``: create a new store; ``"a"``: open an existing store, or create
            it.
        codec: codec of blocks written from now on: ``"zstd"``, ``"lz4"``, ``"none"``; None: the
            store's.
        level: zstd level, -131072 to 22; for lz4 only its fast mode is available.
        block_bytes: chunks are compressed together in blocks of about this size. A block is always
            decoded as a whole: small blocks suit random access, large ones compress better.
        durable: ``flush`` waits for the disk, so that it survives a power failure. False: it
            survives only the end of the process, at any point, and saves milliseconds per
            variable.
        metadata: format of a new store's metadata file: ``"json"`` or ``"msgpack"``, optionally
            followed by ``".zst"`` or ``".lz4"``.
        max_metadata_bytes: limit on the decompressed size of the metadata file, and on the footers
            of each variable.
        max_unstored_bytes: memory that elements without stored bytes (fill values) may take in one
            ``read`` or, for each array, one ``scan``; None: 256 MiB, or 64 times the bytes of the
            array's files. Read larger sparse arrays in parts (``start``, ``shape``).

    Raises:
        FileNotFoundError: no such folder, or it has no metadata (mode ``"r"``).
        OSError: the folder or a file cannot be opened, or the store already exists (mode ``"x"``).
        WriterLockedError: another writer has the store open.
        CorruptFileError: the metadata contradict the format.
        UnsupportedFormatError: the version is not supported, or the path is of another format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Literal["r", "a", "x"] = "r",
        codec: Literal["zstd", "lz4", "none"] | None = None,
        *,
        level: int = 3,
        block_bytes: int = 8 << 20,
        durable: bool = True,
        metadata: str = "json",
        max_metadata_bytes: int = MAX_METADATA_BYTES,
        max_unstored_bytes: int | None = None,
    ) -> None:
        check_choice("mode", mode, ("r", "a", "x"))
        if codec is not None:
            check_choice("codec", codec, ("zstd", "lz4", "none"))
        check_level(codec, level)
        check_choice("metadata", metadata, FORMS)
        if block_bytes < 1:
            raise ValueError(f"block_bytes: expected a positive number, got {block_bytes}")
        check_limits(max_metadata_bytes, max_unstored_bytes)
        self._path = absolute_path(path)
        self._mode = mode
        self._limits = (max_metadata_bytes, max_unstored_bytes)
        self._native: AtlasReader | None = None
        self._version: Any = None
        self._variables: dict[str, int] | None = None
        self._names: list[str] | None = None
        self._writer: AtlasWriter | None = None
        if mode != "r":
            form = FORMS.index(metadata)
            try:
                with formats.opening(self._path, "an ATLAS store", "atlas-store"):
                    self._writer = AtlasWriter(
                        self._path,
                        mode == "x",
                        codec,
                        form,
                        level,
                        block_bytes,
                        durable,
                        *self._limits,
                    )
            except FileExistsError:
                raise file_exists(self._path, "mode='a' goes on with it") from None
            return
        for text in self._reader().warnings:
            warnings.warn(text, stacklevel=2)

    def _reader(self) -> AtlasReader:
        # No lock, which a fork could inherit in the locked state; opening twice is harmless.
        native = self._native
        if native is None:
            native = self._opened(self._version)
            self._native, self._version = native, native.version
        return native

    def _opened(self, version: Any) -> AtlasReader:
        with formats.opening(self._path, "an ATLAS store (a folder)", "atlas-store"):
            native = AtlasReader(self._path, version, self._limits[0])
            formats.check_store(self._path)
        return native

    def _last_flush(self) -> AtlasStore:
        """Opens a separate read handle at the last flush that this handle shows."""
        native = self._reader()
        view = AtlasStore.__new__(AtlasStore)
        state = {"_path": self._path, "_version": native.version, "_mode": "r"}
        view.__setstate__(state | {"_limits": self._limits})
        view._native = native
        return view

    def _handle(self) -> AtlasReader | AtlasWriter:
        """Native handle that shows the current state, pending changes of a writer included."""
        return self._reader() if self._writer is None else self._writer

    def __getstate__(self) -> dict[str, Any]:
        if self._mode != "r":
            raise TypeError("a store that is open for writing cannot be pickled")
        kept = ("_path", "_version", "_mode", "_limits")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._native = self._variables = self._names = self._writer = None

    @property
    def path(self) -> str:
        """Path of the folder."""
        return self._path

    @property
    def datasets(self) -> list[str]:
        """Names of the datasets, in stored order."""
        return list(self._dataset_names())

    def _flushed_names(self) -> list[str]:
        """Names of the flushed datasets, in the order of the reader's numbering."""
        return self._dataset_names() if self._writer is None else self._reader().dataset_names()

    def _dataset_names(self) -> list[str]:
        if self._names is None:
            self._names = self._handle().dataset_names()
        return self._names

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays of all datasets, sorted."""
        return sorted(self._variable_numbers())

    def arrays_of(self, dataset: str) -> list[str]:
        """Names of the arrays of one dataset, in stored order.

        Raises:
            FieldError: no such dataset.
        """
        handle = self._handle()
        names = handle.variable_names()
        return [str(names[i]) for i in handle.variables_of(self._number(dataset))]

    def _variable_numbers(self) -> dict[str, int]:
        if self._variables is None:
            used = self._handle().variable_names()
            self._variables = {name: i for i, name in enumerate(used) if name is not None}
        return self._variables

    def _stored_variable(self, array: str) -> int:
        """Returns the reader's number for a flushed array."""
        if self._writer is None:
            return self._variable(array)
        try:
            return self._reader().variable_names().index(array)
        except ValueError:
            raise FieldError(f"{self._path}: no dataset has an array {array!r}") from None

    def _variable(self, array: str) -> int:
        try:
            return self._variable_numbers()[array]
        except KeyError:
            raise FieldError(f"{self._path}: no dataset has an array {array!r}") from None

    def _number(self, dataset: str) -> int:
        return self._numbers(self._handle(), [dataset])[0]

    def attrs(self, dataset: str) -> dict[str, Any]:
        """Attributes of a dataset: bool, int, float, str or ``numpy.datetime64`` in nanoseconds.

        Raises:
            FieldError: no such dataset.
        """
        return self._handle().attributes(self._number(dataset))

    def schema(self, array: str, dataset: str | None = None) -> Any:
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
        variable = self._variable(array)
        if dataset is not None:
            return self._schema_of(variable, array, dataset)
        present = set(self._handle().datasets_with(variable))
        names = self._dataset_names()
        numbers = self._numbers(self._handle(), names)
        having = (name for name, i in zip(names, numbers, strict=True) if i in present)
        return {name: self._schema_of(variable, array, name) for name in having}

    def _schema_of(self, variable: int, array: str, dataset: str) -> ArraySchema:
        if self._writer is not None:
            return ArraySchema.of(self._definition(dataset, array))
        return ArraySchema.of(self._reader().array(variable, self._number(dataset)))

    def read(
        self,
        dataset: str,
        array: str,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Any:
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
            FieldError: no such dataset or array, a different number of axes, or
                ``max_unstored_bytes`` is exceeded.
            CorruptFileError: the file is damaged.
        """
        if self._writer is not None:
            schema = ArraySchema.of(self._definition(dataset, array))
            first, counts = schema.box(start, shape)
            return schema.loaded(self._writer.read(dataset, array, first, counts), counts)
        scan = self.scan(array, [dataset], start, shape, layout="list")
        assert isinstance(scan.values, list)
        if not bool(scan.mask[0]):
            raise FieldError(f"{self._path}: dataset {dataset!r} has no array {array!r}")
        return scan.values[0]

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

        Raises:
            FieldError: no such array or dataset, shapes or dtypes differ where the layout joins
                them, a different number of axes, or a cast that loses range.
            IndexError: an index is out of range, or the mask has the wrong length.
            TypeError: ``datasets`` is neither names nor integers nor a mask.
            CorruptFileError: a file is damaged.
        """
        scans = self.scan_many(
            [array], datasets, start, shape, layout, dtype, num_threads=num_threads
        )
        return scans[array]

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
        """Runs ``scan`` for several arrays at once; all tensors share one allocation."""
        named = None if datasets is None else names_in(datasets)
        options = self._scan_options(start, shape, layout, dtype, num_threads)
        variables = [self._stored_variable(array) for array in arrays]
        rows = cast(Indices | None, datasets if named is None else None)
        try:
            made = scan_columns(self._reader(), variables, rows, named, **options)
        except TypeError:  # a name that is no string, or not representable in UTF-8
            for name in named or ():
                utf8(f"{self._path}: dataset", name)
            raise
        _, columns, names = made
        return {
            array: ColumnScan(values, offsets, mask, names)
            for array, (values, offsets, mask) in zip(arrays, columns, strict=True)
        }

    def _batcher(self, arrays: Sequence[str], *options: Any) -> ColumnBatcher:
        variables = [self._stored_variable(array) for array in arrays]
        return ColumnBatcher(self._reader(), variables, **self._scan_options(*options))

    def _scan_options(
        self,
        start: Sequence[int] | None,
        shape: Sequence[int] | None,
        layout: str,
        dtype: torch.dtype | None,
        num_threads: int | None,
    ) -> dict[str, Any]:
        """Options of a scan in the form that the native core takes."""
        if layout not in LAYOUTS:
            raise ValueError(f"layout: expected one of {', '.join(LAYOUTS)}, got {layout!r}")
        check_threads(num_threads)
        return {
            "start": extents("start", start),
            "count": extents("shape", shape),
            "layout": layout,
            "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
            "max_threads": num_threads or 0,
            "max_unstored_bytes": self._limits[1],
        }

    def stats(self, array: str) -> dict[str, ArrayStatistics]:
        """Stored statistics of an array, by dataset; no data is read.

        Datasets whose array was never written are left out.

        Raises:
            FieldError: no such array.
        """
        variable = self._stored_variable(array)
        stored = self._reader().statistics(variable)
        names = self._flushed_names()
        present = (names[i] for i in self._reader().datasets_with(variable))
        return {name: ArrayStatistics(*stored[name]) for name in present if name in stored}

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
        variable = self._stored_variable(array)
        stored = self._reader().statistics(variable)
        names = self._flushed_names()
        least, most = comparable(min), comparable(max)
        check_bounds(f"{self._path}: array {array!r}", stored.values(), least, most)
        return [
            names[i]
            for i in self._reader().datasets_with(variable)
            if may_match(stored.get(names[i]), least, most)
        ]

    def refresh(self) -> bool:
        """Moves to the latest flush; True if there was a newer one."""
        native = self._opened(None)
        if is_news := native.version != self._version:
            self._native, self._version = native, native.version
            self._variables = self._names = None
        return bool(is_news)

    def __len__(self) -> int:
        return len(self._handle())

    def __repr__(self) -> str:
        if self._writer is None and self._native is None:
            return f"AtlasStore({self._path!r}, not open)"
        return f"AtlasStore({self._path!r}, {len(self)} datasets)"
