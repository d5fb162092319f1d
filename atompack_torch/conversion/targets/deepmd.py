"""DeePMD-kit's npy systems, the target of conversions ``--to deepmd``.

Frames with the same atoms in the same order, and the same arrays, form a system: a folder named by
its formula, in sets of up to 5000 frames. Stresses become virials, and a file ``nopbc`` marks
systems without cells. Files are written row by row, so memory holds one block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.conversion.keys import label_of
from atompack_torch.conversion.targets.npy_files import GrowingNpy, is_file_name
from atompack_torch.conversion.virials import virials_of, volumes_of
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Target, TargetOptions, TargetTraits, staged_folder
from atompack_torch.formats.records import (
    is_per_atom,
    label_in,
    label_rows,
    present,
    records_of,
)

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


# Name of a file without its suffix, type of its numbers, and how many a frame has.
_Form = tuple[str, np.dtype[Any], int]


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
        self._systems: dict[tuple[bytes, tuple[_Form, ...]], _System] = {}
        self._n_of_formula: dict[str, int] = {}

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        groups: dict[tuple[bytes, tuple[_Form, ...]], list[dict[str, Array]]] = {}
        for parts in records_of(self._by_file(columns)):
            if not self._is_system(parts.atomic_numbers):
                continue
            frame = {"coord": parts.positions} | parts.atom_properties | parts.properties
            forms = tuple([(name, value.dtype, value.size) for name, value in frame.items()])
            key = parts.atomic_numbers.astype(np.uint8).tobytes(), forms
            groups.setdefault(key, []).append(frame)
        for (atoms, own_forms), frames in groups.items():
            system = self._system(atoms, own_forms)
            while frames:
                room = self._room(system, own_forms)
                for name, file in system.files.items():
                    values = np.concatenate([frame[name] for frame in frames[:room]], axis=None)
                    rows = values.reshape(len(frames[:room]), -1)
                    file.append(rows[:, 0] if name == "energy" else rows)
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
        if (numbers, forms) in self._systems:
            return self._systems[numbers, forms]
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
        if all(name != "box" for name, _, _ in forms):
            (folder / "nopbc").touch()
        self._systems[numbers, forms] = _System(folder)
        return self._systems[numbers, forms]

    def _room(self, system: _System, forms: tuple[_Form, ...]) -> int:
        """Returns the number of frames that fit into the last set; begins another if it is full."""
        n_frames = system.files["coord"].n_rows if system.files else _SET_FRAMES
        if n_frames == _SET_FRAMES:
            for file in system.files.values():
                file.finish()
            place = system.folder / f"set.{system.n_sets:03d}"
            place.mkdir()
            system.n_sets += 1
            for name, dtype, width in forms:
                shape = () if name == "energy" else (width,)
                system.files[name] = GrowingNpy(place / f"{name}.npy", dtype, shape)
            n_frames = 0
        return _SET_FRAMES - n_frames

    def _by_file(self, columns: Columns) -> Columns:
        """Returns a block with the values that systems hold, by the names of their files."""
        n = len(columns.ptr) - 1
        is_periodic = self._periodic(columns)
        found: list[Column] = []
        for column in columns.fields:
            there, values = present(column, n), column.values
            mask = there
            if column[:2] == (BUILTIN, "pbc"):
                continue
            if column[:2] == (BUILTIN, "stress"):
                mask = mask & is_periodic
                values = self._virials(mask, columns)
                self._skip("stress", "a virial needs a cell with a volume", there & ~mask)
            elif column[:2] == (BUILTIN, "cell"):
                mask = mask & is_periodic
            elif not isinstance(values, np.ndarray):
                mask = mask & [isinstance(value, np.ndarray) for value in values]
                self._skip(label_of(column), "neither numbers nor arrays", there & ~mask)
            name = self._name_of(column, mask, {each.key for each in found})
            if name is not None and mask.any():
                scope = ATOM_PROPERTY if is_per_atom(column) else MOLECULE_PROPERTY
                found.append(Column(scope, name, values, mask))
                self._note_shapes(column, mask)
        return columns.with_fields(sorted(found, key=lambda column: column.key))

    def _note_shapes(self, column: Column, mask: Array) -> None:
        """Notes the shapes that files of one row per frame do not keep."""
        shapes = {column.values.shape[1:]} if isinstance(column.values, np.ndarray) else set()
        if not shapes:
            there = [value for value, has in zip(column.values, mask, strict=True) if has]
            shapes = {np.shape(value)[is_per_atom(column) :] for value in there}
        for shape in sorted(shapes) if column.scope != BUILTIN else ():
            if len(shape) > 1 or shape == (1,):
                self._report.note(f"{label_of(column)}: values of shape {shape} are written flat")

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
