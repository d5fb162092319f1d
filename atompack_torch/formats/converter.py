"""Interface of the modules that convert one format, with their sources and targets.

Formats without functions of their own are read through their dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns, of_batch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.sweeping import runs
from atompack_torch.errors import AtompackError
from atompack_torch.fields import STRUCTURE, FieldSpec
from atompack_torch.formats import recognize
from atompack_torch.formats.atp.writer import Codec
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.writer_base import WriterBase
from atompack_torch.options import bytes_at
from atompack_torch.publishing import published
from atompack_torch.remote.staging import Options

Mode = Literal["x", "w", "a"]


@dataclass
class Source:
    """Source of a conversion.

    Attributes:
        path: path of the file or folder, for messages.
        read: yields the molecules in order, in blocks.
        count: returns the number of molecules; None if unknown before reading.
        measure: returns the size in bytes; None: that of the file, or of all files in the folder.
        close: releases what the source holds.
        maps_keys: True if ``read`` itself maps names of the file to fields, by ``options.keys``.
        own_keys: keys that ``read`` itself uses where it does not map all, such as types of atoms.
        takes_padding: True if ``read`` drops the padding rows of ``options.padding``.
        keeps_open: True if a cell without ``pbc`` means an open molecule, as in ``.atp`` files.
        is_arrays: True if molecules are rows of arrays, whose labels may have any name.
        note: remark for the report.
        read_range: yields the molecules from a first one to one past a last one, without reading
            those before them; None: the source is read from its beginning.
        example: returns a block of molecules that have every field, in its type; None if the
            types are unknown before reading.
        names: returns names of labels and properties, at least all that some molecule has; None if
            they are unknown before reading. Sources with an example need none.
    """

    path: str
    read: Callable[[Report], Iterator[Columns]]
    count: Callable[[], int | None] = lambda: None
    measure: Callable[[], int] | None = None
    close: Callable[[], None] = lambda: None
    maps_keys: bool = False
    own_keys: Collection[str] = ()
    takes_padding: bool = False
    keeps_open: bool = False
    is_arrays: bool = False
    note: str = ""
    read_range: Callable[[Report, int, int], Iterator[Columns]] | None = None
    example: Callable[[], Columns | None] = lambda: None
    names: Callable[[], Collection[str] | None] = lambda: None

    def other_keys(self, keys: Mapping[str, str] | None) -> dict[str, str]:
        """Returns the keys that ``read`` does not use itself."""
        given = {} if keys is None or self.maps_keys else keys
        return {key: name for key, name in given.items() if key not in self.own_keys}

    def n_bytes(self) -> int:
        """Returns the size on disk, or the number of bytes read from a pipe."""
        return bytes_at(Path(self.path)) if self.measure is None else self.measure()


class SourceOptions(NamedTuple):
    """Options of ``convert`` for one source.

    Attributes:
        format: name of its format, as in ``formats.Format.source``, or ``ase:NAME``.
        keys: names in the file → names here.
        padding: atomic number of padding rows in arrays.
        storage_options: options of the store, if the path is a URL.
    """

    format: str
    keys: Mapping[str, str]
    padding: int | None = None
    storage_options: Options = None


class TargetOptions(NamedTuple):
    """Options of ``convert`` for its target.

    Attributes:
        report: receives values that the target cannot represent.
        append: append to an existing file; otherwise it is replaced at the end.
        codec: codec of blocks; None: the default of the target.
        level: compression level.
        shards: examples per shard, examples per block and strategy; None: the defaults.
    """

    report: Report
    append: bool = False
    codec: Codec | None = None
    level: int = 3
    shards: tuple[int, int, int] | None = None


class TargetTraits(NamedTuple):
    """Properties of the targets of one format.

    Attributes:
        modes: modes of ``convert`` that it supports.
        has_schema: True if the types of a field must agree in all molecules.
        codecs: codecs that it takes, the default first; empty: it is not compressed.
        has_shards: True if it takes ``shards``.
        makes_folder: True if a target is a folder, unless it has a suffix of the format; such a
            target has no URL.
    """

    modes: tuple[Mode, ...] = ("x", "w")
    has_schema: bool = False
    codecs: tuple[Codec, ...] = ()
    has_shards: bool = False
    makes_folder: bool = False


class Target(Protocol):
    """Target of a conversion; it appears when the ``with`` block ends without an error."""

    def write(self, columns: Columns) -> None:
        """Adds a block."""


class Converter(Protocol):
    """Interface of the module that converts one format; all members are optional.

    Attributes:
        TARGET: properties of its targets; without it, the defaults of ``TargetTraits``.
    """

    TARGET: TargetTraits

    def open_source(self, path: str, options: SourceOptions) -> Source:
        """Opens a source; without this function, ``open_dataset`` of the entry is used."""

    def open_target(self, path: str, options: TargetOptions) -> AbstractContextManager[Target]:
        """Opens a target, to which blocks are written; without it, the format is only read."""


@contextmanager
def staged_folder(path: str, source: str) -> Iterator[Path]:
    """Provides a hidden folder next to a target, which gets its name when the block ends.

    Args:
        path: the target, which is replaced if it is a folder of the same format.
        source: name of the format.

    Yields:
        The folder.

    Raises:
        ValueError: the target exists and is something else.
        OSError: the output cannot be written or renamed.
    """
    place = Path(path)
    if place.exists():
        found = recognize(place) if place.is_dir() else None
        is_same = found is not None and found.source == source
        if not is_same and (place.is_file() or any(place.iterdir())):
            raise ValueError(
                f"mode: expected a folder of format {source} to replace, got another: delete "
                f"{path} first"
            )
    with published(place) as made:
        made.mkdir()
        yield made


# A block is complete when it reaches either limit.
BLOCK_STRUCTURES = 4096
BLOCK_ATOMS = 1 << 16
_BLOCK_VALUES = 1 << 23  # of all fields, most of which most molecules may lack


def readable(
    read: Callable[[int, int], Columns], first: int, last: int, report: Report
) -> Iterator[Columns]:
    """Yields a block of molecules in order; if reading the block fails, each molecule separately.

    This isolates molecules that are damaged or differ from others in a type.

    Args:
        read: reads a block, given its bounds.
        first: the first molecule.
        last: one past the last molecule.
        report: receives those that cannot be read.
    """
    try:
        columns = read(first, last)
    except AtompackError as error:
        if last - first == 1:
            report.refuse(error)
            return
        for i in range(first, last):
            yield from readable(read, i, i + 1, report)
        return
    yield columns


def blocks_of(
    dataset: MoleculeDataset,
    report: Report,
    first: int,
    last: int | None = None,
    read: Callable[[int, int], Columns] | None = None,
) -> Iterator[Columns]:
    """Yields the molecules of a dataset in blocks of bounded size, in order.

    Args:
        dataset: the dataset.
        report: receives molecules that cannot be read.
        first: number of the first molecule.
        last: one past the last molecule; None: all.
        read: reads a block, given its bounds; None: all fields of its batch.

    Yields:
        Blocks of molecules.

    Raises:
        AtompackError: a molecule cannot be read, and the report does not skip it.
    """
    n_atoms = dataset.n_atoms.numpy()  # reads the index
    most_rows = max(_BLOCK_VALUES // len(dataset.schema), 1) if len(n_atoms) else 1
    limits = min(BLOCK_ATOMS, most_rows), min(BLOCK_STRUCTURES, most_rows)
    read = read or (lambda i, j: of_batch(dataset[i:j]))
    for part in runs(n_atoms[:last], *limits, first):
        yield from readable(read, part.start, part.stop, report)


def example_of(dataset: MoleculeDataset) -> Columns | None:
    """Returns two molecules of one atom that have all fields of a dataset, in their types.

    Args:
        dataset: the dataset.

    Returns:
        The block; None if there are no molecules.
    """
    if not len(dataset):
        return None
    schema = dataset.schema
    fields = [spec for name, spec in schema.items() if name not in STRUCTURE]
    declared = zip(dataset.declared_fields(), fields, strict=True)
    columns = [Column(*field, _values_of(spec)) for field, spec in declared]
    positions = np.zeros((2, 3), _dtype_of(schema["positions"]))
    return Columns(positions, np.ones(2, np.uint8), np.arange(3), columns)


def _values_of(spec: FieldSpec) -> Array | list[Array | str | None]:
    """Returns values of the type for two molecules of one atom."""
    if spec.dtype in ("string", "none"):
        return ["" if spec.dtype == "string" else None] * 2
    dtype = _dtype_of(spec)
    if spec.shape is None:  # tensors, which share a type whatever their shapes
        rows = (1,) if spec.level == "atom" else ()
        return [np.zeros((*rows, 1, n), dtype) for n in (1, 2)]
    return np.zeros((2, *spec.shape), dtype)


def _dtype_of(spec: FieldSpec) -> np.dtype[Any]:
    return np.dtype(str(spec.dtype).removeprefix("torch."))


class ForwardingWriter(WriterBase):
    """Conversion target that forwards to another writer."""

    _writer: WriterBase

    def close(self) -> None:
        """Commits the output; discards it if that fails."""
        try:
            self._writer.close()
        except BaseException:
            self._writer.discard()
            raise

    def discard(self) -> None:
        """Discards the output."""
        self._writer.discard()

    def _is_unfinished(self) -> bool:
        return False  # the inner writer warns
