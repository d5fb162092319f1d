"""ASE databases in LMDB (``.aselmdb``), written as by the package ase-db-backends.

The keys of rows are ``1``, ``2`` and so on; ``nextid``, ``deleted_ids`` and ``metadata`` describe
the database. All values are ASE's JSON, compressed by zlib. A folder of such files is read in the
order of their names; a folder that is written has one of them, ``data.0000.aselmdb``, and the atom
counts in ``metadata.npz``, where fairchem looks for them.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import uuid
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch._native import LmdbFile, LmdbRowBlockSource, LmdbRowReader, MoleculeSource
from atompack_torch.batch.columns import Array, Columns, of_batch
from atompack_torch.batch.conversions import Parts, atoms_of
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.request import Request
from atompack_torch.errors import AtompackError
from atompack_torch.fields import RESULTS
from atompack_torch.formats.aselmdb.dataset import AseLmdbDataset
from atompack_torch.formats.aselmdb.rows import (
    BOOKKEEPING,
    Row,
    arrays_among_text,
    fields_of_rows,
    row_of,
    take_metadata,
)
from atompack_torch.formats.conversion_report import Report, pass_on
from atompack_torch.formats.converter import (
    Source,
    SourceOptions,
    Target,
    TargetOptions,
    TargetTraits,
    example_of,
    readable,
    staged_folder,
)
from atompack_torch.formats.extxyz.keys import field_map, found_keys
from atompack_torch.formats.records import VOIGT, is_per_atom, records_of
from atompack_torch.options import files_in, threads_or_cores
from atompack_torch.publishing import published

_BLOCK_ROWS = 4096
_BLOCK_BYTES = 4 << 20  # of the file, where rows are compressed


class RowBlocks:
    """Reads the rows of a database in blocks, parsed on all cores.

    Args:
        path: the file.

    Raises:
        CorruptFileError: a page is damaged.
        UnsupportedFormatError: it is no ASE database.
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._reader = LmdbRowReader(self._path, threads_or_cores(None))

    def __len__(self) -> int:
        return len(self._reader)

    def read(self, first: int, last: int) -> RowBlock:
        """Reads the rows from ``first`` up to ``last``, or fewer of them if they are large.

        Labels that are NaN throughout are not missing.

        Args:
            first: number of the first row.
            last: one past the last row.

        Returns:
            The rows as a dataset.

        Raises:
            CorruptFileError: a row is damaged.
        """
        block = self._reader.read(first, min(last, first + _BLOCK_ROWS), _BLOCK_BYTES)
        survey = block.survey
        natives = fields_of_rows(self._path, found_keys(survey), {})
        fields = field_map(natives, survey.has_cells, is_exact=True)
        left_out = dict(survey.left_out)
        for key in arrays_among_text(natives):
            left_out[key] = left_out.get(key, 0) + block.count_arrays(key)
        return RowBlock(self._path, LmdbRowBlockSource(block, fields), left_out)


class RowBlock(MoleculeDataset):
    """Consecutive rows in memory.

    Args:
        path: the file, for messages.
        source: the rows.
        left_out: keys of values that batches have no place for → number of rows that have them.
    """

    def __init__(self, path: str, source: MoleculeSource, left_out: dict[str, int]) -> None:
        self._path: Any = path
        self._request = Request(None, (), None, "nan", None, None, None)
        self._rows = source
        self.left_out = left_out

    def _size(self) -> int:
        return len(self._rows)

    def _open_source(self) -> MoleculeSource:
        return self._rows


