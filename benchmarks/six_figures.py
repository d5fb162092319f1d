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
WIDTH, MARGIN, ROW, BAR, BARS = 490, 14, 42, 14, 462  # pixels; BARS: of the longest


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
    """SVG with a line of text and a bar for each figure, on a logarithmic axis that begins at 1.

    It is narrow, so that its text can be read on a phone.
    """
    ink, line, bar = colors
    scale = BARS / math.log(max(f.times for f in figures))
    places = [(tick, f"{MARGIN + scale * math.log(tick):.1f}") for tick in (1, 10, 100)]
    bottom = ROW * len(figures)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'viewBox="0 0 {WIDTH} {bottom + 44}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="16" fill="{ink}">',
        "<title>How many times faster than other libraries</title>",
    ]
    for i, figure in enumerate(figures):
        top = i * ROW + 24
        width = scale * math.log(figure.times)
        grid = "".join(f"M{x} {top - 3}v{BAR + 6}" for _, x in places)
        parts += [
            f'<text x="{MARGIN}" y="{top - 7}">{figure.task}: <tspan font-weight="600">'
            f"{figure.times:g}{TIMES}</tspan> faster than {figure.peer}</text>",
            f'<path d="{grid}" stroke="{line}"/>',
            f'<rect x="{MARGIN}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" '
            f'fill="{bar}"/>',
        ]
    parts += [
        f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" font-size="15">{tick}{TIMES}</text>'
        for tick, x in places
    ]
    parts.append(
        f'<text x="{MARGIN}" y="{bottom + 38}" font-size="15">'
        "speed compared with the other library, logarithmic</text>"
    )
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
