"""Writes the six figures of the README and the landing page from the table of all benchmarks.

    python benchmarks/six_figures.py [TABLE]

TABLE is a page with the table that ``table.py`` makes, by default ``docs/benchmarks.md``. The
figures become a table in ``README.md``, between its marks, and a picture in ``docs/img``, in light
and dark colors.
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
README = REPOSITORY / "README.md"
MARKS = "<!-- six figures -->\n", "<!-- end of the six figures -->\n"

# What it is called here, and the format, case and peer of its row.
CASES = (
    (
        "batches by Loader, compared with atompack-db",
        ".atp, load",
        "Loader, 1 thread, none",
        "atompack-db",
    ),
    ("neighbor lists, compared with vesin", "neighbors", "periodic, 1 thread", "vesin"),
    (
        "batches by DataLoader, compared with LMDB",
        ".atp, read",
        "DataLoader, 0 workers",
        "LMDB",
    ),
    ("xyz to .atp, compared with ASE", ".atp, convert", "convert extended XYZ", "ase.io"),
    ("batches by DataLoader, compared with PyG", ".atp, read", "DataLoader, 0 workers", "PyG"),
    ("batches by DataLoader, compared with h5py", ".atp, read", "DataLoader, 0 workers", "h5py"),
)
COLORS = {"light": ("#24292f", "#d0d7de", "#00796b"), "dark": ("#e6edf3", "#484f58", "#4db6ac")}
WIDTH, LABELS, ROW, BARS = 760, 350, 36, 330  # pixels


@dataclass(frozen=True)
class Figure:
    """One of the six.

    Attributes:
        name: Task and peer.
        times: How many times faster than the peer.
        ours: What this package takes or does, with its unit.
        theirs: The same of the peer.
    """

    name: str
    times: float
    ours: str
    theirs: str


def figures_of(page: str) -> list[Figure]:
    """Finds the six figures in a page with the table of all benchmarks.

    Raises:
        SystemExit: A row or a peer is missing.
    """
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    found = []
    for name, family, case, peer in CASES:
        for row in rows:
            if row[:2] != [family, case]:
                continue
            match = re.search(rf"([\d,.]+)x {re.escape(peer)}[^(;]*\(([^)]*)\)", row[3])
            if match:
                found.append(Figure(name, float(match[1].replace(",", "")), row[2], match[2]))
                break
        else:
            raise SystemExit(f"no row for {family}, {case}, {peer}")
    return found


def table(figures: list[Figure]) -> str:
    """Markdown of the README's table."""
    lines = [
        "| task, compared with | speed-up | this package | the other |",
        "|---|--:|--:|--:|",
    ]
    lines += [f"| {f.name} | {f.times:g} | {f.ours} | {f.theirs} |" for f in figures]
    return "\n".join(lines) + "\n"


def picture(figures: list[Figure], colors: tuple[str, str, str]) -> str:
    """SVG with one bar for each figure, on a logarithmic axis that begins at 1."""
    ink, line, bar = colors
    longest = math.log(max(f.times for f in figures))
    height = ROW * len(figures) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="16" fill="{ink}">',
        "<title>How many times faster than other libraries</title>",
        f'<path d="M{LABELS} 0V{height}" stroke="{line}"/>',
    ]
    for i, figure in enumerate(figures):
        top = 8 + i * ROW
        width = BARS * math.log(figure.times) / longest
        middle, end = f"{top + ROW / 2 + 5:g}", f"{LABELS + width + 8:.1f}"
        place = f'x="{LABELS}" y="{top + 5}" width="{width:.1f}" height="{ROW - 10}"'
        parts += [
            f'<text x="{LABELS - 10}" y="{middle}" text-anchor="end">{figure.name}</text>',
            f'<rect {place} rx="2" fill="{bar}"/>',
            f'<text x="{end}" y="{middle}" font-weight="600">{figure.times:g}x</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def in_readme(readme: str, figures: list[Figure]) -> str:
    """The README with these figures between its marks."""
    before, rest = readme.split(MARKS[0])
    return before + MARKS[0] + table(figures) + MARKS[1] + rest.split(MARKS[1])[1]


def main() -> None:
    """Reads the table, and writes what is made of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?", default=REPOSITORY / "docs/benchmarks.md")
    figures = figures_of(parser.parse_args().table.read_text())
    README.write_text(in_readme(README.read_text(), figures))
    for scheme, colors in COLORS.items():
        (REPOSITORY / f"docs/img/speed_{scheme}.svg").write_text(picture(figures, colors))


if __name__ == "__main__":
    main()
