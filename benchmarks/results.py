"""What benchmarks measured, noted for the table of all of them (``table.py``).

A benchmark calls `note` once a case, or passes its rows through `noted`. Nothing happens unless the
environment variable ``BENCH_RESULTS`` names a file; then each result is one line of JSON in it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from races import Row

VARIABLE = "BENCH_RESULTS"

# All that `make bench` runs, in the order of the table.
BENCHMARKS = (
    "read_atp",
    "loaders",
    "write_atp",
    "convert",
    "neighbors",
    "descriptor",
    "torch_ops",
    "torch_cache",
    "atlas",
    "atlas_shards",
    "samplers",
)


# Peers that do the least work there is.
LIMITS = ("memcpy", "bare copy", "bare decoder", "bare number")


@dataclass(frozen=True)
class Result:
    """One case, next to one peer or to nobody."""

    format: str
    case: str
    ours: float
    unit: str  # a rate if it ends in "/s", else what it takes
    peer: str | None = None
    theirs: float | None = None
    ratio: float | None = None  # how many times faster we are
    reference: bool = False  # the peer is another way of ours, or the least work there is

    @property
    def is_limit(self) -> bool:
        """Whether the peer does the least work there is."""
        return self.reference and self.peer is not None and self.peer.startswith(LIMITS)


@dataclass(frozen=True)
class Run:
    """How one benchmark ended."""

    benchmark: str
    status: int
    seconds: float


def note(result: Result) -> None:
    """Append a result where the variable says; a ratio is made where there is none."""
    if result.ratio is None and result.theirs is not None:
        speedup = result.ours / result.theirs
        ratio = speedup if result.unit.endswith("/s") else 1 / speedup
        result = dataclasses.replace(result, ratio=ratio)
    _append({"benchmark": Path(sys.argv[0]).stem, **dataclasses.asdict(result)})


def note_run(run: Run) -> None:
    """Append how a benchmark ended."""
    _append(dataclasses.asdict(run))


def noted(format_name: str, rows: Iterable[Row], references: Collection[str] = ()) -> Iterator[Row]:
    """Pass rows through and note each; ``references`` are the peers that are no other library."""
    for row in rows:
        ours, peer = row.ours.molecules_per_s, row.theirs
        numbers = (peer.name, peer.molecules_per_s, peer.ratio)
        note(Result(format_name, row.case, ours, "molecules/s", *numbers, peer.name in references))
        yield row


def read(path: Path) -> tuple[dict[str, list[Result]], dict[str, Run]]:
    """Results and ends of the benchmarks in a file, by their names."""
    results: dict[str, list[Result]] = {}
    runs = {}
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        if "status" in fields:
            runs[fields["benchmark"]] = Run(**fields)
        else:
            results.setdefault(fields.pop("benchmark"), []).append(Result(**fields))
    return results, runs


def _append(fields: dict[str, Any]) -> None:
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a") as file:
            file.write(json.dumps(fields) + "\n")
