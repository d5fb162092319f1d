"""Escaped HTML, its tables and numbers, and its style."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from atompack_torch.errors import printable

_LIGHT = """
  --bg: #ffffff; --panel: #f6f8fa; --fg: #1c2128; --soft: #57606a; --rule: #d5dae1;
  --one: #2563c9; --two: #b4500a; --chip: #e2ebfa; --warn: #fdf1d9; --warn-rule: #b7791f;
  --shade1: #d3e2fa; --shade2: #9fc0f2; --shade3: #2f6bc7; --shade4: #153e80;
  --on1: #1c2128; --on2: #1c2128; --on3: #ffffff; --on4: #ffffff;
"""
_DARK = """
  --bg: #12161c; --panel: #1a2029; --fg: #e4e9ef; --soft: #9aa6b4; --rule: #333c48;
  --one: #6aa5f8; --two: #f2a35e; --chip: #22334e; --warn: #33290f; --warn-rule: #d9a441;
  --shade1: #1d2f4b; --shade2: #2a4f86; --shade3: #7fb1f7; --shade4: #c4dcfd;
  --on1: #e4e9ef; --on2: #ffffff; --on3: #0d1420; --on4: #0d1420;
"""
_PARTS = """
.apt { color: var(--fg); color-scheme: light dark; line-height: 1.5; overflow-wrap: anywhere;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
.apt *, .apt *::before { box-sizing: border-box; }
.apt .apt-table { overflow-x: auto; max-width: 100%; margin: .7rem 0; }
.apt .apt-table:focus-visible { outline: 2px solid var(--one); }
.apt table { border-collapse: collapse; min-width: min(100%, 30rem); font-size: .88rem; margin: 0;
  font-variant-numeric: tabular-nums; color: var(--fg); background: none; }
.apt th, .apt td { text-align: left; padding: .3rem 1.3rem .3rem 0; vertical-align: baseline;
  border: 0; border-bottom: 1px solid var(--rule); overflow-wrap: normal; background: none;
  max-width: 28rem; white-space: nowrap; }
.apt .apt-wrap { white-space: normal; overflow-wrap: anywhere; }
.apt th { color: var(--soft); font-weight: 600; }
.apt td.apt-n, .apt th.apt-n { text-align: right; white-space: nowrap; }
.apt tr:last-child td { border-bottom: 0; }
.apt th:last-child, .apt td:last-child { padding-right: .2rem; }
.apt .apt-head { font-weight: 600; }
.apt .apt-soft { color: var(--soft); }
.apt .apt-chips { display: inline-flex; flex-wrap: wrap; gap: .3rem; }
.apt .apt-chip { background: var(--chip); border-radius: .5rem; padding: .05rem .5rem;
  font-size: .85rem; white-space: nowrap; color: var(--fg); }
.apt .apt-more { color: var(--soft); font-size: .85rem; }
.apt .apt-cover { display: inline-flex; align-items: center; gap: .5rem; white-space: nowrap; }
.apt .apt-meter { display: inline-block; width: 5.5rem; height: .5rem; border-radius: .25rem;
  background: var(--rule); overflow: hidden; }
.apt .apt-meter > span { display: block; height: 100%; background: var(--one); }
.apt .apt-figure { margin: .8rem 0 1.2rem; max-width: 46rem; }
.apt .apt-plot { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .5rem; }
.apt .apt-y { display: flex; flex-direction: column; justify-content: space-between;
  height: 9rem; font-size: .75rem; color: var(--soft); text-align: right; min-width: 2rem; }
.apt svg { display: block; width: 100%; height: 9rem; border-bottom: 1px solid var(--soft);
  overflow: hidden; }
.apt-small .apt-figure { max-width: 28rem; }
.apt-small .apt-y, .apt-small svg { height: 4rem; }
.apt .apt-bars { fill: var(--one); }
.apt .apt-behind { fill-opacity: .5; }
.apt .apt-bars rect:hover { opacity: .65; }
.apt .apt-line2 { fill: none; stroke: var(--two); stroke-width: 2px;
  vector-effect: non-scaling-stroke; }
.apt .apt-area { padding-right: 1rem; }
.apt .apt-x { position: relative; height: 1.4rem; font-size: .75rem; color: var(--soft); }
.apt .apt-x span { position: absolute; transform: translateX(-50%); white-space: nowrap;
  padding-top: .35rem; }
.apt .apt-x span::before { content: ""; position: absolute; left: 50%; top: 0; height: .3rem;
  border-left: 1px solid var(--soft); }
.apt figcaption { font-size: .83rem; color: var(--soft); margin-top: .3rem; }
.apt .apt-legend { display: flex; flex-wrap: wrap; gap: 0 1rem; }
.apt .apt-key i { display: inline-block; width: .8rem; height: .6rem; border-radius: 2px; }
.apt .apt-key1 { background: var(--one); opacity: .5; }
.apt .apt-key2 { border-top: 3px solid var(--two); border-radius: 0 !important;
  height: .2rem !important; vertical-align: middle; }
.apt .apt-periodic { display: grid; grid-template-columns: repeat(18, minmax(0, 1fr));
  gap: 2px; max-width: 46rem; margin: .8rem 0; }
.apt .apt-cell { aspect-ratio: 1; display: grid; place-items: center; border-radius: 3px;
  font-size: clamp(.5rem, 1.8vw, .84rem); overflow: hidden; overflow-wrap: normal; }
.apt .apt-shade0 { color: var(--soft); border: 1px solid var(--rule); }
.apt .apt-shade1 { background: var(--shade1); color: var(--on1); font-weight: 600; }
.apt .apt-shade2 { background: var(--shade2); color: var(--on2); font-weight: 600; }
.apt .apt-shade3 { background: var(--shade3); color: var(--on3); font-weight: 600; }
.apt .apt-shade4 { background: var(--shade4); color: var(--on4); font-weight: 600; }
"""
_PAGE = """
html { background: var(--bg); -webkit-text-size-adjust: 100%; }
body { margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 1.2rem clamp(.9rem, 4vw, 2.2rem) 3rem; }
h1 { font-size: clamp(1.3rem, 4vw, 1.75rem); line-height: 1.2; margin: .6rem 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .4rem; padding-top: .9rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: .98rem; margin: 1.4rem 0 .2rem; }
p { margin: .4rem 0; max-width: 46rem; }
code { font-size: .9em; font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; }
nav { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; font-size: .88rem; margin: .9rem 0 0; }
a { color: var(--one); text-underline-offset: .15em; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr));
  gap: .7rem; margin: 1.1rem 0; }
