"""Datasink of Ray Data that writes a folder of ``.atp`` files."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink, WriteResult

from atompack_torch.conversion.parts import part_path, type_clash
from atompack_torch.errors import AtompackError, FieldError, file_exists
from atompack_torch.formats.atp.files import snapshot_of
from atompack_torch.formats.atp.writer import AtpWriter, Codec
from atompack_torch.options import WriterOptions, absolute_path, is_url
from atompack_torch.publishing import publish
from atompack_torch.ray.columns import columns_of


class _Written(NamedTuple):
    """Result of a write task: its number, its file in the hidden folder, molecules in it."""

    task: int
    name: str
    n_molecules: int


class AtpDatasink(Datasink):  # type: ignore[misc]  # Ray's base classes are not annotated
    """Writes a dataset of Ray to a new folder of ``.atp`` files, one for each write task.

        dataset.write_datasink(apt.ray.AtpDatasink("labelled/", codec="zstd"))

    The folder must be on storage that all nodes share. Tasks write to a hidden folder next to it.
    When all have ended, exactly the files that the successful tasks reported are kept, named
    ``part-00000-of-00008.atp`` in the order of the tasks, and the folder gets its name: it appears
    complete, or not at all. Files of tasks that failed, were repeated or ran twice are removed. If
    the process that started the work is killed, the hidden folder ``.NAME.*.new`` is left.

    Rows are molecules with columns as those of ``read_atp``; null values are absent from the files.
    ``index`` and columns that are computed, such as edges, are not written.

    Args:
        folder: path of the new folder.
        codec: ``"none"``, ``"lz4"`` or ``"zstd"``; None: none.
        level: compression level, as for ``AtpWriter``.
        atom_properties: columns of custom properties with a row for each atom. Columns of
            ``read_atp`` tell by themselves as long as tables are passed on; others can have a name
            such as ``"atom_properties/spin"`` instead.
        min_rows_per_file: number of rows for which Ray gathers blocks before it starts a task.

    Raises:
        FileExistsError: the folder exists and is not empty.
        ValueError: an option does not have one of its values, or the folder is a URL.
        TypeError: an option has the wrong type.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        codec: Codec | None = None,
        level: int = 3,
        atom_properties: Collection[str] = (),
        min_rows_per_file: int | None = None,
    ) -> None:
        WriterOptions(mode="x", codec=codec, level=level, num_threads=1)
        if is_url(folder):
            raise ValueError("folder: expected a folder that all nodes share, got a URL")
        self._folder = Path(absolute_path(folder))
        self._codec, self._level = codec, level
        self._atom_properties = frozenset(atom_properties)
        self._min_rows = min_rows_per_file
        self._check_is_new()
        hidden = f".{self._folder.name}.{secrets.token_hex(8)}.new"
        self._hidden = self._folder.with_name(hidden)

    @property
    def min_rows_per_write(self) -> int | None:
        """Number of rows for which Ray gathers blocks before it starts a task."""
        return self._min_rows

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Creates the hidden folder.

        Args:
            schema: types of the first block, which have no effect.

        Raises:
            FileExistsError: the folder exists and is not empty.
        """
        self._check_is_new()
        self._hidden.mkdir(parents=True, exist_ok=True)

    def write(self, blocks: Iterable[Any], ctx: Any) -> tuple[int, str, int] | None:
        """Writes the blocks of one task to a file of the hidden folder.

        Args:
            blocks: the blocks.
            ctx: context of the task.

        Returns:
            Number of the task, name of the file and number of molecules; None without rows.

        Raises:
            FileNotFoundError: this node does not see the hidden folder.
            FieldError: a column does not have the type or shape of its field.
            OSError: writing failed.
        """
        name = f"{ctx.task_idx:06}.{secrets.token_hex(8)}.new"
        with contextlib.ExitStack() as stack:
            writer: AtpWriter | None = None
            for block in blocks:
                table = BlockAccessor.for_block(block).to_arrow()
                if not table.num_rows:
                    continue
                if writer is None:
                    writer = stack.enter_context(self._open(name))
                writer.write_columns(columns_of(table, self._atom_properties))
            return None if writer is None else _Written(ctx.task_idx, name, len(writer))

    def _open(self, name: str) -> AtpWriter:
        if not self._hidden.is_dir():
            raise FileNotFoundError(
                f"{self._hidden}: no such folder on this node: expected storage that all nodes "
                "share, and a write that has not ended"
            )
        options: dict[str, Any] = {"codec": self._codec, "level": self._level, "num_threads": 1}
        return AtpWriter(self._hidden / name, mode="x", **options)

    def on_write_complete(self, write_result: WriteResult[Any]) -> None:
        """Publishes the files of all tasks.

        Args:
            write_result: results of the tasks.

        Raises:
            AtompackError: a file is not the one that a task reported.
            FieldError: a field has types in several files that cannot share a batch.
            FileExistsError: the folder was created in the meantime.
        """
        self._hidden.mkdir(parents=True, exist_ok=True)  # without blocks, nothing was started
        written = sorted(_Written(*one) for one in write_result.write_returns if one is not None)
        if not written:
            AtpWriter(self._hidden / "empty.new", codec=self._codec).close()
            written = [_Written(0, "empty.new", 0)]
        self._check(written, write_result.num_rows)
        for number, one in enumerate(written):
            target = part_path(self._hidden, (number, len(written)))
            (self._hidden / one.name).rename(target)
        for left in self._hidden.glob("*.new"):
            left.unlink()
        for left in self._hidden.glob(".*"):
            left.unlink()
        try:
            publish(self._hidden, self._folder, "x")
        except FileExistsError:
            raise file_exists(self._folder, "choose another folder") from None

    def on_write_failed(self, error: Exception) -> None:
        """Removes everything that was written.

        Args:
            error: the first error.
        """
        shutil.rmtree(self._hidden, ignore_errors=True)

    def _check_is_new(self) -> None:
        if self._folder.exists() and (not self._folder.is_dir() or any(self._folder.iterdir())):
            raise file_exists(self._folder, "choose another folder")

    def _check(self, written: list[_Written], n_rows: int) -> None:
        paths = [self._hidden / one.name for one in written]
        found = sum(snapshot_of(str(path)).n_molecules for path in paths)
        reported = sum(one.n_molecules for one in written)
        if not found == reported == int(n_rows):
            raise AtompackError(
                f"{self._hidden}: expected {n_rows:,} molecules, got reports of {reported:,} and "
                f"{found:,} in the files"
            )
        clash = type_clash(paths)
        if clash is not None:
            raise FieldError(f"{self._folder}: {clash.text}: cast the column to one type")
