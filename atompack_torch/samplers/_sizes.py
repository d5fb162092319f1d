"""Reading what samplers are given: a count, an array, or a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from atompack_torch.samplers._random import mixed

_CHUNK = 1 << 16  # numbers that are looked at together


def is_array(source: Any) -> bool:
    """Whether it is one number for each of many: a tensor, an array, a list."""
    if isinstance(source, (torch.Tensor, np.ndarray)):
        return source.ndim > 0
    return isinstance(source, (list, tuple))


def n_molecules(source: Any) -> int:
    """How many molecules a count, an array with a number for each, or a data set speaks of."""
    if is_array(source):
        return len(source)
    if isinstance(source, bool) or not hasattr(source, "__index__"):
        if not hasattr(source, "__len__") and not hasattr(source, "n_atoms"):
            raise TypeError(
                f"expected a count, numbers of atoms, or a data set, got {type(source).__name__}"
            )
        return len(source if hasattr(source, "__len__") else source.n_atoms)
    count = source.__index__()
    if count < 0:
        raise ValueError(f"expected a count of at least 0, got {count}")
    return int(count)


def numbers(what: str, source: Any) -> NDArray[Any]:
    """One finite number of at least 0 for each molecule; in the caller's memory where it can be.

    Raises:
        TypeError: these are no numbers.
        ValueError: not one-dimensional, negative, infinite or NaN.
    """
    if isinstance(source, torch.Tensor):
        is_dense = not source.is_nested and source.layout == torch.strided
        if not is_dense or source.is_meta or source.is_quantized:
            raise TypeError(f"{what}: expected a dense tensor with values, got another")
        tensor = source.detach().cpu().resolve_neg()
        source = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    array = np.asarray(source)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{what}: expected numbers, got {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{what}: expected one number a molecule, got the shape {array.shape}")
    if array.size and not (array.min() >= 0 and array.max() < np.inf):
        raise ValueError(f"{what}: expected finite numbers of at least 0, got others")
    return array


def digest(array: NDArray[Any]) -> str:
    """Tells other numbers apart, whatever type they are stored in."""
    words = len(array)
    for first in range(0, len(array), _CHUNK):
        bits = array[first : first + _CHUNK].astype(np.float64).view(np.uint64)
        words = mixed(words, int(np.add.reduce(bits)))
    return f"{words:016x}"
