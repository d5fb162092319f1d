"""The table of file formats: magic bytes, suffixes, and the modules that read and write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

HEAD_BYTES = 4096
END_BYTES = 16
_USER_BLOCKS = (512, 1024, 2048)  # possible offsets of HDF5 data after a user block
# Names of the metadata of an ATLAS store; the first that exists counts.
STORE_METADATA = tuple(
    f"atlas.{form}{codec}" for form in ("json", "msgpack") for codec in ("", ".zst", ".lz4")
)
# The file of a collection, which is read like a store.
COLLECTION = "data.atlas"
_FRAME = re.compile(rb"\s*\d+[ \t]*\r?\n([^\n]*)\n\s*[A-Za-z]\w*(\s+[-+.\deE]+){3}")
_EXTENDED = re.compile(rb"\s*\d+[ \t]*\r?\n[^\n]*\b(Properties|Lattice)=", re.IGNORECASE)


class Format(NamedTuple):
    """A kind of file or folder.

    Attributes:
        name: short, unique name.
        title: name with its article, for messages.
        magics: (offset, bytes) pairs; a file of this format has one of them.
        ends: last bytes of a file, for formats whose magic bytes are at the end.
        matches: recognizes the first bytes of a file, for formats without magic bytes, or whose
            magic bytes others have too.
        holds: patterns; a folder of this format contains a file that matches one of them.
        opens: name of the Python function or class that opens it; "" if missing.
        source: name of the format for ``convert``; "" if it cannot read it, "ase" if it is read by
            ASE.
        is_target: True if ``convert`` writes it.
        is_stream: True if ``convert`` reads it from pipes, too.
        is_compression: True for compressed files, whose content may have any format.
        suffixes: suffixes of its files, which count where the content does not tell the format.
        hub_files: patterns of the files that ``hub.open`` downloads from a folder.
        is_uploaded: True if ``hub.upload`` takes a single file of it: a whole dataset.
        is_read_from_bytes: True if ``opens`` takes the bytes of files too.
        entry: module of the format, with the functions of ``formats.entry.Entry``; "" if the
            package cannot open it.
        converter: module with the functions of ``formats.converter.Converter``; "" if ``entry``
            has them.
        advice: how to use a file that nothing here reads.
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
    is_read_from_bytes: bool = False
    entry: str = ""
    converter: str = ""
    advice: str = ""


def _is_text(head: bytes) -> bool:
    return bool(head) and not re.search(rb"[^\t\n\r\f\x1b -\x7e\x80-\xff]", head)


def _is_json(head: bytes) -> bool:
    return _is_text(head) and head.lstrip()[:1] in (b"{", b"[")


def _is_html(head: bytes) -> bool:
    return head.lstrip().lower().startswith((b"<!doctype html", b"<html"))


def _is_extxyz(head: bytes) -> bool:
    head = head.removeprefix(b"\xef\xbb\xbf")  # a mark that some editors put there
    return _is_text(head) and bool(_EXTENDED.match(head) or _FRAME.match(head))


def _is_mtp(head: bytes) -> bool:
    return head.lstrip().startswith(b"BEGIN_CFG")


def _is_of_torch(head: bytes) -> bool:
    return b"/data.pkl" in head[:512]


