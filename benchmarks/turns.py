"""What benchmarks share: options, and turns, in which other work of the machine meets all alike."""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Name = TypeVar("Name")
Found = TypeVar("Found")


class Spent(NamedTuple):
    """Seconds over all rounds."""

    median: float
    best: float
    processor: float  # the best, of processor time of all threads


def take_turns(sides: Mapping[Name, Callable[[], object]], rounds: int) -> dict[Name, Spent]:
    """What each side takes."""
    seconds: dict[Name, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start, used = time.perf_counter(), time.process_time()
            side()
            seconds[name].append((time.perf_counter() - start, time.process_time() - used))
    spent = {}
    for name, times in seconds.items():
        wall, processor = zip(*times, strict=True)
        spent[name] = Spent(statistics.median(wall), min(wall), min(processor))
    return spent


def best(call: Callable[[], object], rounds: int) -> float:
    """Seconds of the quickest of several calls."""
    return take_turns({"": call}, rounds)[""].best


def own_process() -> ProcessPoolExecutor:
    """An executor with one fresh interpreter, which runs its tasks in order."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def in_own_process(function: Callable[..., Found], *args: Any) -> Found:
    """Call a function in a fresh interpreter."""
    with own_process() as process:
        return process.submit(function, *args).result()


def peak_bytes() -> int:
    """The most memory this process has had; ``ru_maxrss`` counts that of its parent too."""
    (kilobytes,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(kilobytes)


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser that prints the description as it stands, and knows ``--quick``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="check that it runs, on small data")
    return parser
