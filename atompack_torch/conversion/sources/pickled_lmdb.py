"""Molecules from LMDB files of pickles: torch-geometric graphs, and dicts of tensors.

The keys are ``0``, ``1`` and so on. OC20 and similar sets have a key ``length``, and graphs of
torch-geometric 1 or 2 (``Data``) with ``pos``, ``atomic_numbers``, ``cell``, ``y``, ``force``,
``tags``, ``fixed``, ``sid`` and ``fid``; NequIP has a key ``__metadata__``, and dicts with ``pos``,
``atomic_numbers``, ``cell``, ``pbc``, ``total_energy``, ``forces`` and ``stress``. Pickles are read
as data (``csrc/serial/pickle``): nothing is imported or called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from atompack_torch._core import PickleReader
from atompack_torch._native import LmdbFile
from atompack_torch.batch.columns import Columns
from atompack_torch.batch.conversions import Parts, is_numeric
from atompack_torch.batch.exact_values import host_array
from atompack_torch.conversion.sources.values import (
    label_shape,
    levels_of,
    number_array,
    sample,
    shaped,
)
from atompack_torch.errors import CorruptFileError, UnsafePickleError, UnsupportedFormatError
from atompack_torch.fields import is_of_molecule
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import convert_each, stress_of_six

_LENGTH, _METADATA = b"length", b"__metadata__"
_STRUCTURE = {"positions": ("pos", "positions"), "atomic_numbers": ("atomic_numbers", "z")}
# Label → its names, the likeliest first.
_LABELS = {
    "energy": ("energy", "total_energy", "y"),
    "forces": ("forces", "force"),
    "stress": ("stress",),
    "cell": ("cell",),
    "pbc": ("pbc",),
    "charges": ("charges",),
}
# They follow from the molecule and a cutoff.
_DERIVED = frozenset(
    (
        *("edge_index", "edge_attr", "cell_offsets", "edge_cell_shift", "distances", "neighbors"),
        *("distance_vec", "edge_vectors", "edge_lengths", "natoms", "num_atoms", "num_nodes"),
        *("nedges", "batch", "ptr", "contact_solute"),
    )
)
_OF_ATOMS = frozenset(("tags", "fixed", "pos_relaxed"))


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file."""
    keys = options.keys
    read_blocks = partial(read, path, keys)
    return Source(
        path,
        read_blocks,
        partial(count, path),
        own_keys={key for key, name in keys.items() if name in _STRUCTURE},
        read_range=read_blocks,
    )


def count(path: str) -> int:
    """Counts the molecules.

    Args:
        path: the file.

    Returns:
        The number that the file states, or that of its keys.

    Raises:
        CorruptFileError: the file is damaged, or states more molecules than it has keys.
    """
    return _count(LmdbFile(path), path)


def read(
    path: str, keys: Mapping[str, str], report: Report, first: int = 0, last: int | None = None
) -> Iterator[Columns]:
    """Yields the molecules in blocks, in order, in the types of the file.

    Values with a row for each atom, also in a sample of the molecules, become properties of atoms,
    others of the molecule. Edges and what follows from them is omitted.

    Args:
        path: the file.
        keys: names of positions and atomic numbers, and names that are not read as labels, because
            they are mapped to others.
        report: receives the interpretation of names, and values that are omitted.
        first: number of the first molecule.
        last: one past the last molecule; None: all.

    Returns:
        Blocks of molecules.

    Raises:
        CorruptFileError: the file or a pickle is damaged.
        UnsafePickleError: a pickle is anything but data.
    """
    file = LmdbFile(path)
    count, reader = _count(file, path), PickleReader()
    of_sample = (
        partial(_read_one, file, path, reader, i, keys, Report(), {}) for i in sample(count)
    )
    levels = levels_of(of_sample)
    numbers = range(first, count if last is None else last)
    makes = (partial(_read_one, file, path, reader, i, keys, report, levels) for i in numbers)
    return convert_each(path, makes, report, first)


def _count(file: LmdbFile, path: str) -> int:
    stated: Any = None
    reader = PickleReader()
    if (data := file.get(_LENGTH)) is not None:
        stated = _unpickled(reader, data, f"{path}: length")
    elif (data := file.get(_METADATA)) is not None:
        found = _unpickled(reader, data, f"{path}: __metadata__")
        stated = found.get("num_frames") if isinstance(found, dict) else None
    if stated is None:
        return file.entries - (data is not None)
    n = int(stated) if isinstance(stated, (int, Tensor)) and np.size(stated) == 1 else -1
    if not 0 <= n <= file.entries:
        raise CorruptFileError(f"{path}: expected at most {file.entries} molecules, got {stated!r}")
    return n