def _is_pickle(head: bytes) -> bool:
    """True for pickles of protocols 2 to 5: the protocol opcode followed by another opcode."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2] < 0x99


def _foreign(name: str, title: str, **known: Any) -> Format:
    """Returns a format that ``convert`` alone knows, by a module of this name."""
    module = f"{_SOURCES}.{name.replace('-', '_')}"
    return Format(name, title, source=name, **{"converter": module, **known})


def _room(name: str) -> Any:
    """Returns the modules of a format that has a folder in ``formats``."""
    room = f"atompack_torch.formats.{name}"
    return {"entry": f"{room}.inspection", "converter": f"{room}.converter"}


def _compression(name: str, title: str, magic: bytes, suffix: str) -> Format:
    known = Format(name, title, ((0, magic),), source="ase", suffixes=(suffix,), converter=_ASE)
    return known._replace(is_compression=True)


ATP_ENTRY = "atompack_torch.formats.atp.inspection"
SHARDS_ENTRY = "atompack_torch.formats.atlas_shards.inspection"
STORES_ENTRY = "atompack_torch.formats.atlas_store.inspection"
_SOURCES = "atompack_torch.conversion.sources"
_ARRAYS, _ASE = f"{_SOURCES}.arrays", f"{_SOURCES}.ase_files"

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
        is_read_from_bytes=True,
        **_room("atp"),
    ),
    Format(
        "hdf5",
        "an HDF5 file",
        tuple((start, b"\x89HDF\r\n\x1a\n") for start in (0, *_USER_BLOCKS)),
        opens="TorchCache (a feature cache)",
        source="hdf5",
        suffixes=(".h5", ".hdf5"),
        is_uploaded=True,
        entry="atompack_torch.formats.torch_cache.inspection",
        converter=_ARRAYS,
    ),
    # Distinguished from other HDF5 files by its groups, which the converter of HDF5 looks at.
    _foreign("mace-hdf5", "an HDF5 file of MACE", is_target=True),
    _foreign(
        "hdf5-set",
        "an HDF5 file of ANI-1x, ANI-2x, COMP6, SPICE or Transition1x",
        converter=_ARRAYS,
    ),
    Format(
        "sqlite",
        "an SQLite file, such as an ASE database",
        ((0, b"SQLite format 3\0"),),
        source="ase-db",
        is_target=True,
        suffixes=(".db",),
        converter=f"{_SOURCES}.ase_db",
    ),
    Format(
        "lmdb",
        "an LMDB file, such as an .aselmdb database",
        ((16, b"\xde\xc0\xef\xbe"),),
        opens="AseLmdbDataset",
        source="aselmdb",
        is_target=True,
        suffixes=(".aselmdb",),
        **_room("aselmdb"),
    ),
    # Distinguished from databases by its first value, which ``conversion.formats`` looks at.
    _foreign("pickled-lmdb", "an LMDB file of pickles"),
    Format(
        "torch-save",
        "a file of torch.save",
        ((0, b"PK\x03\x04"),),
        matches=_is_of_torch,
        suffixes=(".pt", ".pth"),
        advice="load it with torch.load, and write what it holds with AtpWriter",
    ),
    Format(
        "zip",
        "a ZIP archive, such as an NPZ file",
        ((0, b"PK\x03\x04"), (0, b"PK\x05\x06")),
        source="npz",
        suffixes=(".npz",),
        converter=_ARRAYS,
    ),
    _foreign(
        "parquet",
        "a Parquet file",
        magics=((0, b"PAR1"),),
        is_target=True,
        suffixes=(".parquet",),
    ),
    Format(
        "npy",
        "an NPY file: one array without names",
        ((0, b"\x93NUMPY"),),
        suffixes=(".npy",),
        advice="numpy.savez writes arrays with names",
    ),
    Format(
        "ulm",
        "an ASE trajectory",
        ((0, b"- of Ulm"),),
        source="ase",
        suffixes=(".traj",),
        converter=_ASE,
    ),
    Format("netcdf", "a NetCDF file", tuple((0, b"CDF" + bytes([n])) for n in (1, 2, 5))),
    # By its first word alone: AtomEye's files, which ASE reads, have the suffix .cfg too.
    _foreign("mtp-cfg", "a file of configurations of MLIP", matches=_is_mtp),
    # Before the compressions: a file may begin with a compressed block.
    Format(
        "array-file",
        "an array file",
        ends=b"ARRF",
        opens="ArrayFile",
        suffixes=(".af",),
        is_read_from_bytes=True,
        entry=STORES_ENTRY,
    ),
    _compression("gzip", "a gzip file", b"\x1f\x8b", ".gz"),
    _compression("xz", "an xz file", b"\xfd7zXZ\0", ".xz"),
    _compression("bzip2", "a bzip2 file", b"BZh", ".bz2"),
    Format("zstd", "a zstd file", ((0, b"\x28\xb5\x2f\xfd"),)),
    Format(
        "pickle",
        "a pickle",
        matches=_is_pickle,
        suffixes=(".pkl", ".pickle"),
        advice="pickles run code: load it yourself, and write what it holds with AtpWriter",
    ),
    Format(
        "csv",
        "a table of comma-separated values",
        suffixes=(".csv",),
        advice="read it with pandas, and write its columns with AtpWriter.write_arrays",
    ),
    Format(
        "extxyz",
        "an extended XYZ file",
        matches=_is_extxyz,
        opens="ExtxyzDataset",
        source="extxyz",
        is_target=True,
        is_stream=True,
        suffixes=(".xyz", ".extxyz"),
        **_room("extxyz"),
    ),
    # The converter of ASE's formats looks into JSON files: ASE's are known by their molecules.
    _foreign("pymatgen-json", "a JSON file of pymatgen structures"),
    Format(
        "json", "a JSON file", matches=_is_json, source="ase", suffixes=(".json",), converter=_ASE
    ),
    Format(
        "atlas-store",
        "an ATLAS store",
        ((0, b"ATLS"),),
        holds=(*STORE_METADATA, COLLECTION),
        opens="AtlasStore",
        is_read_from_bytes=True,
        entry=STORES_ENTRY,
    ),
    Format(
        "shards",
        "a folder of Atlas shards",
        holds=("meta.json",),
        opens="ShardDataset",
        source="shards",
        is_target=True,
        **_room("atlas_shards"),
    ),
    _foreign("deepmd", "a folder of DeePMD systems", holds=("**/type.raw",), is_target=True),
    _foreign("deepmd-lmdb", "a folder of LMDB, such as frames of DeePMD-kit", holds=("data.mdb",)),
    _foreign("metatrain", "a folder of metatrain's arrays", holds=("na.npy",), is_target=True),
    Format("zarr", "a Zarr group", holds=("zarr.json", ".zgroup", ".zarray")),
    Format(
        "databases",
        "a folder of .aselmdb databases",
        holds=("*.aselmdb",),
        opens="AseLmdbDataset",
        source="aselmdb",
        **_room("aselmdb"),
    ),
    Format(
        "atp-folder",
        "a folder of .atp files",
        holds=("**/*.atp",),
        opens="AtpDataset",
        source="atp",
        **_room("atp"),
    ),
    Format(
        "extxyz-folder",
        "a folder of extended XYZ files",
        holds=("**/*.xyz", "**/*.extxyz", "**/*.xyz.*", "**/*.extxyz.*"),
        opens="ExtxyzDataset",
        entry="atompack_torch.formats.extxyz.inspection",
    ),
    Format(
        "parquet-folder",
        "a folder of Parquet files",
        holds=("**/*.parquet",),
        source="parquet",
        converter=f"{_SOURCES}.parquet",
    ),
    Format("html", "a page of HTML", matches=_is_html),
    Format("text", "a text file", matches=_is_text, source="ase", converter=_ASE),
]
