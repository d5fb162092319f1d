"""Groups of molecules that stay together in a split: by name, property or formula."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from atompack_torch.datasets.selection.blocks import Array, Block, check_known
from atompack_torch.datasets.selection.structures import element_counts
from atompack_torch.errors import FieldError

FORMULA = "formula"
_EXACT = 2.0**53  # integers up to here are exact in float64


class GroupBy:
    """Computes a number for each molecule that is equal for molecules of one group.

    The numbers have 64 bits, whatever the values are. Should two groups ever get the same one, they
    stay together, which harms no split.

    Args:
        by: ``"name"``, the key of a property, or ``"formula"`` for the composition.
        option: name of the option, for messages.

    Raises:
        TypeError: it is not a string.
    """

    def __init__(self, by: str, option: str = "by") -> None:
        self._option = option
        if not isinstance(by, str):
            raise TypeError(
                f"{option}: expected None or the name of a field, got {type(by).__name__}"
            )
        self._by = by
        self._weights = np.frombuffer(
            b"".join(_digest(f"element {z}") for z in range(256)), np.uint64
        )

    @property
    def fields(self) -> list[str]:
        """Names of the fields to read."""
        return [] if self._by == FORMULA else [self._by]

    def check(self, known: Collection[str]) -> None:
        """Checks that a dataset has the field.

        Args:
            known: names of the fields that it has.

        Raises:
            FieldError: it has none of that name.
        """
        for name in self.fields:
            check_known(name, known, f"{self._option}: ", ("name", FORMULA))

    def numbers(self, block: Block, first: int) -> Array:
        """Returns the numbers of the groups of a block.

        Args:
            block: B molecules.
            first: number of the first one, for messages.

        Returns:
            (B,) uint64.

        Raises:
            FieldError: a molecule lacks the value, or has several.
        """
        n = len(block.ptr) - 1
        if self._by == FORMULA:
            with np.errstate(over="ignore"):
                sums: Array = element_counts(block).astype(np.uint64) @ self._weights
            return sums
        field = block.find(self._by)
        present = np.zeros(n, bool) if field is None else field.present(n)
        values: Any = [None] * n if field is None else field.values
        if field is not None and (field.is_per_atom or np.ndim(values) > 1):
            self._refuse("one value per molecule", "several", first)
        if isinstance(values, np.ndarray):
            if values.dtype.kind == "f":
                present = present & ~np.isnan(values)
            self._check_present(present, first)
            return self._code(values)
        has = [value is not None for value in values]
        self._check_present(present & np.array(has, bool), first)
        return self._of_list(values, first)

    def _code(self, values: Array) -> Array:
        """Returns the groups of numbers, uint64, the same for 1 and 1.0."""
        if values.dtype.kind != "f":
            return values.astype(np.int64).view(np.uint64)
        exact = values.astype(np.float64)
        is_whole = (np.abs(exact) < _EXACT) & (exact == np.floor(exact))
        found = exact.view(np.uint64).copy()
        found[is_whole] = exact[is_whole].astype(np.int64).view(np.uint64)
        return found

    def _of_list(self, values: Iterable[Any], first: int) -> Array:
        found = np.empty(len([*values]), np.uint64)
        for i, value in enumerate(values):
            if isinstance(value, str):
                digest = _digest(value)
            elif np.ndim(value) == 0 and not np.isnan(value):
                found[i] = self._code(np.asarray(value).reshape(1))[0]
                continue
            else:
                got = "NaN" if np.ndim(value) == 0 else "several"
                self._refuse("one value per molecule", got, first + i)
            found[i] = np.frombuffer(digest, np.uint64)[0]
        return found

    def _check_present(self, present: Array, first: int) -> None:
        if not present.all():
            number = first + int(np.argmin(present))
            hint = f"filter('has({self._by})') drops such molecules"
            self._refuse("a value in every molecule", f"none: {hint}", number)

    def _refuse(self, expected: str, got: str, number: int) -> None:
        where = f"(molecule {number}, field {self._by!r})"
        raise FieldError(f"{self._option}: expected {expected}, got {got} {where}")


class Strata(GroupBy):
    """Groups of which every part of a split gets its share; reals are ordered by value.

    Args:
        by: as for ``GroupBy``.

    Attributes:
        are_ordered: the groups are reals, of which neighbors may share a stratum.
    """

    def __init__(self, by: str) -> None:
        super().__init__(by, "stratify")
        self.are_ordered = False

    def _code(self, values: Array) -> Array:
        if values.dtype.kind != "f":
            return super()._code(values)
        self.are_ordered = True
        bits = (values.astype(np.float64) + 0.0).view(np.int64)  # -0.0 becomes 0.0
        # The bits of a positive float ascend with it, those of a negative one descend.
        return (bits ^ ((bits >> 63) | np.iinfo(np.int64).min)).view(np.uint64)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
