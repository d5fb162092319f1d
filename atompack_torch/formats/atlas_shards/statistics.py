"""Statistics of examples of any kind: which values they hold, and the spread of their numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from atompack_torch.datasets.statistics import Spread, plain_values


@dataclass(frozen=True)
class ValueStatistics:
    """Statistics of one value of the examples, such as that of one key.

    Attributes:
        count: number of times that it occurs.
        kinds: kind of value, such as ``"float32 (3, 2)"`` or ``"str"`` → how often it occurs, most
            frequent first; kinds beyond the first hundred are omitted.
        spread: of all real numbers in it, those of arrays too; None without any.
    """

    count: int
    kinds: dict[str, int]
    spread: Spread | None


@dataclass(frozen=True)
class ShardStatistics:
    """Result of ``statistics`` for Atlas shards.

    Attributes:
        n_examples: number of examples.
        values: path of a value in its example, such as ``"image"`` or ``"pair.0"`` →
            statistics; the example itself is ``""`` if it has no parts.
    """

    n_examples: int
    values: dict[str, ValueStatistics]

    def as_dict(self) -> dict[str, object]:
        """Converts the statistics to plain values, for JSON.

        Returns:
            Name of the attribute → value; numbers that are not finite are None.
        """
        found: dict[str, object] = plain_values(asdict(self))
        return found


@dataclass
class ExampleCounter:
    """Gathers statistics from chunks of examples, which are joined in order."""

    n_examples: int = 0
    _kinds: dict[str, Counter[str]] = field(default_factory=dict)
    _moments: dict[str, Spread] = field(default_factory=dict)

    def add(self, examples: list[Any]) -> None:
        """Adds a chunk of examples."""
        self.n_examples += len(examples)
        numbers: dict[str, list[Any]] = {}
        for example in examples:
            for name, value in _parts("", example):
                array = _array(value)
                kinds = self._kinds.setdefault(name, Counter())
                kinds[_kind(value, array)] += 1
                if array is not None and array.dtype.kind in "biuf":
                    numbers.setdefault(name, []).append(array.reshape(-1))
        for name, arrays in numbers.items():
            found = _spread_of(np.concatenate(arrays).astype(np.float64))
            known = self._moments.get(name)
            self._moments[name] = found if known is None else _joined(known, found)

    def found(self) -> ShardStatistics:
        """Returns the statistics of all examples so far."""
        values = {
            name: ValueStatistics(kinds.total(), dict(kinds.most_common(100)), self._spread(name))
            for name, kinds in self._kinds.items()
        }
        return ShardStatistics(self.n_examples, values)

    def _spread(self, name: str) -> Spread | None:
        found = self._moments.get(name)
        return None if found is None or found.count + found.n_non_finite == 0 else found


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the values in nested containers, with their places."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    is_empty = True
    for key, part in items:
        is_empty = False
        yield from _parts(f"{name}.{key}" if name else str(key), part)
    if is_empty:
        yield name, value


def _array(value: Any) -> Any:
    """Converts numbers, arrays and tensors to an array; None for anything else."""
    if isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "detach"):
        value = value.detach()
        is_short = value.dtype.is_floating_point and value.dtype.itemsize < 4
        return value.float().numpy() if is_short else value.numpy()
    return None


def _kind(value: Any, array: Any) -> str:
    if array is None or isinstance(value, (bool, int, float)):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(array.shape)}"


def _spread_of(values: Any) -> Spread:
    finite = values[np.isfinite(values)]
    n_others = len(values) - len(finite)
    if not len(finite):
        return Spread(0, n_others, *(math.nan,) * 5)
    mean, std = float(finite.mean()), float(finite.std())
    low, high = float(finite.min()), float(finite.max())
    return Spread(len(finite), n_others, mean, std, math.hypot(mean, std), low, high)


def _joined(one: Spread, other: Spread) -> Spread:
    n_others = one.n_non_finite + other.n_non_finite
    if not one.count or not other.count:
        whole = other if one.count == 0 else one
        values = (whole.mean, whole.std, whole.rms, whole.min, whole.max)
        return Spread(whole.count, n_others, *values)
    count = one.count + other.count
    share = other.count / count
    distance = other.mean - one.mean
    mean = one.mean + distance * share
    variance = one.std**2 * (1 - share) + other.std**2 * share + distance**2 * share * (1 - share)
    low, high = min(one.min, other.min), max(one.max, other.max)
    std = math.sqrt(variance)
    return Spread(count, n_others, mean, std, math.hypot(mean, std), low, high)
