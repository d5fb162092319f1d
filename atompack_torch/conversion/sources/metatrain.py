"""Molecules from the folders of arrays that metatrain's ``MemmapDataset`` reads.

The layout is that of ``metatrain_writing``. Folders of other programs have no description of their
arrays: ``e``, ``f`` and ``s``, or ``energy``, ``energy_forces`` and ``energy_stress`` as metatrain
writes predictions, are labels; others become properties, of atoms or molecules by their sizes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.conversions import masses_of
from atompack_torch.conversion.keys import SourceNames, field_of
from atompack_torch.conversion.sources.rows import NpyRows
from atompack_torch.conversion.sources.systems import BLOCK_ATOMS, BLOCK_STRUCTURES
from atompack_torch.conversion.targets.metatrain import DESCRIPTION, TARGET, ArrayInfo, open_target
from atompack_torch.datasets.sweeping import runs
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    prefixed_id,
)
from atompack_torch.formats.conversion_report import Report, naming_damage, pass_on
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.options import files_in

__all__ = ["TARGET", "Folder", "open_source", "open_target"]

_NAMES = {
    "e": "energy",
    "energy": "energy",
    "f": "forces",
    "forces": "forces",
    "energy_forces": "forces",
    "s": "stress",
    "stress": "stress",
    "energy_stress": "stress",
    "momenta": "velocities",
    "masses": "atom_properties/masses",
}
_FLOAT = np.dtype(np.float32)
_STRUCTURE = {
    "x": ArrayInfo("positions", True, (3,)),
    "a": ArrayInfo("atomic_numbers", True, ()),
    "c": ArrayInfo("cell", False, (3, 3)),
}
_MAX_DESCRIPTION_BYTES = 1 << 24


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a folder."""
    folder = Folder(path, options.keys)
    return Source(
        path,
        lambda report: folder.read(report, 0, folder.n_structures),
        lambda: folder.n_structures,
        maps_keys=True,
        read_range=folder.read,
        names=lambda: folder.names,
    )


