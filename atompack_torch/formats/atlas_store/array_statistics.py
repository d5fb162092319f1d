"""Statistics of a stored array, as computed when it was flushed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.errors import FieldError
from atompack_torch.options import utf8

_LONGEST_BYTES = 40  # of a string, in repr

Bound = int | float | str | np.datetime64


class ArrayStatistics(NamedTuple):
    """Statistics of a stored array, as computed when it was flushed.

    Attributes:
        min: the smallest value that differs from the fill value; strings as ``bytes``; None if
            there is none.
        max: the largest such value.
        null_count: number of elements that equal the fill value or were never written.
        row_count: number of elements.
    """

    min: int | float | bytes | None
    max: int | float | bytes | None
    null_count: int
    row_count: int

    def __repr__(self) -> str:
        low, high = (_short(bound) for bound in (self.min, self.max))
        counts = f"null_count={self.null_count}, row_count={self.row_count}"
        return f"ArrayStatistics(min={low}, max={high}, {counts})"


def _short(bound: int | float | bytes | None) -> str:
    if isinstance(bound, bytes) and len(bound) > _LONGEST_BYTES:
        return f"{bound[:_LONGEST_BYTES]!r}..."
    return repr(bound)


def check_bounds(
    where: str, stored: Iterable[tuple[Any, Any, int, int]], bounds: Sequence[Any]
) -> None:
    """Rejects bounds that cannot be compared with the values of an array.

    Args:
        where: name of the array in error messages.
        stored: (min, max, null_count, row_count) of the array in each dataset.
        bounds: results of ``comparable``.

    Raises:
        FieldError: numeric bounds for an array of strings, or the reverse.
        TypeError: a bound is neither a number nor a string.
    """
    given = [bound for bound in bounds if bound is not None]
    for bound in given:
        if not isinstance(bound, (int, float, bytes, np.integer, np.floating)):
            raise TypeError(f"min, max: expected numbers, str or datetime64, got {bound!r}")
    for low, *_ in stored:
        for bound in given:
            if low is not None and isinstance(low, bytes) != isinstance(bound, bytes):
                expected = "strings" if isinstance(low, bytes) else "numbers"
                got = bound.decode() if isinstance(bound, bytes) else bound
                raise FieldError(f"{where}: min, max: expected {expected}, got {got!r}")


def comparable(bound: Bound | None) -> int | float | bytes | None:
    """Converts a bound to the form of statistics: strings as bytes, timestamps as nanoseconds."""
    if isinstance(bound, str):
        return utf8("min, max", bound).encode()
    if isinstance(bound, np.datetime64):
        return int(bound.astype("datetime64[ns]").astype(np.int64))
    return bound


def may_match(stored: tuple[Any, Any, int, int] | None, least: Any, most: Any) -> bool:
    """True if an array with these statistics may hold a value from ``least`` to ``most``."""
    if stored is None or (least is None and most is None):
        return True
    low, high, _, _ = stored
    if low is None or high is None:
        return False
    try:
        below = least is not None and high < least  # comparisons with NaN are false: it may match
        above = most is not None and low > most
    except TypeError:
        kind = "a string" if isinstance(low, bytes) else "a number"
        got = next(type(bound).__name__ for bound in (least, most) if bound is not None)
        raise FieldError(f"min, max: expected {kind}, as the array has, got {got}") from None
    return not bool(below or above)
