"""ATLAS stores and collections: thousands of named datasets whose arrays are stored together."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import torch

from atompack_torch._core import ColumnBatcher, read_held, scan_columns
from atompack_torch._native import AtlasReader, AtlasWriter
from atompack_torch.batch.indices import Indices, names_in
from atompack_torch.errors import FieldError
from atompack_torch.formats.atlas_store import exporting, xarray_datasets
from atompack_torch.formats.atlas_store.array_schema import (
    ArraySchema,
    ArrayStatistics,
    Attribute,
    Bound,
    Values,
    attribute,
    check_bounds,
    comparable,
    definition,
    may_match,
    put,
)
from atompack_torch.formats.atlas_store.block_cache import BlockCache, checked_cache
from atompack_torch.formats.atlas_store.columns import ColumnScan, Layout, ScanOptions
from atompack_torch.formats.atlas_store.handles import (
    FlushingWriter,
    LocalCopy,
    MemoryCopy,
    MemoryLimits,
    StoreHandle,
    StoreOptions,
)
from atompack_torch.formats.atlas_store.publishing import RemoteStore
from atompack_torch.options import MAX_METADATA_BYTES, MEMORY, Buffer, check_choice, is_url, utf8
from atompack_torch.remote.files import MemoryFiles, RemoteFiles

if TYPE_CHECKING:
    import xarray


class AtlasStore(FlushingWriter):
    """Handle of an ATLAS store, a folder of named datasets, or of a collection, a file of them.

        with AtlasStore("profiles") as store:
            column = store.scan("temperature", layout="jagged")

        with AtlasStore("profiles", "x") as store:
            store.create_dataset("cast-1")
            store.define_array("cast-1", "temperature", "float32", (50,))
            store.write("cast-1", "temperature", values)

    A handle opened for reading keeps showing the same datasets while other processes write. It
    raises when it would have to read files of a later flush; ``refresh`` then moves it to that
    flush. It can be pickled and used in forked processes.

    In a handle opened for writing, changes are pending until ``flush`` makes them visible
    atomically: after a crash the store is in the state of the last flush or of this one.
    ``datasets``, ``attrs``, ``schema`` and ``read`` include pending changes; ``scan``, ``stats``
    and ``select`` show the last flush. Leaving the ``with`` block flushes, unless it raises.

    Collections (``data.atlas``, atlas-python 0.16 and 0.17) and stores of atlas-python 0.12 to 0.14
    are read only; ``atompack-torch convert OLD NEW`` makes a store of them. Datasets that
    ``deleted.mask`` lists do not exist.

    A store at a URL (``s3://``, ``gs://``) is written to by way of a copy of all of it in the
    temporary folder (see ``TMPDIR``). ``flush`` uploads what has changed, so that readers see all
    of it or nothing, and notices other writers.

    Args:
        path: the folder, or the ``data.atlas`` of a collection, a path or a URL; or the bytes of
            the files in the folder, a mapping from relative paths (``"atlas.json"``,
            ``"temperature/data.af"``) to ``bytes``, ``bytearray`` or ``memoryview``, which are
            read without a copy and must not be changed (mode ``"r"``). Errors name it
            ``<memory>``; a pickle carries all of it. None: a new store without a name (mode ``"x"``
            or ``"a"``), in a temporary folder until it is closed; ``to_bytes`` returns it.
        mode: ``"r"``: read; ``"x"``: create a new store; ``"a"``: open one, or create it.
        codec: codec of new blocks: ``"none"``, ``"lz4"``, ``"zstd"``; None: the store's, or zstd.
        level: zstd level, -131072 to 22; for lz4, which has one level here, the default.
        block_bytes: chunks are compressed together in blocks of about this size; None: 512 KiB for
            arrays of several chunks, of which slices need some, 1 MiB for others, 8 MiB without a
            codec. A block is decoded up to the last byte needed: small blocks suit slices and
            single datasets, large ones compress better.
        durable: ``flush`` waits for the disk, so that it survives a power failure. False: it
            survives only the end of the process, and saves milliseconds per variable.
        metadata: format of new metadata: ``"json"``, ``"msgpack"``, or with ``".zst"``, ``".lz4"``.
        max_metadata_bytes: limit on the decompressed metadata file and on footers of a variable.
        max_unstored_bytes: memory that elements without stored bytes (fill values) may take in a
            ``read`` or, per array, a ``scan``; None: 256 MiB, or 64 times the bytes of the array's
            files. Read larger sparse arrays in parts (``start``, ``shape``).
        num_threads: maximum number of compression threads; None: chosen automatically.
        cache_bytes: memory for decoded blocks: a number of bytes for this handle alone, 0 for none,
            or a ``BlockCache``; None: 256 MiB for all handles of the process together.
        storage_options: options of the remote store; see ``AtpDataset``.

    Raises:
        FileNotFoundError: no such folder, or it holds neither store nor collection (mode ``"r"``).
        FileExistsError: the store already exists (mode ``"x"``).
        WriterLockedError: another writer has the store open.
        CorruptFileError: the metadata contradict the format.
        UnsupportedFormatError: the version is not supported, or cannot be written to; the folder
            holds a store and a collection; the path is of a different format.
        OSError: the store cannot be read. For a URL: FileNotFoundError, PermissionError,
            TimeoutError, or ESTALE if the store has changed since it was opened.
        TypeError, ValueError: an option does not have one of its values.
    """

    _handle: StoreHandle

    def __init__(
        self,
        path: str | os.PathLike[str] | Mapping[str, Buffer] | None,
        mode: Literal["r", "a", "x"] = "r",
        codec: Literal["zstd", "lz4", "none"] | None = None,
        *,
        level: int = 3,
        block_bytes: int | None = None,
        durable: bool = True,
        metadata: str = "json",
        max_metadata_bytes: int = MAX_METADATA_BYTES,
        max_unstored_bytes: int | None = None,
        num_threads: int | None = None,
        cache_bytes: int | BlockCache | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> None:
        remote = RemoteFiles.checked(storage_options, path)
        cache = checked_cache(cache_bytes)
        options = StoreOptions(
            mode=mode,
            codec=codec,
            level=level,
            num_threads=num_threads,
            block_bytes=block_bytes,
            durable=durable,
            limits=MemoryLimits(max_metadata_bytes, max_unstored_bytes),
            metadata=metadata,
        )
        local: LocalCopy | None = None
        if path is None:
            check_choice("mode", mode, ["x", "a"])
            place, local = MEMORY, MemoryCopy()
        elif isinstance(path, Mapping):
            place, remote = MEMORY, MemoryFiles.in_folder(path, mode)
        elif isinstance(path, str) and is_url(path) and mode != "r":
            place, local = path, RemoteStore(path, mode, storage_options)
        else:
            place = remote.absolute(path)
        self._own(StoreHandle(place, mode, options.limits, remote, cache, local))
        if mode != "r":
            self._handle.open_writer(options)
            return
        for text in self._handle.reader().warnings:
            warnings.warn(text, stacklevel=2)

    def _own(self, handle: StoreHandle) -> None:
        self._handle = handle
        self._n_changes = -1  # those of the handle that the names below include
        self._dataset_names: list[str] | None = None
        self._array_numbers: dict[str, int] | None = None

    def __getstate__(self) -> StoreHandle:
        return copy.copy(self._handle)  # a handle of its own, at the same flush

    def __setstate__(self, handle: StoreHandle) -> None:
        self._own(handle)

    # Names and numbers, pending changes included where nothing else is said.

    def _forget_older(self) -> None:
        if self._n_changes != self._handle.n_changes:
            self._n_changes = self._handle.n_changes
            self._dataset_names = self._array_numbers = None

    def _names(self) -> list[str]:
        """Returns the names of the datasets, in stored order; not to be modified."""
        self._forget_older()
        names = self._dataset_names
        if names is None:
            names = self._dataset_names = self._handle.current().dataset_names()
        return names

    def _numbers(self) -> dict[str, int]:
        """Returns the numbers of the arrays by name; not to be modified."""
        self._forget_older()
        numbers = self._array_numbers
        if numbers is None:
            names = self._handle.current().variable_names()
            numbers = {name: i for i, name in enumerate(names) if name is not None}
            self._array_numbers = numbers
        return numbers

    def _number_of(self, array: str) -> int:
        """Returns the number of an array; FieldError if none has this name."""
        try:
            return self._numbers()[array]
        except KeyError:
            raise self._no_array(array) from None

    def _flushed_number_of(self, array: str) -> int:
        """Returns the reader's number for a flushed array; FieldError if it is missing."""
        if self._handle.writer is None:
            return self._number_of(array)
        try:
            return self._handle.reader().variable_names().index(array)
        except ValueError:
            raise self._no_array(array) from None

    def _no_array(self, array: str) -> FieldError:
        return FieldError(f"{self._handle.path}: no dataset has an array {array!r}")

    def _find(self, handle: AtlasReader | AtlasWriter, datasets: list[str]) -> list[int]:
        """Returns the numbers that a native handle has for datasets, in the order of the names."""
        try:
            return handle.find_datasets(datasets)
        except FieldError as error:
            raise FieldError(f"{self._handle.path}: {error}") from None
        except TypeError:  # not strings, or not representable in UTF-8
            for name in datasets:
                utf8(f"{self._handle.path}: dataset", name)
            raise

    def _dataset_number(self, dataset: str) -> int:
        return self._find(self._handle.current(), [dataset])[0]

    def last_flush(self) -> AtlasStore:
        """Returns another handle, for reading, that keeps showing what ``scan`` shows now.

        Returns:
            The handle.
        """
        view = AtlasStore.__new__(AtlasStore)
        view._own(self._handle.at_last_flush())
        return view

    def __contains__(self, dataset: object) -> bool:
        return dataset in self._names()

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of the datasets, in stored order."""
        return iter(self.datasets)

    @property
    def datasets(self) -> list[str]:
        """Names of the datasets, in stored order."""
        return list(self._names())

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays of all datasets, sorted."""
        return sorted(self._numbers())

    def arrays_of(self, dataset: str) -> list[str]:
        """Returns the names of the arrays of one dataset.

        Args:
            dataset: name of the dataset.

        Returns:
            Names in stored order, pending changes included.

        Raises:
            FieldError: there is no such dataset.
        """
        handle = self._handle.current()
        names = handle.variable_names()
        return [str(names[i]) for i in handle.variables_of(self._dataset_number(dataset))]

    def attrs(self, dataset: str) -> dict[str, Attribute]:
        """Returns the attributes of a dataset.

        Args:
            dataset: name of the dataset.

        Returns:
            Key to bool, int, float, str or ``numpy.datetime64`` in nanoseconds, pending changes
            included. In collections and stores of atlas-python 0.12 to 0.14 also ``bytes`` and
            lists.

        Raises:
            FieldError: there is no such dataset.
            CorruptFileError: the file that holds the attributes is damaged.
        """
        return self._handle.current().attributes(self._dataset_number(dataset))

    def array_attrs(self, dataset: str, array: str) -> dict[str, Attribute]:
        """Returns the attributes of an array of a dataset.

        Args:
            dataset: name of the dataset.
            array: name of the array.

        Returns:
            Key to value, as for ``attrs``. In stores of atlas-python 0.9 and 0.10 they are those
            of the dataset whose keys begin with the array and a point, and those of the last flush
            that were set in the array file itself.

        Raises:
            FieldError: no such dataset, or it has no such array.
            CorruptFileError: the array's file is damaged.
        """
        if self._has_array_attributes():
            return self._own_attributes(dataset, array)
        self._check_array(dataset, array)
        own = {} if self._handle.writer is not None else self._own_attributes(dataset, array)
        of_dataset, prefix = self.attrs(dataset), f"{array}."
        named = {k.removeprefix(prefix): v for k, v in of_dataset.items() if k.startswith(prefix)}
        return own | named

    def _has_array_attributes(self) -> bool:
        """True if arrays have attributes of their own, as in all but the oldest stores."""
        return self._handle.writer is None and self._handle.reader().has_array_attributes

    def _own_attributes(self, dataset: str, array: str) -> dict[str, Attribute]:
        number = self._dataset_number(dataset)
        return self._handle.reader().attributes(number, self._number_of(array))

    def _check_array(self, dataset: str, array: str) -> None:
        if array not in self.arrays_of(dataset):
            raise FieldError(f"{self._handle.path}: dataset {dataset!r} has no array {array!r}")

    def attrs_in_doubt(self, dataset: str, array: str | None = None) -> list[str]:
        """Returns keys of attributes whose stored value may be wrong, or cannot be found.

        atlas-python 0.12 to 0.14 mixes up attributes that were set in several flushes: it refers to
        the values of one layer by their numbers in another. Most are read right, but not all.

        Args:
            dataset: name of the dataset.
            array: name of one of its arrays; None: attributes of the dataset itself.

        Returns:
            The keys; those without a value in any layer are not in ``attrs``.

        Raises:
            FieldError: no such dataset, or it has no such array.
        """
        number = self._dataset_number(dataset)
        if self._handle.writer is not None:
            return []
        variable = None if array is None else self._number_of(array)
        return self._handle.reader().attributes_in_doubt(number, variable)

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
        number = self._number_of(array)
        if dataset is not None:
            return self._schema(number, array, dataset)
        handle, names = self._handle.current(), self._names()
        present = set(handle.datasets_with(number))
        having = {
            name: i
            for name, i in zip(names, self._find(handle, names), strict=True)
            if i in present
        }
        if self._handle.writer is not None:
            return {name: self._schema(number, array, name) for name in having}
        found: dict[str, ArraySchema] = {}
        stored = schema = None
        layouts = self._handle.reader().arrays(number, list(having.values()))
        for name, layout in zip(having, layouts, strict=True):
            if schema is None or layout is not stored:
                stored, schema = layout, ArraySchema.of(layout)
            found[name] = schema
        return found

    def _schema(self, number: int, array: str, dataset: str) -> ArraySchema:
        writer = self._handle.writer
        if writer is not None:
            return ArraySchema.of(writer.definition(utf8("dataset", dataset), utf8("array", array)))
        return ArraySchema.of(self._handle.reader().array(number, self._dataset_number(dataset)))

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
                held: Values | None = read_held(reader, dataset, array)
            except TypeError:  # a name that is not a string: as in a scan
                held = None
            if held is not None:
                return held
        writer = self._handle.writer
        if writer is not None:
            place = utf8("dataset", dataset), utf8("array", array)
            schema = ArraySchema.of(writer.definition(*place))
            box = schema.box(start, shape)
            return schema.loaded(writer.read(*place, box), box[1])
        # A scan takes numbers too.
        scan = self.scan(array, [utf8("dataset", dataset)], start, shape, "list")
        values = scan.values[0]
        if values is None:
            raise FieldError(f"{self._handle.path}: dataset {dataset!r} has no array {array!r}")
        return values

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
        return self.scan_many(
            [array], datasets, start, shape, layout, dtype, num_threads=num_threads
        )[array]

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
        """Runs ``scan`` for several arrays together; all tensors share one allocation.

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
        options = ScanOptions(start, shape, layout, dtype, num_threads)
        native = options.native(self._handle.limits.max_unstored_bytes)
        named = None if datasets is None else names_in(datasets)
        rows = cast("Indices | None", datasets if named is None else None)
        variables = [self._flushed_number_of(array) for array in arrays]
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

    def _batcher(
        self,
        arrays: Sequence[str],
        options: ScanOptions,
        missing: Literal["nan", "error", "drop"] = "nan",
    ) -> ColumnBatcher:
        """Returns a native source of batches of flushed arrays, with checked options."""
        native = options.native(self._handle.limits.max_unstored_bytes)
        variables = [self._flushed_number_of(array) for array in arrays]
        return ColumnBatcher(self._handle.reader(), variables, **native, missing=missing)

    def _blocks(self, array: str, datasets: Sequence[int]) -> list[int]:
        """Returns the number of the block that holds the array's first chunk in each dataset."""
        return self._handle.reader().blocks(self._flushed_number_of(array), datasets)

    def _statistics(self, array: str) -> dict[str, Any]:
        """Returns the stored statistics of the datasets that have an array; None if missing."""
        number, reader = self._flushed_number_of(array), self._handle.reader()
        stored = reader.statistics(number)
        names = self._names() if self._handle.writer is None else reader.dataset_names()
        present = (names[i] for i in reader.datasets_with(number))
        return {name: stored.get(name) for name in present}

    def stats(self, array: str) -> dict[str, ArrayStatistics]:
        """Returns the stored statistics of an array; no data is read.

        Args:
            array: name of the array.

        Returns:
            Dataset to statistics. Datasets whose array was never written are omitted, and after a
            killed flush all whose array it changed, until the store is opened for writing.

        Raises:
            FieldError: there is no such array.
        """
        found = self._statistics(array)
        return {name: ArrayStatistics(*stored) for name, stored in found.items() if stored}

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
        found = self._statistics(array)
        least, most = comparable(min), comparable(max)
        where = f"{self._handle.path}: array {array!r}"
        check_bounds(where, filter(None, found.values()), (least, most))
        return [name for name, stored in found.items() if may_match(stored, least, most)]

    def create_dataset(self, name: str) -> None:
        """Adds a dataset without arrays.

        Args:
            name: name of the dataset.

        Raises:
            FieldError: the dataset exists already, or cannot have this name.
        """
        self._handle.changing().create_dataset(utf8("dataset", name))

    def define_array(
        self,
        dataset: str,
        array: str,
        dtype: Any,
        shape: Sequence[int],
        dimension_names: Sequence[str] | None = None,
        chunk_shape: Sequence[int] | None = None,
        fill_value: Any = None,
    ) -> None:
        """Adds an array to a dataset; its elements are the fill value until they are written.

        Args:
            dataset: name of the dataset.
            array: name of the array; names that the original library would lose are refused.
            dtype: a dtype, NumPy's name of one, ``"timestamp_ns"``, ``"string"``, ``"binary"``.
            shape: extents, () for a scalar.
            dimension_names: one per axis; None: ``dim0``, ``dim1`` and so on.
            chunk_shape: extents of the chunks the array is stored in; None: the whole array.
            fill_value: value of missing elements; None: 0. It is never used for strings.

        Raises:
            FieldError: the dataset has the array already, or a value here cannot be stored.
            ValueError: arrays cannot have this dtype.
        """
        stored = definition(array, dtype, shape, dimension_names, chunk_shape, fill_value)
        self._handle.changing().define(utf8("dataset", dataset), stored)

    def write(
        self, dataset: str, array: str, values: Any, start: Sequence[int] | None = None
    ) -> None:
        """Writes a box of elements; chunks that it covers only partly are read and merged.

        Args:
            dataset: name of the dataset.
            array: name of the array.
            values: tensor, array or (lists of) numbers, strings or bytes, in the array's rank.
            start: first element of the box along each axis; None: 0.

        Raises:
            FieldError: no such array, or the box or the values do not fit.
        """
        put(self._handle.changing(), (dataset, array), values, start)

    def set_attr(self, dataset: str, key: str, value: Any, array: str | None = None) -> None:
        """Sets an attribute of a dataset, or of one of its arrays.

        Args:
            dataset: name of the dataset.
            key: name of the attribute.
            value: bool, int (64 bits), float, str or ``numpy.datetime64``.
            array: name of the array, whose attribute is stored as ``ARRAY.KEY`` of the dataset:
                atlas-python and xarray read it there. None: an attribute of the dataset itself.

        Raises:
            FieldError: no such dataset or array; or the value would not survive a round trip: a
                non-finite float (in JSON metadata), a string that parses as a timestamp, an
                integer of more than 64 bits.
            TypeError: the value is of a different type.
        """
        if array is not None:
            self._check_array(dataset, array)
            key = f"{array}.{utf8('attribute', key)}"
        place = utf8("dataset", dataset), utf8("attribute", key)
        self._handle.changing().set_attribute(*place, attribute(value))

    def delete_array(self, dataset: str, array: str) -> None:
        """Removes an array from a dataset; the next ``compact`` reclaims its space.

        Args:
            dataset: name of the dataset.
            array: name of the array.

        Raises:
            FieldError: there is no such dataset or array.
        """
        self._handle.changing().delete_array(utf8("dataset", dataset), utf8("array", array))

    def delete_dataset(self, name: str) -> None:
        """Removes a dataset and its arrays.

        Args:
            name: name of the dataset.

        Raises:
            FieldError: there is no such dataset.
        """
        self._handle.changing().delete_dataset(utf8("dataset", name))

    def from_xarray(
        self,
        name: str,
        dataset: xarray.Dataset,
        *,
        chunks: Mapping[str, Sequence[int]] | None = None,
        fill_value: Any = None,
    ) -> None:
        """Adds an xarray dataset the way atlas-python does; needs the extra ``xarray``.

        Args:
            name: name of the new dataset.
            dataset: numbers, timestamps and strings; dask chunks are written one by one.
            chunks: chunk shapes by variable; default: those of dask, or of the file it came from.
            fill_value: value of missing elements: one for all numeric variables, or a dict by
                variable; default: the attribute ``_FillValue``, else NaN, NaT and ``""``.

        Raises:
            FieldError: names, dtypes or attributes cannot be stored, or the dataset exists.
        """
        xarray_datasets.add(self, name, dataset, chunks, fill_value)

    def export(
        self,
        path: str | os.PathLike[str],
        to: Literal["collection", "store"] = "collection",
        *,
        datasets: Sequence[str] | None = None,
        mode: Literal["x", "w"] = "x",
        codec: Literal["zstd", "lz4", "none"] = "zstd",
        level: int = 3,
    ) -> None:
        """Writes a copy of the last flush, which appears when it is complete.

        Args:
            path: the folder to create; or, if its name is ``data.atlas``, the file of a collection.
            to: ``"collection"``: a ``data.atlas`` that atlas-python 0.17 opens; ``"store"``: a
                store of atlas-python 0.9 and 0.10, which can be written to. There attributes of an
                array become ``ARRAY.KEY`` of the dataset, and lists JSON; in a collection those
                become attributes of the array again.
            datasets: names of the datasets; None: all.
            mode: ``"x"`` rejects an existing ``path``, ``"w"`` replaces it.
            codec: codec of blocks.
            level: zstd level.

        Raises:
            FileExistsError: ``mode="x"`` and ``path`` exists; or ``data.atlas`` in a folder with a
                store or a ``deleted.mask``.
            FieldError: no such dataset, or a name, type or attribute that the copy cannot have.
            CorruptFileError: a file is damaged.
            ValueError: an option does not have one of its values.
        """
        exporting.export(self, path, to, datasets, mode, codec, level)

    def to_bytes(self) -> dict[str, bytes]:
        """Flushes a store that was opened with None, merges its layers, and returns its files.

        Returns:
            Relative path of each file to its bytes; ``AtlasStore(files)`` reads them.

        Raises:
            ValueError: the store has a path, or is closed.
        """
        if not isinstance(self._handle.copy, MemoryCopy):
            raise ValueError(f"to_bytes: expected a store without a path, got {self._handle.path}")
        self.compact()
        return self._handle.copy.files()

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
