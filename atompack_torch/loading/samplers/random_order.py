"""Random orders of which any part can be computed without the rest.

They consist of 64-bit hashes (the finalizer of splitmix64), so they are identical on every machine
and with every version of NumPy, whose own generators guarantee neither.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
_Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15  # of splitmix64: consecutive states
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)

_HALF = np.uint64(32)
_ROUNDS = 8  # of the network
_TABLE = 1 << 14  # up to here an order is sorted by hashes
_CHUNK = 1 << 14  # positions at a time: the intermediate arrays stay in the cache


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

    def at(self, positions: Integers) -> Integers:
        """Returns the numbers at these positions (int64, each in [0, n))."""
        if self._table is not None:
            return self._table[positions]
        numbers = np.empty(len(positions), np.int64)
        for first in range(0, len(positions), _CHUNK):
            part = slice(first, first + _CHUNK)
            numbers[part] = self._network(positions[part])
        beyond = np.flatnonzero(numbers >= self.n)
        while len(beyond):
            numbers[beyond] = self._network(numbers[beyond])
            beyond = beyond[numbers[beyond] >= self.n]
        return numbers

    def _network(self, positions: Integers) -> Integers:
        words = positions.astype(np.uint64)
        left = words // np.uint64(self._right)
        right = words - left * np.uint64(self._right)
        scratch = np.empty_like(words)
        for number, key in enumerate(self._keys):
            if number % 2 == 0:
                _add_hash(left, right, self._left, key, scratch)
            else:
                _add_hash(right, left, self._right, key, scratch)
        left *= np.uint64(self._right)
        left += right
        return left.view(np.int64)


def _add_hash(to: _Words, of: _Words, modulus: int, key: int, scratch: _Words) -> None:
    """``to = (to + hash(of)) mod modulus``, in place; ``to`` must be below the modulus."""
    np.multiply(of, np.uint64(_STEP), out=scratch)
    scratch += np.uint64(key)
    scratch ^= scratch >> _HALF
    scratch *= np.uint64(_FACTORS[0])
    scratch >>= _HALF
    scratch *= np.uint64(modulus)  # 32 random bits times the modulus: the upper word is below it
    scratch >>= _HALF
    to += scratch
    np.subtract(
        to, np.uint64(modulus), out=scratch
    )  # wraps around to a large number if it was less
    np.minimum(to, scratch, out=to)
