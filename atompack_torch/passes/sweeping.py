"""Looking through a whole data set, with a word now and then on how far it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from atompack_torch.progress import Progress

Report = Callable[[int], object]  # told how many more molecules are done


class Sweep(Protocol):
    """A native pass over molecules."""

    def __len__(self) -> int:
        """Molecules in all."""

    def advance(self) -> int:
        """Goes on for about a tenth of a second; returns how many molecules are done."""


def steps(sweep: Sweep, report: Report | None) -> Iterator[int]:
    """Runs a pass to its end; tells after each step how many molecules that was.

    An interrupt gets through between two steps.
    """
    done = 0
    while done < len(sweep):
        reached = sweep.advance()
        yield reached - done
        if report is not None:
            report(reached - done)
        done = reached


def available_threads(wanted: int | None) -> int:
    """The number of threads for a pass: as many as torch uses, or, without torch, as there are."""
    torch = sys.modules.get("torch")
    most = torch.get_num_threads() if torch else len(os.sched_getaffinity(0))
    return min(wanted or most, most)


@contextmanager
def reporting(
    progress: bool | Report, total: int, label: str, unit: str = "molecules"
) -> Iterator[Report | None]:
    """What ``progress=`` of a long call stands for: nothing, a bar, or the caller's function."""
    if callable(progress):
        yield progress
    elif progress:
        with Progress(total, unit, label=label) as bar:
            yield bar.update
    else:
        yield None
