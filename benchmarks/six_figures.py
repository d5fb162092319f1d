"""Draws the six figures of the README and the landing page from the table of all benchmarks.

    python benchmarks/six_figures.py [TABLE]

TABLE is a page with the table that ``table.py`` makes, by default ``docs/benchmarks.md``. The
pictures are in ``docs/img``, in light and dark colors.
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

# Task and peer as shown, and the format, case and peer of its row.
CASES = (
    ("batches by Loader", "atompack-db", ".atp, load", "Loader, 1 thread, none", "atompack-db"),
    ("neighbor lists", "vesin", "neighbors", "periodic, 1 thread", "vesin"),
    ("batches by DataLoader", "LMDB", ".atp, read", "DataLoader, 0 workers", "LMDB"),
    ("xyz to .atp", "ASE", ".atp, convert", "convert extended XYZ", "ase.io"),
    ("batches by DataLoader", "PyG in memory", ".atp, read", "DataLoader, 0 workers", "PyG"),
    ("batches by DataLoader", "h5py", ".atp, read", "DataLoader, 0 workers", "h5py"),
)
TIMES = "\N{MULTIPLICATION SIGN}"
COLORS = {"light": ("#24292f", "#d0d7de", "#00796b"), "dark": ("#e6edf3", "#484f58", "#4db6ac")}
WIDTH, LABELS, ROW, BARS = 690, 205, 34, 260  # pixels


@dataclass(frozen=True)
class Figure:
    """One of the six.

    Attributes:
        task: What is done.
        peer: With what it is compared.
        times: How many times faster than the peer.
    """

    task: str
    peer: str
    times: float


def figures_of(page: str) -> list[Figure]:
    """Finds the six figures in a page with the table of all benchmarks.

    Raises:
        SystemExit: A row or a peer is missing.
    """
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    found = []
    for task, name, family, case, peer in CASES:
        for row in rows:
            if row[:2] != [family, case]:
                continue
            match = re.search(rf"([\d,.]+)x {re.escape(peer)}", row[3])
            if match:
                found.append(Figure(task, name, float(match[1].replace(",", ""))))
                break
        else:
            raise SystemExit(f"no row for {family}, {case}, {peer}")
    return found


def picture(figures: list[Figure], colors: tuple[str, str, str]) -> str:
    """SVG with one bar for each figure, on a logarithmic axis that begins at 1."""
    ink, line, bar = colors
    scale = BARS / math.log(max(f.times for f in figures))
    bottom = ROW * len(figures) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 42}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="15" fill="{ink}">',
        "<title>How many times faster than other libraries</title>",
    ]
    for tick in (1, 10, 100):
        x = f"{LABELS + scale * math.log(tick):.1f}"
        parts += [
            f'<path d="M{x} 4V{bottom}" stroke="{line}"/>',
            f'<text x="{x}" y="{bottom + 16}" text-anchor="middle" font-size="13">'
            f"{tick}{TIMES}</text>",
        ]
    parts.append(
        f'<text x="{LABELS + BARS / 2:g}" y="{bottom + 35}" text-anchor="middle" font-size="13">'
        "speed compared with the other library, logarithmic</text>"
    )
    for i, figure in enumerate(figures):
        top = 8 + i * ROW
        width = scale * math.log(figure.times)
        middle, end = f"{top + ROW / 2 + 5:g}", f"{LABELS + width + 8:.1f}"
        place = f'x="{LABELS}" y="{top + 5}" width="{width:.1f}" height="{ROW - 10}"'
        times = (
            f'<tspan font-weight="600">{figure.times:g}{TIMES}</tspan> faster than {figure.peer}'
        )
        parts += [
            f'<text x="{LABELS - 10}" y="{middle}" text-anchor="end">{figure.task}</text>',
            f'<rect {place} rx="2" fill="{bar}"/>',
            f'<text x="{end}" y="{middle}">{times}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Reads the table and draws the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?", default=REPOSITORY / "docs/benchmarks.md")
    figures = figures_of(parser.parse_args().table.read_text())
    for scheme, colors in COLORS.items():
        (REPOSITORY / f"docs/img/speed_{scheme}.svg").write_text(picture(figures, colors))


if __name__ == "__main__":
    main()
