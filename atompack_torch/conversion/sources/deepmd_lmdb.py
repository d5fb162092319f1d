"""Molecules from the LMDB folders of DeePMD-kit (from 3.1 on) and dpdata.

A folder has ``data.mdb``. Its key ``__metadata__`` is a MessagePack map with ``nframes``,
``frame_idx_fmt`` (how the numbers of frames are written as keys, ``012d``) and ``type_map`` (the
elements of the types). A frame is a map of ``atom_types`` or ``atype`` (n,), ``coords`` or
``coord`` (n, 3) in Å, ``cells`` or ``box`` (3, 3), ``energies``, ``forces`` and ``virials`` in eV
and Å, and others, or their singular; an array is a map of ``type``, ``shape`` and ``data``.
``find_KEY`` of 0 says that a value is missing, a type of -1 that an atom is. The layout is that of
``deepmd.dpmodel.utils.lmdb_data`` of DeePMD-kit 3.2.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atompack_torch._native import LmdbFile
from atompack_torch.batch.columns import Array, Columns
from atompack_torch.batch.conversions import Parts, native
from atompack_torch.conversion.keys import element_hint, elements_in, numbers_of_types
from atompack_torch.conversion.sources.values import (
    label_shape,
    levels_of,
    number_array,
    sample,
    shaped,
)
from atompack_torch.conversion.targets.deepmd import OF_ATOMS
from atompack_torch.conversion.virials import with_stress
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.conversion_report import Report, described, naming_damage
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import convert_each

_FILE, _METADATA, _FORMAT = "data.mdb", b"__metadata__", "012d"
_KEY_FORMAT = re.compile(r"0?[0-9]{0,2}d")
_NAMES = {
    "coords": "coord",
    "cells": "box",
    "energies": "energy",
    "forces": "force",
    "atom_types": "atype",
    "virials": "virial",
}
_LABELS = {"energy": "energy", "force": "forces", "virial": "stress", "box": "cell"}
_DERIVED = {"atom_numbs", "atom_names", "orig", "nopbc", "natoms", "real_natoms_vec", "type"}


class _Metadata(NamedTuple):
    """Description of a folder.

    Attributes:
        n_frames: number of frames.
        key_format: format of the keys of frames.
        elements: atomic numbers of the types.
        of_atoms: names of values whose rows are of atoms; others are not known to be.
        of_frames: names of values that are of frames.
    """

    n_frames: int
    key_format: str
    elements: Array
    of_atoms: set[str]
    of_frames: set[str]


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a folder; keys may name the elements of types."""
    types = _stated(_open_file(path), path).get("type_map")
    elements = elements_in(options.keys, types if isinstance(types, list) else ())
    read_blocks = partial(read, path, elements)
    return Source(
        path,
        read_blocks,
        partial(count, path),
        read_range=read_blocks,
        own_keys=elements,
    )


def _open_file(path: str) -> LmdbFile:
    return LmdbFile(str(Path(path) / _FILE))


def count(path: str) -> int:
    """Counts the frames."""
    return _metadata(_open_file(path), path, None).n_frames


def read(
    path: str, elements: dict[str, int], report: Report, first: int = 0, last: int | None = None
) -> Iterator[Columns]:
    """Yields frames in blocks, in order.

    Virials become stresses (see ``virials``), other values properties, of atoms where DeePMD has
    them so, or where they have a row for each atom.

    Args:
        path: the folder.
        elements: name of a type that is not a symbol of an element → its atomic number.
        report: receives values that are omitted.
        first: number of the first frame.
        last: one past the last frame; None: all.

    Yields:
        Blocks of molecules.

    Raises:
        CorruptFileError: the database or a frame is damaged.
        UnsupportedFormatError: the elements of the types are unknown.
    """
    file = _open_file(path)
    metadata = _metadata(file, path, elements)
    indices, no_report = sample(metadata.n_frames), Report()
    levels = levels_of(partial(_parts, file, path, metadata, i, no_report, {}) for i in indices)
    end = metadata.n_frames if last is None else last
    makes = (partial(_parts, file, path, metadata, i, report, levels) for i in range(first, end))
    for columns in convert_each(path, makes, report, first):
        yield with_stress(columns, report, "virial")


def _unpacked(data: bytes, where: str) -> dict[Any, Any]:
    """Decodes a map of MessagePack, in which keys may be bytes."""
    msgpack: Any = importlib.import_module("msgpack")
    with naming_damage(f"{where}: no MessagePack"):
        found = msgpack.unpackb(data, raw=False, strict_map_key=False)
    if not isinstance(found, dict):
        raise CorruptFileError(f"{where}: expected a map, got {type(found).__name__}")
    return {key.decode() if isinstance(key, bytes) else key: v for key, v in found.items()}


def _stated(file: LmdbFile, path: str) -> dict[Any, Any]:
    """Returns what a folder says about its frames."""
    data = file.get(_METADATA)
    if data is None:
        raise UnsupportedFormatError(
            f"{path}: expected frames of DeePMD-kit, got an LMDB folder without __metadata__"
        )
    return _unpacked(data, f"{path}: __metadata__")