.card { background: var(--panel); border: 1px solid var(--rule); border-radius: .6rem;
  padding: .6rem .8rem; min-width: 0; }
.card b { display: block; font-size: 1.25rem; line-height: 1.25; font-variant-numeric:
  tabular-nums; }
.card span { color: var(--soft); font-size: .83rem; }
.notes { list-style: none; padding: 0; margin: .7rem 0; max-width: 46rem; }
.notes li { background: var(--panel); border-left: 4px solid var(--rule);
  border-radius: .3rem; padding: .5rem .8rem; margin: .45rem 0; }
.notes li.warning { background: var(--warn); border-color: var(--warn-rule); }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
  gap: 0 2.2rem; }
.pair > * { min-width: 0; }
footer { margin-top: 3rem; color: var(--soft); font-size: .83rem; }
@media print { nav { display: none; } h2 { break-after: avoid; } figure { break-inside: avoid; } }
"""


def _colors(selector: str) -> str:
    dark = f"@media (prefers-color-scheme: dark) {{ {selector} {{{_DARK}}} }}"
    return f"{selector} {{{_LIGHT}}}\n{dark}\n"


def page_style() -> Markup:
    """Returns the style element of a whole page."""
    return Markup(f"<style>{_colors(':root')}{_PARTS}{_PAGE}</style>")


def fragment_style() -> Markup:
    """Returns the style element of a fragment in a page of others, such as a notebook.

    Dark where the notebook says that its theme is dark, or otherwise where the system is.
    """
    themed = "".join(
        f"{theme} .apt {{{colors}}}\n"
        for themes, colors in (
            (('[data-jp-theme-light="true"]', ".vscode-light"), _LIGHT),
            (('[data-jp-theme-light="false"]', ".vscode-dark", "html[theme=dark]"), _DARK),
        )
        for theme in themes
    )
    return Markup(f"<style>{_colors('.apt')}{themed}{_PARTS}</style>")


DASH = "\N{EN DASH}"  # instead of an absent number
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
            underscores become hyphens; attributes that are None are omitted.

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
