"""Fragments of HTML for notebooks: a title, facts, tables, small histograms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from atompack_torch.display.charts import Series, histogram, integer_bins
from atompack_torch.display.markup import Markup, short, table, tag
from atompack_torch.display.style import fragment_style

_MOST_ROWS = 40


def fragment(title: str, facts: str, *parts: Markup) -> str:
    """Builds the HTML of an object for a notebook.

    Args:
        title: name of the class.
        facts: a few counts.
        *parts: tables and figures.

    Returns:
        The HTML, with its own style.
    """
    head = tag("div", tag("span", title, class_="apt-head"), " ", tag("span", facts))
    return str(tag("div", fragment_style(), head, *parts, class_="apt apt-small"))


def field_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    """Builds a table with one row per field; of very many only the first ones.

    Args:
        head: names of the columns.
        rows: cells by field; the first is its name.

    Returns:
        The HTML.
    """
    named = [
        (tag("code", short(str(name), 40), title=short(str(name))), *rest)
        for name, *rest in rows[:_MOST_ROWS]
    ]
    shown = table(head, named)
    if (more := len(rows) - _MOST_ROWS) > 0:
        shown = Markup(shown + tag("div", f"and {more:,} more", class_="apt-more"))
    return shown


def size_histogram(n_atoms: Iterable[int]) -> Markup:
    """Draws the numbers of atoms of molecules; nothing if there are fewer than two of them."""
    sizes = Counter(n_atoms)
    if sum(sizes.values()) < 2:
        return Markup()
    return counted_histogram(sizes, "atoms per molecule", "molecules")


def counted_histogram(counts: dict[int, int], label: str, unit: str) -> Markup:
    """Draws integers that were counted.

    Args:
        counts: value → number of times.
        label: name of the axis.
        unit: what is counted.

    Returns:
        The figure.
    """
    if not counts:
        return Markup()
    edges = integer_bins(min(counts), max(counts))
    step = edges[1] - edges[0]
    bins = [0] * (len(edges) - 1)
    for value, count in counts.items():
        bins[int((value - edges[0]) // step)] += count
    return histogram(edges, [Series("", bins)], label=label, unit=unit)
