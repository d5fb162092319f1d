"""Registry of file formats: recognition by content, and messages about files of foreign formats.

``FORMATS`` is the only table of magic bytes, suffixes and modules of formats. Opening, inspection,
conversion, compaction and the hub look formats up here; nothing here decodes them.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from atompack_torch.errors import CorruptFileError, FieldError, UnsupportedFormatError
from atompack_torch.options import is_in_memory, is_url

HEAD_BYTES = 4096
END_BYTES = 16
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
        ends: last bytes of a file, for formats whose magic bytes are at the end.
        matches: for formats without magic bytes: recognizes the first bytes of a file.
        holds: patterns; a folder of this format contains a file that matches one of them.
        opens: name of the Python function or class that opens it; "" if there is none.
        source: name of the format for ``convert``; "" if it cannot read it, "ase" if it is read by
            ASE.
        is_target: True if ``convert`` writes it.
        is_stream: True if ``convert`` reads it from pipes, too.
        is_compression: True for compressed files, whose content may have any format.
        suffixes: suffixes of its files, which count where the content does not tell the format.
        hub_files: patterns of the files that ``hub.open`` downloads from a folder.
        is_uploaded: True if ``hub.upload`` takes a single file of it: a whole data set.
        entry: module of the format, with the functions of ``inspection.entry.Entry``; "" if the
            package cannot open it.
        converter: module with the functions of ``conversion.converter.Converter``; "" if ``entry``
            has them.
    """

    name: str
    title: str
    magics: tuple[tuple[int, bytes], ...] = ()
    ends: bytes = b""
    matches: Callable[[bytes], bool] | None = None
    holds: tuple[str, ...] = ()
    opens: str = ""
    source: str = ""
    is_target: bool = False
    is_stream: bool = False
    is_compression: bool = False
    suffixes: tuple[str, ...] = ()
    hub_files: tuple[str, ...] = ()
    is_uploaded: bool = False
    entry: str = ""
    converter: str = ""


def _is_text(head: bytes) -> bool:
    return bool(head) and not re.search(rb"[^\t\n\r\f\x1b -\x7e\x80-\xff]", head)


def _is_json(head: bytes) -> bool:
    return _is_text(head) and head.lstrip()[:1] in (b"{", b"[")


def _is_extxyz(head: bytes) -> bool:
    return _is_text(head) and bool(_EXTENDED.match(head) or _FRAME.match(head))


