"""Folders of arrays for metatrain's ``MemmapDataset``, targets of conversions ``--to metatrain``.

``ns.npy`` is the number of molecules, ``na.npy`` (ns + 1,) the index of the first atom of each and
the number of atoms, ``x.bin`` the positions, ``a.bin`` the atomic numbers (int32), ``c.bin`` the
cells, ``e.bin``, ``f.bin`` and ``s.bin`` energies, forces and stresses, ``momenta.bin`` and
``masses.bin`` those of FlashMD, and ``KEY.bin`` custom values. Numbers are float32; NaN is a
missing value, which metatrain's losses ignore. ``atompack_torch.json``, which metatrain does not
read, has the field, the level and the shape of the rows of each array.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.conversions import masses_of
from atompack_torch.conversion.keys import label_of
from atompack_torch.conversion.targets.npy_files import GrowingNpy, is_file_name
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, BUILTINS
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Target, TargetOptions, TargetTraits, staged_folder
from atompack_torch.formats.records import is_per_atom, label_rows, present

TARGET = TargetTraits(makes_folder=True)
DESCRIPTION = "atompack_torch.json"
_LABELS = {"energy": "e", "forces": "f", "stress": "s", "velocities": "momenta"}
_TAKEN = {"x", "a", "c", "e", "f", "s", "momenta", "masses"}
_FILL_ROWS = 1 << 16
_ROUNDED = "rounded to float32, as metatrain has no other numbers"


class ArrayInfo(NamedTuple):
    """Meaning of an array.

    Attributes:
        field: name of the field, with its scope.
        is_of_atoms: True if it has rows of atoms.
        shape: shape of a row.
    """

    field: str
    is_of_atoms: bool
    shape: tuple[int, ...]


class _Values(NamedTuple):
    """Values of a block for one array.

    Attributes:
        name: name of the array.
        info: its meaning.
        values: as for a column.
        mask: (B,) bool, True for molecules that have them.
    """

    name: str
    info: ArrayInfo
    values: Any
    mask: Array


@contextmanager
def open_target(path: str, options: TargetOptions) -> Iterator[Target]:
    """Opens a new folder."""
    with staged_folder(path, "metatrain") as made:
        writer = Writer(made, options.report)
        yield writer
        writer.finish()


class Writer:
    """Writes blocks to a folder of arrays.

    Args:
        folder: the folder, which exists.
        report: receives what the arrays cannot represent.
    """

    def __init__(self, folder: Path, report: Report) -> None:
        self._folder, self._report = folder, report
        self._index = GrowingNpy(folder / "na.npy", np.dtype(np.int64), ())
        self._index.append(np.zeros(1))
        self._n_structures = self._n_atoms = 0
        self._arrays: dict[str, ArrayInfo] = {}
        for name in ("x", "a", "c"):
            (folder / f"{name}.bin").touch()

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        n, n_atoms = len(columns.ptr) - 1, len(columns.positions)
        self._append("x", self._rounded("positions", columns.positions))
        self._append("a", columns.atomic_numbers.astype(np.int32))
        self._append("c", self._rounded("cell", self._cells(columns)))
        written = set()
        for array in self._values(columns):
            name, info = array.name, array.info
            if name not in self._arrays:
                self._arrays[name] = info
                self._fill(name, self._n_atoms if info.is_of_atoms else self._n_structures)
            self._append(name, self._rounded(info.field, _filled(array, columns.ptr)))
            written.add(name)
        for name, info in self._arrays.items():
            if name not in written:
                self._fill(name, n_atoms if info.is_of_atoms else n)
        self._index.append(self._n_atoms + columns.ptr[1:])
        self._n_structures, self._n_atoms = self._n_structures + n, self._n_atoms + n_atoms

    def finish(self) -> None:
        """Completes the files."""
        self._index.finish()
        n_structures = io.BytesIO()  # NumPy's own writes to files keep no error numbers
        np.save(n_structures, self._n_structures)
        (self._folder / "ns.npy").write_bytes(n_structures.getvalue())
        described = {
            name: {
                "field": info.field,
                "level": "atom" if info.is_of_atoms else "molecule",
                "shape": info.shape,
            }
            for name, info in self._arrays.items()
        }
        (self._folder / DESCRIPTION).write_text(json.dumps(described, indent=1) + "\n")

    def _append(self, name: str, rows: Array) -> None:
        with (self._folder / f"{name}.bin").open("ab") as file:
            file.write(np.ascontiguousarray(rows).tobytes())

    def _fill(self, name: str, n_rows: int) -> None:
        """Appends rows of NaN."""
        nothing = np.full((_FILL_ROWS, *self._arrays[name].shape), np.nan, dtype=np.float32)
        for first in range(0, n_rows, _FILL_ROWS):
            self._append(name, nothing[: n_rows - first])

    def _rounded(self, what: str, values: Array) -> Array:
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32)
        if not np.array_equal(rounded, values, equal_nan=True):
            self._report.note(f"{what}: {_ROUNDED}")
        return rounded

    def _cells(self, columns: Columns) -> Array:
        """Returns cells (B, 3, 3), with zeros along directions that are not periodic."""
        cell, has_cell = label_rows(columns, "cell")
        pbc, has_pbc = label_rows(columns, "pbc")
        is_vector = cell.any(axis=2)
        lost = (is_vector & has_pbc[:, None] & ~pbc).any(axis=1)
        if lost.any():
            why = "its vectors are 0 in metatrain where the molecule is not periodic"
            self._report.skip("cell", why, int(lost.sum()))
        bare = (~is_vector & has_pbc[:, None] & pbc).any(axis=1)
        if bare.any():
            why = "directions without a cell vector are not periodic in metatrain"
            self._report.skip("pbc", why, int(bare.sum()))
        if (has_cell & ~has_pbc).any():
            self._report.note("pbc: T where it was absent next to a cell, as a vector means that")
        keeps = pbc | ~has_pbc[:, None]
        return cell * keeps[:, :, None]

    def _values(self, columns: Columns) -> Iterator[_Values]:
        """Yields the values of a block for each array."""
        taken: set[str] = set()
        n = len(columns.ptr) - 1
        for column in columns.fields:
            mask = present(column, n)
            if column[:2] in ((BUILTIN, "cell"), (BUILTIN, "pbc")):
                continue
            label, name = label_of(column), _name_of(column)
            if name is None or name in taken:
                why = "its name has another meaning in metatrain, or cannot be that of a file"
                self._report.skip(label, why, int(mask.sum()))
                continue
            known = self._arrays.get(name)
            shape, good = _fitting(column, mask, None if known is None else known.shape)
            if lost := int((mask & ~good).sum()):
                rows = "no numbers" if shape is None else f"not of shape {shape}"
                self._report.skip(label, f"{rows}, as the values before", lost)
            if shape is None or not good.any():
                continue
            taken.add(name)
            values = column.values
            if name == "momenta":
                values = self._momenta(column, columns)
            yield _Values(name, ArrayInfo(label, is_per_atom(column), shape), values, good)

    def _momenta(self, velocities: Column, columns: Columns) -> Array:
        """Returns momenta (N, 3), with the masses of the molecules or of the elements."""
        self._report.note("velocities: written as momenta, of ASE's masses unless it has own")
        own = next((c for c in columns.fields if c[:2] == (ATOM_PROPERTY, "masses")), None)
        masses, made = masses_of(columns.atomic_numbers), np.zeros((len(columns.positions), 3))
        counts = np.diff(columns.ptr)
        if own is not None:
            _put(masses, own.values, present(own, len(counts)), counts)
        _put(made, velocities.values, present(velocities, len(counts)), counts)
        momenta: Array = made * masses[:, None]
        return momenta


def _name_of(column: Column) -> str | None:
    """Returns the name of the array of a field; None if it can have none."""
    key = column.key
    if column.scope == BUILTIN:
        return _LABELS.get(key, None if key == "name" else key)
    if column[:2] == (ATOM_PROPERTY, "masses"):
        return key
    return key if is_file_name(key) and key not in _TAKEN and key not in BUILTINS else None


def _fitting(
    column: Column, mask: Array, shape: tuple[int, ...] | None
) -> tuple[tuple[int, ...] | None, Array]:
    """Returns the shape of rows, and (B,) bool, True for the molecules in a mask that have it.

    Args:
        column: a column of B molecules.
        mask: (B,) bool.
        shape: the shape; None: that of the first molecule, or None if none has numbers.
    """
    if isinstance(column.values, np.ndarray):
        own = tuple(column.values.shape[1:])
        shape = own if shape is None else shape
        return shape, mask & (own == shape)
    start = int(is_per_atom(column))
    shapes = [
        value.shape[start:] if has and isinstance(value, np.ndarray) else None
        for value, has in zip(column.values, mask.tolist(), strict=True)
    ]
    if shape is None:
        shape = next((own for own in shapes if own is not None), None)
    return shape, np.array([own is not None and own == shape for own in shapes], dtype=bool)


def _filled(array: _Values, ptr: Array) -> Array:
    """Returns the values of all molecules of a block, NaN where there are none."""
    values, mask, info = array.values, array.mask, array.info
    counts = np.diff(ptr) if info.is_of_atoms else np.ones(len(ptr) - 1, dtype=np.int64)
    if isinstance(values, np.ndarray) and mask.all():
        return values
    made = np.full((int(counts.sum()), *info.shape), np.nan)
    _put(made, values, mask, counts)
    return made


def _put(made: Array, values: Any, mask: Array, counts: Array) -> None:
    """Puts the values of the molecules that have them into an array of ``counts`` rows each."""
    rows = np.repeat(mask, counts)
    if isinstance(values, np.ndarray):
        made[rows] = values[rows]
    elif mask.any():
        there = [value for value, has in zip(values, mask.tolist(), strict=True) if has]
        made[rows] = np.concatenate([np.reshape(value, (-1, *made.shape[1:])) for value in there])
