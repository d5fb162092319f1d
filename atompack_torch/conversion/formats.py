"""Formats of conversions: their names, detection, and the functions that open them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from atompack_torch._native import check_regular_file
from atompack_torch.conversion.report import Report
from atompack_torch.conversion.text_files import STDIN, Text, is_pipe
from atompack_torch.errors import FieldError, UnsupportedFormatError
from atompack_torch.fields import PREFIXES
from atompack_torch.formats import bytes_at, is_shards, recognize
from atompack_torch.writers.columns import Columns

if TYPE_CHECKING:
    from atompack_torch.conversion.extxyz import Reader

# Names for options; "ase" is any format that ASE reads, "ase:NAME" one of its formats.
SOURCES = ("atp", "shards", "extxyz", "ase-db", "npz", "hdf5", "mace-hdf5", "ase")
TARGETS = ("atp", "shards", "extxyz", "ase-db")
_SUFFIXES = {
    ".atp": "atp",
    ".xyz": "extxyz",
    ".extxyz": "extxyz",
    ".db": "ase-db",
    ".aselmdb": "ase-db",
    ".npz": "npz",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
}
_COMPRESSED = (".gz", ".bz2", ".xz")


class Source(NamedTuple):
    """Source of a conversion.

    Attributes:
        path: path of the file, or of a folder of shards.
        kind: one of ``SOURCES``, or ``ase:NAME``.
        keys: names in the file → names here.
        padding: atomic number of padding rows in arrays.
        text: input text, for extended XYZ.
    """

    path: str
    kind: str
    keys: Mapping[str, str]
    padding: int | None
    text: Text | None = None

    @property
    def maps_keys_itself(self) -> bool:
        """True if the reader itself maps names of the file to fields."""
        return self.kind in ("npz", "hdf5", "extxyz")

    def n_structures(self) -> int | None:
        """Number of structures; None if unknown before reading."""
        if self.kind == "atp":
            from atompack_torch.conversion import atp

            return atp.count(self.path)
        if self.kind == "shards":
            from atompack_torch.conversion import shards

            return shards.count(self.path)
        if self.kind == "ase-db":
            from atompack_torch.conversion import ase_db

            return ase_db.count(self.path)
        if self.kind == "extxyz":
            return self._extxyz(Report()).n_frames
        if self.kind == "mace-hdf5":
            from atompack_torch.conversion import mace_hdf5

            return mace_hdf5.count(self.path)
        if self.kind in ("npz", "hdf5"):
            from atompack_torch.conversion import arrays

            count = arrays.count_npz if self.kind == "npz" else arrays.count_hdf5
            return count(self.path, keys=self.keys)
        return None

    def blocks(self, report: Report) -> Iterator[Columns]:
        """Yields the structures in order."""
        if self.kind == "atp":
            from atompack_torch.conversion import atp

            return atp.read(self.path, report=report)
        if self.kind == "shards":
            from atompack_torch.conversion import shards

            return shards.read(self.path, report=report)
        if self.kind == "ase-db":
            from atompack_torch.conversion import ase_db

            return ase_db.read(self.path, report=report)
        if self.kind == "extxyz":
            reader = self._extxyz(report)
            for key in sorted(self.keys.keys() - {key for _, key in reader._targets}):
                raise FieldError(f"{self.path}: keys: no frame has a key {key!r}")
            for (_, key), target in reader._targets.items():
                if target.key != key:
                    report.origin(PREFIXES.get(target.scope, "") + target.key, key)
            return reader
        if self.kind == "mace-hdf5":
            from atompack_torch.conversion import mace_hdf5

            return mace_hdf5.read(self.path, report=report)
        if self.kind in ("npz", "hdf5"):
            from atompack_torch.conversion import arrays

            read = arrays.read_npz if self.kind == "npz" else arrays.read_hdf5
            return read(self.path, keys=self.keys, report=report, padding=self.padding)
        from atompack_torch.conversion import ase_files

        name = self.kind.removeprefix("ase").removeprefix(":") or None
        return ase_files.read(self.path, report=report, ase_format=name)

    def _extxyz(self, report: Report) -> Reader:
        from atompack_torch.conversion import extxyz

        assert self.text is not None
        return extxyz.read(self.text, keys=self.keys, report=report)

    def close(self) -> None:
        """Deletes the temporary copy, if there is one."""
        if self.text is not None:
            self.text.close()

    def n_bytes(self) -> int:
        """Size on disk, or number of bytes read from a pipe."""
        if self.text is not None:
            return self.text.n_bytes
        pattern = "*" if self.kind == "shards" else "*.atp"
        return bytes_at(Path(self.path), pattern)


def source_of(
    path: str | os.PathLike[str],
    kind: str | None,
    keys: Mapping[str, str],
    padding: int | None,
) -> Source:
    """Returns a source, its format detected by suffix and first bytes unless given.

    Raises:
        FileNotFoundError: there is no such file.
        UnsupportedFormatError: a socket or a device, or a pipe for a format that is not text.
        ValueError: the format is unknown.
    """
    if os.fspath(path) != STDIN and not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    if kind is not None and kind not in SOURCES and not kind.startswith("ase:"):
        expected = ", ".join((*SOURCES, "ase:NAME"))
        raise ValueError(f"format: expected one of {expected}, got {kind!r}")
    streams = is_pipe(path)
    found = kind or (_kind_of_pipe(Path(path)) if streams else _format_of(Path(path)))
    if streams and found != "extxyz":
        raise UnsupportedFormatError(
            f"{path}: expected a regular file, got a pipe: only extended XYZ is read from pipes, "
            f"not format {found}"
        )
    if found == "hdf5":
        from atompack_torch.conversion.mace_hdf5 import is_mace

        found = "mace-hdf5" if is_mace(path) else found
    if padding is not None and found not in ("npz", "hdf5"):
        raise ValueError(f"padding: only arrays have it, {path} is of format {found}")
    text = Text(path) if found == "extxyz" else None
    return Source(text.name if text else os.fspath(path), found, keys, padding, text)


def _kind_by_suffix(path: Path) -> str | None:
    """Returns the format by suffix (``x.extxyz.gz`` counts as ``x.extxyz``); None: unknown."""
    if path.suffix in _COMPRESSED:
        inner = _SUFFIXES.get(path.with_suffix("").suffix)
        return inner if inner == "extxyz" else None
    return _SUFFIXES.get(path.suffix)


def _kind_of_pipe(path: Path) -> str:
    """Returns the format of a pipe: extended XYZ by default, as pipes are not inspected."""
    known = _kind_by_suffix(path)
    if known is None and path.suffix and path.suffix not in _COMPRESSED:
        raise UnsupportedFormatError(
            f"{path}: expected a regular file, got a pipe; give --from extxyz if it delivers "
            "extended XYZ"
        )
    return known or "extxyz"


def _format_of(path: Path) -> str:
    if path.is_dir():
        return "shards" if is_shards(path) else "atp"
    known = _kind_by_suffix(path)
    if known is not None:
        return known
    check_regular_file(os.fspath(path))
    if path.stat().st_size == 0:
        return "ase"  # without inspection: files in /proc have no size, and reading them may block
    found = recognize(path)
    return found.source or "ase" if found is not None else "ase"


class Target(Protocol):
    """Target of a conversion; it appears when the ``with`` block ends without an error."""

    def write(self, columns: Columns) -> None:
        """Adds a block."""


def target_kind(path: str | os.PathLike[str], kind: str | None) -> str:
    """Returns the format of a file to write, by its suffix unless given; shards have no suffix.

    Raises:
        ValueError: the format is unknown, or cannot be written.
    """
    found = kind or _SUFFIXES.get(Path(path).suffix, "")
    if found not in TARGETS or Path(path).suffix == ".aselmdb":
        got = f"the suffix {Path(path).suffix!r}" if kind is None else repr(kind)
        raise ValueError(f"{path}: target format: expected one of {', '.join(TARGETS)}, got {got}")
    return found


def open_target(
    path: str | os.PathLike[str],
    kind: str,
    report: Report,
    *,
    append: bool,
    codec: Any,
    level: int,
    shards: tuple[int, int, int] | None,
) -> AbstractContextManager[Target]:
    """Opens the target; an existing file is replaced at the end, or appended to."""
    if kind == "atp":
        from atompack_torch.conversion import atp

        return atp.Writer(path, codec, level, append=append)
    if kind == "shards":
        from atompack_torch.conversion import shards as target

        return target.Writer(path, target.Shape(*shards or ()), level)
    if kind == "extxyz":
        from atompack_torch.conversion import extxyz

        return extxyz.Writer(path, report=report, mode="w")
    from atompack_torch.conversion import ase_db

    return ase_db.Writer(path, report=report, overwrite=True)
