"""Fragments of HTML for notebooks: a title, facts, tables, elements, small histograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from atompack_torch.display.charts import Series, histogram, integer_bins
from atompack_torch.display.markup import Markup, fragment_style, join, short, table, tag

_LAST = 118
_LIMITS = (0.003, 0.03, 0.3)  # of the most frequent element, from shade to shade


def place_of(z: int) -> tuple[int, int]:
    """Returns the position of an element in the periodic table.

    Args:
        z: atomic number, 1 to 118.

    Returns:
        Row and column, from 1; lanthanides and actinides are in rows 8 and 9.
    """
    if 57 <= z <= 70 or 89 <= z <= 102:
        return (8, z - 57 + 3) if z <= 70 else (9, z - 89 + 3)
    ends = (0, 2, 10, 18, 36, 54, 86, 118)
    row = next(i for i, end in enumerate(ends) if z <= end)
    from_start, from_end = z - ends[row - 1], ends[row] - z
    is_left = from_start <= (1 if row == 1 else 2)
    return row, from_start if is_left else 18 - from_end


def chips(
    counts: Mapping[int, int | None], symbol: Callable[[int], str], most: int = 118
) -> Markup:
    """Builds one chip per element.

    Args:
        counts: atomic number → number of atoms; None: not counted.
        symbol: returns the symbol of an atomic number.
        most: maximum number of chips.

    Returns:
        The chips, in the order of ``counts``.
    """
    shown = [
        tag(
            "span",
            tag("b", symbol(z)),
            "" if count is None else f" {count:,}",
            class_="apt-chip",
        )
        for z, count in list(counts.items())[:most]
    ]
    if (more := len(counts) - most) > 0:
        shown.append(tag("span", f"and {more:,} more", class_="apt-more"))
    return tag("span", join(shown), class_="apt-chips")


def periodic_table(counts: Mapping[int, int], symbol: Callable[[int], str]) -> Markup:
    """Draws the periodic table; elements that occur are shaded by their number of atoms.

    Args:
        counts: atomic number → number of atoms.
        symbol: returns the symbol of an atomic number.

    Returns:
        The table, followed by chips of numbers that are not elements.
    """
    most = max(counts.values(), default=1)
    cells = []
    for z in range(1, _LAST + 1):
        row, column = place_of(z)
        count = counts.get(z, 0)
        shade = 0
        if count:
            shade = 1 + sum(count >= limit * most for limit in _LIMITS)
        cells.append(
            tag(
                "span",
                symbol(z),
                class_=f"apt-cell apt-shade{shade}",
                style=f"grid-row:{row};grid-column:{column}",
                title=f"{symbol(z)}: {count:,} atoms",
                aria_hidden=None if count else "true",
            )
        )
    others = {z: count for z, count in counts.items() if not 1 <= z <= _LAST}
    outside = chips(others, symbol) if others else Markup()
    return join([tag("div", *cells, class_="apt-periodic"), outside])


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


def size_histogram(counts: Mapping[int, int]) -> Markup:
    """Draws how many molecules have how many atoms; nothing for fewer than two molecules.

    Args:
        counts: number of atoms → number of molecules.

    Returns:
        The figure.
    """
    if sum(counts.values()) < 2:
        return Markup()
    edges = integer_bins(min(counts), max(counts))
    step = edges[1] - edges[0]
    bins = [0] * (len(edges) - 1)
    for size, count in counts.items():
        bins[int((size - edges[0]) // step)] += count
    return histogram(edges, [Series("", bins)], label="atoms per molecule")
