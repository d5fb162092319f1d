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
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.conversion.keys import element_hint
from atompack_torch.conversion.virials import with_stress
from atompack_torch.errors import CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import blocks, converted

_MAX_LINE_BYTES = 1 << 16
_N_TYPES = 256
_INT64_DIGITS = 20  # with the sign
_AXES = ("x", "y", "z")
_VOIGT = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "yz": (1, 2), "xz": (0, 2), "xy": (0, 1)}


class _Line(NamedTuple):
    """A line of the file: its number, from 1, and its words."""

    number: int
    words: list[str]


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file; keys of digits are types, and their names elements."""
    types = {key: _number(key, name) for key, name in options.keys.items() if _is_type(key)}
    elements = {int(key): number for key, number in types.items()}
    return Source(
        path,
        lambda report: read(path, elements=elements, report=report),
        partial(count, path),
        own_keys=types,
    )


def _is_type(key: str) -> bool:
    return key.isascii() and key.isdigit()


def _number(key: str, name: str) -> int:
    """Returns the atomic number for the symbol of an element."""
    if name not in SYMBOLS[1:]:
        raise ValueError(f"key_map: {key!r}: expected the symbol of an element, got {name!r}")
    return SYMBOLS.index(name)


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


class _Parser:
    """Parser of one configuration.

    Args:
        path: path of the file, for messages.
        lines: the lines of the configuration.
        report: receives values that are omitted.
    """

    def __init__(self, path: str, lines: list[_Line], report: Report) -> None:
        self._path, self._lines, self._report = path, lines, report
        self._at = 0
        self._n: int | None = None
        self._cell: Array = np.zeros((0, 3))
        self._atoms: dict[str, Array] = {}
        self._labels: dict[str, Any] = {}
        self._features: dict[str, str] = {}

    def parts(self) -> Parts:
        """Parses the configuration.

        Returns:
            The molecule; its stress is still a virial, and its atomic numbers are types.

        Raises:
            CorruptFileError: it violates the format.
        """
        while self._at < len(self._lines):
            self._field(self._next())
        if self._n is None or not self._atoms:
            raise CorruptFileError(f"{self._path}: expected Size and AtomData, got none")
        labels, atoms = self._labels, self._atoms
        if len(self._cell):
            cell = np.zeros((3, 3))
            cell[: len(self._cell)] = self._cell
            labels["cell"] = cell
        labels["pbc"] = np.arange(3) < len(self._cell)
        positions = self._vectors("cartes_")
        if positions is None and (direct := self._vectors("direct_")) is not None:
            if len(self._cell) < len(_AXES):
                raise CorruptFileError(f"{self._path}: expected a Supercell of direct coordinates")
            self._report.note("direct coordinates multiplied by the Supercell")
            positions = direct @ self._cell
        if positions is None:
            raise CorruptFileError(
                f"{self._path}: expected columns cartes_x, cartes_y and cartes_z"
            )
        forces = self._vectors("f")
        if forces is not None:
            labels["forces"] = forces
        types = atoms.pop("type", np.zeros(self._n))
        if not ((types >= 0) & (types < _N_TYPES) & (types == np.floor(types))).all():
            raise CorruptFileError(f"{self._path}: expected types from 0 to {_N_TYPES - 1}")
        if "charge" in atoms:
            labels["charges"] = atoms.pop("charge")
        ids = atoms.pop("id", None)
        if ids is not None and not np.array_equal(ids, np.arange(1, self._n + 1)):
            raise CorruptFileError(f"{self._path}: expected ids 1 to {self._n}, in order")
        features = {key: _value(text) for key, text in self._features.items()}
        return Parts(positions, types.astype(np.int64), labels, features, dict(atoms))

    def _next(self) -> _Line:
        if self._at == len(self._lines):
            raise CorruptFileError(f"{self._path}: expected more lines before END_CFG")
        self._at += 1
        return self._lines[self._at - 1]

    def _fail(self, line: _Line, expected: str) -> NoReturn:
        got = " ".join(line.words)
        raise CorruptFileError(
            f"{self._path}: line {line.number}: expected {expected}, got {got!r:.60}"
        )

    def _field(self, line: _Line) -> None:
        name, *rest = line.words
        if name == "Size":
            value = self._next()
            if len(value.words) != 1 or not _is_type(value.words[0]):
                self._fail(value, "a number of atoms")
            self._n = int(value.words[0])
        elif name in ("Supercell", "SuperCell"):
            rows: list[list[float]] = []
            while self._at < len(self._lines) and len(rows) < len(_AXES):
                row = _floats(self._lines[self._at].words)
                if row is None or len(row) != len(_AXES):
                    break
                rows.append(row)
                self._at += 1
            self._cell = np.array(rows).reshape(-1, 3)
        elif name in ("AtomData:", "Atomic_data:"):
            self._atom_data(line, rest)
        elif name == "Energy":
            self._labels["energy"] = self._row(1)[0]
        elif name == "PlusStress:":
            self._plus_stress(line, rest)
        elif name in ("Stress:", "Virial:"):
            self._row(len(rest))
            self._report.skip(name.rstrip(":"), "its sign and unit differ between versions of MLIP")
        elif name == "Feature" and rest:
            text, first = " ".join(rest[1:]), self._features.get(rest[0])
            self._features[rest[0]] = text if first is None else f"{first}\n{text}"
        else:
            self._fail(line, "a field of a configuration")

    def _row(self, size: int) -> Array:
        line = self._next()
        row = _floats(line.words)
        if row is None or len(row) != size:
            self._fail(line, f"{size} numbers")
        return np.array(row)

    def _plus_stress(self, line: _Line, names: list[str]) -> None:
        if sorted(names) != sorted(_VOIGT):
            self._fail(line, "PlusStress: with xx, yy, zz, yz, xz and xy")
        virial = np.zeros((3, 3))
        for name, number in zip(names, self._row(len(names)), strict=True):
            i, j = _VOIGT[name]
            virial[i, j] = virial[j, i] = number
        self._labels["stress"] = virial

    def _atom_data(self, line: _Line, names: list[str]) -> None:
        if self._n is None:
            self._fail(line, "Size before AtomData")
        if not names or len({*names}) < len(names):
            self._fail(line, "different names of columns")
        lines = self._lines[self._at : self._at + self._n]
        self._at += len(lines)
        if len(lines) < self._n:
            self._fail(lines[-1] if lines else line, f"{self._n} lines of atoms")
        for each in lines:
            if len(each.words) != len(names):
                self._fail(each, f"{len(names)} numbers, one for each column")
        values = _floats([word for each in lines for word in each.words])
        if values is None:
            wrong = next(each for each in lines if _floats(each.words) is None)
            self._fail(wrong, "numbers")
        table = np.array(values).reshape(self._n, len(names))
        self._atoms = {name: table[:, i].copy() for i, name in enumerate(names)}

    def _vectors(self, prefix: str) -> Array | None:
        names = [f"{prefix}{axis}" for axis in _AXES]
        if not all(name in self._atoms for name in names):
            return None
        return np.stack([self._atoms.pop(name) for name in names], axis=1)


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