def _unpickled(reader: PickleReader, data: bytes, where: str) -> Any:
    try:
        return reader.read(data)
    except (UnsafePickleError, CorruptFileError, UnsupportedFormatError) as error:
        raise type(error)(f"{where}: {error}") from None


def _read_one(
    file: LmdbFile,
    path: str,
    reader: PickleReader,
    number: int,
    keys: Mapping[str, str],
    report: Report,
    levels: Mapping[str, bool],
) -> Parts:
    where, data = f"{path}: key {number}", file.get(b"%d" % number)
    if data is None:
        raise CorruptFileError(f"{where}: expected a molecule under this key, got none")
    found = _unpickled(reader, data, where)
    for name in ("_store", "_mapping"):  # of graphs of torch-geometric 2
        found = found.get(name, found) if isinstance(found, dict) else found
    if not isinstance(found, dict):
        raise CorruptFileError(f"{where}: expected a graph or a dict, got {type(found).__name__}")
    values = {str(key): value for key, value in found.items()}
    return _parts(values, where, keys, report, levels)


def _parts(
    values: dict[str, Any],
    where: str,
    keys: Mapping[str, str],
    report: Report,
    levels: Mapping[str, bool],
) -> Parts:
    positions = _taken(values, "positions", keys, where)
    numbers = _taken(values, "atomic_numbers", keys, where).reshape(-1)
    n = len(positions)
    if positions.shape != (n, 3) or positions.dtype.kind != "f":
        raise CorruptFileError(f"{where}: pos: expected floats (n, 3), got {positions.shape}")
    if numbers.shape != (n,) or (numbers != np.floor(numbers)).any():
        raise CorruptFileError(f"{where}: atomic_numbers: expected {n} integers")
    parts = Parts(positions, numbers.astype(np.int64), {}, {}, {})
    for label, names in _LABELS.items():
        name = next((name for name in names if name in values and name not in keys), None)
        if name is None or values[name] is None:
            continue
        value = np.asarray(_plain(values.pop(name)))
        if label == "stress" and value.size == 6:
            value = stress_of_six(value.reshape(6), report, is_voigt=True)
        parts.labels[label] = shaped(value, label_shape(label, n), f"{where}: {name}")
        report.origin(label, name)
    labels = parts.labels
    if "cell" in labels and not labels["cell"].any():
        del labels["cell"]
    if "pbc" in labels:
        labels["pbc"] = labels["pbc"].astype(bool)
    for key, value in values.items():
        if key in _DERIVED:
            report.note(f"{key!r} omitted: it follows from the molecule and a cutoff")
        elif value is not None:
            _put(parts, key, value, report, keys.get(key, key), levels)
    return parts


def _taken(values: dict[str, Any], part: str, keys: Mapping[str, str], where: str) -> Any:
    """Takes positions or atomic numbers out of the values."""
    names = [key for key, name in keys.items() if name == part] or _STRUCTURE[part]
    name = next((name for name in names if values.get(name) is not None), None)
    if name is None:
        types = "types of atoms are not elements; " if "atom_types" in values else ""
        hint = f"{types}there are {', '.join(values)[:200]}: name one in keys (--key NAME={part})"
        raise CorruptFileError(f"{where}: expected {names[0]}, got none: {hint}")
    value = np.asarray(_plain(values.pop(name)))
    if not is_numeric(value):
        raise CorruptFileError(f"{where}: {name}: expected numbers, got {value.dtype}")
    return value


def _plain(value: Any) -> Any:
    """Converts tensors to NumPy arrays."""
    return host_array("type", value) if isinstance(value, Tensor) else value


def _put(
    parts: Parts, key: str, value: Any, report: Report, name: str, levels: Mapping[str, bool]
) -> None:
    """Adds a value to the properties; labels of molecules, by its name here, are not of atoms."""
    array = number_array(parts, key, _plain(value), report)
    if array is None:
        return
    n = len(parts.positions)
    may_be_atoms = array.ndim > 0 and len(array) == n and not is_of_molecule(name, array.shape)
    if may_be_atoms and levels.get(key, n > 1 or key in _OF_ATOMS):
        parts.atom_properties[key] = array
    elif array.ndim and len(array) == 1:  # the axis of graphs in a batch
        parts.properties[key] = array[0]
    else:
        parts.properties[key] = array
