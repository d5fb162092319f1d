"""ATLAS stores: thousands of named datasets whose arrays lie together by variable."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch

from atompack_torch import formats
from atompack_torch._core import ColumnScanner, resolve_indices
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
    """A folder of datasets.

        with AtlasStore("profiles") as store:
            column = store.scan("temperature", layout="jagged")

        with AtlasStore("profiles", "x") as store:
            store.create_dataset("cast-1")
            store.define_array("cast-1", "temperature", "float32", (50,))
            store.write("cast-1", "temperature", values)

    Opened for reading, a handle goes on showing the same datasets while others write; where it
    would have to read files of a later flush it raises, and ``refresh`` takes that up. It can be
    pickled and used in forked processes.

    Opened for writing, changes are pending until ``flush``, which makes them visible all together:
    a stop at any moment leaves the store as the last flush left it, or as this one. ``datasets``,
    ``attrs``, ``schema`` and ``read`` show what is pending; ``scan``, ``stats`` and ``select`` show
    the last flush. Leaving the ``with`` block flushes, unless an exception leaves it.

    Args:
        path: the folder.
        mode: ``"r"``: read; ``"x"``: make a new store; ``"a"``: go on with one, or make it.
        codec: of blocks written from now on: ``"zstd"``, ``"lz4"``, ``"none"``; None: the store's.
        level: of zstd, -131072 to 22; lz4 has its fast mode only.
        block_bytes: chunks are compressed together in blocks of about this size. A block is decoded
            whole: small ones suit random access, large ones compress better.
        durable: ``flush`` waits for the disk, so that it survives a loss of power. False: it
            survives the end of the process at any moment, and costs milliseconds less for each
            variable.
        metadata: form of a new store's metadata file: ``"json"`` or ``"msgpack"``, perhaps with
            ``".zst"`` or ``".lz4"`` behind it.
        max_metadata_bytes: bytes that the metadata file may have, decompressed, and the footers of
            each variable.
        max_unstored_bytes: memory that elements without stored bytes (fill values) may take in one
            ``read`` or, for each array, one ``scan``; None: 256 MiB, or 64 times the bytes of the
            array's files. Larger sparse arrays are read in parts (``start``, ``shape``).

    Raises:
        FileNotFoundError: no such folder, or one without metadata (mode ``"r"``).
        OSError: the folder or a file cannot be opened; it exists (mode ``"x"``).
        WriterLockedError: another writer has the store open.
        CorruptFileError: the metadata contradict the format.
        UnsupportedFormatError: a version that is not read here, or something of another format.
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
        # Without a lock (a fork could inherit it locked): opening twice does no harm.
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
        """A handle of its own for reading, at the last flush that this one shows."""
        native = self._reader()
        view = AtlasStore.__new__(AtlasStore)
        state = {"_path": self._path, "_version": native.version, "_mode": "r"}
        view.__setstate__(state | {"_limits": self._limits})
        view._native = native
        return view

    def _handle(self) -> AtlasReader | AtlasWriter:
        """Knows what is there: with what is pending, where this handle writes."""
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
        """The folder."""
        return self._path

    @property
    def datasets(self) -> list[str]:
        """Names, in stored order."""
        return list(self._dataset_names())

    def _flushed_names(self) -> list[str]:
        """Of the datasets that the reader numbers."""
        return self._dataset_names() if self._writer is None else self._reader().dataset_names()

    def _dataset_names(self) -> list[str]:
        if self._names is None:
            self._names = self._handle().dataset_names()
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
        handle = self._handle()
        names = handle.variable_names()
        return [str(names[i]) for i in handle.variables_of(self._number(dataset))]

    def _variable_numbers(self) -> dict[str, int]:
        if self._variables is None:
            used = self._handle().variable_names()
            self._variables = {name: i for i, name in enumerate(used) if name is not None}
        return self._variables

    def _stored_variable(self, array: str) -> int:
        """Its number to the reader: what was flushed."""
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
            FieldError: no such dataset or array, another number of axes; see max_unstored_bytes.
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
        """The same slice of one array over many datasets.

        Each block that holds a piece of it is decompressed once, on threads.

        Args:
            array: its name.
            datasets: names, or numbers as ``datasets`` counts them, in any order, repeats allowed;
                or a mask, a bool for each dataset; None: all, in stored order.
            start: the first element along each axis; None: 0.
            shape: how many, clamped to each array; None: to the end.
            layout: see ``ColumnScan``.
            dtype: cast numbers in the copy: floats and integers to floats, integers to integers
                that hold every one of them.
            num_threads: at most as many; None: as many as torch uses.

        Raises:
            FieldError: no such array or dataset; shapes or dtypes differ where the layout joins
                them; another number of axes; a cast that loses range.
            IndexError: a number is out of range, or a mask has another length.
            TypeError: ``datasets`` are neither names nor integers nor a mask.
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
        """The same as ``scan`` for several arrays at once; all tensors share one memory."""
        scanner = self._scanner(arrays, start, shape, layout, dtype, num_threads)
        reader = self._reader()
        names, rows = self._rows(reader, datasets)
        _, columns = scanner.scan(rows, None, False)
        return {
            array: ColumnScan(values, offsets, mask, names)
            for array, (values, offsets, mask) in zip(arrays, columns, strict=True)
        }

    def _rows(self, reader: AtlasReader, datasets: Any) -> tuple[list[str], Sequence[int]]:
        """Names of datasets, and their numbers to the reader."""
        names = self._flushed_names()
        if datasets is None:
            return names, range(len(names))
        chosen = names_in(datasets)
        if chosen is not None:
            return chosen, self._numbers(reader, chosen)
        rows = resolve_indices(datasets, len(names), None, "dataset").tolist()
        return [names[row] for row in rows], rows

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
        check_threads(num_threads)
        return ColumnScanner(
            self._reader(),
            [self._stored_variable(array) for array in arrays],
            start=extents("start", start),
            count=extents("shape", shape),
            layout=layout,
            dtype=None if dtype is None else str(dtype).removeprefix("torch."),
            max_threads=num_threads or 0,
            max_unstored_bytes=self._limits[1],
        )

    def stats(self, array: str) -> dict[str, ArrayStatistics]:
        """What the last flushes noted of an array, by dataset; no data is read.

        Datasets whose array was never written have none.

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

        Judged by the stored statistics, which leave fill values out: those without statistics may
        match, those that hold nothing but fill values do not.

        Args:
            array: its name.
            min: the least value that is looked for; None: no bound.
            max: the largest one.

        Returns:
            Names, in stored order.

        Raises:
            FieldError: no such array; a number for an array of strings, or the other way round.
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
        """Takes up what was flushed since; True if there was anything."""
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
