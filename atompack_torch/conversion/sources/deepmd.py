"""Molecules from the systems of DeePMD-kit, of one composition or of the mixed type.

A system is a folder with ``type.raw`` (a number for each atom), ``type_map.raw`` (the elements of
these numbers) and folders ``set.*`` of arrays with one row per frame: ``coord`` (B, 3n) in Å,
``box`` (B, 9), ``energy`` (B,) in eV, ``force`` (B, 3n) in eV/Å, ``virial`` (B, 9) in eV and any
others. Without these folders, the arrays are text: ``coord.raw`` and so on. A file ``nopbc`` says
that there are no cells. Systems of the mixed type have ``real_atom_types`` (B, n) in each set,
where -1 is not an atom.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.conversion.keys import element_hint, elements_in, numbers_of_types
from atompack_torch.conversion.sources.rows import HeldRows, NpyRows, Rows, TextRows
from atompack_torch.conversion.sources.systems import BLOCK_ATOMS, BLOCK_STRUCTURES
from atompack_torch.conversion.targets.deepmd import OF_ATOMS, TARGET, open_target
from atompack_torch.conversion.virials import with_stress
from atompack_torch.errors import CorruptFileError, FieldError, UnsupportedFormatError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY, PREFIXES
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.options import files_in, names_below

__all__ = ["TARGET", "count", "open_source", "open_target", "read"]

_TYPES, _REAL_TYPES = "type.raw", "real_atom_types"
_ABOUT_TYPES = (_TYPES, "type_map.raw")
_MAX_TEXT_BYTES = 1 << 26
_SHAPES = {"coord": (3,), "force": (3,), "box": (3, 3), "virial": (3, 3)}
_LABELS = {"energy": "energy", "force": "forces", "virial": "stress", "box": "cell"}


class _System(NamedTuple):
    """A folder of frames of the same atoms.

    Attributes:
        folder: the folder.
        name: its path in the folder that is converted; empty if that is the system itself.
        types: (n,) numbers of elements in ``elements``.
        symbols: names of the T types.
        is_periodic: False if boxes mean nothing.
    """

    folder: Path
    name: str
    types: Array
    symbols: list[str]
    is_periodic: bool

    def sets(self) -> list[Path]:
        """Returns the folders of frames, in order: the system itself if its arrays are text."""
        found = sorted(path for path in self.folder.glob("set.*") if path.is_dir())
        return found or [self.folder]

    def files(self, folder: Path) -> dict[str, Path]:
        """Returns the files of arrays of a set, by their names."""
        suffix = ".raw" if folder == self.folder else ".npy"
        paths = map(Path, files_in(folder, suffix, is_deep=False))
        return {each.stem: each for each in paths if each.name not in _ABOUT_TYPES}

    def arrays(self, folder: Path) -> dict[str, Rows]:
        """Opens the arrays of a set, with an axis of frames."""
        files = self.files(folder)
        if "coord" not in files:
            where = folder / "coord.npy"
            what = "the coordinates of the set"
            if folder == self.folder:
                where, what = folder, "folders set.* of arrays, or text in coord.raw"
            raise CorruptFileError(f"{where}: expected {what}, got no file")
        found: dict[str, NpyRows | TextRows] = {
            name: (TextRows if file.suffix == ".raw" else NpyRows)(os.fspath(file))
            for name, file in files.items()
        }
        if found["coord"].shape != (3 * len(self.types),):
            return {**found}
        return {name: _with_axis(rows) for name, rows in found.items()}  # of a single frame


def _with_axis(rows: NpyRows | TextRows) -> Rows:
    with closing(rows):
        return HeldRows(rows.read(0, rows.shape[0] if rows.shape else 1).reshape(1, -1))


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a system, or a folder of them; keys may name the elements of types."""
    names = {symbol for system in _systems(path) for symbol in system.symbols}
    elements = elements_in(options.keys, names)
    return Source(
        path,
        partial(read, path, elements),
        partial(count, path),
        own_keys=elements,
        names=partial(_names, path),
    )


def _names(path: str) -> set[str]:
    """Returns the names of all fields, of some perhaps one that is omitted."""
    names = {"name", "pbc"}
    for system in _systems(path):
        for stem in (stem for folder in system.sets() for stem in system.files(folder)):
            scope = ATOM_PROPERTY if _is_of_atoms(stem) else MOLECULE_PROPERTY
            names |= {PREFIXES[scope] + stem, _LABELS.get(stem, stem)}
    return names


def count(path: str) -> int:
    """Counts the frames.

    Args:
        path: a system, or a folder of systems.

    Returns:
        The number of frames in all of them.

    Raises:
        CorruptFileError: a file is damaged or missing.
    """
    found = (s.arrays(each)["coord"] for s in _systems(path) for each in s.sets())
    return sum(rows.shape[0] if rows.shape else 0 for rows in found)


def read(path: str, elements: dict[str, int], report: Report) -> Iterator[Columns]:
    """Yields the frames in blocks, by the names of systems and sets.

    Virials become stresses (see ``virials``); arrays of other names become properties, of atoms
    where DeePMD has them so. The path of a system in the folder is the ``name`` of its frames.

    Args:
        path: a system, or a folder of systems.
        elements: name of a type that is not a symbol of an element → its atomic number.
        report: receives the interpretation of names.

    Yields:
        Blocks of molecules.

    Raises:
        FieldError: there is no system, an array does not fit the number of atoms, or frames have
            neither boxes nor a file ``nopbc``.
        CorruptFileError: a file is damaged or missing.
        UnsupportedFormatError: the elements of a system are not known.
    """
    systems = _systems(path)
    if not systems:
        raise FieldError(f"{path}: expected systems with {_TYPES}, got none")
    for system in systems:
        numbers = numbers_of_types(system.symbols, elements)
        sets = system.sets()
        for text in () if sets == [system.folder] else system.files(system.folder).values():
            report.skip(f"file {text.name!r}", "the frames are read from folders set.*")
        for folder in sets:
            yield from _blocks(system, np.array(numbers, dtype=np.int16), folder, report)


