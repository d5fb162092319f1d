"""Makes one table of all benchmarks out of their results, and a picture of it.

    python benchmarks/table.py RESULTS [--out FOLDER]

RESULTS is what ``run_all.py`` wrote. The table is printed and becomes ``table.md`` in FOLDER, the
picture ``benchmarks.png``. A benchmark that failed or is missing is named below the table, and the
exit status is 1.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from results import BENCHMARKS, Result, Run, read

INK, FAINT = "#333333", "#bbbbbb"
FASTER, SLOWER = "#2f7ebc", "#d1603d"
ROW_INCHES, WIDTH_INCHES = 0.19, 6.0  # of the bars; names stand outside
LETTERS = 52  # in a line of names

Lanes = dict[str, dict[str, list[Result]]]  # by format, then by case: next to each peer


def number(value: float | None) -> str:
    """Three digits, all of those before the point."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times(ratio: float | None) -> str:
    """How many times faster: two digits, for rounds differ by more than a hundredth."""
    if ratio is None:
        return ""
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def peer_text(result: Result) -> str:
    """How many times faster than whom, and what that one takes."""
    star = "\\*" * result.reference
    theirs = f"{number(result.theirs)} {result.unit}"
    return f"{times(result.ratio)} {result.peer}{star} ({theirs})" if result.peer else ""


def limit_text(result: Result) -> str:
    """How near to the least work there is, and what that takes."""
    theirs = f"{number(result.theirs)} {result.unit}"
    return f"{result.ratio or 0:.0%} of the speed of {result.peer} ({theirs})"


def table(results: Sequence[Result]) -> list[str]:
    """Lines of Markdown, one for each thing measured."""
    titles = ["format", "case", "atompack_torch", "speed-up over", "limit"]
    lines = [f"| {' | '.join(titles)} |", "|---|---|--:|---|---|"]

    def measured(result: Result) -> tuple[str, str, str]:
        return result.format, result.case, f"{number(result.ours)} {result.unit}"

    for cells, group in itertools.groupby(results, measured):
        peers = list(group)
        others = "; ".join(peer_text(result) for result in peers if not result.is_limit)
        limits = "; ".join(limit_text(result) for result in peers if result.is_limit)
        lines.append(f"| {' | '.join([*cells, others, limits])} |")
    lines += ["", "Where rounds were taken in turn, their median."]
    if any(result.reference and not result.is_limit for result in results):
        lines[-1] += " \\*: another way of ours, not in the picture."
    return lines


def complaints(noted: Mapping[str, Sequence[Result]], runs: Mapping[str, Run]) -> list[str]:
    """One line for each benchmark that is not whole."""
    lines = []
    for name in BENCHMARKS:
        run, n_cases = runs.get(name), len(noted.get(name, ()))
        if run is not None and run.status != 0:
            lines.append(f"- `{name}` failed with status {run.status} after {n_cases} cases")
        elif n_cases == 0:
            lines.append(f"- `{name}` is missing: {'did not run' if run is None else 'no results'}")
    return lines


def lanes(results: Sequence[Result]) -> Lanes:
    """What is drawn: cases next to other libraries, the nearest of these first."""
    drawn: Lanes = {}
    for result in results:
        if result.ratio is not None and not result.reference:
            drawn.setdefault(result.format, {}).setdefault(result.case, []).append(result)
    for cases in drawn.values():
        for peers in cases.values():
            peers.sort(key=lambda result: result.ratio or 0)
    return drawn


def draw_case(axes: Axes, y: float, peers: Sequence[Result], names: str) -> None:
    """A bar as far as the nearest peer, a mark for each other, the names behind."""
    nearest, *others = [result.ratio or 0 for result in peers]
    color = FASTER if nearest >= 1 else SLOWER
    axes.barh(y, nearest - 1, left=1, height=0.7, color=color)
    axes.plot(others, [y] * len(others), "|", color=INK, markersize=7, markeredgewidth=1.2)
    place: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
    axes.annotate(names, (max(1, nearest, *others), y), **place, fontsize=7, color=INK)


def draw(drawn: Lanes, path: Path) -> None:
    """Bars from 1x, to the right where we are faster, grouped by format."""
    figure = Figure()
    axes = figure.subplots()
    axes.set_xscale("log")
    y, rows = 0.0, {}
    title: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
    for format_name, cases in drawn.items():
        axes.text(-0.01, y, format_name, **title, fontsize=9, fontweight="bold", color=INK)
        y += 1
        for case, peers in cases.items():
            named = "; ".join(f"{times(result.ratio)} {result.peer}" for result in peers)
            left, right = textwrap.fill(case, LETTERS), textwrap.fill(named, LETTERS)
            more = 0.42 * max(left.count("\n"), right.count("\n"))  # half of what its lines need
            rows[y + more] = left
            draw_case(axes, y + more, peers, right)
            y += 1 + 2 * more
        y += 0.5
    axes.set_yticks(list(rows), list(rows.values()), fontsize=8, color=INK)
    axes.set_ylim(y - 0.5, -1)
    lay_out(axes, drawn)
    figure.set_size_inches(WIDTH_INCHES, ROW_INCHES * (y + 4))
    figure.savefig(path, dpi=120, bbox_inches="tight")


def lay_out(axes: Axes, drawn: Lanes) -> None:
    """Axes, with room for names on the right."""
    ratios = [r.ratio or 1 for cases in drawn.values() for peers in cases.values() for r in peers]
    axes.set_xlim(min(0.5, *ratios) / 1.2, max(2, *ratios) * 1.2)
    axes.axvline(1, color=INK, linewidth=1)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}x"))
    axes.tick_params(axis="x", labelsize=8, top=True, labeltop=True, colors=INK)
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(
        "how many times faster than others (bar: the nearest of them, marks: the rest)", fontsize=8
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    noted, runs = read(options.results)
    results = [result for name in BENCHMARKS for result in noted.get(name, ())]
    missing = complaints(noted, runs)
    lines = table(results) + (["", "Not whole:", "", *missing] if missing else [])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    if drawn := lanes(results):
        draw(drawn, options.out / "benchmarks.png")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
