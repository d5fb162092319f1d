"""Molecules that are read one by one from LMDB files, and checks of values of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from atompack_torch._native import LmdbFile
from atompack_torch.batch.columns import Array, Columns
from atompack_torch.batch.conversions import Parts, is_numeric
from atompack_torch.batch.exact_values import native
from atompack_torch.errors import CorruptFileError
from atompack_torch.fields import BUILTINS
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source
from atompack_torch.formats.records import convert_each

_FIRST, _SPACED = 32, 16


class LmdbRecords:
    """Molecules of an LMDB file, which can be read in any order.

    Args:
        path: path of the source, for messages.
        file: path of the file.

    Attributes:
        file: the file.
        n_molecules: number of molecules.
    """

    n_molecules: int

    def __init__(self, path: str, file: str) -> None:
        self.path, self.file = path, LmdbFile(file)

    def close(self) -> None:
        """Closes the file, which an error that is kept would otherwise keep open."""
        del self.file

    def parts(self, number: int, report: Report, levels: Mapping[str, bool]) -> Parts:
        """Reads a molecule.

        Args:
            number: its number.
            report: receives the interpretation of names, and values that are omitted.
            levels: what ``levels_of`` has found out; empty while it does so.

        Returns:
            The molecule.

        Raises:
            CorruptFileError: it is damaged or missing.
        """
        raise NotImplementedError

    def source(self, own_keys: Collection[str]) -> Source:
        """Returns the source of a conversion; ``own_keys`` are its keys that ``parts`` uses."""
        return Source(
            self.path,
            self.read,
            lambda: self.n_molecules,
            close=self.close,
            own_keys=own_keys,
            read_range=self.read,
        )

    def read(self, report: Report, first: int = 0, last: int | None = None) -> Iterator[Columns]:
        """Yields the molecules in blocks, in order.

        Args:
            report: as for ``parts``; receives molecules that cannot be read.
            first: number of the first molecule.
            last: one past the last molecule; None: all.

        Returns:
            Blocks of molecules.

        Raises:
            CorruptFileError: a molecule cannot be read, unless such are skipped.
        """
        levels = levels_of(partial(self.parts, i, Report(), {}) for i in sample(self.n_molecules))
        numbers = range(first, self.n_molecules if last is None else last)
        makes = (partial(self.parts, i, report, levels) for i in numbers)
        return convert_each(self.path, makes, report, first)


def label_shape(label: str, n_atoms: int) -> tuple[int, ...]:
    """Returns the shape of a label of a molecule."""
    builtin = BUILTINS[label]
    return (n_atoms, *builtin.shape) if builtin.level == "atom" else builtin.shape


def shaped(value: Any, shape: tuple[int, ...], where: str) -> Array:
    """Reshapes as many numbers as a shape has.

    Args:
        value: the numbers.
        shape: the shape.
        where: name of the value, for messages.

    Returns:
        The numbers in that shape.

    Raises:
        CorruptFileError: there are others.
    """
    array = np.asarray(value)
    if not is_numeric(array) or array.size != math.prod(shape):
        raise CorruptFileError(f"{where}: expected {shape}, got {array.dtype} {array.shape}")
    return array.reshape(shape)


def sample(count: int) -> list[int]:
    """Returns the numbers of the molecules for ``levels_of``: the first, and some of the rest."""
    step = max((count - _FIRST) // _SPACED, 1)
    return [*range(min(count, _FIRST)), *range(_FIRST, count, step)]


def levels_of(makes: Iterable[Callable[[], Parts]]) -> dict[str, bool]:
    """Finds out which keys are properties of atoms, from a sample of molecules.

    A vector of a molecule may have as many numbers as some molecules have atoms.

    Args:
        makes: functions that make the molecules; those of one atom, or damaged ones, do not count.

    Returns:
        Key → True if it has a row for each atom in all that have it, False if not in all.
    """
    levels: dict[str, bool] = {}
    for make in makes:
        try:
            parts = make()
        except Exception:  # named when the molecule itself is read
            continue
        if len(parts.positions) > 1:
            levels |= {key: levels.get(key, True) for key in parts.atom_properties}
            levels |= dict.fromkeys(parts.properties, False)
    return levels


def number_array(parts: Parts, key: str, value: Any, report: Report) -> Array | None:
    """Adds a property to a molecule if it is text.

    Args:
        parts: the molecule.
        key: name of the property.
        value: its value.
        report: receives what is neither numbers nor text.

    Returns:
        Its numbers, which the caller adds to the molecule or its atoms; None if it has none.
    """
    if isinstance(value, str):
        parts.properties[key] = value
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # a list of lists of different lengths
        array = np.array(None)
    if is_numeric(array):
        return native(array)
    report.skip(key, "neither numbers nor a string")
    return None