def _metadata(file: LmdbFile, path: str, elements: dict[str, int] | None) -> _Metadata:
    """Returns the description of a folder; with ``elements`` those of all types are known."""
    where, found = f"{path}: __metadata__", _stated(file, path)
    n, key_format = found.get("nframes"), found.get("frame_idx_fmt") or _FORMAT
    if type(n) is not int or not 0 <= n <= file.entries:
        raise CorruptFileError(f"{where}: nframes: expected at most {file.entries}, got {n!r:.40}")
    if not isinstance(key_format, str) or not _KEY_FORMAT.fullmatch(key_format):
        raise CorruptFileError(
            f"{where}: frame_idx_fmt: expected 012d or so, got {key_format!r:.40}"
        )
    symbols = found.get("type_map")
    if not isinstance(symbols, list) or not symbols:
        raise UnsupportedFormatError(f"{where}: expected the elements in type_map, got none")
    numbers = numbers_of_types(symbols, elements or {})
    if elements is not None and -1 in numbers:
        unknown = symbols[numbers.index(-1)]
        raise UnsupportedFormatError(
            f"{where}: type_map: expected elements, got {unknown!r:.40}: {element_hint(unknown)}"
        )
    of_atoms: set[str] = set()
    of_frames: set[str] = set()
    shapes = found.get("dp_data_shapes")
    for name, axes in shapes.items() if isinstance(shapes, dict) else ():
        is_of_atoms = isinstance(axes, list) and axes[1:2] == ["natoms"]
        (of_atoms if is_of_atoms else of_frames).add(_NAMES.get(str(name), str(name)))
    return _Metadata(n, key_format, np.array(numbers, np.int16), of_atoms, of_frames)


def _parts(
    file: LmdbFile,
    path: str,
    metadata: _Metadata,
    number: int,
    report: Report,
    levels: Mapping[str, bool],
) -> Parts:
    key = format(number, metadata.key_format).encode()
    data = file.get(key)
    where = f"{path}: frame {number}"
    if data is None:
        raise CorruptFileError(f"{where}: expected a key {key.decode()!r}, got none")
    values = {
        _canonical(str(name)): _value(value, f"{where}: {name}")
        for name, value in _unpacked(data, where).items()
    }
    finds = {key: value for key, value in values.items() if key.startswith("find_")}
    values = {key: value for key, value in values.items() if key not in finds}
    for name, flag in finds.items():
        if np.size(flag) == 1 and not np.asarray(flag).reshape(-1)[0]:
            values.pop(name.removeprefix("find_"), None)
    types = np.asarray(values.pop("atype", np.zeros(0, int))).reshape(-1)
    if types.dtype.kind not in "iu" or (types.size and types.max() >= len(metadata.elements)):
        raise CorruptFileError(f"{where}: expected types below {len(metadata.elements)}")
    there = types >= 0
    if "coord" not in values:
        raise CorruptFileError(f"{where}: expected coord, got none")
    places = shaped(values.pop("coord"), (len(types), 3), f"{where}: coord")
    parts = Parts(places[there], metadata.elements[types[there]], {}, {}, {})
    if np.any(values.get("nopbc", False)) and values.pop("box", None) is not None:
        report.note("'box' omitted where 'nopbc' says that there is none")
    for name in [name for name in _LABELS if name in values]:
        shape = label_shape(_LABELS[name], len(types))
        value = shaped(values.pop(name), shape, f"{where}: {name}")
        if name != "box" or value.any():
            parts.labels[_LABELS[name]] = value[there] if name == "force" else value
    parts.labels["pbc"] = np.full(3, "cell" in parts.labels)
    if "cell" not in parts.labels and "nopbc" not in values:
        report.note("pbc: F F F where there is no box")
    for name, value in values.items():
        if name not in _DERIVED:
            _put(parts, name, value, metadata, there, report, levels)
    return parts


def _canonical(name: str) -> str:
    """Returns the name that DeePMD-kit gives a value in memory."""
    name = _NAMES.get(name, name)
    for prefix, own in (("find_atomic_", "find_atom_"), ("atomic_", "atom_")):
        if name.startswith(prefix):
            return own + name.removeprefix(prefix)
    return "find_" + _NAMES.get(name[5:], name[5:]) if name.startswith("find_") else name


def _value(value: Any, where: str) -> Any:
    """Decodes an array; returns other values unchanged."""
    if not isinstance(value, Mapping):
        return value
    found = {key.decode() if isinstance(key, bytes) else key: v for key, v in value.items()}
    if not {"type", "data"} <= {*found}:
        return value
    try:
        name = found["type"].decode() if isinstance(found["type"], bytes) else found["type"]
        dtype = np.dtype(str(name))
        if dtype.kind not in "biuf":
            raise UnsupportedFormatError(f"{where}: expected numbers, got {dtype}")
        array = np.frombuffer(found["data"], dtype)
        return native(array.reshape(tuple(found["shape"])) if "shape" in found else array)
    except AtompackError:
        raise
    except (TypeError, ValueError) as error:
        raise CorruptFileError(f"{where}: expected an array: {described(error)}") from None


def _put(
    parts: Parts,
    name: str,
    value: Any,
    metadata: _Metadata,
    there: Array,
    report: Report,
    levels: Mapping[str, bool],
) -> None:
    """Adds a value to the properties."""
    array = number_array(parts, name, value, report)
    if array is None:
        return
    n = len(there)
    may_be_atoms = array.ndim > 0 and len(array) == n and name not in metadata.of_frames
    is_known = name in metadata.of_atoms or OF_ATOMS.fullmatch(name) is not None
    if array.ndim and is_known and len(array) != n and n and array.size % n == 0:
        array, may_be_atoms = array.reshape(n, -1), True
    if may_be_atoms and (is_known or (array.ndim > 1 and levels.get(name, True))):
        parts.atom_properties[name] = array[there]
    else:
        parts.properties[name] = array
