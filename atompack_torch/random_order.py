"""Random orders of which any part can be computed without the rest.

They consist of 64-bit hashes (the finalizer of splitmix64), so they are identical on every machine
and with every version of NumPy, whose own generators guarantee neither.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from atompack_torch._core import NativeOrder

Integers = NDArray[np.int64]
_Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15  # of splitmix64: consecutive states
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)

_ROUNDS = 8  # of the network
_TABLE = 1 << 14  # up to here an order is sorted by hashes


def mix(*numbers: int) -> int:
    """Hashes numbers, in order, to one number below 2^64."""
    state = 0
    for number in numbers:
        state = ((state ^ (number & _MASK)) + _STEP) & _MASK
        state = ((state ^ (state >> _SHIFTS[0])) * _FACTORS[0]) & _MASK
        state = ((state ^ (state >> _SHIFTS[1])) * _FACTORS[1]) & _MASK
        state ^= state >> _SHIFTS[2]
    return state


def hashes(key: int, numbers: NDArray[Any]) -> _Words:
    """Hashes each number with a key; of the same quality as ``mix``, but not equal to it."""
    words = numbers.astype(np.uint64)
    words *= np.uint64(_STEP)
    words += np.uint64(key)
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(_SHIFTS[2])
    return words


def permutation(key: int, n: int) -> Integers:
    """Returns a permutation of the numbers below ``n`` that is determined by the key."""
    numbers = np.arange(n, dtype=np.uint64)
    below = np.uint64((1 << n.bit_length()) - 1)
    keys = hashes(key, numbers)
    keys &= ~below
    keys |= numbers  # sorting these is an argsort, and ten times faster than one
    keys.sort()
    keys &= below
    return keys.view(np.int64)


class RandomOrder:
    """A random permutation of the numbers below ``n``, of which ``at`` computes any part.

    It is a Feistel network on pairs (left, right) with left < a, right < b and a * b slightly above
    n; results beyond n go through the network again. Small permutations are sorted by hashes
    instead, because a network of few bits is not random enough.

    Args:
        key: seed of the order.
        n: number of elements.
    """

    def __init__(self, key: int, n: int) -> None:
        self.n = n
        self._left = math.isqrt(max(n, 1) - 1) + 1
        self._right = -(-n // self._left)
        self._keys = [mix(key, 1 + number) for number in range(_ROUNDS)]
        self._table = permutation(mix(key, 0), n) if n <= _TABLE else None

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_native"}

    @cached_property
    def _native(self) -> NativeOrder:
        return NativeOrder(self.n, self._left, self._right, self._keys)

    def at(self, positions: Integers) -> Integers:
        """Returns the numbers at these positions (int64, each in [0, n)); many use all threads."""
        return self._native.at(positions) if self._table is None else self._table[positions]

    def between(self, first: int, last: int) -> Integers:
        """Returns the numbers at the positions from ``first`` to ``last - 1``."""
        if self._table is not None:
            return self._table[first:last]
        return self._native.between(first, last)


class DrawnOrder:
    """A random permutation drawn by torch's generator, held in memory.

    Args:
        seed: seed of the generator.
        n: number of elements.
    """

    def __init__(self, seed: int, n: int) -> None:
        self._numbers = torch.randperm(n, generator=seeded(seed)).numpy()

    def between(self, first: int, last: int) -> Integers:
        """Returns the numbers at the positions from ``first`` to ``last - 1``."""
        return self._numbers[first:last]


def seeded(seed: int) -> torch.Generator:
    """Returns a generator of torch, whose seeds have 64 bits."""
    return torch.Generator().manual_seed(seed & _MASK)


_DRAWN = 1 << 22  # drawing more would delay the first batch


def shuffled(seed: int, n: int) -> DrawnOrder | RandomOrder:
    """Returns a random order of the numbers below ``n``, determined by the seed."""
    return DrawnOrder(seed, n) if n <= _DRAWN else RandomOrder(mix(seed), n)