TARGET = TargetTraits(makes_folder=True)
_SUFFIX = ".aselmdb"
_METADATA = "metadata.npz"
_MAX_METADATA_BYTES = 1 << 26
_MAX_MAP_BYTES = 1 << 41  # of addresses; the file has only the pages in use
_ROWS_APART = 4096  # rows that are read one by one, where one of them is damaged
_SHOWN_SECTIONS = {"key_value_pairs": "key-value pair", "data": "data"}


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a database, or a folder of them."""
    names = files_in(path, _SUFFIX, is_deep=False) if Path(path).is_dir() else [path]
    files = [Path(name) for name in names]
    rows = [RowBlocks(file) for file in files]
    count = sum(map(len, rows))

    def read(report: Report, first: int, last: int) -> Iterator[Columns]:
        report.note(BOOKKEEPING)
        if first <= 0 and Path(path).is_dir():
            _list_metadata(Path(path) / _METADATA, report)
        for file, one in zip(files, rows, strict=True):
            if (first < len(one) and last > 0) or not len(one):
                said = Report(report.on_error)
                take_metadata(str(file), partial(_metadata, file), said)
                report.units.clear()  # a file says nothing about the next one
                pass_on(said, report, counts=first <= 0)
            yield from _blocks(one, max(first, 0), min(last, len(one)), report)
            first, last = first - len(one), last - len(one)

    return Source(
        path,
        lambda report: read(report, 0, count),
        lambda: count,
        read_range=read,
        example=partial(_example, files),
    )


def _metadata(file: Path) -> Any:
    """Reads the metadata of a database."""
    stored = LmdbFile(os.fspath(file)).get(b"metadata")
    if stored is None:
        return {}
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(stored, _MAX_METADATA_BYTES)
    if unpacking.unconsumed_tail:
        raise ValueError(f"expected at most {_MAX_METADATA_BYTES} bytes, got more")
    return json.loads(text)


def _list_metadata(path: Path, report: Report) -> None:
    """Lists what fairchem's file of atom counts has next to them."""
    if not path.is_file():
        return
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
    except (zipfile.BadZipFile, ValueError):
        report.skip(_METADATA, "it is no archive of arrays")
        return
    for name in names:
        if name != "natoms":
            report.skip(f"array {name!r} of {_METADATA}", "of the whole folder")


def _blocks(rows: RowBlocks, first: int, last: int, report: Report) -> Iterator[Columns]:
    """Yields rows in blocks, of which the next one is parsed while one is being written.

    If a block cannot be read, its rows are read one by one.
    """
    apart = first  # rows before this one are read one by one
    with ThreadPoolExecutor(1) as executor:
        ahead: Future[RowBlock] | None = None
        while first < last:
            is_alone = first < apart or first + 1 == last
            end = first + 1 if is_alone else last
            try:
                block = (ahead or executor.submit(rows.read, first, end)).result()
            except AtompackError as error:
                ahead = None
                if is_alone:
                    report.refuse(error)
                    first += 1
                else:
                    apart = min(first + _ROWS_APART, last)
                continue
            first += len(block)
            is_more = first < last and not is_alone
            ahead = executor.submit(rows.read, first, last) if is_more else None
            for key, count in block.left_out.items():
                report.skip(_shown_key(key), _why_left_out(key), count)
            yield from readable(partial(_columns, block), 0, len(block), report)


def _columns(block: RowBlock, first: int, last: int) -> Columns:
    return of_batch(block[first:last])


def _example(files: list[Path]) -> Columns | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report has what they say
        try:
            # All parts share the index, for which every row is read.
            return example_of(AseLmdbDataset(files)._with_nan_labels())
        except AtompackError:
            return None  # found again when the rows are read


def _shown_key(key: str) -> str:
    section, slash, name = key.partition("/")
    return f"{_SHOWN_SECTIONS[section]} {name!r}" if slash else key


def _why_left_out(key: str) -> str:
    if key == "constraints":
        return "no place for them"
    return "no number, string or array of numbers, or an array where other rows have text"


@contextmanager
def open_target(path: str, options: TargetOptions) -> Iterator[Target]:
    """Opens a new database; a path without the suffix ``.aselmdb`` becomes a folder with one."""
    is_folder = Path(path).suffix != _SUFFIX
    with staged_folder(path, "aselmdb") if is_folder else published(Path(path)) as made:
        file = made / f"data.0000{_SUFFIX}" if is_folder else made
        writer = Writer(file, report=options.report)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()
        if is_folder:
            np.savez(made / _METADATA, natoms=writer.n_atoms())


@contextmanager
def _system_errors(path: Path) -> Iterator[None]:
    """Raises system errors, of which LMDB keeps the text alone, or EIO where a disk is full."""
    import lmdb

    try:
        yield
    except lmdb.Error as error:
        reason = str(error).rpartition(": ")[2]
        code = next((code for code in errno.errorcode if os.strerror(code) == reason), None)
        if code is None:
            raise
        if code == errno.EIO and os.statvfs(path.parent).f_bavail == 0:
            code = errno.ENOSPC
        raise OSError(code, os.strerror(code)) from error


