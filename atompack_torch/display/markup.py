"""Markup with escaped values: what files contain never becomes HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from atompack_torch.errors import printable

DASH = "\N{EN DASH}"  # in place of an absent number
_LONGEST = 120  # of a name or string, in characters


class Markup(str):
    """A string that is HTML already; every other string is escaped."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """Returns a value as HTML: unchanged if it is ``Markup``, else escaped.

    Args:
        value: any value; control characters become escape sequences.

    Returns:
        The HTML.
    """
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(printable(str(value))))


def short(text: str, longest: int = _LONGEST) -> str:
    """Cuts a long string, such as a name from a file, and marks the cut."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _attribute(value: object) -> str:
    """Returns a value of an attribute; HTML in one, such as a page in a frame, keeps its lines."""
    return html.escape(str(value) if isinstance(value, Markup) else printable(str(value)))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Builds an element.

    Args:
        name: name of the element.
        *children: its content; strings are escaped.
        **attributes: values by name; a trailing underscore is dropped (``class_``), other
            underscores become hyphens; attributes that are None are left out.

    Returns:
        The HTML.
    """
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{named}>{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Markup:
    """Returns parts in a row, escaped where they are not ``Markup``."""
    return Markup("".join(map(escape, parts)))


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], *, numeric: Sequence[int] = ()
) -> Markup:
    """Builds a table that scrolls in itself where it is too wide for the page.

    Args:
        head: names of the columns; empty: no head.
        rows: cells of each row.
        numeric: numbers of the columns that are aligned to the right.

    Returns:
        The HTML.
    """

    def line(cells: Sequence[object], kind: str) -> Markup:
        return tag(
            "tr",
            *(
                tag(kind, cell, class_="apt-n" if i in numeric else None)
                for i, cell in enumerate(cells)
            ),
        )

    body = tag("tbody", *(line(cells, "td") for cells in rows))
    top = tag("thead", line(head, "th")) if head else Markup()
    inner = tag("table", top, body)
    return tag("div", inner, class_="apt-table", tabindex="0", role="group")


def number(value: float | int | None, digits: int = 4) -> str:
    """Formats a number: counts with separators, other numbers with some significant digits.

    Args:
        value: the number; None or NaN: a dash.
        digits: significant digits of numbers that are not integers.

    Returns:
        The text.
    """
    if value is None or value != value:
        return DASH
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}")


def percent(part: int, whole: int) -> str:
    """Formats a share; what is not quite all or nothing never reads 100 % or 0 %."""
    if whole == 0:
        return DASH
    share = 100 * part / whole
    if 0 < part < whole:
        share = min(max(share, 0.01), 99.99)
    return f"{share:.4g} %" if share > 99 else f"{share:.3g} %"


def structures(n: int) -> str:
    """Formats a number of structures."""
    return f"{n:,} structure" + ("" if n == 1 else "s")
