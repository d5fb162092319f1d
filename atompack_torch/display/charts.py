"""Histograms and bars as inline SVG; axes are HTML, so that labels stay readable at any width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from atompack_torch.display.markup import Markup, tag

_WIDTH, _HEIGHT = 1000, 200  # of the drawing, which is stretched to the page
_MIN_BAR = 2  # height of a bar that is not empty
_TICKS = 4


class Series(NamedTuple):
    """Counts of one dataset by bin.

    Attributes:
        name: name of the dataset.
        counts: one count per bin.
    """

    name: str
    counts: Sequence[int]


def histogram(
    edges: Sequence[float],
    series: Sequence[Series],
    *,
    label: str,
    log_x: bool = False,
    unit: str = "molecules",
) -> Markup:
    """Draws a histogram of one or two datasets; two are drawn as shares.

    Args:
        edges: (n + 1) ascending limits of the bins; their logarithms (base 10) with ``log_x``.
        series: one or two, with n counts each.
        label: name of the axis, with its unit.
        log_x: ``edges`` are logarithms.
        unit: what is counted, in the plural.

    Returns:
        A figure; an empty string without any counts.
    """
    totals = [sum(one.counts) for one in series]
    if not any(totals) or len(edges) < 2:
        return Markup()
    as_shares = len(series) > 1
    heights = [
        [count / max(total, 1) if as_shares else float(count) for count in one.counts]
        for one, total in zip(series, totals, strict=True)
    ]
    top = max(map(max, heights))
    low, high = edges[0], edges[-1]
    places = [(edge - low) * _WIDTH / (high - low) for edge in edges]
    names = [_tick(edge, log_x) for edge in edges]
    hints = [
        f"{first} to {last}: {count:,} {unit}"
        for first, last, count in zip(names, names[1:], series[0].counts, strict=False)
    ]
    drawn = [_bars(places, [height / top for height in heights[0]], hints, is_behind=as_shares)]
    drawn += [
        _steps(places, [height / top for height in one], f"apt-line{i}")
        for i, one in enumerate(heights[1:], start=2)
        if any(one)
    ]
    svg = tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Histogram of {label}",
    )
    ceiling = f"{100 * top:.3g} %" if as_shares else f"{round(top):,}"
    y_axis = tag("div", tag("span", ceiling), tag("span", "0"), class_="apt-y")
    ticks = [
        tag("span", _tick(value, log_x), style=f"left:{100 * (value - low) / (high - low):.2f}%")
        for value in (log_ticks_of(low, high) if log_x else ticks_of(low, high))
    ]
    x_axis = tag("div", *ticks, class_="apt-x")
    plot = tag("div", y_axis, tag("div", svg, x_axis, class_="apt-area"), class_="apt-plot")
    counted = f"share of {unit}" if as_shares else f"number of {unit}"
    caption = tag("figcaption", f"{label} — {counted}", *_legend(series))
    return tag("figure", plot, caption, class_="apt-figure")


def _legend(series: Sequence[Series]) -> list[Markup]:
    if len(series) < 2:
        return []
    keys = [
        tag("span", tag("i", class_=f"apt-key{i}"), " ", one.name, class_="apt-key")
        for i, one in enumerate(series, start=1)
    ]
    return [tag("span", *keys, class_="apt-legend")]


def _bars(
    places: Sequence[float], heights: Sequence[float], hints: Sequence[str], *, is_behind: bool
) -> Markup:
    """Draws bars between places on the axis, with heights as shares of the drawing."""
    bars = []
    for left, right, height, hint in zip(places, places[1:], heights, hints, strict=False):
        if height <= 0:
            continue
        tall = max(height * _HEIGHT, _MIN_BAR)
        bars.append(
            tag(
                "rect",
                tag("title", hint),
                x=f"{left:.1f}",
                y=f"{_HEIGHT - tall:.1f}",
                width=f"{max(right - left - 1.5, 1):.1f}",
                height=f"{tall:.1f}",
            )
        )
    return tag("g", *bars, class_="apt-bars apt-behind" if is_behind else "apt-bars")


def _steps(places: Sequence[float], heights: Sequence[float], class_: str) -> Markup:
    """Draws a line of steps, one for each bar."""
    points = [f"{places[0]:.1f},{_HEIGHT}"]
    for left, right, height in zip(places, places[1:], heights, strict=False):
        y = _HEIGHT * (1 - height)
        points += [f"{place:.1f},{y:.1f}" for place in (left, right)]
    points.append(f"{places[-1]:.1f},{_HEIGHT}")
    return tag("polyline", points=" ".join(points), class_=class_)


def log_ticks_of(low: float, high: float) -> list[float]:
    """Returns logarithms of round numbers: powers of ten, and 2 and 5 times them in short ranges.

    Args:
        low: smaller limit, a logarithm to base 10.
        high: larger limit.

    Returns:
        Ascending logarithms.
    """
    first, last = math.floor(low), math.ceil(high)
    step = -(-(last - first) // 6)
    factors = (1, 2, 5) if high - low < 2.5 else (1,)
    every = [k + math.log10(f) for k in range(first, last + 1) for f in factors if k % step == 0]
    return [value for value in every if low <= value <= high]


def ticks_of(low: float, high: float) -> list[float]:
    """Returns round numbers between two limits, for an axis.

    Args:
        low: smaller limit.
        high: larger limit.

    Returns:
        One to six ascending numbers; none if there is no room for any.
    """
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return []
    raw = span / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _tick(value: float, is_log: bool) -> str:
    if is_log:
        value = 10.0**value
    text = f"{value:,.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.4g}"
    return text.replace("-", "\N{MINUS SIGN}")


def bins_of(low: float, high: float, n: int = 48) -> list[float]:
    """Returns limits of bins of one width that cover all values.

    Args:
        low: smallest value.
        high: largest value.
        n: number of bins.

    Returns:
        (n + 1) limits; the range is widened if all values are equal.
    """
    if high <= low:
        margin = max(abs(low) * 1e-3, 0.5)
        low, high = low - margin, low + margin
    return [low + (high - low) * i / n for i in range(n)] + [high]


def integer_bins(low: int, high: int, most: int = 48) -> list[float]:
    """Returns limits of bins for integers, each of which is in the middle of its share.

    Args:
        low: smallest value.
        high: largest value.
        most: maximum number of bins.

    Returns:
        Limits between integers.
    """
    step = -(-(high - low + 1) // most)
    n = -(-(high - low + 1) // step)
    return [low - 0.5 + step * i for i in range(n + 1)]


def meter(part: int, whole: int, text: str) -> Markup:
    """Draws a share as a bar with its text next to it.

    Args:
        part: count.
        whole: count that fills the bar.
        text: the share in words.

    Returns:
        The HTML.
    """
    width = 0.0 if whole == 0 else 100 * part / whole
    if part > 0:
        width = max(width, 1.0)
    bar = tag("span", tag("span", style=f"width:{width:.4g}%"), class_="apt-meter")
    return tag("span", bar, " ", tag("span", text, class_="apt-share"), class_="apt-cover")
