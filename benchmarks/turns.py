"""Taking turns, so that whatever else the machine does meets all sides alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

Name = TypeVar("Name")


class Spent(NamedTuple):
    """Seconds over all rounds."""

    median: float
    best: float


def take_turns(sides: Mapping[Name, Callable[[], object]], rounds: int) -> dict[Name, Spent]:
    """What each side takes."""
    seconds: dict[Name, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            seconds[name].append(time.perf_counter() - start)
    return {name: Spent(statistics.median(times), min(times)) for name, times in seconds.items()}
