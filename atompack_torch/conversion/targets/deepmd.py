"""DeePMD-kit's npy systems, the target of conversions ``--to deepmd``.

Frames with the same atoms in the same order, and the same arrays, form a system: a folder named by
its formula, in sets of up to 5000 frames. Stresses become virials, and a file ``nopbc`` marks
systems without cells. Files are written row by row, so memory holds one block.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.conversion.keys import label_of
from atompack_torch.conversion.targets.npy_files import GrowingNpy, is_file_name
from atompack_torch.conversion.virials import virials_of, volumes_of
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Target, TargetOptions, TargetTraits, staged_folder
from atompack_torch.formats.records import is_per_atom, label_in, label_rows, present

TARGET = TargetTraits(makes_folder=True)
# Arrays with values for each atom; others have them for each frame.
OF_ATOMS = re.compile(r"atom(ic)?_.*|aparam|spin|force_mag")
_LABELS = {"energy": "energy", "forces": "force", "stress": "virial", "cell": "box"}
_TAKEN = {"coord", "box", "energy", "force", "virial", "real_atom_types", "type"}
_VECTORS = ("spin", "force_mag")  # with three numbers for each atom
_SET_FRAMES = 5000


@contextmanager
def open_target(path: str, options: TargetOptions) -> Iterator[Target]:
    """Opens a new folder of systems."""
    with staged_folder(path, "deepmd") as made:
        writer = Writer(made, options.report)
        yield writer
        writer.finish()


class _Form(NamedTuple):
    """Form of the values in one file.

    Attributes:
        name: name of the file, without its suffix.
        is_of_atoms: True if there are rows of atoms.
        dtype: type of the numbers.
        width: number of them for a frame, or for an atom.
    """

    name: str
    is_of_atoms: bool
    dtype: str
    width: int


class _Values(NamedTuple):
    """Values of a block that go into one file.

    Attributes:
        name: name of the file, without its suffix.
        is_of_atoms: True if there are rows of atoms.
        values: as for a column.
        mask: (B,) bool, True for frames that have them.
    """

    name: str
    is_of_atoms: bool
    values: Any
    mask: Array

    def forms(self) -> list[_Form | None]:
        """Returns the form of the value of each frame; None where it has none."""
        if isinstance(self.values, np.ndarray):
            form = self._form(self.values.dtype, self.values.shape[1:])
            return [form if has else None for has in self.mask.tolist()]
        start = int(self.is_of_atoms)
        return [
            self._form(value.dtype, value.shape[start:]) if has else None
            for value, has in zip(self.values, self.mask.tolist(), strict=True)
        ]

    def _form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> _Form:
        return _Form(self.name, self.is_of_atoms, str(dtype), int(np.prod(shape)))

    def rows(self, frames: list[int], ptr: Array, n: int) -> Array:
        """Returns the values of frames of n atoms, a row for each."""
        if not isinstance(self.values, np.ndarray):
            return np.stack([self.values[i] for i in frames]).reshape(len(frames), -1)
        if not self.is_of_atoms:
            return self.values[frames].reshape(len(frames), -1)
        atoms = ptr[frames][:, None] + np.arange(n)
        return self.values[atoms].reshape(len(frames), -1)


@dataclass
class _System:
    """A folder under construction.

    Attributes:
        folder: the folder.
        n_sets: number of sets begun.
        files: the files of the last of them.
    """

    folder: Path
    n_sets: int = 0
    files: dict[str, GrowingNpy] = field(default_factory=dict)


class Writer:
    """Writes blocks to a folder of systems.

    Args:
        folder: the folder, which exists.
        report: receives what systems cannot represent.
    """

    def __init__(self, folder: Path, report: Report) -> None:
        self._folder, self._report = folder, report
        self._systems: dict[bytes, _System] = {}
        self._n_of_formula: dict[str, int] = {}

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        values = self._values(columns)
        groups: dict[tuple[bytes, tuple[_Form, ...]], list[int]] = {}
        forms_of = [*zip(*(each.forms() for each in values), strict=True)]
        ends = columns.ptr.tolist()
        for i in range(len(ends) - 1):
            numbers = columns.atomic_numbers[ends[i] : ends[i + 1]]
            if self._is_system(numbers):
                own = [form for form in forms_of[i] if form is not None]
                key = numbers.astype(np.uint8).tobytes(), tuple(sorted(own))
                groups.setdefault(key, []).append(i)
        for (atoms, forms), frames in groups.items():
            system = self._system(atoms, forms)
            chosen = [each for each in values if each.name in {form.name for form in forms}]
            while frames:
                room = self._room(system, forms, len(atoms))
                for each in chosen:
                    rows = each.rows(frames[:room], columns.ptr, len(atoms))
                    system.files[each.name].append(rows[:, 0] if each.name == "energy" else rows)
                frames = frames[room:]

    def finish(self) -> None:
        """Completes all files."""
        for system in self._systems.values():
            for file in system.files.values():
                file.finish()
        if self._systems:
            self._report.note(
                "frames are grouped by their atoms and arrays, so their order changes and the name "
                "of each is the folder of its system"
            )

    def _is_system(self, numbers: Array) -> bool:
        """True if DeePMD can hold the atoms."""
        if not len(numbers):
            fault = "expected atoms, got none"
        elif not 0 < int(numbers.min()) <= int(numbers.max()) < len(SYMBOLS):
            wrong = numbers[(numbers < 1) | (numbers >= len(SYMBOLS))]
            fault = f"expected atomic numbers of elements, got {int(wrong[0])}"
        else:
            return True
        self._report.refuse(FieldError(f"systems of DeePMD: {fault}"))
        return False

    def _system(self, numbers: bytes, forms: tuple[_Form, ...]) -> _System:
        """Returns the system of frames with these atoms and arrays."""
        digest = hashlib.blake2b(numbers + repr(forms).encode(), digest_size=16).digest()
        if digest in self._systems:
            return self._systems[digest]
        elements, types, counts = np.unique(
            np.frombuffer(numbers, np.uint8), return_inverse=True, return_counts=True
        )
        symbols = [SYMBOLS[number] for number in elements]
        formula = "".join(f"{s}{count}" for s, count in zip(symbols, counts, strict=True))
        number = self._n_of_formula.get(formula, 0)
        self._n_of_formula[formula] = number + 1
        folder = self._folder / (f"{formula}.{number}" if number else formula)
        folder.mkdir()
        (folder / "type.raw").write_text("".join(f"{type_}\n" for type_ in types.tolist()))
        (folder / "type_map.raw").write_text("".join(f"{symbol}\n" for symbol in symbols))
        if all(form.name != "box" for form in forms):
            (folder / "nopbc").touch()
        self._systems[digest] = _System(folder)
        return self._systems[digest]

    def _room(self, system: _System, forms: tuple[_Form, ...], n_atoms: int) -> int:
        """Returns the number of frames that fit into the last set; begins another if it is full."""
        n_frames = system.files["coord"].n_rows if system.files else _SET_FRAMES
        if n_frames == _SET_FRAMES:
            for file in system.files.values():
                file.finish()
            place = system.folder / f"set.{system.n_sets:03d}"
            place.mkdir()
            system.n_sets += 1
            for form in forms:
                width = form.width * (n_atoms if form.is_of_atoms else 1)
                path = place / f"{form.name}.npy"
                shape = () if form.name == "energy" else (width,)
                system.files[form.name] = GrowingNpy(path, np.dtype(form.dtype), shape)
            n_frames = 0
        return _SET_FRAMES - n_frames

    def _values(self, columns: Columns) -> list[_Values]:
        """Returns the values of a block by the files that take them."""
        n = len(columns.ptr) - 1
        masks = {column[:2]: present(column, n) for column in columns.fields}
        is_periodic = self._periodic(columns)
        found = [_Values("coord", True, columns.positions, np.ones(n, dtype=bool))]
        for column in columns.fields:
            mask, values = masks[column[:2]], column.values
            if column[:2] == (BUILTIN, "pbc"):
                continue
            if column[:2] == (BUILTIN, "stress"):
                mask = mask & is_periodic
                values = self._virials(mask, columns)
                self._skip(
                    "stress", "a virial needs a cell with a volume", masks[column[:2]] & ~mask
                )
            elif column[:2] == (BUILTIN, "cell"):
                mask = mask & is_periodic
            elif not isinstance(values, np.ndarray):
                mask = mask & [isinstance(value, np.ndarray) for value in values]
                why = "neither numbers nor arrays"
                self._skip(label_of(column), why, masks[column[:2]] & ~mask)
            name = self._name_of(column, mask, {each.name for each in found})
            if name is not None and mask.any():
                found.append(_Values(name, is_per_atom(column), values, mask))
        return found

    def _skip(self, what: str, why: str, lost: Array) -> None:
        if lost.any():
            self._report.skip(what, why, int(lost.sum()))

    def _periodic(self, columns: Columns) -> Array:
        """Returns (B,) bool, True for frames with a box; reports what that changes."""
        pbc, has_pbc = label_rows(columns, "pbc")
        has_cell = present(label_in(columns, "cell"), len(pbc))
        is_box = has_cell & (volumes_of(columns) > 0)
        is_periodic: Array = is_box & (pbc.any(axis=1) | ~has_pbc)
        if (is_periodic & ~has_pbc).any():
            self._report.note("pbc: T T T where it was absent next to a cell, as a box means that")
        mixed = is_periodic & has_pbc & ~pbc.all(axis=1)
        self._skip("pbc", "a system is periodic in all directions or in none", mixed)
        self._skip(
            "pbc",
            "without a cell of nonzero volume a system is not periodic",
            has_pbc & pbc.any(axis=1) & ~is_box,
        )
        why = "systems that are not periodic, or whose cell has no volume, have no box"
        self._skip("cell", why, has_cell & ~is_periodic)
        return is_periodic

    def _virials(self, mask: Array, columns: Columns) -> Array:
        """Returns the virials of frames, of which those in ``mask`` have a meaning."""
        if mask.any():
            self._report.note("stress: kept as virials, so the last digits may change")
        stress, _ = label_rows(columns, "stress")
        return virials_of(stress, np.where(mask, volumes_of(columns), 1.0))

    def _name_of(self, column: Column, mask: Array, taken: set[str]) -> str | None:
        """Returns the name of the file for a field; None if it is omitted."""
        label, key = label_of(column), column.key
        if column.scope == BUILTIN and key in _LABELS:
            return _LABELS[key]
        if column[:2] == (BUILTIN, "velocities") or not mask.any():
            self._skip(label, "systems of DeePMD have no place for them", mask)
            return None
        name = key
        is_known = OF_ATOMS.fullmatch(key) and (key not in _VECTORS or _row_shape(column) == (3,))
        if is_per_atom(column) and not is_known:
            name = f"atom_{key}"
            self._report.note(f"{label}: written as {name}, as names of values of atoms begin")
        is_plain = is_file_name(key) and is_file_name(name)
        is_misread = not is_per_atom(column) and OF_ATOMS.fullmatch(key) is not None
        if name in taken | _TAKEN or not is_plain or is_misread:
            self._skip(
                label, "its name has another meaning in systems, or cannot be a file's", mask
            )
            return None
        return name


def _row_shape(column: Column) -> tuple[int, ...] | None:
    """Returns the shape of the rows of atoms, by the first of them."""
    values: Any = column.values
    if not isinstance(values, np.ndarray):
        values = next((value for value in values if value is not None), None)
    return None if values is None else values.shape[1:]