def _systems(path: str) -> list[_System]:
    root = Path(path)
    found = (root / name for name in names_below(root) if name.rpartition("/")[2] == _TYPES)
    return [_system(root, types.parent) for types in sorted(found)]


def _system(root: Path, folder: Path) -> _System:
    words = _text(folder / _TYPES).split()
    try:
        types = np.array(words, dtype=np.int64)
    except ValueError:
        raise CorruptFileError(f"{folder / _TYPES}: expected numbers, got other text") from None
    names = folder / "type_map.raw"
    n_types = min(int(types.max(initial=-1)) + 1, len(SYMBOLS))
    symbols = _text(names).split() if names.exists() else [*map(str, range(n_types))]
    name = "" if folder == root else folder.relative_to(root).as_posix()
    return _System(folder, name, types, symbols, not (folder / "nopbc").exists())


def _text(path: Path) -> str:
    if path.stat().st_size > _MAX_TEXT_BYTES:
        raise CorruptFileError(f"{path}: expected at most {_MAX_TEXT_BYTES} bytes, got more")
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise CorruptFileError(f"{path}: expected text, got other bytes") from None


def _blocks(system: _System, elements: Array, folder: Path, report: Report) -> Iterator[Columns]:
    arrays, files = system.arrays(folder), system.files(folder)
    n, n_frames = len(system.types), arrays["coord"].shape[0] if arrays["coord"].shape else 0
    for name, rows in arrays.items():
        _check_shape(files[name], name, rows, n_frames, n)
        if rows.dtype.kind not in "biuf":
            raise FieldError(f"{files[name]}: expected numbers, got {rows.dtype}")
    if system.is_periodic and "box" not in arrays:
        hint = f"create an empty file {system.folder / 'nopbc'} if there are no cells"
        fault = FieldError(f"{folder}: expected boxes or a file nopbc, got neither: {hint}")
        report.refuse(fault, n_frames)
        return
    if not system.is_periodic and arrays.pop("box", None) is not None:
        report.note("'box' omitted where a file nopbc says that there is none")
    for name, label in _LABELS.items():
        if name in arrays and label not in (name, "stress"):
            report.origin(label, name)
    step = max(1, min(BLOCK_STRUCTURES, BLOCK_ATOMS // max(1, n)))
    with ExitStack() as opened:
        for rows in arrays.values():
            if isinstance(rows, (NpyRows, TextRows)):
                opened.callback(rows.close)
        for first in range(0, n_frames, step):
            last = min(first + step, n_frames)
            values = {name: rows.read(first, last) for name, rows in arrays.items()}
            made = _columns(system, elements, folder, values, last - first)
            yield with_stress(made, report, "virial")


def _check_shape(path: Path, name: str, rows: Rows, n_frames: int, n: int) -> None:
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


def _columns(
    system: _System, elements: Array, folder: Path, values: dict[str, Array], count: int
) -> Columns:
    n = len(system.types)
    types, present = np.broadcast_to(system.types, (count, n)), np.ones((count, n), dtype=bool)
    if (real := values.pop(_REAL_TYPES, None)) is not None:
        types = real.astype(np.int64).reshape(count, n)
        if (types != real.reshape(count, n)).any():
            raise CorruptFileError(f"{folder}: {_REAL_TYPES}: expected integers, got other numbers")
        present = types >= 0
    used = types[present]
    if used.size and not 0 <= int(used.min()) <= int(used.max()) < len(elements):
        raise CorruptFileError(
            f"{folder}: expected types below {len(elements)}, got {int(used.max())}"
        )
    numbers = elements[used]
    if (numbers < 0).any():
        raise _unknown_type(system, system.symbols[int(used[numbers < 0][0])])
    ptr = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(present.sum(axis=1), out=ptr[1:])
    atoms = present.reshape(-1)
    positions = values.pop("coord").reshape(-1, 3)[atoms]
    fields = [_column(name, value, count, n, atoms) for name, value in values.items()]
    if "box" in values:
        fields.append(Column(BUILTIN, "pbc", np.ones((count, 3), dtype=bool)))
    if system.name:
        fields.append(Column(BUILTIN, "name", [system.name] * count))
    return Columns(positions, numbers, ptr, fields)


def _unknown_type(system: _System, name: str) -> UnsupportedFormatError:
    place, hint = system.folder / _ABOUT_TYPES[1], element_hint(name)
    if place.exists():
        return UnsupportedFormatError(
            f"{place}: expected symbols of elements, got {name!r}: {hint}"
        )
    return UnsupportedFormatError(
        f"{system.folder}: expected the elements of the types in {place.name}, got no such file: "
        f"write them into it, one in a line, or {hint}"
    )


def _column(name: str, values: Array, count: int, n: int, atoms: Array) -> Column:
    per_atom = _is_of_atoms(name)
    rows: Any = values.reshape(count * n if per_atom else count, -1)
    if per_atom:
        rows = rows[atoms]
    shape = _SHAPES.get(name, () if rows.shape[1] == 1 else rows.shape[1:])
    rows = rows.reshape(len(rows), *shape)
    if name in _LABELS:
        return Column(BUILTIN, _LABELS[name], rows)
    return Column(ATOM_PROPERTY if per_atom else MOLECULE_PROPERTY, name, rows)