def _is_pickle(head: bytes) -> bool:
    """True for pickles of protocols 2 to 5: the protocol opcode followed by another opcode."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2] < 0x99


def _compression(name: str, title: str, magic: bytes, suffix: str) -> Format:
    known = Format(name, title, ((0, magic),), source="ase", suffixes=(suffix,), converter=_ASE)
    return known._replace(is_compression=True)


_ATP, _STORES = "atompack_torch.inspection.atp", "atompack_torch.inspection.stores"
_CONVERSION = "atompack_torch.conversion"
_ARRAYS, _ASE = f"{_CONVERSION}.arrays", f"{_CONVERSION}.ase_files"

FORMATS = [
    Format(
        "atp",
        "an .atp file",
        ((0, b"ATPK"),),
        opens="AtpDataset",
        source="atp",
        is_target=True,
        suffixes=(".atp",),
        hub_files=("*.atp", "manifest.json"),
        is_uploaded=True,
        entry=_ATP,
        converter=f"{_CONVERSION}.atp",
    ),
    Format(
        "hdf5",
        "an HDF5 file",
        tuple((start, b"\x89HDF\r\n\x1a\n") for start in (0, *_USER_BLOCKS)),
        opens="TorchCache (a feature cache)",
        source="hdf5",
        suffixes=(".h5", ".hdf5"),
        is_uploaded=True,
        entry="atompack_torch.inspection.caches",
        converter=_ARRAYS,
    ),
    # Told from other HDF5 files by its groups, which the converter of HDF5 looks at.
    Format(
        "mace-hdf5",
        "an HDF5 file of MACE",
        source="mace-hdf5",
        converter=f"{_CONVERSION}.mace_hdf5",
    ),
    Format(
        "sqlite",
        "an SQLite file, such as an ASE database",
        ((0, b"SQLite format 3\0"),),
        source="ase-db",
        is_target=True,
        suffixes=(".db",),
        converter=f"{_CONVERSION}.ase_db",
    ),
    Format(
        "lmdb",
        "an LMDB file, such as an .aselmdb database",
        ((16, b"\xde\xc0\xef\xbe"),),
        source="ase-db",
        suffixes=(".aselmdb",),
        converter=f"{_CONVERSION}.ase_db",
    ),
    Format(
        "zip",
        "a ZIP archive, such as an NPZ file",
        ((0, b"PK\x03\x04"), (0, b"PK\x05\x06")),
        source="npz",
        suffixes=(".npz",),
        converter=_ARRAYS,
    ),
    Format("npy", "an NPY file: one array without names", ((0, b"\x93NUMPY"),)),
    Format(
        "ulm",
        "an ASE trajectory",
        ((0, b"- of Ulm"),),
        source="ase",
        suffixes=(".traj",),
        converter=_ASE,
    ),
    Format("netcdf", "a NetCDF file", tuple((0, b"CDF" + bytes([n])) for n in (1, 2, 5))),
    # Before the compressions: a file may begin with a compressed block.
    Format(
        "array-file",
        "an array file",
        ends=b"ARRF",
        opens="ArrayFile",
        suffixes=(".af",),
        entry=_STORES,
    ),
    _compression("gzip", "a gzip file", b"\x1f\x8b", ".gz"),
    _compression("xz", "an xz file", b"\xfd7zXZ\0", ".xz"),
    _compression("bzip2", "a bzip2 file", b"BZh", ".bz2"),
    Format("zstd", "a zstd file", ((0, b"\x28\xb5\x2f\xfd"),)),
    Format("pickle", "a pickle", matches=_is_pickle),
    Format(
        "extxyz",
        "an extended XYZ file",
        matches=_is_extxyz,
        source="extxyz",
        is_target=True,
        is_stream=True,
        suffixes=(".xyz", ".extxyz"),
        converter=f"{_CONVERSION}.extxyz",
    ),
    Format(
        "json", "a JSON file", matches=_is_json, source="ase", suffixes=(".json",), converter=_ASE
    ),
    Format(
        "atlas-store", "an ATLAS store", holds=STORE_METADATA, opens="AtlasStore", entry=_STORES
    ),
    Format(
        "shards",
        "a folder of Atlas shards",
        holds=("meta.json",),
        opens="ShardDataset",
        source="shards",
        is_target=True,
        entry="atompack_torch.inspection.shards",
        converter=f"{_CONVERSION}.shards",
    ),
    Format(
        "deepmd",
        "a folder of DeePMD systems",
        holds=("**/type.raw",),
        source="deepmd",
        converter=f"{_CONVERSION}.deepmd",
    ),
    Format("zarr", "a Zarr group", holds=("zarr.json", ".zgroup", ".zarray")),
    Format("databases", "a folder of .aselmdb databases", holds=("*.aselmdb",)),
    Format(
        "atp-folder",
        "a folder of .atp files",
        holds=("**/*.atp",),
        opens="AtpDataset",
        source="atp",
        entry=_ATP,
        converter=f"{_CONVERSION}.atp",
    ),
    Format("text", "a text file", matches=_is_text, source="ase", converter=_ASE),
]


class RemoteAccess(Protocol):
    """Access to files and folders behind URLs, which ``remote.files.RemoteFiles`` has."""

    def recognize(self, url: str) -> Format | None:
        """Returns the format of a file or folder; None if nothing matches."""

    def shown(self, path: str) -> str:
        """Returns a path, or a URL without secrets."""


def recognize(path: str | os.PathLike[str], remote: RemoteAccess | None = None) -> Format | None:
    """Returns the format of a path, recognized by content; None if nothing matches.

    Only regular files and folders are opened; URLs need ``remote``.
    """
    if remote is not None and is_url(path):
        return remote.recognize(os.fspath(path))
    place = Path(path)
    if place.is_dir():
        return next((known for known in FORMATS if _holds(place, known.holds)), None)
    if not place.is_file():
        return None
    with place.open("rb") as file:
        head = file.read(HEAD_BYTES)
        file.seek(max(0, place.stat().st_size - END_BYTES))
        end = file.read(END_BYTES)
    return format_of_bytes(head, end)


def _holds(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(next(folder.glob(pattern), None) is not None for pattern in patterns)


def format_of_bytes(head: bytes, end: bytes = b"") -> Format | None:
    """Returns the format of a file with these first and last bytes; None if nothing matches."""
    for known in FORMATS:
        if any(head.startswith(magic, offset) for offset, magic in known.magics):
            return known
        if known.ends and end.endswith(known.ends):
            return known
    return next((known for known in FORMATS if known.matches and known.matches(head)), None)


def by_suffix(path: str | os.PathLike[str]) -> Format | None:
    """Returns the format that the suffix of a path stands for; None if none has it.

    ``x.extxyz.gz`` counts as ``x.extxyz``: a format that is read from pipes may be compressed.
    """
    name = os.fspath(path)
    place = Path(re.split("[?#]", name)[0] if is_url(path) else name)
    known = _of_suffix(place.suffix)
    if known is None or not known.is_compression:
        return known
    inner = _of_suffix(place.with_suffix("").suffix)
    return inner if inner is not None and inner.is_stream else known


def _of_suffix(suffix: str) -> Format | None:
    return next((known for known in FORMATS if suffix in known.suffixes), None)


def detect(path: str | os.PathLike[str], remote: RemoteAccess | None = None) -> Format | None:
    """Returns the format of a path by its content; by its suffix where that does not tell.

    Magic bytes count more than the suffix. The suffix counts more than the beginning of a text,
    unless it stands for a format with magic bytes, which the file then lacks.
    """
    found, named = recognize(path, remote), by_suffix(path)
    if found is None or named is None:
        return found or named
    if found.is_compression:
        return named if named.is_stream else found
    return found if found.matches is None or named.magics or named.ends else named


def foreign(path: str | os.PathLike[str], expected: str, names: tuple[str, ...]) -> str | None:
    """Returns a message about a path of another format than ``names``; None if it is unknown."""
    found = recognize(path)
    return None if found is None or found.name in names else _mismatch(path, expected, found)


def _mismatch(path: str | os.PathLike[str], expected: str, found: Format) -> str:
    advice = []
    if found.opens:
        advice.append(f"{found.opens} opens it")
    if found.source and found.source != "atp" and not is_url(path):
        advice.append(f"`{conversion(path, found)}` converts it")
    text = f"expected {expected}, got {found.title}"
    return f"{text}: {'; '.join(advice)}" if advice else text


def unknown(
    path: str | os.PathLike[str], remote: RemoteAccess | None = None
) -> UnsupportedFormatError:
    """Builds the error for a path that has none of the formats that can be opened."""
    shown = remote.shown(os.fspath(path)) if remote is not None else os.fspath(path)
    expected = ", ".join(known.title for known in FORMATS if known.entry)
    found = detect(path, remote)
    text = f"expected {expected}; got none of them"
    if found is not None:
        text = _mismatch(shown, f"one of {expected}", found)
    return UnsupportedFormatError(f"{shown}: {text}")


def conversion(path: str | os.PathLike[str], found: Format) -> str:
    """Returns the command that converts a foreign file to ``.atp``."""
    source = Path(path)
    target = source.with_suffix(".atp")
    if target == source:
        target = source.with_name(f"{source.stem}.converted.atp")
    option = "" if detect(path) is found else f" --from {found.source}"
    return f"atompack-torch convert {shlex.quote(str(source))} {shlex.quote(str(target))}{option}"


@contextmanager
def opening(
    path: str | os.PathLike[str], expected: str = "an .atp file", *names: str
) -> Iterator[None]:
    """Replaces errors on opening a foreign file by one that names its format and a remedy.

    Args:
        path: the path opened in the block.
        expected: what the caller opens, with its article.
        *names: names of the formats that it opens; empty: ``"atp"``.

    Raises:
        UnsupportedFormatError: the block failed, and the path holds another format.
        OSError: likewise, if the block raised an OSError (for instance, a folder instead of a
            file); of the same class.
    """
    if is_url(path) or is_in_memory(path):
        yield
        return
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


def entry_name(path: str | os.PathLike[str], remote: RemoteAccess | None = None) -> str:
    """Returns the name of the module for the format of a path.

    Paths without a known format get the module of ``.atp``, which lists what is damaged in them.

    Args:
        path: a file or folder.
        remote: access to URLs.

    Returns:
        The name, for ``importlib.import_module``.

    Raises:
        UnsupportedFormatError: the path has a known format that cannot be opened.
    """
    found = detect(path, remote)
    if found is not None and not found.entry:
        raise unknown(path, remote)
    return found.entry if found is not None else _ATP
