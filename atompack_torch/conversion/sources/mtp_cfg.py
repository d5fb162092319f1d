"""Molecules from the configurations (``.cfg``) of MLIP, the program of moment tensor potentials.

A configuration is the lines between ``BEGIN_CFG`` and ``END_CFG``: ``Size``, ``Supercell``,
``AtomData:`` with columns ``id type cartes_x ... fz``, ``Energy``, ``PlusStress:`` and
``Feature NAME VALUE``. Types are numbers: ``keys`` give the element of each, ``{"0": "Cu"}``.
``PlusStress`` is a virial in eV, what VASP prints as the total: ASE's stress is its negative,
divided by the volume (MLIP converts stresses of other programs so, times -volume).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Array, Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion.keys import element_hint, elements_in
from atompack_torch.conversion.virials import with_stress
from atompack_torch.errors import CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import blocks, converted

_MAX_LINE_BYTES = 1 << 16
_N_TYPES = 256
_INT64_DIGITS = 20  # with the sign
_AXES = ("x", "y", "z")
_FIELDS = {
    **{"Size": "Size", "Energy": "Energy", "Feature": "Feature", "PlusStress:": "PlusStress"},
    **{"Supercell": "Supercell", "SuperCell": "Supercell", "AtomData:": "AtomData"},
    **{"Atomic_data:": "AtomData", "Stress:": "Stress", "Virial:": "Virial"},
}
_VOIGT = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "yz": (1, 2), "xz": (0, 2), "xy": (0, 1)}


class _Line(NamedTuple):
    """A line of the file: its number, from 1, and its words."""

    number: int
    words: list[str]


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file; keys of digits are types, and their names elements."""
    types = elements_in(options.keys, [key for key in options.keys if _is_type(key)])
    elements = {int(key): number for key, number in types.items()}
    return Source(
        path,
        lambda report: read(path, elements=elements, report=report),
        partial(count, path),
        own_keys=types,
    )


def _is_type(key: str) -> bool:
    return key.isascii() and key.isdigit()


def count(path: str) -> int:
    """Counts the configurations."""
    return sum(line.words[:1] == ["BEGIN_CFG"] for line in _lines(path))


def read(path: str, *, elements: Mapping[int, int], report: Report) -> Iterator[Columns]:
    """Yields the configurations in blocks, as float64.

    Args:
        path: the file.
        elements: type → atomic number.
        report: receives configurations that cannot be read, and values that are omitted.

    Yields:
        Blocks of molecules.

    Raises:
        CorruptFileError: a configuration violates the format.
        UnsupportedFormatError: the element of a type is unknown.
    """
    for columns in blocks(_records(path, elements, report)):
        yield with_stress(columns, report, "PlusStress")


def _records(path: str, elements: Mapping[int, int], report: Report) -> Iterator[Parts]:
    for number, lines in enumerate(_configurations(path)):
        for parts in converted(_Parser(path, lines, report).parts, path, number, report):
            yield parts._replace(atomic_numbers=_numbers(path, parts.atomic_numbers, elements))


def _numbers(path: str, types: Array, elements: Mapping[int, int]) -> Array:
    """Returns the atomic numbers of types."""
    found, places = np.unique(types, return_inverse=True)
    for type_ in found.tolist():
        if type_ not in elements:
            given = ", ".join(f"{each}: ..." for each in found.tolist())
            raise UnsupportedFormatError(
                f"{path}: expected an element for type {type_}, one of {{{given}}}: "
                f"{element_hint(str(type_))}"
            )
    numbers: Array = np.array([elements[type_] for type_ in found.tolist()], dtype=np.int64)[places]
    return numbers


def _lines(path: str) -> Iterator[_Line]:
    """Yields the lines that are not empty."""
    check_regular_file(path)
    with Path(path).open("rb") as file:
        number = 0
        while line := file.readline(_MAX_LINE_BYTES):
            number += 1
            if len(line) == _MAX_LINE_BYTES:
                raise CorruptFileError(f"{path}: line {number}: expected less than 64 KiB")
            if words := line.decode(errors="replace").split():
                yield _Line(number, words)


def _configurations(path: str) -> Iterator[list[_Line]]:
    """Yields the lines of each configuration, without the first and the last."""
    lines: list[_Line] | None = None
    for line in _lines(path):
        first = line.words[0]
        if first == "BEGIN_CFG":
            if lines is not None:
                raise CorruptFileError(f"{path}: line {line.number}: expected END_CFG before")
            lines = []
        elif lines is None:
            got = f"got {first!r:.40}"
            raise CorruptFileError(f"{path}: line {line.number}: expected BEGIN_CFG, {got}")
        elif first == "END_CFG":
            yield lines
            lines = None
        else:
            lines.append(line)
    if lines is not None:
        raise CorruptFileError(f"{path}: expected END_CFG at the end, got none: it was cut")


class _Field(NamedTuple):
    """A field of a configuration: its first line, and the lines of numbers after it."""

    line: _Line
    rows: list[_Line]


