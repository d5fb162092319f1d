"""Bounded memory for values of any number of molecules: evenly thinned rows, hashes, extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Columns = dict[str, Array]


class ThinnedRows:
    """Columns of values of every k-th molecule; k doubles whenever there are too many.

    Args:
        limit: maximum number of rows.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[Columns] = []
        self._n = 0
        self.stride = 1

    def add(self, numbers: Array, columns: Columns) -> None:
        """Adds rows.

        Args:
            numbers: (m,) number of each molecule.
            columns: name → (m, ...) values.
        """
        keep = numbers % self.stride == 0
        if not keep.any():
            return
        part = {"number": numbers[keep]} | {k: v[keep] for k, v in columns.items()}
        self._parts.append(part)
        self._n += int(keep.sum())
        while self._n > self._limit:
            self.stride *= 2
            self._parts = [
                {key: values[part["number"] % self.stride == 0] for key, values in part.items()}
                for part in self._parts
            ]
            self._n = sum(len(part["number"]) for part in self._parts)

    def rows(self) -> Columns:
        """Returns the rows kept so far: name → (n, ...), with ``number`` (n,)."""
        if not self._parts:
            return {}
        return {
            name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]
        }


class HashSample:
    """Hashes of molecules; beyond a limit only those of a share of all possible hashes.

    Equal molecules have equal hashes, so that all or none of them are kept.

    Args:
        limit: maximum number of hashes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._hashes: list[Array] = []
        self._numbers: list[Array] = []
        self._n = 0
        self.share = 1  # one in ``share`` hashes is kept

    def add(self, numbers: Array, hashes: Array) -> None:
        """Adds the hashes (m,) uint64 of molecules with these numbers (m,)."""
        keep = hashes % np.uint64(self.share) == 0
        self._hashes.append(hashes[keep])
        self._numbers.append(numbers[keep])
        self._n += int(keep.sum())
        while self._n > self._limit:
            self.share *= 2
            whole, numbers = np.concatenate(self._hashes), np.concatenate(self._numbers)
            keep = whole % np.uint64(self.share) == 0
            self._hashes, self._numbers = [whole[keep]], [numbers[keep]]
            self._n = int(keep.sum())

    def sorted(self) -> tuple[Array, Array]:
        """Returns the hashes kept, ascending, and the numbers of their structures."""
        if not self._hashes:
            return np.zeros(0, np.uint64), np.zeros(0, np.int64)
        hashes, numbers = np.concatenate(self._hashes), np.concatenate(self._numbers)
        order = np.lexsort((numbers, hashes))
        return hashes[order], numbers[order]


class Extremes:
    """The molecules with the largest values.

    Args:
        n: number of molecules to keep.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._rows: list[tuple[float, int, str]] = []

    def add(self, values: Array, numbers: Array, describe: Any) -> None:
        """Adds molecules.

        Args:
            values: (m,) values; NaN is ignored.
            numbers: (m,) indices of the molecules.
            describe: returns a short description of the molecule in row i.
        """
        finite = np.flatnonzero(np.isfinite(values))
        if len(self._rows) == self._n:
            finite = finite[values[finite] > self._rows[-1][0]]
        best = finite[np.argsort(-values[finite], kind="stable")[: self._n]]
        new = [(float(values[i]), int(numbers[i]), describe(int(i))) for i in best]
        self._rows = sorted([*self._rows, *new], key=lambda row: (-row[0], row[1]))[: self._n]

    def rows(self) -> list[tuple[float, int, str]]:
        """Returns (value, number, description), the largest value first."""
        return self._rows