class Writer:
    """Writes molecules as rows of a new database, each block in one transaction.

    Fields are placed by ``rows.row_of``. Numbers are written by their shortest digits.

    Args:
        path: the file to create.
        report: receives what a row cannot represent.
    """

    def __init__(self, path: Path, *, report: Report) -> None:
        import lmdb

        self._path = path
        with _system_errors(path):
            self._environment = lmdb.open(
                os.fspath(path), map_size=_MAX_MAP_BYTES, subdir=False, lock=False, sync=False
            )
        self._report = report
        self._next_id = 1
        self._n_atoms: list[Array] = []

    def n_atoms(self) -> Array:
        """Returns the number of atoms of each row, (B,) int64."""
        return np.concatenate([np.zeros(0, np.int64), *self._n_atoms])

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        texts = _Texts(columns)
        with _system_errors(self._path), self._environment.begin(write=True) as transaction:
            for i, parts in enumerate(records_of(columns)):
                row = row_of(parts, self._report, holds_nan=True)
                text = _row_text(parts, row, texts.of(i, parts))
                transaction.put(b"%d" % self._next_id, zlib.compress(text.encode()))
                self._next_id += 1
        self._n_atoms.append(np.diff(columns.ptr))

    def finish(self) -> None:
        """Adds the entries that describe the database."""
        entries: dict[bytes, Any] = {b"nextid": self._next_id, b"deleted_ids": [], b"metadata": {}}
        with _system_errors(self._path):
            with self._environment.begin(write=True) as transaction:
                for key, value in entries.items():
                    transaction.put(key, zlib.compress(json.dumps(value).encode()))
            self._environment.sync(True)

    def close(self) -> None:
        """Closes the file."""
        self._environment.close()


class _Texts:
    """JSON of the arrays of a block, written for all molecules together.

    Args:
        columns: the block.
    """

    def __init__(self, columns: Columns) -> None:
        numbers = columns.atomic_numbers.astype(np.int64)
        self._numbers = _array_texts(numbers, columns.ptr)
        self._positions = _array_texts(columns.positions, columns.ptr)
        self._fields = [
            (column.scope, column.key, _array_texts(column.values, rows))
            for column in columns.fields
            if isinstance(column.values, np.ndarray)
            for rows in [columns.ptr if is_per_atom(column) else None]
            if rows is not None or column.values.ndim > 1
        ]

    def of(self, i: int, parts: Parts) -> dict[int, str]:
        """Returns the texts of the arrays of the i-th molecule, by their identities."""
        scopes = (parts.labels, parts.atom_properties, parts.properties)
        texts = {
            id(scopes[scope][key]): made[i]
            for scope, key, made in self._fields
            if key in scopes[scope]
        }
        texts[id(parts.atomic_numbers)] = self._numbers[i]
        texts[id(parts.positions)] = self._positions[i]
        return texts


def _array_texts(values: Array, ptr: Array | None) -> list[str]:
    """Returns the JSON of the rows of each molecule; without ``ptr`` they have one each."""
    width = int(np.prod(values.shape[1:]))
    rows = np.arange(len(values) + 1) if ptr is None else ptr
    texts = number_texts(values.reshape(-1), rows * width)
    shape = values.shape[1:]
    return [
        array_text(values.dtype, shape if ptr is None else (n, *shape), text)
        for n, text in zip(np.diff(rows).tolist(), texts, strict=True)
    ]


