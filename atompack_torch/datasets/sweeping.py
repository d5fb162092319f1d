"""Full passes over a dataset, with progress reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from atompack_torch.progress import Progress

OnProgress = Callable[[int], object]  # called with the number of molecules done since the last call


class Sweep(Protocol):
    """Interface of a native pass over molecules."""

    def __len__(self) -> int:
        """Total number of molecules."""

    def advance(self) -> int:
        """Runs for about a tenth of a second; returns the number of molecules done."""


def steps(sweep: Sweep, report: OnProgress | None) -> Iterator[int]:
    """Runs a pass to its end; yields the number of molecules done in each step.

    An interrupt takes effect between two steps.
    """
    done = 0
    while done < len(sweep):
        reached = sweep.advance()
        yield reached - done
        if report is not None:
            report(reached - done)
        done = reached


def available_threads(wanted: int | None) -> int:
    """Limits the threads of a pass to the number of torch if it is loaded, else to all cores."""
    torch = sys.modules.get("torch")
    most = torch.get_num_threads() if torch else len(os.sched_getaffinity(0))
    return min(wanted or most, most)


def runs(
    n_atoms: np.ndarray[Any, Any], most_atoms: int, most_molecules: int, first: int = 0
) -> Iterator[range]:
    """Splits molecules into consecutive runs that reach one of two limits.

    Args:
        n_atoms: (n,) int64 atoms of each molecule.
        most_atoms: maximum number of atoms, unless one molecule has more.
        most_molecules: maximum number of molecules.
        first: number of the first molecule.

    Yields:
        The indices of the molecules of a run.
    """
    ends = np.cumsum(n_atoms)
    while first < len(ends):
        before = ends[first] - n_atoms[first]
        fitting = int(np.searchsorted(ends, before + most_atoms, side="right"))
        last = min(max(fitting, first + 1), first + most_molecules, len(ends))
        yield range(first, last)
        first = last


@contextmanager
def reporting(
    progress: bool | OnProgress, total: int, label: str, unit: str = "molecules"
) -> Iterator[OnProgress]:
    """Provides the callback for ``progress=``: of a bar, the caller's, or one without effect."""
    if callable(progress):
        yield progress
    elif progress:
        with Progress(total, unit, label=label) as bar:
            yield bar.update
    else:
        yield lambda n: None
