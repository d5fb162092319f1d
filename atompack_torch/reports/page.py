"""The page of a report: its head, its sections and what they contain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atompack_torch.display.markup import DASH, Markup, join, number, page_style, percent, tag
from atompack_torch.reports import sections
from atompack_torch.reports.findings import Findings
from atompack_torch.reports.notes import notes_of
from atompack_torch.reports.sections import labels

# Nothing outside the page is requested, whatever names are in the data.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page_of(found: Sequence[Findings]) -> str:
    """Builds the page.

    Args:
        found: findings of one or two data sets.

    Returns:
        A complete HTML document.
    """
    title = " and ".join(one.name for one in found)
    sections = [(name, make(found)) for name, make in _SECTIONS]
    sections = [(name, content) for name, content in sections if content]
    links = [tag("a", name, href=f"#{_anchor(name)}") for name, _ in sections]
    body = [
        tag("header", tag("h1", title), _subtitle(found), tag("nav", *links)),
        *(tag("section", tag("h2", name), content, id=_anchor(name)) for name, content in sections),
        tag("footer", tag("p", "Made by atompack_torch. Structures are numbered from 0.")),
    ]
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("title", f"Report: {title}"),
        page_style(),
    ]
    main = tag("main", *body, class_="apt")
    return f'<!DOCTYPE html>\n<html lang="en"><head>{join(head)}</head><body>{main}</body></html>\n'


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _subtitle(found: Sequence[Findings]) -> Markup:
    kind = "Data set of atomistic structures" if len(found) == 1 else "Two data sets side by side"
    return tag("p", kind, class_="apt-soft")


def _overview(found: Sequence[Findings]) -> Markup:
    parts = []
    for one in found:
        facts = [
            (number(one.n_structures), "structures"),
            (number(one.n_atoms), "atoms"),
            (_range(one), "atoms per structure"),
            (number(len(one.elements)), "elements"),
            (_coverage(one, "energy"), "have energies"),
            (_coverage(one, "forces"), "have forces"),
        ]
        cards = [
            tag("div", tag("b", value), tag("span", what), class_="card") for value, what in facts
        ]
        head = tag("h3", one.name) if len(found) > 1 else Markup()
        notes = [
            tag("li", note.text, class_="warning" if note.is_warning else None)
            for note in notes_of(one)
        ]
        parts.append(
            tag("div", head, tag("div", *cards, class_="cards"), tag("ul", *notes, class_="notes"))
        )
    return tag("div", *parts, class_="pair") if len(found) > 1 else parts[0]


def _range(one: Findings) -> str:
    if not one.sizes:
        return DASH
    low, high = min(one.sizes), max(one.sizes)
    return f"{low:,}" if low == high else f"{low:,} {DASH} {high:,}"


def _coverage(one: Findings, name: str) -> str:
    label = one.labels.get(name)
    return percent(label.n_present if label else 0, one.n_structures)


_SECTIONS: tuple[tuple[str, Callable[[Sequence[Findings]], Markup]], ...] = (
    ("Overview", _overview),
    ("Sizes", sections.sizes),
    ("Elements", sections.elements),
    ("Labels", labels),
    ("Energies", sections.energies),
    ("Forces", sections.forces),
    ("Cells", sections.cells),
    ("Neighbors", sections.neighbors),
    ("Duplicates", sections.duplicates),
)
