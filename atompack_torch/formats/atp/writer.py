"""Writer of ``.atp`` files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

from atompack_torch import _native, formats
from atompack_torch.batch import columns
from atompack_torch.batch.columns import Columns
from atompack_torch.batch.molecule_batch import Molecule, MoleculeBatch, row_of
from atompack_torch.errors import APPEND_OR_REPLACE, file_exists
from atompack_torch.formats.writer_base import StagedWriter
from atompack_torch.options import WriterOptions, checked_path, is_url
from atompack_torch.remote.staging import StagedFile, naming

Codec = Literal["none", "lz4", "zstd"]


class AtpWriter(StagedWriter):
    """Appends molecules to an ``.atp`` file, commit by commit.

        with AtpWriter("data.atp", codec="zstd") as writer:
            for batch in batches:
                writer.write(batch)

    ``flush()`` is the commit point: once it returns, everything written so far is durable, and
    whatever happens later, the file opens at that commit or a later complete one. Leaving the
    ``with`` block commits; if an exception is raised in it, nothing more is committed, and a file
    without any commit is removed. Readers are never disturbed: open readers keep their generation,
    and ``ds.refresh()`` moves them to the new one.

    A file has one writer at a time, across all processes. Values are stored unchanged in their own
    types; only types that the format lacks are widened (float16 to float32, small integers and
    booleans to int32, scalars of molecules to float64 and int64). All molecules of a file share the
    dtype of their positions, and each key has one type: a conflicting value is rejected before
    anything of the call is written, and the writer stays usable.

    Molecules are compressed and written by background threads, in bounded memory. After an
    ``OSError`` (a full disk) the file stays at its last commit and no accepted molecule is lost:
    once there is space, calls resume from the point of failure.

    A URL (``s3://``, ``gs://``, ``az://``, ``https://``) names an object, which appears when the
    writer is closed, whole or not at all. Until then the file is built in the temporary folder (see
    ``TMPDIR``), which needs space for all of it; ``flush`` uploads nothing. If the upload fails,
    the error names the local file, which is kept; ``close`` can then be called again.

    Args:
        path: path or URL of the file; a symbolic link is followed.
        codec: ``"none"``, ``"lz4"`` or ``"zstd"``; None: the file's codec when appending, else
            none.
        level: compression level. zstd: -131072 to 22. lz4: 0 to 2 for its fast mode, 3 to 12 for
            its high-compression mode (atompack-db uses 12). When appending to a zstd file without
            ``codec``, the file's level is used.
        mode: ``"x"``: create a new file immediately; ``"w"``: create a new file that replaces the
            old one at the first commit (readers of the old one keep it); ``"a"``: append to an
            existing file, or create it. An object is downloaded first to be appended to.
        num_threads: maximum number of threads that compress and write; None: one per core, at most
            16. Without compression one is always enough.
        storage_options: options of the store of a URL; see ``AtpDataset``.

    Raises:
        FileExistsError: ``mode="x"`` and the path exists; with ``mode="w"``, raised by the first
            commit if a file was created there after the writer was opened. For URLs also raised by
            ``close``, if the object was created in the meantime.
        OSError: the store cannot be reached, or refuses.
        WriterLockedError: another writer has the file open.
        FieldError: the codec differs from that of the file being appended to.
        TypeError, ValueError: an option does not have one of its values.
        CorruptFileError: the file being appended to is damaged.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        codec: Codec | None = None,
        level: int = 3,
        mode: Literal["x", "w", "a"] = "x",
        num_threads: int | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> None:
        checked = codec or (None if mode == "a" else "none")  # None: the file's own
        options = WriterOptions(mode=mode, codec=checked, level=level, num_threads=num_threads)
        if isinstance(path, str) and is_url(path):
            staged = StagedFile(path, mode, storage_options, instead=APPEND_OR_REPLACE)
            self._staged, self._path, self._shown = staged, str(staged.path), path
            mode = "x" if staged.is_new else "a"
        else:
            self._path = os.path.realpath(checked_path(path))
            self._shown = Path(self._path)
        try:
            with self._naming(), formats.opening(self._path):
                self._native = _native.AtpWriter(self._path, mode, codec, level, options.n_threads)
        except FileExistsError:
            raise file_exists(self._path, APPEND_OR_REPLACE) from None

    def _naming(self) -> AbstractContextManager[None]:
        """Lets errors name the URL instead of the local file."""
        return nullcontext() if self._staged is None else naming(self._staged.url, self._path)

    def write(self, molecules: Any) -> None:
        """Appends molecules in order: all of them, or none if it raises.

        Args:
            molecules: a ``Molecule``, a ``MoleculeBatch``, an ``ase.Atoms`` (as accepted by
                ``MoleculeBatch.from_ase``), or a sequence of them. Masked values of a batch are
                absent from the file.

        Raises:
            FieldError: a type, shape or length differs from that of earlier molecules, or the
                format does not support it; the message names the key and the molecule's position
                in this call.
            CorruptFileError: a molecule holds a damaged value.
            OSError: writing these or earlier molecules failed.
        """
        self._write([*_runs(molecules)])

    def write_arrays(
        self,
        *,
        positions: Any,
        atomic_numbers: Any,
        n_atoms: Any = None,
        properties: Mapping[str, Any] | None = None,
        atom_properties: Mapping[str, Any] | None = None,
        **labels: Any,
    ) -> None:
        """Appends B molecules given as arrays or tensors, N atoms in all.

        Labels are further keywords: ``energy`` (B,), ``forces`` and ``velocities`` (B, n, 3),
        ``charges`` (B, n), ``cell`` and ``stress`` (B, 3, 3), ``pbc`` (B, 3), ``name`` (list of B
        ``str``); per atom (N, ...) with ``n_atoms``. None means absent. Molecules with a cell are
        periodic in all directions if ``pbc`` is absent, with a warning.

        Args:
            positions: (B, n, 3), or (N, 3) with ``n_atoms``; float32 or float64.
            atomic_numbers: (B, n), (n,) for all, or (N,) with ``n_atoms``; integers 0 to 255.
            n_atoms: (B,) integers, required if molecules differ in size.
            properties: key → (B, ...) array, or a list of ``str``.
            atom_properties: key → (B, n, ...), or (N, ...) with ``n_atoms``.
            **labels: ``energy``, ``forces`` and so on, as described above.

        Raises:
            FieldError, OSError: as for ``write``.
        """
        given = columns.of_arrays(
            positions, atomic_numbers, n_atoms, labels, properties or {}, atom_properties or {}
        )
        self.write_columns(given)

    def write_columns(self, run: Columns) -> None:
        """Appends molecules given as columns.

        Args:
            run: columns of consecutive molecules.

        Raises:
            FieldError, OSError: as for ``write``.
        """
        self._write([columns.stored(run)])

    def _write(self, runs: list[columns.StoredRun]) -> None:
        with self._naming():
            self._opened().write(runs)

    def flush(self) -> None:
        """Commits: once it returns, all molecules written so far are durable and readable.

        For a URL, nothing is uploaded before the writer is closed.

        Raises:
            OSError: writing failed; the file stays at its last commit, the call can be repeated.
        """
        self._opened().commit(publish=True)

    def __len__(self) -> int:
        """Number of molecules in the file, including uncommitted ones."""
        return int(self._opened().n_molecules)

    @property
    def codec(self) -> str:
        """Codec of the file."""
        return str(self._opened().codec)


def _runs(molecules: Any) -> Iterator[columns.StoredRun]:
    """Groups molecules into runs; adjacent views of one batch form one run."""
    if isinstance(molecules, (MoleculeBatch, Molecule)) or _is_atoms(molecules):
        molecules = [molecules]
    if not isinstance(molecules, Sequence):
        raise TypeError(
            "expected a Molecule, MoleculeBatch, ase.Atoms or a sequence of them, got "
            f"{type(molecules).__name__}"
        )
    viewed: MoleculeBatch | None = None
    rows: list[int] = []
    for item in molecules:
        batch, row = row_of(item) if isinstance(item, Molecule) else (_batch_of(item), None)
        if viewed is not None and (batch is not viewed or row is None):
            yield columns.stored(columns.of_batch(viewed, rows), rows)
            viewed, rows = None, []
        if row is None:
            yield columns.stored(columns.of_batch(batch))
        else:
            viewed = batch
            rows.append(row)
    if viewed is not None:
        yield columns.stored(columns.of_batch(viewed, rows), rows)


def _batch_of(item: Any) -> MoleculeBatch:
    if isinstance(item, MoleculeBatch):
        return item
    if _is_atoms(item):
        return MoleculeBatch.from_ase([item])
    raise TypeError(f"expected Molecule, MoleculeBatch or ase.Atoms, got {type(item).__name__}")


def _is_atoms(item: Any) -> bool:
    ase = sys.modules.get("ase")  # an Atoms object implies that ase is imported
    return ase is not None and isinstance(item, ase.Atoms)
