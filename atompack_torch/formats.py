"""File formats recognized by content, and messages about files of foreign formats.

``FORMATS`` is the only table of magic bytes. This module serves error messages and the choice of a
converter; it decodes nothing.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from atompack_torch.errors import CorruptFileError, FieldError, UnsupportedFormatError

_HEAD_BYTES = 4096
_USER_BLOCKS = (512, 1024, 2048)  # possible offsets of HDF5 data after a user block
# Names of the metadata of an ATLAS store; the first that exists counts.
STORE_METADATA = tuple(
    f"atlas.{form}{codec}" for form in ("json", "msgpack") for codec in ("", ".zst", ".lz4")
)
_FRAME = re.compile(rb"\s*\d+[ \t]*\r?\n([^\n]*)\n\s*[A-Za-z]\w*(\s+[-+.\deE]+){3}")
_EXTENDED = re.compile(rb"\s*\d+[ \t]*\r?\n[^\n]*\b(Properties|Lattice)=", re.IGNORECASE)


class Format(NamedTuple):
    """A kind of file or folder.

    Attributes:
        name: short, unique name.
        title: name with its article, for messages.
        magics: (offset, bytes) pairs; a file of this format has one of them.
        matches: for formats without magic bytes: recognizes the first bytes of a file.
        holds: file names; a folder of this format contains one of them.
        opens: name of the Python function or class that opens it; "" if there is none.
        source: name of the format for ``convert``; "" if it cannot read it, "ase" if it is read by
            ASE.
        suffixes: suffixes by which ``convert`` recognizes the format; others need ``--from``.
        entry: module of the format, with the functions of ``inspection.entry.Entry``; "" if the
            package cannot read it.
    """

    name: str
    title: str
    magics: tuple[tuple[int, bytes], ...] = ()
    matches: Callable[[bytes], bool] | None = None
    holds: tuple[str, ...] = ()
    opens: str = ""
    source: str = ""
    suffixes: tuple[str, ...] = ()
    entry: str = ""


def _is_text(head: bytes) -> bool:
    return bool(head) and not re.search(rb"[^\t\n\r\f\x1b -\x7e\x80-\xff]", head)


def _is_json(head: bytes) -> bool:
    return _is_text(head) and head.lstrip()[:1] in (b"{", b"[")


def _is_extxyz(head: bytes) -> bool:
    return _is_text(head) and bool(_EXTENDED.match(head) or _FRAME.match(head))


def _is_pickle(head: bytes) -> bool:
    """True for pickles of protocols 2 to 5: the protocol opcode followed by another opcode."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2] < 0x99


_ATP, _STORES = "atompack_torch.inspection.atp", "atompack_torch.inspection.stores"

FORMATS = [
    Format("atp", "an .atp file", ((0, b"ATPK"),), opens="AtpDataset", source="atp", entry=_ATP),
    Format(
        "hdf5",
        "an HDF5 file",
        tuple((start, b"\x89HDF\r\n\x1a\n") for start in (0, *_USER_BLOCKS)),
        opens="TorchCache (a feature cache)",
        source="hdf5",
        suffixes=(".h5", ".hdf5"),
        entry="atompack_torch.inspection.caches",
    ),
    Format(
        "sqlite",
        "an SQLite file, such as an ASE database",
        ((0, b"SQLite format 3\0"),),
        source="ase-db",
        suffixes=(".db",),
    ),
    Format(
        "lmdb",
        "an LMDB file, such as an .aselmdb database",
        ((16, b"\xde\xc0\xef\xbe"),),
        source="ase-db",
        suffixes=(".aselmdb",),
    ),
    Format(
        "zip",
        "a ZIP archive, such as an NPZ file",
        ((0, b"PK\x03\x04"), (0, b"PK\x05\x06")),
        source="npz",
        suffixes=(".npz",),
    ),
    Format("npy", "an NPY file: one array without names", ((0, b"\x93NUMPY"),)),
    Format("ulm", "an ASE trajectory", ((0, b"- of Ulm"),), source="ase", suffixes=(".traj",)),
    Format("netcdf", "a NetCDF file", tuple((0, b"CDF" + bytes([n])) for n in (1, 2, 5))),
    Format("gzip", "a gzip file", ((0, b"\x1f\x8b"),), source="ase"),
    Format("xz", "an xz file", ((0, b"\xfd7zXZ\0"),), source="ase"),
    Format("bzip2", "a bzip2 file", ((0, b"BZh"),), source="ase"),
    Format("zstd", "a zstd file", ((0, b"\x28\xb5\x2f\xfd"),)),
    Format("pickle", "a pickle", matches=_is_pickle),
    Format(
        "extxyz",
        "an extended XYZ file",
        matches=_is_extxyz,
        source="extxyz",
        suffixes=(".xyz", ".extxyz"),
    ),
    Format("json", "a JSON file", matches=_is_json, source="ase", suffixes=(".json",)),
    Format(
        "atlas-store", "an ATLAS store", holds=STORE_METADATA, opens="AtlasStore", entry=_STORES
    ),
    Format(
        "shards",
        "a folder of Atlas shards",
        holds=("meta.json",),
        opens="ShardDataset",
        entry="atompack_torch.inspection.shards",
    ),
    Format("zarr", "a Zarr group", holds=("zarr.json", ".zgroup", ".zarray")),
    Format("text", "a text file", matches=_is_text, source="ase"),
]
# Array files have their magic bytes at the end; folders are recognized by their contents.
_ARRAY_FILE = Format(
    "array-file", "an array file", opens="ArrayFile", suffixes=(".af",), entry=_STORES
)
_ARRAY_FILE_END = b"ARRF"
_ATP_FOLDER = Format(
    "atp-folder", "a folder of .atp files", opens="AtpDataset", source="atp", entry=_ATP
)
_DATABASES = Format("databases", "a folder of .aselmdb databases", source="ase-db")


