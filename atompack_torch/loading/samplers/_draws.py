"""Draws with replacement, for samplers that prefer some molecules to others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from atompack_torch.loading.samplers.sizes import digest, n_molecules, numbers
from atompack_torch.random_order import Integers, hashes, mix

_STREAM = 0xD3A5  # keeps draws apart from the orders of the same seed and epoch
_BITS = 53  # of a float64


class Draws:
    """As many draws in each epoch as there are molecules.

    Args:
        weights: (n,) numbers of at least 0, to which the chances of the molecules are proportional.
    """

    def __init__(self, weights: NDArray[Any]) -> None:
        self.digest = digest(weights)
        # By a power of two, which changes no chance: the sum is finite and has all its bits.
        _, exponent = np.frexp(weights.max(initial=0).astype(np.float64))
        self._ends = np.cumsum(np.ldexp(weights.astype(np.float64), -exponent))
        self._last = int(np.flatnonzero(weights)[-1]) if weights.any() else 0

    def of_epoch(self, seed: int, epoch: int) -> Integers:
        """Returns the molecules drawn in an epoch, (n,) int64 in ascending order."""
        n = len(self._ends)
        words = hashes(mix(seed, epoch, _STREAM), np.arange(n)) >> np.uint64(64 - _BITS)
        words.sort()
        at = words.astype(np.float64) * (self._ends[-1] / 2.0**_BITS if n else 0.0)
        drawn = np.searchsorted(self._ends, at, side="right")
        return np.minimum(drawn, self._last)  # rounding may reach the end


class DrawnShare:
    """Items of a rank, with the molecules that were drawn instead of their positions.

    Args:
        share: plans the positions among the draws.
        drawn: (n,) int64, the molecule of each draw.
    """

    def __init__(self, share: Any, drawn: Integers) -> None:
        self._drawn = drawn
        self._share = share
        self.place_after, self.end = share.place_after, share.end

    def chunks(self) -> Iterator[list[Any]]:
        """Yields the items in order, many at a time."""
        for chunk in self._share.chunks():
            if chunk and isinstance(chunk[0], list):
                yield [self._drawn[batch].tolist() for batch in chunk]
            else:
                yield self._drawn[chunk].tolist() if chunk else []


def draws_of(source: Any, weights: Any, balance: str | None) -> Draws | None:
    """Makes the draws that a sampler is asked for.

    Args:
        source: what the sampler is made of.
        weights: a number for each molecule, or the name of a column of them; or None.
        balance: name of a field whose values are to be equally frequent, or None.

    Returns:
        The draws; None if each molecule occurs once.

    Raises:
        TypeError: weights are not numbers, or a name is given for something else than a dataset.
        ValueError: both are given, weights are negative, all 0, or not as many as molecules.
        FieldError: a molecule lacks the value.
    """
    if weights is None and balance is None:
        return None
    option = "balance" if weights is None else "weights"
    if weights is not None and balance is not None:
        raise ValueError("weights: excludes balance")
    needed = "group_numbers" if weights is None else "column"
    if isinstance(balance or weights, str) and not hasattr(source, needed):
        kind = type(source).__name__
        raise TypeError(f"{option}: expected a dataset, which has fields, got {kind}")
    if balance is not None:
        _, group_of, counts = np.unique(
            source.group_numbers(balance, "balance"), return_inverse=True, return_counts=True
        )
        return Draws(1 / counts[group_of.reshape(-1)])
    if isinstance(weights, str):
        weights, mask = source.column(weights)
        if not isinstance(weights, Tensor) or not bool(mask.all()):
            raise ValueError("weights: expected a column with a number for each molecule")
    of_each = numbers("weights", weights)
    n = n_molecules(source)
    if len(of_each) != n:
        raise ValueError(f"weights: expected one for each of {n} molecules, got {len(of_each)}")
    if n and not of_each.any():
        raise ValueError("weights: expected at least one above 0, got none")
    return Draws(of_each)