class Folder:
    """A folder of arrays.

    Args:
        path: the folder.
        keys: name of an array → name of a field; ``atom_properties/KEY`` and ``properties/KEY`` say
            whether it has rows of atoms.

    Attributes:
        n_structures: number of molecules.

    Raises:
        CorruptFileError: a file is missing or damaged, or has a different size than the index says.
        FieldError: an array has no rows of atoms or molecules.
    """

    def __init__(self, path: str, keys: Mapping[str, str] | None = None) -> None:
        self._path, self._report = Path(path), Report(n_sources=0)
        self._given = SourceNames(keys or {}, self._report)
        self._ptr = self._index()
        self.n_structures = len(self._ptr) - 1
        self._n_rows = {True: int(self._ptr[-1]), False: self.n_structures}  # of atoms or not
        names = sorted(Path(file).stem for file in files_in(path, ".bin", is_deep=False))
        for name, structure in _STRUCTURE.items():
            if name in names or name != "c":
                self._check_size(name, structure)
        self._has_cells = "c" in names
        self._described = self._description()
        others = [name for name in names if name not in _STRUCTURE]
        self._arrays = {name: info for name in others if (info := self._info(name)) is not None}
        self._given.check_all_found(self._path, "no array")
        for name, info in self._arrays.items():
            self._check_size(name, info)

    @property
    def names(self) -> set[str]:
        """Names of the labels and properties that molecules may have."""
        return {"cell", "pbc", *(info.field for info in self._arrays.values())}

    def read(self, report: Report, first: int, last: int) -> Iterator[Columns]:
        """Yields molecules in blocks, in float32.

        Args:
            report: receives the interpretation of the arrays.
            first: number of the first molecule.
            last: one past the last molecule.

        Yields:
            Blocks of molecules.

        Raises:
            CorruptFileError: a file is shorter than it was.
            FieldError: no source has one of the keys.
        """
        pass_on(self._report, report)
        for name, info in self._arrays.items():
            report.origin(info.field, name)
        counts = np.diff(self._ptr)[:last]
        for part in runs(counts, BLOCK_ATOMS, BLOCK_STRUCTURES, first):
            yield self._block(part.start, part.stop, report)

    def _block(self, first: int, last: int, report: Report) -> Columns:
        begin, end = int(self._ptr[first]), int(self._ptr[last])
        ptr = self._ptr[first : last + 1] - begin
        numbers = self._rows("a", begin, end, (), np.dtype(np.int32))
        fields = [] if not self._has_cells else _cells(self._rows("c", first, last, (3, 3)))
        for name, info in self._arrays.items():
            bounds = (begin, end) if info.is_of_atoms else (first, last)
            values = self._rows(name, *bounds, info.shape)
            scope, key = field_of(info.field, MOLECULE_PROPERTY)
            if name == "momenta" and scope == BUILTIN:
                report.note("momenta: read as velocities, with the masses next to them or ASE's")
                values = values / self._masses(numbers, begin, end)[:, None]
            mask = None
            if scope == BUILTIN or name in self._described:
                mask = _there(values, ptr if info.is_of_atoms else None)
            if mask is None or mask.any():
                fields.append(Column(scope, key, values, mask))
        return Columns(self._rows("x", begin, end, (3,)), numbers, ptr, fields)

    def _masses(self, numbers: Array, begin: int, end: int) -> Array:
        masses = masses_of(numbers)
        if "masses" in self._arrays:
            own = self._rows("masses", begin, end, ())
            masses = np.where(np.isnan(own), masses, own)
        return np.asarray(masses)

    def _rows(
        self,
        name: str,
        first: int,
        last: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any] = _FLOAT,
    ) -> Array:
        row_bytes = dtype.itemsize * int(np.prod(shape))
        path = self._path / f"{name}.bin"
        with path.open("rb") as file:
            file.seek(first * row_bytes)
            data = file.read((last - first) * row_bytes)
        if len(data) < (last - first) * row_bytes:
            raise CorruptFileError(
                f"{path}: expected {last * row_bytes} bytes, got {first * row_bytes + len(data)}"
            )
        return np.frombuffer(bytearray(data), dtype).reshape(last - first, *shape)

    def _index(self) -> Array:
        """Reads ``ns.npy`` and ``na.npy``."""
        count, index = (NpyRows(os.fspath(self._path / f"{name}.npy")) for name in ("ns", "na"))
        with closing(count), closing(index):
            if count.shape or count.dtype.kind not in "iu":
                raise CorruptFileError(f"{self._path / 'ns.npy'}: expected one integer")
            n, path = int(count.read(0, 1)), self._path / "na.npy"
            if index.dtype.kind not in "iu" or index.shape != (n + 1,):
                expected = f"{n + 1} integers, as ns.npy says"
                raise CorruptFileError(
                    f"{path}: expected {expected}, got {index.dtype} {index.shape}"
                )
            ptr = index.read(0, n + 1).astype(np.int64)
        if ptr[0] != 0 or (np.diff(ptr) < 0).any():
            raise CorruptFileError(f"{path}: expected numbers that ascend from 0")
        return ptr

    def _size(self, name: str) -> int:
        path = self._path / f"{name}.bin"
        if not path.exists():
            raise CorruptFileError(f"{path}: expected the array, got no file")
        check_regular_file(os.fspath(path))
        return path.stat().st_size

    def _check_size(self, name: str, info: ArrayInfo) -> None:
        size, n_rows = self._size(name), self._n_rows[info.is_of_atoms]
        width = math.prod(info.shape)
        if size != 4 * n_rows * width:
            path = self._path / f"{name}.bin"
            expected = f"{4 * n_rows * width} bytes, {n_rows} rows of {width} numbers"
            raise CorruptFileError(f"{path}: expected {expected}, got {size}")

    def _description(self) -> dict[str, ArrayInfo]:
        """Reads the description of the arrays; empty if missing."""
        path = self._path / DESCRIPTION
        if not path.exists():
            return {}
        if path.stat().st_size > _MAX_DESCRIPTION_BYTES:
            raise CorruptFileError(f"{path}: expected at most {_MAX_DESCRIPTION_BYTES} bytes")
        found: dict[str, ArrayInfo] = {}
        with naming_damage(f"{path}: expected a description of arrays"):
            for name, entry in json.loads(path.read_text()).items():
                of_atoms = {"atom": True, "molecule": False}[entry["level"]]
                info = ArrayInfo(str(entry["field"]), of_atoms, tuple(entry["shape"]))
                if not all(type(n) is int and 0 <= n < 1 << 31 for n in info.shape):
                    raise ValueError(f"expected lengths, got {info.shape}")
                label = BUILTINS.get(info.field)
                if label is not None and info[1:] != (label.level == "atom", label.shape):
                    raise ValueError(f"expected rows of {info.field}, got {info.shape}")
                found[name] = info
        return found

    def _info(self, name: str) -> ArrayInfo | None:
        """Returns the meaning of an array; None if ``key_map`` gives its name to another."""
        known = self._described.get(name)
        meaning = _NAMES.get(name, name) if known is None else known.field
        field = self._given.here(name, meaning, "array")
        if field is None:
            return None
        if known is not None and field == meaning and name not in self._given.keys:
            return known
        scope, key = field_of(field, MOLECULE_PROPERTY)
        if scope == BUILTIN:
            builtin = BUILTINS[key]
            if builtin.dtype not in ("float32", "float64"):
                raise FieldError(f"{self._path}: key_map: {name!r} holds numbers, not {field}")
            return ArrayInfo(field, builtin.level == "atom", builtin.shape)
        n_numbers, left = divmod(self._size(name), 4)
        n_rows = {of_atoms: max(n, 1) for of_atoms, n in self._n_rows.items()}
        possible = [of_atoms for of_atoms, n in n_rows.items() if not left and not n_numbers % n]
        if prefixed_id(field) is not None:
            possible = [of_atoms for of_atoms in possible if of_atoms == (scope == ATOM_PROPERTY)]
        if not possible:
            path = self._path / f"{name}.bin"
            got = f"{n_numbers} numbers"
            raise FieldError(f"{path}: expected rows of atoms or molecules, got {got}")
        usual = [of_atoms for of_atoms in possible if n_numbers // n_rows[of_atoms] in (1, 3, 9)]
        of_atoms = (usual or possible)[0]
        if len(possible) == 2:
            what = "atoms" if of_atoms else "molecules"
            self._report.note(f"{name!r} taken as values of {what}; key_map can say otherwise")
        width = n_numbers // n_rows[of_atoms]
        prefix = PREFIXES[ATOM_PROPERTY if of_atoms else MOLECULE_PROPERTY]
        return ArrayInfo(prefix + key, of_atoms, {1: (), 9: (3, 3)}.get(width, (width,)))


def _cells(cells: Array) -> list[Column]:
    """Returns cells, and periodicity along their vectors that are not 0."""
    pbc: Array = np.asarray(cells.any(axis=2))
    mask: Array = np.asarray(pbc.any(axis=1))
    fields = [Column(BUILTIN, "pbc", pbc)]
    if mask.any():
        fields.append(Column(BUILTIN, "cell", cells, None if mask.all() else mask))
    return fields


def _there(values: Array, ptr: Array | None) -> Array | None:
    """Returns (B,) bool, False for molecules whose values are all NaN; None if there are none."""
    rows: Array = ~np.asarray(np.isnan(values).all(axis=(*range(1, values.ndim),)))
    if ptr is not None:
        sums = np.concatenate([[0], np.cumsum(rows)])
        rows = (sums[ptr[1:]] > sums[ptr[:-1]]) | (np.diff(ptr) == 0)
    return None if rows.all() else rows
