"""Statistics of parts of a data set, made by several processes, and their sum."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atompack_torch._native import BatchRequest, MoleculeSource, StatisticsPass
from atompack_torch.datasets.gathering import (
    N_ELEMENTS,
    Array,
    Equations,
    found_by,
    guess_of,
    statistics_of,
)
from atompack_torch.datasets.statistics import Statistics
from atompack_torch.datasets.sweeping import OnProgress
from atompack_torch.errors import CorruptFileError
from atompack_torch.options import part_range

_FORMAT = "atompack_torch partial statistics 1"
Moments = tuple[int, int, float, float, float, float]  # as from the native pass

_COUNTS = ("n_molecules", "n_atoms", "n_pairs")
_BY_ELEMENT = ("atoms_of", "molecules_of", "force_components", "force_squares")
_MOMENTS = ("energy", "energy_per_atom", "forces")
_EQUATIONS = ("equations", "equations_per_atom")


@dataclass(frozen=True)
class PartialStatistics:
    """Sums over the molecules of one part.

    Attributes:
        part: number of the part, from 0, and number of parts.
        n_molecules: number of molecules of the whole data set.
        options: plain values that must be equal in all parts.
        cutoff: radius in which neighbors were counted; None: they were not.
        features: True if those of stored features were gathered.
        guess: (256,) reference energies estimated from the whole data set.
        found: the sums of the native pass.
        place: description of the molecule with the longest force; None if there is none.
    """

    part: tuple[int, int]
    n_molecules: int
    options: dict[str, Any]
    cutoff: float | None
    features: bool
    guess: Array
    found: dict[str, Any]
    place: str | None = None

    def key(self) -> dict[str, Any]:
        """Returns what all parts of a data set have in common, as plain values."""
        return {
            "parts": self.part[1],
            "n_molecules": self.n_molecules,
            "options": self.options,
            "cutoff": self.cutoff,
            "features": self.features,
            "guess": _sparse(self.guess.tolist()),
        }

    def as_json(self) -> str:
        """Encodes the sums without loss."""
        found = dict(self.found)
        for name in _BY_ELEMENT:
            found[name] = _sparse(found[name])
        for name in _EQUATIONS:
            found[name] = _plain_equations(found[name])
        document = {
            "format": _FORMAT,
            **self.key(),
            "part": self.part[0],
            "place": self.place,
            "found": found,
        }
        return json.dumps(_without_infinities(document), indent=1, allow_nan=False) + "\n"

    @classmethod
    def of_json(cls, text: str, source: str) -> PartialStatistics:
        """Decodes the sums.

        Args:
            text: the text, as from ``as_json``.
            source: where the text is from, for messages.

        Returns:
            The sums.

        Raises:
            CorruptFileError: the text is something else.
        """
        try:
            document = json.loads(text)
            if document["format"] != _FORMAT:
                raise ValueError(f"expected {_FORMAT!r}, got {document['format']!r}")
            found = document["found"]
            for name in _BY_ELEMENT:
                found[name] = _dense(found[name])
            for name in _MOMENTS:
                found[name] = _moments_of(found[name])
            for name in _EQUATIONS:
                found[name] = _equations_of(found[name])
            found["sizes"] = {int(n): count for n, count in found["sizes"].items()}
            found["features"] = [_moments_of(one) for one in found["features"]]
            isolated = found["isolated_atoms"].items()
            found["isolated_atoms"] = {int(z): _moments_of(one) for z, one in isolated}
            found["largest_force"] = float(found["largest_force"])
            found["coverage"] = [tuple(one) for one in found["coverage"]]
            return cls(
                (document["part"], document["parts"]),
                document["n_molecules"],
                document["options"],
                document["cutoff"],
                document["features"],
                np.array(_dense(document["guess"]), dtype=np.float64),
                found,
                document["place"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise CorruptFileError(f"{source}: no statistics of a part: {error}") from None


def gather_part(
    source: MoleculeSource,
    request: BatchRequest,
    part: tuple[int, int],
    n_threads: int,
    report: OnProgress | None = None,
    cutoff: float | None = None,
    *,
    features: bool = False,
    options: Mapping[str, Any] | None = None,
) -> PartialStatistics:
    """Gathers the sums of one part of the molecules.

    Args:
        source: all molecules of the data set.
        request: fields and treatment of missing labels, as for a batch.
        part: number of the part, from 0, and number of parts.
        n_threads: number of threads.
        report: called with the number of molecules done since the last call; None: it is not.
        cutoff: radius in which neighbors are counted; None: they are not.
        features: gather those of stored features too.
        options: plain values that must be equal in all parts.

    Returns:
        The sums.

    Raises:
        CorruptFileError, FieldError: as for ``dataset.statistics()``.
    """
    guess = guess_of(source, request, None, n_threads)
    own = part_range(part, len(source))
    selection = np.arange(own.start, own.stop, dtype=np.int64)
    native = StatisticsPass(source, request, selection, guess.tolist(), cutoff, n_threads, features)
    found = found_by(native, report)
    return PartialStatistics(part, len(source), dict(options or {}), cutoff, features, guess, found)


def merge(parts: Sequence[PartialStatistics]) -> tuple[Statistics, str | None]:
    """Joins the sums of all parts of a data set.

    Counts, extrema and the molecule with the longest force are those of a single pass; means and
    other results of sums differ from them by rounding alone.

    Args:
        parts: each part once, in any order.

    Returns:
        The statistics, and the description of the molecule with the longest force.

    Raises:
        ValueError: parts are missing, there twice, or not of the same data set and options.
    """
    if not parts:
        raise ValueError("expected statistics of parts, got none")
    ordered = sorted(parts, key=lambda part: part.part[0])
    first = ordered[0]
    for other in ordered[1:]:
        differing = [name for name, value in first.key().items() if other.key()[name] != value]
        if differing:
            raise ValueError(
                f"parts {first.part[0]} and {other.part[0]}: expected parts of one data set, got "
                f"others ({', '.join(differing)})"
            )
    numbers = [part.part[0] for part in ordered]
    missing = sorted({*range(first.part[1])} - {*numbers})
    if missing:
        raise ValueError(f"expected {first.part[1]} parts, got none of number {missing[0]}")
    if len({*numbers}) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise ValueError(f"part {twice}: expected it once, got it twice")
    total, place = first.found, first.place
    for part in ordered[1:]:
        if _is_larger(part.found, total):
            place = part.place
        total = _joined(total, part.found)
    result = statistics_of(total, first.guess, None, first.cutoff, features=first.features)
    return result, place


def _is_larger(other: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    """True if the longest force of ``other``, which comes later, is longer."""
    if other["largest_force_at"] < 0:
        return False
    return bool(one["largest_force_at"] < 0 or other["largest_force"] > one["largest_force"])


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    total = {name: one[name] + other[name] for name in _COUNTS}
    total |= {
        name: [a + b for a, b in zip(one[name], other[name], strict=True)] for name in _BY_ELEMENT
    }
    total |= {name: _joined_moments(one[name], other[name]) for name in _MOMENTS}
    total |= {name: _joined_equations(one[name], other[name]) for name in _EQUATIONS}
    total["sizes"] = {
        n: one["sizes"].get(n, 0) + other["sizes"].get(n, 0)
        for n in {**one["sizes"], **other["sizes"]}
    }
    nothing: Moments = (0, 0, 0.0, 0.0, math.inf, -math.inf)
    isolated = {**one["isolated_atoms"], **other["isolated_atoms"]}
    total["isolated_atoms"] = {
        z: _joined_moments(
            one["isolated_atoms"].get(z, nothing), other["isolated_atoms"].get(z, nothing)
        )
        for z in sorted(isolated)
    }
    n_columns = max(len(one["features"]), len(other["features"]))
    columns = [found["features"] or [nothing] * n_columns for found in (one, other)]
    total["features"] = [_joined_moments(a, b) for a, b in zip(*columns, strict=True)]
    larger = other if _is_larger(other, one) else one
    total["largest_force"] = larger["largest_force"]
    total["largest_force_at"] = larger["largest_force_at"]
    counts = {field[:3]: 0 for field in (*one["coverage"], *other["coverage"])}
    for *field, count in (*one["coverage"], *other["coverage"]):
        counts[tuple(field)] += count
    total["coverage"] = [(*field, count) for field, count in counts.items()]
    return total


def _joined_moments(one: Moments, other: Moments) -> Moments:
    """Joins two sets of moments, like ``Moments::join`` of the native core."""
    count, n_non_finite, mean, scatter, low, high = one
    if other[0] == 0:
        return (count, n_non_finite + other[1], mean, scatter, low, high)
    mine, theirs = float(count), float(other[0])
    distance = other[2] - mean
    mean += distance * (theirs / (mine + theirs))
    scatter += other[3] + distance * distance * (mine * theirs / (mine + theirs))
    low, high = min(low, other[4]), max(high, other[5])
    return (count + other[0], n_non_finite + other[1], mean, scatter, low, high)


def _joined_equations(one: Equations, other: Equations) -> Equations:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def _sparse(values: Sequence[float]) -> dict[str, float]:
    return {str(z): value for z, value in enumerate(values) if value}


def _dense(values: Mapping[str, float]) -> list[Any]:
    all_values: list[Any] = [0] * N_ELEMENTS
    for z, value in values.items():
        all_values[int(z)] = float(value) if isinstance(value, str) else value
    return all_values


def _plain_equations(equations: Equations) -> dict[str, Any]:
    gram, right, squares = equations
    present = np.flatnonzero(np.abs(gram).sum(axis=0) + np.abs(right))
    return {
        "elements": present.tolist(),
        "gram": gram[np.ix_(present, present)].tolist(),
        "right": right[present].tolist(),
        "squares": squares,
    }


def _equations_of(plain: Mapping[str, Any]) -> Equations:
    present = np.array(plain["elements"], dtype=np.int64)
    gram, right = np.zeros((N_ELEMENTS, N_ELEMENTS)), np.zeros(N_ELEMENTS)
    gram[np.ix_(present, present)] = np.array(plain["gram"], float).reshape([len(present)] * 2)
    right[present] = np.array(plain["right"], dtype=np.float64)
    return gram, right, float(plain["squares"])


def _moments_of(plain: Sequence[Any]) -> Moments:
    count, n_non_finite, *values = plain
    mean, scatter, low, high = map(float, values)
    return (int(count), int(n_non_finite), mean, scatter, low, high)


def _without_infinities(value: Any) -> Any:
    """Replaces numbers that JSON lacks by their names."""
    if isinstance(value, Mapping):
        return {str(key): _without_infinities(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinities(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
