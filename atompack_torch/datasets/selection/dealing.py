"""Random parts of given sizes, of single items or of groups that stay together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from atompack_torch.datasets.selection.blocks import Array

_ROUNDING = 1e-6  # of fractions that should add up to 1
_MAX_TRIES = 32
_WORTH_TRYING = 10_000  # groups, up to which several deals are compared


def sizes_of(n: int, fractions: Sequence[float]) -> list[int]:
    """Returns the sizes of parts.

    Args:
        n: number of items.
        fractions: fractions of them, which add up to 1.

    Returns:
        Sizes that add up to ``n``.

    Raises:
        ValueError: a fraction is negative, they do not add up to 1, or a part would be empty.
    """
    # Not a NaN either, which compares as False.
    if not (min(fractions, default=0) >= 0 and abs(sum(fractions) - 1) <= _ROUNDING):
        raise ValueError(f"fractions: expected positive numbers that add up to 1: {fractions}")
    sizes = [int(n * fraction) for fraction in fractions]
    parts = [part for part, fraction in enumerate(fractions) if fraction]
    for i in range(n - sum(sizes)):
        sizes[parts[i % len(parts)]] += 1
    _check_parts(sizes, fractions, f"{n} items")
    return sizes


def _check_parts(sizes: Sequence[int], fractions: Sequence[float], whole: str) -> None:
    """Raises an error if a part is empty that is to have a fraction of something."""
    for size, fraction in zip(sizes, fractions, strict=True):
        if sum(sizes) and fraction and not size:
            raise ValueError(
                f"fractions: expected at least one item in each part, got none for {fraction} of "
                f"{whole}: choose other fractions, or 0 for an empty part"
            )


def deal(groups: Array, fractions: Sequence[float], seed: int) -> list[Tensor]:
    """Deals items to parts at random, all items of a group to the same part.

    Large groups are dealt first, to parts that still have room for them, in proportion to the room;
    a group that fits nowhere goes to the part that lacks most. Of up to 10,000 groups, the best of
    several such deals is taken.

    Args:
        groups: (n,) uint64, equal for items of one group.
        fractions: sizes of the parts, which add up to 1.
        seed: the same seed gives the same parts.

    Returns:
        For each part the numbers of its items, int64, in ascending order.

    Raises:
        ValueError: a fraction is negative, they do not add up to 1, or a part would be empty.
    """
    wanted = np.array(sizes_of(len(groups), fractions))
    _, group_of, counts = np.unique(groups, return_inverse=True, return_counts=True)
    generator = torch.Generator().manual_seed(seed)
    tries = _MAX_TRIES if 0 < len(counts) <= _WORTH_TRYING else 1
    best, best_error = None, -1
    for _ in range(tries):
        parts = _deal_groups(counts, wanted, generator)
        got = np.bincount(parts, weights=counts, minlength=len(wanted)).astype(np.int64)
        error = int(np.abs(got - wanted).sum())
        if best is None or error < best_error:
            best, best_error = parts, error
        if best_error == 0:
            break
    assert best is not None
    sizes = np.bincount(best, weights=counts, minlength=len(wanted)).astype(np.int64).tolist()
    _check_parts(sizes, fractions, f"{len(counts)} groups, which stay together")
    of_items = best[group_of.reshape(-1)]
    return [torch.from_numpy(np.flatnonzero(of_items == part)) for part in range(len(wanted))]


def _deal_groups(counts: Array, wanted: Array, generator: torch.Generator) -> Array:
    """Returns the part of each group, given the sizes of groups and parts."""
    room = wanted.copy()
    parts = np.empty(len(counts), np.int64)
    by_size = np.argsort(-counts, kind="stable")
    bounds = np.flatnonzero(np.diff(counts[by_size])) + 1
    for alike in np.split(by_size, bounds) if len(by_size) else ():
        size = int(counts[alike[0]])
        seats = np.repeat(np.arange(len(room)), np.maximum(room, 0) // size)
        order = torch.randperm(len(seats), generator=generator).numpy()[: len(alike)]
        seated = alike[torch.randperm(len(alike), generator=generator).numpy()]
        parts[seated[: len(order)]] = seats[order]
        room -= size * np.bincount(seats[order], minlength=len(room))
        for group in seated[len(order) :]:
            part = int(np.argmax(room))
            parts[group] = part
            room[part] -= size
    return parts
