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
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.batch.exact_values import native
from atompack_torch.conversion.keys import element_hint, elements_in, numbers_of_types
from atompack_torch.conversion.sources.values import LmdbRecords, label_shape, number_array, shaped
from atompack_torch.conversion.targets.deepmd import OF_ATOMS
from atompack_torch.conversion.virials import with_stress
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.conversion_report import Report, described, naming_damage
from atompack_torch.formats.converter import Source, SourceOptions

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


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a folder; keys may name the elements of types."""
    frames = _Frames(path, options.keys)
    return frames.source(frames.elements)


class _Frames(LmdbRecords):
    """Frames of a folder.

    Virials become stresses (see ``virials``), other values properties, of atoms where DeePMD has
    them so, or where they have a row for each atom.

    Args:
        path: the folder.
        keys: name of a type that is not a symbol of an element → the symbol.

    Attributes:
        elements: name of a type that ``keys`` has → atomic number.

    Raises:
        CorruptFileError: the database is damaged.
        UnsupportedFormatError: the elements of the types are unknown.
    """

    def __init__(self, path: str, keys: Mapping[str, str]) -> None:
        super().__init__(path, str(Path(path) / _FILE))
        data, where = self.file.get(_METADATA), f"{path}: __metadata__"
        if data is None:
            raise UnsupportedFormatError(
                f"{path}: expected frames of DeePMD-kit, got an LMDB folder without __metadata__"
            )
        stated = _unpacked(data, where)
        n, most = stated.get("nframes"), self.file.entries
        if type(n) is not int or not 0 <= n <= most:
            raise CorruptFileError(f"{where}: nframes: expected at most {most}, got {n!r:.40}")
        self.n_molecules = n
        self._key_format = stated.get("frame_idx_fmt") or _FORMAT
        if not isinstance(self._key_format, str) or not _KEY_FORMAT.fullmatch(self._key_format):
            raise CorruptFileError(
                f"{where}: frame_idx_fmt: expected 012d or so, got {self._key_format!r:.40}"
            )
        symbols = stated.get("type_map")
        if not isinstance(symbols, list) or not symbols:
            raise UnsupportedFormatError(f"{where}: expected the elements in type_map, got none")
        self.elements = elements_in(keys, symbols)
        numbers = numbers_of_types(symbols, self.elements)
        if -1 in numbers:
            got = symbols[numbers.index(-1)]
            raise UnsupportedFormatError(
                f"{where}: type_map: expected elements, got {got!r:.40}: {element_hint(got)}"
            )
        self._numbers = np.array(numbers, np.int16)
        shapes = stated.get("dp_data_shapes")
        # Name of a value → True if its rows are of atoms.
        self._is_of_atoms = {
            _NAMES.get(str(name), str(name)): isinstance(axes, list) and axes[1:2] == ["natoms"]
            for name, axes in (shapes.items() if isinstance(shapes, dict) else ())
        }

    def read(self, report: Report, first: int = 0, last: int | None = None) -> Iterator[Columns]:
        """See ``LmdbRecords``."""
        for columns in super().read(report, first, last):
            yield with_stress(columns, report, "virial")

    def parts(self, number: int, report: Report, levels: Mapping[str, bool]) -> Parts:
        """See ``LmdbRecords``."""
        key, where = format(number, self._key_format), f"{self.path}: frame {number}"
        data = self.file.get(key.encode())
        if data is None:
            raise CorruptFileError(f"{where}: expected a key {key!r}, got none")
        values = {
            _canonical(str(name)): _value(value, f"{where}: {name}")
            for name, value in _unpacked(data, where).items()
        }
        for flag in [name for name in values if name.startswith("find_")]:
            found = values.pop(flag)
            if np.size(found) == 1 and not np.asarray(found).reshape(-1)[0]:
                values.pop(flag.removeprefix("find_"), None)
        types = np.asarray(values.pop("atype", np.zeros(0, int))).reshape(-1)
        if types.dtype.kind not in "iu" or (types.size and types.max() >= len(self._numbers)):
            raise CorruptFileError(f"{where}: expected types below {len(self._numbers)}")
        there = types >= 0
        if "coord" not in values:
            raise CorruptFileError(f"{where}: expected coord, got none")
        places = shaped(values.pop("coord"), (len(types), 3), f"{where}: coord")
        parts = Parts(places[there], self._numbers[types[there]], {}, {}, {})
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
            array = None if name in _DERIVED else number_array(parts, name, value, report)
            if array is None:
                continue
            n, stated = len(there), self._is_of_atoms.get(name)
            may_be_atoms = array.ndim > 0 and len(array) == n and stated is not False
            is_known = stated or OF_ATOMS.fullmatch(name) is not None
            if array.ndim and is_known and len(array) != n and n and array.size % n == 0:
                array, may_be_atoms = array.reshape(n, -1), True
            if may_be_atoms and (is_known or (array.ndim > 1 and levels.get(name, True))):
                parts.atom_properties[name] = array[there]
            else:
                parts.properties[name] = array
        return parts


def _unpacked(data: bytes, where: str) -> dict[Any, Any]:
    """Decodes a map of MessagePack, in which keys may be bytes."""
    msgpack: Any = importlib.import_module("msgpack")
    with naming_damage(f"{where}: no MessagePack"):
        found = msgpack.unpackb(data, raw=False, strict_map_key=False)
    if not isinstance(found, dict):
        raise CorruptFileError(f"{where}: expected a map, got {type(found).__name__}")
    return {key.decode() if isinstance(key, bytes) else key: v for key, v in found.items()}


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