def recognize(path: str | os.PathLike[str]) -> Format | None:
    """Returns the format of a path, recognized by content; None if nothing matches.

    Only regular files and folders are opened.
    """
    place = Path(path)
    if place.is_dir():
        return _of_folder(place)
    if not place.is_file():
        return None
    with place.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        file.seek(max(0, place.stat().st_size - len(_ARRAY_FILE_END)))
        end = file.read(len(_ARRAY_FILE_END))
    for known in FORMATS:
        if any(head.startswith(magic, offset) for offset, magic in known.magics):
            return known
    if end == _ARRAY_FILE_END:
        return _ARRAY_FILE
    return next((known for known in FORMATS if known.matches and known.matches(head)), None)


def _of_folder(folder: Path) -> Format | None:
    for known in FORMATS:
        if any((folder / name).exists() for name in known.holds):
            return known
    if any(folder.glob("*.aselmdb")):
        return _DATABASES
    return _ATP_FOLDER if any(folder.rglob("*.atp")) else None


def foreign(path: str | os.PathLike[str], expected: str, names: tuple[str, ...]) -> str | None:
    """Returns a message about a path of a foreign format; None if it is not, or is unrecognized.

    Args:
        path: the path that could not be opened.
        expected: what the caller opens, with its article.
        names: names of the formats that the caller opens.
    """
    found = recognize(path)
    if found is None or found.name in names:
        return None
    advice = []
    if found.opens:
        advice.append(f"{found.opens} opens it")
    if found.source and found.source != "atp":
        advice.append(f"`{conversion(path, found)}` converts it")
    text = f"expected {expected}, got {found.title}"
    return f"{text}: {'; '.join(advice)}" if advice else text


def conversion(path: str | os.PathLike[str], found: Format) -> str:
    """Returns the command that converts a foreign file to ``.atp``."""
    source = Path(path)
    target = source.with_suffix(".atp")
    if target == source:
        target = source.with_name(f"{source.stem}.converted.atp")
    kind = "" if source.suffix in found.suffixes or found.source == "ase" else found.source
    if found.source == "ase" and source.suffix == ".atp":
        kind = "ase"
    option = f" --from {kind}" if kind else ""
    return f"atompack-torch convert {shlex.quote(str(source))} {shlex.quote(str(target))}{option}"


@contextmanager
def opening(
    path: str | os.PathLike[str], expected: str = "an .atp file", *names: str
) -> Iterator[None]:
    """Replaces errors on opening a foreign file by one that names its format and a remedy.

    Args:
        path: the path opened in the block.
        expected: what the caller opens, with its article.
        names: names of the formats that it opens; empty: ``"atp"``.

    Raises:
        UnsupportedFormatError: the block failed, and the path holds another format.
        OSError: likewise, if the block raised an OSError (for instance, a folder instead of a
            file); of the same class.
    """
    try:
        yield
    except (CorruptFileError, FieldError, UnsupportedFormatError):
        message = foreign(path, expected, names or ("atp",))
        if message is None:
            raise
        raise UnsupportedFormatError(f"{os.fspath(path)}: {message}") from None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        message = foreign(path, expected, names or ("atp",))
        if message is None:
            raise
        raise type(error)(error.errno or errno.ENOENT, message, os.fspath(path)) from None


def check_store(folder: str) -> None:
    """Checks that a folder has the metadata of an ATLAS store.

    Raises:
        FileNotFoundError: none of the metadata files exists.
    """
    if not any((Path(folder) / name).is_file() for name in STORE_METADATA):
        sought = ", ".join(STORE_METADATA)
        text = f"no ATLAS store in this folder: expected one of {sought}; mode='x' makes a store"
        raise FileNotFoundError(errno.ENOENT, text, folder)


def entry_name(path: str | os.PathLike[str]) -> str:
    """Returns the name of the module for the format of a path.

    Unknown formats, and those that can only be converted, get the module of ``.atp``, whose
    messages name the format.
    """
    if Path(path).suffix in _ARRAY_FILE.suffixes:
        return _ARRAY_FILE.entry
    found = recognize(path)
    return found.entry if found is not None and found.entry else _ATP


def is_store(path: Path) -> bool:
    """True for an ATLAS store or, by its suffix, an array file."""
    return entry_name(path) == _STORES


def is_shards(path: Path) -> bool:
    """True if a folder holds a data set of Atlas shards, not .atp files."""
    return (path / "meta.json").is_file()


def bytes_at(path: Path, pattern: str = "*") -> int:
    """Returns the size on disk; for a folder, that of the files whose names match."""
    files = path.rglob(pattern) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
