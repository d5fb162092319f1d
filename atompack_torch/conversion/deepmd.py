"""Structures from the npy systems of DeePMD-kit, of one composition or of the mixed type.

A system is a folder with ``type.raw`` (a number for each atom), ``type_map.raw`` (the elements of
these numbers) and folders ``set.*`` of arrays with one row per frame: ``coord`` (B, 3n) in Å,
``box`` (B, 9), ``energy`` (B,) in eV, ``force`` (B, 3n) in eV/Å, ``virial`` (B, 9) in eV and any
others. A file ``nopbc`` says that there are no cells. Systems of the mixed type have
``real_atom_types`` (B, n) in each set, where -1 is no atom.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.conversion.converter import Source, SourceOptions
from atompack_torch.conversion.deepmd_writing import OF_ATOMS, TARGET, open_target
from atompack_torch.conversion.report import Report
from atompack_torch.conversion.rows import NpyRows
from atompack_torch.conversion.systems import BLOCK_ATOMS, BLOCK_STRUCTURES
from atompack_torch.conversion.virials import with_stress
from atompack_torch.errors import CorruptFileError, FieldError, UnsupportedFormatError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY, PREFIXES
from atompack_torch.writers.columns import Array, Column, Columns

__all__ = ["TARGET", "count", "open_source", "open_target", "read"]

_TYPES, _REAL_TYPES = "type.raw", "real_atom_types"
_MAX_TEXT_BYTES = 1 << 26
_SHAPES = {"coord": (3,), "force": (3,), "box": (3, 3), "virial": (3, 3)}
_LABELS = {"energy": "energy", "force": "forces", "virial": "stress", "box": "cell"}


class _System(NamedTuple):
    """A folder of frames of the same atoms.

    Attributes:
        folder: the folder.
        name: its path in the folder that is converted; empty if that is the system itself.
        types: (n,) numbers of elements in ``elements``.
        elements: (T,) atomic numbers.
        is_periodic: False if boxes mean nothing.
    """

    folder: Path
    name: str
    types: Array
    elements: Array
    is_periodic: bool

    def sets(self) -> list[Path]:
        """Returns the folders of frames, in order."""
        return sorted(path for path in self.folder.glob("set.*") if path.is_dir())


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a system, or a folder of them."""
    return Source(
        path,
        lambda report: read(path, report=report),
        partial(count, path),
        names=partial(_names, path),
    )


def _names(path: str) -> set[str]:
    """Returns the names of all fields, of some perhaps one that is left out."""
    names = {"name", "pbc"}
    for folder in (folder for system in _systems(path) for folder in system.sets()):
        for stem in (file.stem for file in folder.glob("*.npy")):
            scope = ATOM_PROPERTY if _is_of_atoms(stem) else MOLECULE_PROPERTY
            names |= {PREFIXES[scope] + stem, _LABELS.get(stem, stem)}
    return names


def count(path: str | os.PathLike[str]) -> int:
    """Counts the frames.

    Args:
        path: a system, or a folder of systems.

    Returns:
        The number of frames in all of them.

    Raises:
        CorruptFileError: a file is damaged, or lacks.
    """
    found = (NpyRows(os.fspath(_coordinates(each))) for s in _systems(path) for each in s.sets())
    return sum(rows.shape[0] if rows.shape else 0 for rows in found)


def read(path: str | os.PathLike[str], *, report: Report) -> Iterator[Columns]:
    """Yields the frames in blocks, by the names of systems and sets.

    Virials become stresses (see ``virials``); arrays of other names become properties, of atoms
    where DeePMD has them so. The path of a system in the folder is the ``name`` of its frames.

    Args:
        path: a system, or a folder of systems.
        report: receives the interpretation of names.

    Yields:
        Blocks of structures.

    Raises:
        FieldError: there is no system, or an array does not fit the number of atoms.
        CorruptFileError: a file is damaged, or lacks.
        UnsupportedFormatError: the elements of a system are not known.
    """
    systems = _systems(path)
    if not systems:
        raise FieldError(f"{path}: expected systems with {_TYPES}, got none")
    for system in systems:
        for folder in system.sets():
            yield from _blocks(system, folder, report)


def _systems(path: str | os.PathLike[str]) -> list[_System]:
    root = Path(path)
    return [_system(root, types.parent) for types in sorted(root.rglob(_TYPES))]


def _system(root: Path, folder: Path) -> _System:
    words = _text(folder / _TYPES).split()
    try:
        types = np.array(words, dtype=np.int64)
    except ValueError:
        raise CorruptFileError(f"{folder / _TYPES}: expected numbers, got other words") from None
    names = folder / "type_map.raw"
    if not names.exists():
        raise UnsupportedFormatError(
            f"{folder}: expected the elements of the types in type_map.raw, got no such file: "
            "write them into it, one in a line"
        )
    symbols = _text(names).split()
    unknown = [symbol for symbol in symbols if symbol not in SYMBOLS[1:]]
    if unknown:
        raise UnsupportedFormatError(f"{names}: expected symbols of elements, got {unknown[0]!r}")
    elements = np.array([SYMBOLS.index(symbol) for symbol in symbols], dtype=np.uint8)
    name = "" if folder == root else folder.relative_to(root).as_posix()
    return _System(folder, name, types, elements, not (folder / "nopbc").exists())