def _row_text(parts: Parts, row: Row, texts: Mapping[int, str]) -> str:
    """Returns the JSON of a row, in the order of ase-db-backends."""
    from ase.db.core import now

    time = now()
    labels = row.labels
    entries: dict[str, Any] = {
        "numbers": parts.atomic_numbers,
        "positions": parts.positions,
        "unique_id": uuid.uuid4().hex,
        "ctime": time,
        "pbc": labels.get("pbc", np.zeros(3, bool)),
        "cell": labels.get("cell", np.zeros((3, 3))),
        **row.arrays,
    }
    if "velocities" in labels:
        own = {"velocities": labels["velocities"]}
        atoms = atoms_of(Parts(parts.positions, parts.atomic_numbers, own, {}, row.arrays))
        entries["momenta"] = atoms.get_momenta()
    results = {key: labels[key] for key in RESULTS if key in labels}
    if results:
        entries |= {"calculator": "unknown", "calculator_parameters": {}}
    if "energy" in results:
        results["energy"] = float(results["energy"])
    if "stress" in results:
        results["stress"] = results["stress"][VOIGT]
    texts_of_dicts = {"key_value_pairs": row.pairs, "data": row.data}
    fields = [_member(key, value, texts) for key, value in (entries | results).items()]
    fields.append(_member("mtime", time, texts))
    for key, values in texts_of_dicts.items():
        members = ", ".join(_member(own, value, texts) for own, value in values.items())
        fields.append(f'"{key}": {{{members}}}')
    return "{" + ", ".join(fields) + "}"


def _member(key: str, value: Any, texts: Mapping[int, str]) -> str:
    return f"{json.dumps(key)}: {_text(value, texts)}"


def _text(value: Any, texts: Mapping[int, str]) -> str:
    if id(value) in texts:
        return texts[id(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, np.ndarray):
        return json.dumps(value)
    (numbers,) = number_texts(value.reshape(-1), np.array([0, value.size]))
    return array_text(value.dtype, value.shape, numbers)


def array_text(dtype: object, shape: tuple[int, ...], numbers: str) -> str:
    """Returns ASE's JSON of an array.

    Args:
        dtype: type of its values.
        shape: its shape.
        numbers: its values, separated by commas.

    Returns:
        The text of an object ``__ndarray__``.
    """
    return f'{{"__ndarray__": [[{", ".join(map(str, shape))}], "{dtype}", [{numbers}]]}}'


def number_texts(values: Array, offsets: Array) -> list[str]:
    """Writes the numbers of several arrays, by the shortest digits that are read as the same value.

    Args:
        values: (n,) booleans, integers or floats.
        offsets: (B + 1,) the i-th array has the values from ``offsets[i]`` to ``offsets[i + 1]``.

    Returns:
        B texts: numbers separated by commas.
    """
    is_worth_it = len(offsets) > 2 and values.dtype.kind in "iuf"  # calls cost more than numbers
    texts = _joined(values, offsets) if is_worth_it else None
    if texts is None:
        return [_plain(values[first:last]) for first, last in pairwise(offsets.tolist())]
    for i in _with_odd_numbers(values, offsets):
        texts[i] = _plain(values[offsets[i] : offsets[i + 1]])
    return texts


def _plain(values: Array) -> str:
    return json.dumps(values.tolist())[1:-1]


def _joined(values: Array, offsets: Array) -> list[str] | None:
    """Writes all values in one call; None if that is impossible."""
    try:
        pa: Any = importlib.import_module("pyarrow")
        pc: Any = importlib.import_module("pyarrow.compute")
    except ImportError:  # it only makes writing faster
        return None
    if len(values) > np.iinfo(np.int32).max // 32:  # offsets into the text have 32 bits
        return None
    if values.dtype == np.float16:
        values = values.astype(np.float64)
    numbers = pc.cast(pa.array(values), pa.string())
    if values.dtype == np.float32:  # its text must give the same value via float64
        read = pc.cast(numbers, pa.float64()).to_numpy().astype(np.float32)
        is_same = np.array_equal(read, values, equal_nan=True)
        numbers = numbers if is_same else pc.cast(pa.array(values.astype(np.float64)), pa.string())
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), numbers)
    joined: list[str] = pc.binary_join(lists, ",").to_pylist()
    return joined


def _with_odd_numbers(values: Array, offsets: Array) -> list[int]:
    """Indices of arrays with NaN, infinities or -0, whose short forms are no JSON or read as 0."""
    if values.dtype.kind != "f":
        return []
    odd = ~np.isfinite(values) | ((values == 0) & np.signbit(values))
    if not odd.any():
        return []
    found = np.searchsorted(offsets, np.flatnonzero(odd), side="right") - 1
    return [int(i) for i in np.unique(found)]
