"""The file formats that the package recognizes by content, and what to do with a foreign one.

``FORMATS`` is the one table of magic bytes. Everything here is about error messages and about the
choice of a converter: nothing is decoded.
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
_USER_BLOCKS = (512, 1024, 2048)  # where an HDF5 file may begin, behind bytes of somebody's own
# Names of the metadata of an ATLAS store, the first of which that is there counts.
STORE_METADATA = tuple(
    f"atlas.{form}{codec}" for form in ("json", "msgpack") for codec in ("", ".zst", ".lz4")
)
_FRAME = re.compile(rb"\s*\d+[ \t]*\r?\n([^\n]*)\n\s*[A-Za-z]\w*(\s+[-+.\deE]+){3}")
_EXTENDED = re.compile(rb"\s*\d+[ \t]*\r?\n[^\n]*\b(Properties|Lattice)=", re.IGNORECASE)


class Format(NamedTuple):
    """A kind of file or folder.

    Attributes:
        name: short and unique.
        title: with its article, for messages.
        magics: (offset, bytes), one of which a file of this format has.
        matches: for formats without magic bytes: tells it by the first bytes of a file.
        holds: names in a folder of this format, one of which is there.
        opens: what opens it in Python; "" where nothing here does.
        source: name of the format for ``convert``; "" where it does not read it, "ase" where ASE
            is asked.
        suffixes: by which ``convert`` knows the format; others need ``--from``.
        entry: the module that answers for it, with the functions of ``inspection.entry.Entry``;
            "" where nothing here reads it.
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
    """Protocols 2 to 5: the opcode that names it, and another opcode behind it."""
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
# Array files end in their magic bytes, and folders are told by what is in them.
_ARRAY_FILE = Format(
    "array-file", "an array file", opens="ArrayFile", suffixes=(".af",), entry=_STORES
)
_ARRAY_FILE_END = b"ARRF"
_ATP_FOLDER = Format(
    "atp-folder", "a folder of .atp files", opens="AtpDataset", source="atp", entry=_ATP
)
_DATABASES = Format("databases", "a folder of .aselmdb databases", source="ase-db")


def recognize(path: str | os.PathLike[str]) -> Format | None:
    """The format of what is at a path, told by its content; None where nothing matches.

    What is no regular file and no folder is not opened.
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
    """A message about a path that holds another format; None where it does not, or nobody knows.

    Args:
        path: what could not be opened.
        expected: with its article, what the caller opens.
        names: of the formats that the caller opens.
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
    """The command that makes an ``.atp`` file of a foreign file."""
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
    """Says what a foreign file is, and what to do with it, where opening calls it damaged.

    Args:
        path: what is opened in the block.
        expected: what the caller opens, with its article.
        names: of the formats that it opens; none: ``"atp"``.

    Raises:
        UnsupportedFormatError: the block failed, and the path holds another format.
        OSError: the same, where the block raised it (a folder for a file, say); of the same class.
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
    """Refuses a folder without metadata, which is no ATLAS store.

    Raises:
        FileNotFoundError: none of the metadata files is there.
    """
    if not any((Path(folder) / name).is_file() for name in STORE_METADATA):
        sought = ", ".join(STORE_METADATA)
        text = f"no ATLAS store in this folder: expected one of {sought}; mode='x' makes a store"
        raise FileNotFoundError(errno.ENOENT, text, folder)


def entry_name(path: str | os.PathLike[str]) -> str:
    """The module that answers for what is at a path.

    What nobody knows, or is only converted, is left to ``.atp``'s, whose messages say what it is.
    """
    if Path(path).suffix in _ARRAY_FILE.suffixes:
        return _ARRAY_FILE.entry
    found = recognize(path)
    return found.entry if found is not None and found.entry else _ATP


def is_store(path: Path) -> bool:
    """Tells an ATLAS store or, by its suffix, an array file."""
    return entry_name(path) == _STORES


def is_shards(path: Path) -> bool:
    """Tells a folder with a data set of shards from one of .atp files."""
    return (path / "meta.json").is_file()


def bytes_at(path: Path, pattern: str = "*") -> int:
    """Size on disk; of a folder that of its files whose names match."""
    files = path.rglob(pattern) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
