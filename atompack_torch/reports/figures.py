"""Histograms of a report, for one data set or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from atompack_torch.display.charts import Series, bins_of, histogram, integer_bins
from atompack_torch.display.markup import Markup, tag
from atompack_torch.reports.findings import LOG_EDGES, Array, Findings

_ABSURD = 1e100  # larger values are not drawn
_TAIL = 0.002  # share of values beyond the drawn range, at either end


def of_integers(
    found: Sequence[Findings], values: Sequence[Mapping[int, int]], label: str, unit: str
) -> Markup:
    """Draws a histogram of counted integers.

    Args:
        found: the data sets.
        values: value → number of times, for each of them.
        label: name of the axis.
        unit: what is counted.

    Returns:
        The figure.
    """
    everything = [value for one in values for value in one]
    if not everything:
        return Markup()
    low, high = min(everything), max(everything)
    is_log = low > 0 and high / low > 200
    places = [np.array([*one], dtype=np.float64) for one in values]
    places = [np.log10(one) for one in places] if is_log else places
    edges = _log_limits([one for one in places if len(one)]) if is_log else integer_bins(low, high)
    series = [
        _series(f, np.histogram(place, edges, weights=[*one.values()])[0])
        for f, place, one in zip(found, places, values, strict=True)
    ]
    return histogram(edges, series, label=label, unit=unit, log_x=is_log)


def of_values(
    found: Sequence[Findings], values: Sequence[Array], label: str, unit: str
) -> tuple[Markup, int]:
    """Draws a histogram of numbers; a few far outliers are left out.

    Args:
        found: the data sets.
        values: (n,) finite values of each of them.
        label: name of the axis.
        unit: what is counted.

    Returns:
        The figure, and the number of values outside it.
    """
    n = sum(map(len, values))
    values = [one[np.abs(one) < _ABSURD] for one in values]
    there = [one for one in values if len(one)]
    if not there:
        return Markup(), n
    low, high = _limits(there)
    edges = bins_of(low, high)
    binned = [np.histogram(one, edges)[0] for one in values]
    n_outside = n - int(sum(one.sum() for one in binned))
    series = [_series(f, counts) for f, counts in zip(found, binned, strict=True)]
    return histogram(edges, series, label=label, unit=unit), n_outside


def of_logarithms(
    found: Sequence[Findings], counts: Sequence[Array], label: str, unit: str
) -> Markup:
    """Draws logarithmic histograms with the bins of ``LOG_EDGES``.

    Args:
        found: the data sets.
        counts: counts by bin of each of them.
        label: name of the axis.
        unit: what is counted.

    Returns:
        The figure.
    """
    used = np.flatnonzero(sum(counts))
    if not len(used):
        return Markup()
    first, last = int(used[0]), int(used[-1]) + 1
    if last - first < 6:
        first, last = max(first - 3, 0), min(last + 3, len(LOG_EDGES) - 1)
    series = [_series(f, one[first:last]) for f, one in zip(found, counts, strict=True)]
    edges = LOG_EDGES[first : last + 1].tolist()
    return histogram(edges, series, label=label, unit=unit, log_x=True)


def outliers(n: int) -> Markup:
    """Returns a line on the number of values outside a figure; nothing if there are none."""
    if n == 0:
        return Markup()
    verb = "outlier is" if n == 1 else "outliers are"
    return tag("p", f"{n:,} {verb} beyond the axis.", class_="apt-soft")


def _series(found: Findings, counts: Sequence[int] | Array) -> Series:
    return Series(found.name, [int(count) for count in counts])


def _limits(values: Sequence[Array]) -> tuple[float, float]:
    """Returns the range to draw: all of it unless a few outliers stretch it."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    inner = [np.quantile(v, (_TAIL, 1 - _TAIL)) for v in values]
    first, last = min(q[0] for q in inner), max(q[1] for q in inner)
    margin = 0.35 * (last - first)
    if margin > 0:
        low, high = max(low, float(first - margin)), min(high, float(last + margin))
    return low, high


def _log_limits(values: Sequence[Array]) -> list[float]:
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    edges: list[float] = np.linspace(low, high + 1e-9, 49).tolist()
    return edges