def _text(path: Path) -> str:
    if path.stat().st_size > _MAX_TEXT_BYTES:
        raise CorruptFileError(f"{path}: expected at most {_MAX_TEXT_BYTES} bytes, got more")
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise CorruptFileError(f"{path}: expected text, got other bytes") from None


def _coordinates(folder: Path) -> Path:
    path = folder / "coord.npy"
    if not path.exists():
        raise CorruptFileError(f"{path}: expected the coordinates of the set, got no file")
    return path


def _blocks(system: _System, folder: Path, report: Report) -> Iterator[Columns]:
    _coordinates(folder)
    arrays = {file.stem: NpyRows(os.fspath(file)) for file in sorted(folder.glob("*.npy"))}
    n, n_frames = len(system.types), arrays["coord"].shape[0] if arrays["coord"].shape else 0
    for name, rows in arrays.items():
        _check_shape(folder / f"{name}.npy", name, rows, n_frames, n)
        if rows.dtype.kind not in "biuf":
            raise FieldError(f"{folder / name}.npy: expected numbers, got {rows.dtype}")
    if not system.is_periodic and arrays.pop("box", None) is not None:
        report.note("'box' left out where a file nopbc says that there is none")
    for name, label in _LABELS.items():
        if name in arrays and label not in (name, "stress"):
            report.origin(label, name)
    if "virial" in arrays:
        report.note("'virial' read as stress: -virial / volume")
    step = max(1, min(BLOCK_STRUCTURES, BLOCK_ATOMS // max(1, n)))
    with ExitStack() as opened:
        for rows in arrays.values():
            opened.callback(rows.close)
        for first in range(0, n_frames, step):
            last = min(first + step, n_frames)
            values = {name: rows.read(first, last) for name, rows in arrays.items()}
            yield with_stress(_columns(system, folder, values, last - first), report)


def _check_shape(path: Path, name: str, rows: NpyRows, n_frames: int, n: int) -> None:
    """Checks that an array has a row per frame, and each of them as many values as expected."""
    shape = rows.shape
    if not shape or shape[0] != n_frames:
        raise CorruptFileError(f"{path}: expected {n_frames} frames, got {shape[:1]}")
    width = int(np.prod(shape[1:]))
    per_atom = _is_of_atoms(name)
    unit = int(np.prod(_SHAPES.get(name, ())))
    expected = n * unit if per_atom else unit
    is_known = name in _SHAPES or name in ("energy", _REAL_TYPES)
    if (is_known and width != expected) or (per_atom and (n == 0 or width % n)):
        raise CorruptFileError(f"{path}: expected {expected} values a frame, got {width}")


def _is_of_atoms(name: str) -> bool:
    return name in ("coord", "force", _REAL_TYPES) or bool(OF_ATOMS.fullmatch(name))


def _columns(system: _System, folder: Path, values: dict[str, Array], count: int) -> Columns:
    n = len(system.types)
    real = values.pop(_REAL_TYPES, None)
    types = np.broadcast_to(system.types, (count, n)) if real is None else real.reshape(count, n)
    present = types >= 0 if real is not None else np.ones((count, n), dtype=bool)
    used = types[present]
    if used.size and not 0 <= int(used.min()) <= int(used.max()) < len(system.elements):
        raise CorruptFileError(
            f"{folder}: expected types below {len(system.elements)}, got {int(used.max())}"
        )
    ptr = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(present.sum(axis=1), out=ptr[1:])
    atoms = present.reshape(-1)
    fields = [_column(name, value, count, n, atoms) for name, value in values.items()]
    positions = next(column.values for column in fields if column.key == "coord")
    fields = [column for column in fields if column.key != "coord"]
    if "box" in values:
        fields.append(Column(BUILTIN, "pbc", np.ones((count, 3), dtype=bool)))
    if system.name:
        fields.append(Column(BUILTIN, "name", [system.name] * count))
    return Columns(np.asarray(positions), system.elements[used], ptr, fields)


def _column(name: str, values: Array, count: int, n: int, atoms: Array) -> Column:
    per_atom = _is_of_atoms(name)
    rows: Any = values.reshape(count * n if per_atom else count, -1)
    if per_atom:
        rows = rows[atoms]
    shape = _SHAPES.get(name, () if rows.shape[1] == 1 else rows.shape[1:])
    rows = rows.reshape(len(rows), *shape)
    if name in _LABELS:
        return Column(BUILTIN, _LABELS[name], rows)
    if name == "coord":
        return Column(BUILTIN, name, rows)
    return Column(ATOM_PROPERTY if per_atom else MOLECULE_PROPERTY, name, rows)