class _Parser:
    """Parser of one configuration.

    Args:
        path: path of the file, for messages.
        lines: the lines of the configuration.
        report: receives values that are omitted.
    """

    def __init__(self, path: str, lines: list[_Line], report: Report) -> None:
        self._path, self._lines, self._report = path, lines, report
        self._fields: dict[str, _Field] = {}
        self._features: dict[str, str] = {}

    def parts(self) -> Parts:
        """Parses the configuration.

        Returns:
            The molecule; its stress is still a virial, and its atomic numbers are types.

        Raises:
            CorruptFileError: it violates the format.
        """
        for line in self._lines:
            self._sort(line)
        if not {"Size", "AtomData"} <= self._fields.keys():
            raise CorruptFileError(f"{self._path}: expected Size and AtomData, got none")
        n = self._size()
        names = self._fields["AtomData"].line.words[1:]
        if not names or len({*names}) < len(names):
            self._fail(self._fields["AtomData"].line, "different names of columns")
        table = self._table("AtomData", n, len(names))
        atoms = {name: table[:, i].copy() for i, name in enumerate(names)}
        labels: dict[str, Any] = {}
        cell = np.zeros((3, 3))
        n_vectors = len(self._fields["Supercell"].rows) if "Supercell" in self._fields else 0
        if n_vectors:
            cell[:n_vectors] = self._table("Supercell", min(n_vectors, 3), 3)
            labels["cell"] = cell
        labels["pbc"] = np.arange(3) < n_vectors
        if "Energy" in self._fields:
            labels["energy"] = self._table("Energy", 1, 1)[0, 0]
        if "PlusStress" in self._fields:
            labels["stress"] = self._virial()
        for name in ("Stress", "Virial"):
            if name in self._fields:
                self._report.skip(name, "its sign and unit differ between versions of MLIP")
        positions, direct = _vectors(atoms, "cartes_"), _vectors(atoms, "direct_")
        if positions is None and direct is not None:
            if n_vectors < len(_AXES):
                raise CorruptFileError(f"{self._path}: expected a Supercell of direct coordinates")
            self._report.note("direct coordinates multiplied by the Supercell")
            positions = direct @ cell
        if positions is None:
            raise CorruptFileError(
                f"{self._path}: expected columns cartes_x, cartes_y and cartes_z"
            )
        if (forces := _vectors(atoms, "f")) is not None:
            labels["forces"] = forces
        types = atoms.pop("type", np.zeros(n))
        if not ((types >= 0) & (types < _N_TYPES) & (types == np.floor(types))).all():
            raise CorruptFileError(f"{self._path}: expected types from 0 to {_N_TYPES - 1}")
        if "charge" in atoms:
            labels["charges"] = atoms.pop("charge")
        if not np.array_equal(atoms.pop("id", np.arange(1, n + 1)), np.arange(1, n + 1)):
            raise CorruptFileError(f"{self._path}: expected ids 1 to {n}, in order")
        features = {key: _value(text) for key, text in self._features.items()}
        return Parts(positions, types.astype(np.int64), labels, features, atoms)

    def _sort(self, line: _Line) -> None:
        """Adds a line to the field that it begins, or that the lines before it have begun."""
        name = _FIELDS.get(line.words[0])
        if name == "Feature" and len(line.words) > 1:
            key, text = line.words[1], " ".join(line.words[2:])
            before = self._features.get(key)
            self._features[key] = text if before is None else f"{before}\n{text}"
        elif name is not None:
            self._fields[name] = self._last = _Field(line, [])
        elif self._fields:
            self._last.rows.append(line)
        else:
            self._fail(line, "a field of a configuration")

    def _fail(self, line: _Line, expected: str) -> NoReturn:
        got = " ".join(line.words)
        raise CorruptFileError(
            f"{self._path}: line {line.number}: expected {expected}, got {got!r:.60}"
        )

    def _size(self) -> int:
        line, rows = self._fields["Size"]
        words = [word for row in rows for word in row.words]
        if len(words) != 1 or not _is_type(words[0]):
            self._fail(rows[0] if rows else line, "a number of atoms")
        return int(words[0])

    def _table(self, name: str, n_rows: int, n_columns: int) -> Array:
        """Returns the numbers of a field, (n_rows, n_columns)."""
        line, rows = self._fields[name]
        values = [_floats(row.words) for row in rows]
        for row, found in zip(rows, values, strict=True):
            if found is None or len(found) != n_columns:
                self._fail(row, f"{n_columns} numbers")
        if len(rows) != n_rows:
            self._fail(rows[n_rows] if len(rows) > n_rows else line, f"{n_rows} lines of numbers")
        return np.array(values).reshape(n_rows, n_columns)

    def _virial(self) -> Array:
        names = self._fields["PlusStress"].line.words[1:]
        if sorted(names) != sorted(_VOIGT):
            self._fail(self._fields["PlusStress"].line, "xx, yy, zz, yz, xz and xy")
        virial = np.zeros((3, 3))
        for name, number in zip(names, self._table("PlusStress", 1, len(names))[0], strict=True):
            i, j = _VOIGT[name]
            virial[i, j] = virial[j, i] = number
        return virial


def _vectors(atoms: dict[str, Array], prefix: str) -> Array | None:
    """Takes the columns of three components out of those of atoms; None if one is missing."""
    names = [f"{prefix}{axis}" for axis in _AXES]
    if not all(name in atoms for name in names):
        return None
    return np.stack([atoms.pop(name) for name in names], axis=1)


def _floats(words: list[str]) -> list[float] | None:
    try:
        return [*map(float, words)]
    except ValueError:
        return None


def _value(text: str) -> float | str:
    """Returns the number that a feature holds, or its text."""
    found = _floats([text])
    if found is None:
        return text
    # A float does not hold all digits of a large integer.
    if len(text) <= _INT64_DIGITS and text.lstrip("+-").isdigit():
        exact = int(text)
        if exact != found[0] and -(2**63) <= exact < 2**63:
            return exact
    return found[0]
