"""Extended XYZ files as columns, and back; for the dialect see csrc/formats/extxyz/FORMAT.md."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from atompack_torch import _native
from atompack_torch.batch.columns import Array, Column, Columns, of_batch
from atompack_torch.batch.conversions import full_stress, masses_of
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError, file_exists
from atompack_torch.fields import BUILTIN, BUILTINS, PREFIXES, FileLevel
from atompack_torch.formats.conversion_report import Report as ConversionReport
from atompack_torch.formats.converter import Source, SourceOptions, TargetOptions
from atompack_torch.formats.extxyz.extxyz_frames import Frames
from atompack_torch.formats.extxyz.keys import (
    NULL,
    TRANSPOSED,
    FoundKey,
    Report,
    Target,
    targets_of,
)
from atompack_torch.formats.extxyz.momenta import Momenta
from atompack_torch.formats.extxyz.text import text_of
from atompack_torch.formats.extxyz.text_files import STDIN, Text
from atompack_torch.formats.indexes import scan
from atompack_torch.formats.records import stress_of_six
from atompack_torch.formats.spans import Span
from atompack_torch.formats.writer_base import WriterBase
from atompack_torch.options import threads_or_cores
from atompack_torch.publishing import hidden_part, naming_errors, publish


class Reader(Iterator[Columns]):
    """Reads the frames of an extended XYZ file as columns, block by block, in bounded memory.

    Positions are float64 (Å by convention), labels float64 in the file's own units and signs;
    ``pbc`` is always present, by default true with a lattice and false without, as in ASE. Custom
    values are float64, int64, bool or strings. A first pass over the comment lines gives each key
    one type throughout: integers mixed with reals become reals, numbers mixed with strings become
    strings.

    Args:
        path: the file, plain or compressed (gzip, bzip2, xz); a FIFO or ``"-"`` for standard input.
        keys: key in the file → name of a field (``{"REF_energy": "energy"}``) or of a custom
            property; takes precedence over the names known by default.
        report: receives values that columns cannot represent; without one, warnings are issued.
        max_frames: maximum number of frames per block.
        max_bytes: a block ends with the frame that brings its text to this many bytes.
        index: the index of the file, if it is known already.

    Attributes:
        n_frames: number of frames in the file, up to any damage.

    Raises:
        CorruptFileError: the text violates the format; the frames before it were already yielded.
        FieldError: a label has the wrong shape or is not a number, two keys denote one field, or
            one of ``keys`` does not occur.
        OSError: the file cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Text,
        *,
        keys: Mapping[str, str] | None = None,
        report: Report | None = None,
        max_frames: int = 1024,
        max_bytes: int = 4 << 20,
        index: _native.ParsedIndex | None = None,
    ) -> None:
        self._text = path if isinstance(path, Text) else Text(path)  # kept alive by its readers
        self._path = self._text.name
        self._report = _Warnings() if report is None else report
        self._limits = (max_frames, max_bytes)
        self._reader = _native.ExtxyzReader(self._text.path, self._path)
        index = _index_of(self._text) if index is None else index
        self.n_frames = len(index)
        found_keys = [FoundKey(*field) for field in index.fields]
        missing = report.miss_key if isinstance(report, ConversionReport) else None
        self._targets = targets_of(self._path, found_keys, keys or {}, self._report, missing)
        for (level, key), target in self._targets.items():
            # Labels that must be numbers are not widened, so that strings among them are detected.
            if target.kind != "text" or target.scope != BUILTIN or target.key == "name":
                self._reader.widen(level, key, target.kind)

    def renamed(self) -> Iterator[tuple[str, str]]:
        """Yields the name of each field that is not named like its key, and the key."""
        for (_, key), target in self._targets.items():
            if target.key != key:
                yield PREFIXES.get(target.scope, "") + target.key, key

    @property
    def bytes_read(self) -> int:
        """Number of bytes read so far."""
        return self._reader.bytes_read

    @property
    def file_bytes(self) -> int:
        """Total number of bytes to read."""
        return self._reader.file_bytes

    def __next__(self) -> Columns:
        made = self._reader.next_block(*self._limits)
        if made is None:
            if self._reader.ends_open:
                self._report.note(f"{self._path}: the last line has no end; it may have been cut")
            raise StopIteration
        first, positions, numbers, ptr, lattices, has_lattice, pbc, fields, n_remarks, n_wide = made
        if n_remarks:
            self._report.skip("comment lines", "there is no key=value in them", n_remarks)
        if n_wide:
            self._report.skip("columns after the positions", "the file does not name them", n_wide)
        block = _Block(self._path, first, numbers, ptr, self._of_six)
        columns = [Column(BUILTIN, "pbc", pbc), *_cell(lattices, has_lattice)]
        momenta = None
        for level, key, values, present in fields:
            if level == "atom":
                values, present = self._without_text(key, values, present)
            if not present.any():
                continue
            if self._targets[level, key].from_momenta:
                momenta = Momenta(block.label("velocities", key, values, present), present)
            else:
                columns.append(self._column(block, level, key, values, present))
        if momenta is not None:
            masses = [
                (values, present)
                for level, key, values, present in fields
                if (level, key) == ("atom", "masses")
            ]
            columns = momenta.joined(columns, block.masses(masses, momenta.present), ptr)
        return Columns(positions, numbers, ptr, columns)

    def _of_six(self, values: Array, is_of_ase: bool) -> Array:
        """Makes stresses of six numbers; ASE's key has ASE's order."""
        if isinstance(self._report, ConversionReport):
            return stress_of_six(values, self._report, is_voigt=is_of_ase)
        return np.asarray(full_stress(values))

    def _without_text(self, key: str, values: Any, present: Array) -> tuple[Any, Array]:
        if isinstance(values, np.ndarray):
            return values, present
        is_text = np.array([isinstance(rows, list) for rows in values])
        if is_text.any():
            self._report.skip(f"column {key!r}", "text of atoms", int(is_text.sum()))
            values = [None if isinstance(rows, list) else rows for rows in values]
        return values, present & ~is_text

    def _column(
        self, block: _Block, level: FileLevel, key: str, values: Any, present: Array
    ) -> Column:
        target = self._targets[level, key]
        if target.scope == BUILTIN and target.key != "name":
            values = block.label(target.key, key, values, present)
        elif level == "molecule":
            values = _custom_values(key, target, values)
        return Column(target.scope, target.key, values, None if present.all() else present)


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file, plain or compressed, a FIFO, or standard input (``"-"``)."""
    text = Text(path)
    index_of_text = functools.cache(lambda: _index_of(text))

    def open_reader(report: ConversionReport) -> Reader:
        reader = Reader(text, keys=options.keys, report=report, index=index_of_text())
        for name, key in reader.renamed():
            report.origin(name, key)
        return reader

    source = Source(
        text.name,
        open_reader,
        lambda: len(index_of_text()),
        lambda: text.n_bytes,
        text.close,
        maps_keys=True,
    )
    if text.path == path:  # a plain file, of which parts can be read
        frames = Frames(path, options.keys)

        def read_range(report: ConversionReport, first: int, last: int) -> Iterator[Columns]:
            fields = [FoundKey(*field) for field in index_of_text().fields]
            names = {field.key: field.shape for field in fields if field.level == "molecule"}
            if any(options.keys.get(k, k) == "stress" and s == (6,) for k, s in names.items()):
                cut = Span(first, last).cut(open_reader(report))  # in the order asked for
                return (block.columns for block in cut if block.is_inside)
            return frames.read(report, first, last)

        source.read_range, source.example = read_range, frames.example
    return source


def open_target(path: str, options: TargetOptions) -> Writer | StdoutWriter:
    """Opens a file for writing, or standard output (``"-"``)."""
    if path == STDIN:
        return StdoutWriter(options.report)
    return Writer(path, report=options.report, mode="w")


def count(path: str | os.PathLike[str]) -> int:
    """Counts the frames, up to any damage, by scanning the comment lines."""
    with contextlib.closing(Text(path)) as text:
        return len(_index_of(text))


def _index_of(text: Text) -> _native.ParsedIndex:
    scanner = _native.ExtxyzScanner(text.path, text.name, threads_or_cores(None))
    return scan(scanner, text.name, strict=False)


class _Warnings:
    """Default report that issues each warning once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def skip(self, what: str, why: str, count: int = 1) -> None:
        self.note(f"{what} left out: {why}")

    def note(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            warnings.warn(text, stacklevel=4)


class _Block(NamedTuple):
    """Block under construction, with the context for its error messages."""

    path: str
    first_frame: int
    numbers: Array
    ptr: Array
    of_six: Callable[[Array, bool], Array]

    def label(self, name: str, key: str, values: Any, present: Array) -> Array:
        """Converts values to field ``name``: float64, stacked; NaN where absent."""
        if isinstance(values, np.ndarray):
            return self._fitted(name, key, values, values.shape[1:], int(present.argmax()))
        per_atom = BUILTINS[name].level == "atom"
        n_rows = len(self.numbers) if per_atom else len(present)
        stacked = np.full((n_rows, *BUILTINS[name].shape), np.nan)
        for i in np.flatnonzero(present):
            value = np.asarray(values[i])
            rows = slice(self.ptr[i], self.ptr[i + 1]) if per_atom else i
            stacked[rows] = self._fitted(name, key, value, value.shape[per_atom:], int(i))
        return stacked

    def _fitted(
        self, name: str, key: str, array: Array, shape: tuple[int, ...], frame: int
    ) -> Array:
        expected = BUILTINS[name].shape
        if array.dtype.kind in "if":
            rows = array.shape[: array.ndim - len(shape)]
            if name == "stress" and shape == (9,):
                array = array.reshape(*rows, 3, 3).swapaxes(-1, -2)
            elif name == "stress" and shape == (6,):
                array = self.of_six(array, key == "stress")
            if array.shape == (*rows, *expected):
                return array.astype(np.float64, copy=False)
        got = "text" if array.dtype.kind == "U" else f"{array.dtype} of shape {shape}"
        raise FieldError(
            f"{self.path}: {name}: expected numbers of shape {expected}, got {got} "
            f"(molecule {self.first_frame + frame}, field {key!r})"
        )

    def masses(self, given: Sequence[tuple[Any, Array]], used: Array) -> Array:
        """Returns masses (N,) float64, from the file where given, else those of the elements.

        ``given``: columns, each with the frames (B,) that have it; ``used`` (B,): frames that need
        masses.
        """
        masses: Array = masses_of(self.numbers)
        for values, present in given:
            for i, rows in enumerate(self._by_frame(values)):
                if present[i] and rows is not None and np.ndim(rows) == 1:
                    rows = np.asarray(rows, dtype=np.float64)
                    own = masses[self.ptr[i] : self.ptr[i + 1]]
                    np.copyto(own, rows, where=~np.isnan(rows))
        unknown = np.isnan(masses) & np.repeat(used, np.diff(self.ptr))
        if unknown.any():
            i = int(unknown.argmax())
            frame = self.first_frame + int(np.searchsorted(self.ptr, i, side="right")) - 1
            raise FieldError(
                f"{self.path}: momenta: expected an element, got atomic number {self.numbers[i]} "
                f"(molecule {frame}, field 'momenta')"
            )
        return masses

    def _by_frame(self, values: Any) -> list[Any]:
        return np.split(values, self.ptr[1:-1]) if isinstance(values, np.ndarray) else [*values]


def _cell(lattices: Array, has_lattice: Array) -> list[Column]:
    """Builds the cell column; a lattice of zeros means none."""
    mask = has_lattice & lattices.any(axis=(1, 2))
    return [Column(BUILTIN, "cell", lattices, None if mask.all() else mask)] if mask.any() else []


def _custom_values(key: str, target: Target, values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return _custom_numbers(key, target, values, 1)
    return [
        _custom_numbers(key, target, value, 0)
        if isinstance(value, np.ndarray)
        else None
        if value == NULL
        else value
        for value in values
    ]


def _custom_numbers(key: str, target: Target, array: Array, n_leading: int) -> Array:
    shape = array.shape[n_leading:]
    if key in TRANSPOSED and shape == (9,):
        return array.reshape(*array.shape[:n_leading], 3, 3).swapaxes(-1, -2)
    if not shape and target.varies and target.kind != "text":
        return array[..., None]  # one number and an array of one have the same text
    return array


class StdoutWriter(AbstractContextManager["StdoutWriter"]):
    """Writes columns to standard output as they come.

    Args:
        report: receives the number of bytes, and values that the format cannot represent.
    """

    def __init__(self, report: ConversionReport) -> None:
        self._report = report

    def write(self, columns: Columns) -> None:
        """Writes a block."""
        text = text_of(columns, self._report)
        sys.stdout.buffer.write(text)
        self._report.bytes_written += len(text)

    def __exit__(self, *_: object) -> None:
        sys.stdout.buffer.flush()


class Writer(WriterBase):
    """Writes columns or batches as an extended XYZ file, which appears when it is complete.

    A context manager; an exception in the block leaves no file. Numbers are written so that they
    read back as the same float64. A custom property whose key has another meaning in the format is
    written as ``properties/KEY`` or ``atom_properties/KEY``.

    Args:
        path: the file.
        mode: ``"x"``: the path must not exist; ``"w"``: replace an existing file.
        report: receives values that the format cannot represent; without one, warnings are issued.

    Raises:
        FileExistsError: mode ``"x"``, and the path exists.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Literal["x", "w"] = "x",
        report: Report | None = None,
    ) -> None:
        if mode not in ("x", "w"):
            raise ValueError(f"mode: expected x or w, got {mode!r}")
        self._path = Path(path)
        if mode == "x" and self._path.exists():
            raise file_exists(self._path, "mode='w' replaces it")
        self._mode = mode
        self._report = _Warnings() if report is None else report
        self._part = hidden_part(self._path)
        with naming_errors(self._path, self._part):
            self._file = self._part.open("xb")
        self.n_frames = 0

    def write(self, molecules: Columns | MoleculeBatch) -> None:
        """Appends molecules.

        Args:
            molecules: columns or a batch.

        Raises:
            FieldError: columns differ in length, or an atomic number is not from 0 to 255.
        """
        columns = of_batch(molecules) if isinstance(molecules, MoleculeBatch) else molecules
        with naming_errors(self._path, self._part):
            self._file.write(text_of(columns, self._report))
        self.n_frames += len(columns.ptr) - 1

    def close(self) -> None:
        """Publishes the file; further calls do nothing."""
        if self._file.closed:
            return
        try:
            with naming_errors(self._path, self._part):
                self._file.close()
                publish(self._part, self._path, self._mode)
        except FileExistsError:
            self._remove()
            raise file_exists(self._path, "mode='w' replaces it") from None
        except BaseException:
            self._remove()
            raise

    def discard(self) -> None:
        """Removes everything written so far."""
        if not self._file.closed:
            self._remove()

    def _remove(self) -> None:
        self._part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # unflushed data is discarded anyway
            self._file.close()

    def _is_unfinished(self) -> bool:
        return not getattr(getattr(self, "_file", None), "closed", True)


def write(
    path: str | os.PathLike[str],
    batches: Iterable[Columns | MoleculeBatch],
    *,
    mode: Literal["x", "w"] = "x",
    report: Report | None = None,
) -> int:
    """Writes all batches and returns the number of frames; see ``Writer``."""
    with Writer(path, mode=mode, report=report) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.n_frames
