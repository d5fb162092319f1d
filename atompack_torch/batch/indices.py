"""Arguments that select items of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from torch import Tensor

# Integers, or a mask of booleans.
Indices = Sequence[int] | Sequence[bool] | Tensor | np.ndarray[Any, Any]


def is_batch(item: Any) -> TypeGuard[Indices]:
    """Returns True if an argument of ``ds[...]`` is a sequence, an array or a mask."""
    if isinstance(item, int):
        return False
    n_dimensions = getattr(item, "ndim", None)
    if n_dimensions is not None:
        return bool(n_dimensions > 0)
    return hasattr(item, "__len__") and not isinstance(item, (str, bytes))


def check_several(indices: Any) -> None:
    """Raises a TypeError for a single integer where a list of them is expected."""
    if isinstance(indices, int):
        raise TypeError(f"indices: expected integers, got only {indices}: give a list, [{indices}]")


def names_in(selected: Sequence[str] | Indices) -> list[str] | None:
    """Returns the names in an iterable of names; None for integers and masks.

    Args:
        selected: the argument ``datasets``.

    Returns:
        The names in order, or None.

    Raises:
        TypeError: a single string, or names among other items.
    """
    if isinstance(selected, str):
        raise TypeError(f"datasets: expected a list of names, got the string {selected!r}")
    if isinstance(selected, Tensor) or not hasattr(selected, "__iter__"):
        return None
    if not isinstance(selected, Sequence) and not hasattr(selected, "__array__"):
        selected = list(selected)
    others = [item for item in selected if not isinstance(item, str)]
    if len(others) == len(selected):
        return None
    if others:
        raise TypeError(f"datasets: expected names or indices, got names and {others[0]!r}")
    return [str(name) for name in selected]
