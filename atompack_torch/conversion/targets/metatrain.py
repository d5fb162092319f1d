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
from atompack_torch.batch.conversions import NO_MASS, has_mass, masses_of
from atompack_torch.conversion.keys import label_of
from atompack_torch.conversion.targets.npy_files import GrowingNpy, is_file_name
from atompack_torch.errors import FieldError
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
        for name, info, values in self._values(columns):
            if name not in self._arrays:
                self._arrays[name] = info
                self._fill(name, self._n_atoms if info.is_of_atoms else self._n_structures)
            self._append(name, self._rounded(info.field, values))
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
        if (np.isfinite(values) & ~np.isfinite(rounded)).any():
            raise FieldError(f"{what}: a value is too large for float32")
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

    def _values(self, columns: Columns) -> Iterator[tuple[str, ArrayInfo, Array]]:
        """Yields name, meaning and values of each array of a block."""
        taken: set[str] = set()
        n = len(columns.ptr) - 1
        for column in columns.fields:
            if column[:2] in ((BUILTIN, "cell"), (BUILTIN, "pbc")):
                continue
            n_there = int(present(column, n).sum())
            label, name = label_of(column), _name_of(column)
            if name is None or name in taken:
                why = "its name has another meaning in metatrain, or cannot be that of a file"
                self._report.skip(label, why, n_there)
                continue
            known = self._arrays.get(name)
            shape = () if name == "masses" else known and known.shape
            values, good = _dense(column, columns.ptr, shape)
            if lost := n_there - int(good.sum()):
                rows = "no numbers" if values is None else f"not of shape {values.shape[1:]}"
                self._report.skip(label, f"{rows}, as all values of an array", lost)
            if values is None or not good.any():
                continue
            taken.add(name)
            if name == "momenta":
                values = self._momenta(values, columns)
            yield name, ArrayInfo(label, is_per_atom(column), values.shape[1:]), values

    def _momenta(self, velocities: Array, columns: Columns) -> Array:
        """Returns momenta (N, 3), with the masses of the molecules or of the elements."""
        self._report.note("velocities: written as momenta, of ASE's masses unless it has own")
        masses = masses_of(columns.atomic_numbers)
        own = next((c for c in columns.fields if c[:2] == (ATOM_PROPERTY, "masses")), None)
        if own is not None:
            values, _ = _dense(own, columns.ptr, ())
            assert values is not None
            masses = np.where(np.isnan(values), masses, values)
        lost = ~np.isnan(velocities).all(axis=1) & ~has_mass(masses)
        if lost.any():
            molecules = np.searchsorted(columns.ptr, np.flatnonzero(lost), side="right")
            self._report.skip("velocities", NO_MASS, len({*molecules.tolist()}))
        momenta: Array = velocities * masses[:, None]
        return momenta


def _name_of(column: Column) -> str | None:
    """Returns the name of the array of a field; None if it can have none."""
    key = column.key
    if column.scope == BUILTIN:
        return _LABELS.get(key, None if key == "name" else key)
    if column[:2] == (ATOM_PROPERTY, "masses"):
        return key
    return key if is_file_name(key) and key not in _TAKEN and key not in BUILTINS else None


def _dense(column: Column, ptr: Array, shape: tuple[int, ...] | None) -> tuple[Array | None, Array]:
    """Returns the values of all molecules of a block as one array.

    Args:
        column: a column of B molecules.
        ptr: (B + 1,) index of the first atom of each.
        shape: shape of a row; None: that of the first molecule.

    Returns:
        The values, NaN for molecules without any of that shape, or None if none has numbers; and
        (B,) bool, False for those molecules.
    """
    mask, of_atoms = present(column, len(ptr) - 1), is_per_atom(column)
    counts = np.diff(ptr) if of_atoms else np.ones_like(mask, dtype=np.int64)
    if isinstance(column.values, np.ndarray):
        own = column.values.shape[1:]
        shape = own if shape is None else shape
        good: Array = mask & (own == shape)
        if good.all():
            return column.values, good
        rows = column.values[np.repeat(good, counts)]
    else:
        there = [isinstance(value, np.ndarray) for value in column.values] & mask
        given: list[Any] = [v for v, has in zip(column.values, there.tolist(), strict=True) if has]
        shapes = [value.shape[of_atoms:] for value in given]
        if not given and shape is None:
            return None, there
        shape = shapes[0] if shape is None else shape
        good = there.copy()
        good[there] = [own == shape for own in shapes]
        fitting = [
            v.reshape(-1, *shape) for v, own in zip(given, shapes, strict=True) if own == shape
        ]
        rows = np.concatenate([np.zeros((0, *shape)), *fitting])
    values = np.full((int(counts.sum()), *shape), np.nan)
    if good.any():
        values[np.repeat(good, counts)] = rows
    return values, good
