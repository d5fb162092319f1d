"""ASE databases in SQLite (``.db``) and JSON; those in LMDB are ``formats.aselmdb``."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Columns
from atompack_torch.batch.conversions import Parts, atoms_of
from atompack_torch.conversion.sources.ase_files import parts_of_row
from atompack_torch.errors import AtompackError, CorruptFileError
from atompack_torch.formats import detect
from atompack_torch.formats.aselmdb import converter as aselmdb
from atompack_torch.formats.aselmdb.rows import BOOKKEEPING, row_of, take_metadata
from atompack_torch.formats.conversion_report import Report, described, naming_damage
from atompack_torch.formats.converter import Source, SourceOptions, Target, TargetOptions
from atompack_torch.formats.records import BLOCK_STRUCTURES, convert_each, records_of
from atompack_torch.publishing import published

_Path = str | os.PathLike[str]


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a database."""
    if _is_of(path, "lmdb"):
        return aselmdb.open_source(path, options)
    return Source(path, lambda report: read(path, report=report), partial(count, path))


@contextmanager
def open_target(path: str, options: TargetOptions) -> Iterator[Target]:
    """Opens a new database."""
    with published(Path(path)) as made:
        yield Writer(made, options.report)


def count(path: _Path) -> int:
    """Counts the rows.

    Args:
        path: the database.

    Returns:
        The number of rows.

    Raises:
        CorruptFileError, OSError: as for ``read``.
    """
    database = _connect(path)
    with naming_damage(path):
        return len(database)


def read(path: _Path, *, report: Report) -> Iterator[Columns]:
    """Yields the rows in blocks, ordered by id.

    Key-value pairs and data become molecule properties; an entry of ``data`` named after a scope
    (``atom_properties/KEY``) or a label, as written by ``Writer``, becomes the field so named.

    Args:
        path: the database.
        report: receives values that columns cannot represent, and rows that cannot be read.

    Yields:
        Blocks of rows.

    Raises:
        CorruptFileError: a row cannot be read.
        OSError: the file cannot be opened.
    """
    report.note(BOOKKEEPING)
    database = _connect(path)
    take_metadata(str(path), lambda: database.metadata, report)
    makes = (partial(_parts, database, row, report) for row in _rows(database, str(path)))
    yield from convert_each(path, makes, report)


def _parts(database: Any, row: Any, report: Report) -> Parts:
    return parts_of_row(database.get(id=row) if isinstance(row, int) else row, report)


def _rows(database: Any, path: str) -> Iterator[Any]:
    """Yields all rows by id; yields ids for rows that fail when read together with others."""
    last = 0
    while True:
        # ASE fetches all selected rows before it returns the first.
        piece = {"sort": "id", "limit": BLOCK_STRUCTURES}
        try:
            rows = list(database.select(f"id>{last}", **piece))
        except Exception:
            with naming_damage(path):
                bare = database.select(f"id>{last}", columns=["id"], include_data=False, **piece)
                rows = [row.id for row in bare]
        for row in rows:
            found = row if isinstance(row, int) else row.id
            if found <= last:
                raise CorruptFileError(f"{path}: ids: expected one above {last}, got {found}")
            yield row
            last = found
        if not rows:
            return


def _is_of(path: _Path, name: str) -> bool:
    known = detect(path)
    return known is not None and known.name == name


def _connect(path: _Path) -> Any:
    import ase.db

    check_regular_file(os.fspath(path))
    try:
        kind = "json" if _is_of(path, "json") else "db"
        return ase.db.connect(os.fspath(path), kind, use_lock_file=False)
    except (OSError, AtompackError):
        raise
    except Exception as error:
        raise CorruptFileError(f"{path}: {described(error)}") from error


@contextmanager
def _system_errors() -> Iterator[None]:
    """Raises errors of files as SQLite describes them."""
    try:
        yield
    except sqlite3.OperationalError as error:
        is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
        raise OSError(errno.ENOSPC if is_full else errno.EIO, str(error)) from error


class Writer:
    """Writes molecules as rows of a new database, each block in one transaction.

    Fields are placed by ``aselmdb.rows.row_of``.

    Args:
        path: the SQLite database to create.
        report: receives what a row cannot represent.
    """

    def __init__(self, path: Path, report: Report) -> None:
        import ase.db

        self._report = report
        self._database = ase.db.connect(os.fspath(path), "db", use_lock_file=False)
        with _system_errors():
            len(self._database)  # creates the tables, even for a database without rows

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        with _system_errors(), self._database:
            for parts in records_of(columns):
                self._write_row(parts)

    def _write_row(self, parts: Parts) -> None:
        row = row_of(parts, self._report, holds_nan=False)
        atoms = atoms_of(Parts(parts.positions, parts.atomic_numbers, row.labels, {}, row.arrays))
        self._database.write(atoms, key_value_pairs=row.pairs, data=row.data)
