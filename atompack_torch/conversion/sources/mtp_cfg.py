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
from typing import Any, NamedTuple

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Array, Columns
from atompack_torch.batch.conversions import Parts, full_stress
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
_VOIGT = ("xx", "yy", "zz", "yz", "xz", "xy")


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
        for parts in converted(partial(_parts, path, lines, report), path, number, report):
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


def _parts(path: str, lines: list[_Line], report: Report) -> Parts:
    """Parses a configuration.

    Args:
        path: path of the file, for messages.
        lines: the lines of the configuration.
        report: receives values that are omitted.

    Returns:
        The molecule; its stress is still a virial, and its atomic numbers are types.

    Raises:
        CorruptFileError: it violates the format.
    """
    fields, features = _sorted(path, lines)
    if not {"Size", "AtomData"} <= fields.keys():
        raise CorruptFileError(f"{path}: expected Size and AtomData, got none")
    first, *rows = fields["Size"]
    words = [word for row in rows for word in row.words]
    if len(words) != 1 or not _is_type(words[0]):
        raise _fault(path, rows[0] if rows else first, "a number of atoms")
    n, names = int(words[0]), fields["AtomData"][0].words[1:]
    if not names or len({*names}) < len(names):
        raise _fault(path, fields["AtomData"][0], "different names of columns")
    table = _table(path, fields["AtomData"], n, len(names))
    atoms = {name: table[:, i].copy() for i, name in enumerate(names)}
    n_vectors = len(fields.get("Supercell", [""])) - 1
    labels: dict[str, Any] = {}
    cell = np.zeros((3, 3))
    if n_vectors:
        cell[:n_vectors] = _table(path, fields["Supercell"], min(n_vectors, 3), 3)
        labels["cell"] = cell
    labels["pbc"] = np.arange(3) < n_vectors
    if "Energy" in fields:
        labels["energy"] = _table(path, fields["Energy"], 1, 1)[0, 0]
    if "PlusStress" in fields:
        order = fields["PlusStress"][0].words[1:]
        if sorted(order) != sorted(_VOIGT):
            raise _fault(path, fields["PlusStress"][0], "xx, yy, zz, yz, xz and xy")
        numbers = _table(path, fields["PlusStress"], 1, len(order))[0]
        labels["stress"] = full_stress(numbers[[order.index(name) for name in _VOIGT]])
    for name in [name for name in ("Stress", "Virial") if name in fields]:
        report.skip(name, "its sign and unit differ between versions of MLIP")
    positions, direct = _vectors(atoms, "cartes_"), _vectors(atoms, "direct_")
    if positions is None and direct is not None:
        if n_vectors < len(_AXES):
            raise CorruptFileError(f"{path}: expected a Supercell of direct coordinates")
        report.note("direct coordinates multiplied by the Supercell")
        positions = direct @ cell
    if positions is None:
        raise CorruptFileError(f"{path}: expected columns cartes_x, cartes_y and cartes_z")
    if (forces := _vectors(atoms, "f")) is not None:
        labels["forces"] = forces
    types = atoms.pop("type", np.zeros(n))
    if not ((types >= 0) & (types < _N_TYPES) & (types == np.floor(types))).all():
        raise CorruptFileError(f"{path}: expected types from 0 to {_N_TYPES - 1}")
    if "charge" in atoms:
        labels["charges"] = atoms.pop("charge")
    if not np.array_equal(atoms.pop("id", np.arange(1, n + 1)), np.arange(1, n + 1)):
        raise CorruptFileError(f"{path}: expected ids 1 to {n}, in order")
    properties = {key: _value("\n".join(texts)) for key, texts in features.items()}
    return Parts(positions, types.astype(np.int64), labels, properties, atoms)


def _sorted(path: str, lines: list[_Line]) -> tuple[dict[str, list[_Line]], dict[str, list[str]]]:
    """Returns the lines of each field, with its first one, and the texts of each feature."""
    fields: dict[str, list[_Line]] = {}
    features: dict[str, list[str]] = {}
    for line in lines:
        name = _FIELDS.get(line.words[0])
        if name == "Feature" and len(line.words) > 1:
            features.setdefault(line.words[1], []).append(" ".join(line.words[2:]))
        elif name is not None:
            fields[name] = last = [line]
        elif fields:
            last.append(line)
        else:
            raise _fault(path, line, "a field of a configuration")
    return fields, features


def _fault(path: str, line: _Line, expected: str) -> CorruptFileError:
    got = " ".join(line.words)
    return CorruptFileError(f"{path}: line {line.number}: expected {expected}, got {got!r:.60}")


def _table(path: str, field: list[_Line], n_rows: int, n_columns: int) -> Array:
    """Returns the numbers of a field, (n_rows, n_columns)."""
    first, *rows = field
    values = [_floats(row.words) for row in rows]
    for row, found in zip(rows, values, strict=True):
        if found is None or len(found) != n_columns:
            raise _fault(path, row, f"{n_columns} numbers")
    if len(rows) != n_rows:
        last = rows[n_rows] if len(rows) > n_rows else first
        raise _fault(path, last, f"{n_rows} lines of numbers")
    return np.array(values).reshape(n_rows, n_columns)


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
