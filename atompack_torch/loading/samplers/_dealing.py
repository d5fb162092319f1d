"""Division of the molecules of a window into batches of nearly equal cost within a budget.

The largest remaining molecule goes to the batch with the lowest cost, as in longest-processing-time
scheduling, for many molecules at a time. The order of all arithmetic is fixed, so that the result
is the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atompack_torch.random_order import Integers

Costs = NDArray[np.float64]

_ROWS = 256  # rows above this number are dealt several at a time
_MANY = 1 << 13  # molecules above which the number of batches may be slightly too high
_MIN_SHARE = 1 / 1024  # of the mean cost: minimum cost of a molecule in dealing


def sorted_by(values: Costs) -> Integers:
    """Returns the stable ascending order (argsort) of values of at least 0.

    Only leading digits are compared, about nine for 2^20 values.
    """
    mask = (1 << max(len(values) - 1, 1).bit_length()) - 1
    keys = values.view(np.int64) & ~mask  # a float of at least 0 compares like its bits
    keys |= np.arange(len(values))
    keys.sort()
    keys &= mask
    return keys


def deal(costs: Costs, n_batches: int, most: int) -> Integers:
    """Deals molecules to a number of batches, each of which gets 1 to ``most`` molecules.

    Args:
        costs: costs of ``n_batches`` to ``n_batches * most`` molecules.
        n_batches: number of batches, at least 1.
        most: maximum number of molecules in a batch.

    Returns:
        The batch of each molecule.
    """
    if n_batches == 1:
        return np.zeros(len(costs), np.int64)
    floor = float(np.cumsum(costs)[-1]) / len(costs) * _MIN_SHARE or 1.0
    order = sorted_by(costs)[::-1]
    weights = np.maximum(costs, floor)[order]
    batches = np.empty(len(costs), np.int64)
    levels = np.zeros(n_batches)
    sizes = np.zeros(n_batches, np.int64)
    first = 0
    while first < len(costs):
        lowest = sorted_by(levels)
        # Serve all batches that are not above the lowest one after its next molecule.
        n_served = int(np.searchsorted(levels[lowest], levels[lowest[0]] + weights[first], "right"))
        n_rows = (len(costs) - first) // (_ROWS * n_batches)
        if n_served == n_batches and n_rows > 1 and len(costs) <= most:
            dealt = slice(first, first + n_rows * n_batches)
            to = _rows(weights[dealt].reshape(n_rows, n_batches), lowest)
        else:
            to = lowest[:n_served][: len(costs) - first]
            dealt = slice(first, first + len(to))
        batches[dealt] = to
        first = dealt.stop
        levels += np.bincount(to, weights[dealt], n_batches)
        sizes += np.bincount(to, minlength=n_batches)
        levels[sizes == most] = np.inf
    result = np.empty_like(batches)
    result[order] = batches
    return result


def _rows(weights: Costs, lowest: Integers) -> Integers:
    """Deals rows in alternating direction; the largest column goes to the lowest batch."""
    columns = weights.copy()
    columns[1::2] = columns[1::2, ::-1]
    to = np.empty(len(lowest), np.int64)
    to[sorted_by(np.cumsum(columns, axis=0)[-1])[::-1]] = lowest
    batches = np.tile(to, (len(weights), 1))
    batches[1::2] = batches[1::2, ::-1]
    return batches.ravel()


def deal_within(costs: Costs, budget: float, most: int) -> tuple[Integers, int]:
    """Deals molecules to the minimum number of batches within a budget.

    Args:
        costs: costs of molecules, none over the budget.
        budget: maximum cost of a batch.
        most: maximum number of molecules in a batch.

    Returns:
        The batch of each molecule, and the number of batches, which for many molecules is at most
        1 in 128 above the minimum.
    """
    total = float(np.cumsum(costs)[-1])
    too_few = max(int(np.ceil(total / budget)), -(-len(costs) // most), 1) - 1
    lowest = float(costs.min())
    hurried = len(costs) > _MANY and lowest < costs.max()
    # Sums come out level to about the smallest molecule: room for it spares a second attempt.
    room = min(lowest, budget / 256) if hurried else 0.0
    n_batches = max(too_few + 1, int(np.ceil(total / (budget - room))))
    best: tuple[Integers, int] | None = None
    while best is None or best[1] - too_few > 1 + (best[1] // 128 if hurried else 0):
        n_batches = min(n_batches, len(costs))
        batches = deal(costs, n_batches, most)
        highest = float(np.bincount(batches, costs).max())
        if highest <= budget or n_batches == len(costs):
            best = batches, n_batches
        else:
            too_few = n_batches
        if best is None:
            over = highest - total / n_batches
            n_batches = max(n_batches + 1, int(np.ceil(total / max(budget - over, budget / 2))))
        else:
            n_batches = (too_few + best[1] + 1) // 2
    return best


def fill_in_order(costs: Costs, budget: float, most: int) -> Integers:
    """Returns the first molecule of each batch, and the end, if batches are filled in order.

    A molecule over the budget gets a batch of its own.
    """
    ends = np.cumsum(costs)
    borders = [0]
    first, spent = 0, 0.0
    while first < len(costs):
        # What the sums of all suggest, and then the sum of this batch by itself.
        guess = int(np.searchsorted(ends, spent + budget, "right")) + 2
        sums = np.cumsum(costs[first : max(guess, first + 2)])
        first += min(max(int(np.searchsorted(sums, budget, "right")), 1), most)
        spent = float(ends[first - 1])
        borders.append(first)
    return np.array(borders, np.int64)
