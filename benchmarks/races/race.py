"""Run contestants in turn, each in a separate process, and compare their speeds.

Separate processes are needed because atompack-db hangs in forked children once their parent has
used it, and because thread pools interfere with each other. Rounds are interleaved (ours, theirs,
ours, ...), so that a change of the machine's speed affects both sides; the reported figure is the
median of the ratios of the rounds. The timed loop asks every tensor of every batch for its address,
so that nothing counts as delivered before it exists.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from turns import own_process


@dataclass(frozen=True)
class Setting:
    """Benchmark setting: a random epoch in batches, by a DataLoader or by batch calls alone."""

    path: Path
    molecules: int
    workers: int = 0
    batch_size: int = 64
    through_loader: bool = True
    epoch: int | None = None  # molecules drawn in an epoch, for slow contestants; None: all


@dataclass(frozen=True)
class Contestant:
    """A loader of random epochs, and a function that makes a batch with ``keys()`` and ``[]``."""

    loader: Iterable[Any]
    batch: Callable[[list[int]], Any]


Build = Callable[[Setting], Contestant]


@dataclass(frozen=True)
class Entry:
    """A contestant by name; ``build`` runs in the contestant's process."""

    name: str
    build: Build
    setting: Setting


@dataclass(frozen=True)
class Standing:
    """Result of one contestant; ``ratio`` is the first contestant's speed over this one's."""

    name: str
    ratio: float
    ratio_low: float
    ratio_high: float
    molecules_per_s: float
    mb_per_s: float  # of tensors delivered

    @classmethod
    def of(cls, name: str, speeds: Sequence[float], first: Sequence[float], mb: float) -> Standing:
        """Sum up all rounds, in molecules/s of ``mb`` each, relative to the first contestant."""
        ratios = [a / b for a, b in zip(first, speeds, strict=True)]
        speed = statistics.median(speeds)
        return cls(name, statistics.median(ratios), min(ratios), max(ratios), speed, speed * mb)


class _Runner:
    """The contestant of this process."""

    def __init__(self, entry: Entry) -> None:
        torch.manual_seed(0)
        self._setting = entry.setting
        self._contestant = entry.build(entry.setting)

    def _batches(self) -> Iterable[Any]:
        if self._setting.through_loader:
            return self._contestant.loader
        order = torch.randperm(self._setting.molecules).tolist()
        size = self._setting.batch_size
        chunks = [order[i : i + size] for i in range(0, len(order), size)]
        return map(self._contestant.batch, chunks)

    def run(self, epochs: int) -> float:
        """Return the seconds that this many random epochs take."""
        seconds = 0.0
        for _ in range(epochs):
            batches = self._batches()  # the order of batch calls is not part of their cost
            start = time.perf_counter()
            for batch in batches:
                touch(batch)
            seconds += time.perf_counter() - start
        return seconds

    def epoch_bytes(self) -> int:
        """Count the bytes of the tensors delivered in an epoch."""
        return sum(tensor.nbytes for batch in self._batches() for tensor in tensors(batch))


_runner: _Runner | None = None


def tensors(batch: Any) -> Iterator[Tensor]:
    """Go through the tensors of a batch."""
    keys = batch.keys()  # iterating a batch itself gives molecules
    for key in keys:
        value = batch[key]
        if isinstance(value, Tensor):
            yield value


def touch(batch: Any) -> int:
    """Ask every tensor of a batch for its address; fast, as it is part of the timed loop."""
    total = 0
    keys = batch.keys()
    for key in keys:
        value = batch[key]
        if type(value) is Tensor:
            total += value.data_ptr()
    return total


def _open(entry: Entry) -> int:
    global _runner
    _runner = _Runner(entry)
    return _runner.epoch_bytes()  # warm-up epoch: faults in pages, starts workers


def _run(epochs: int) -> float:
    assert _runner is not None
    return _runner.run(epochs)


class Racer:
    """The parent's end of a contestant."""

    def __init__(self, entry: Entry, process: ProcessPoolExecutor, seconds: float) -> None:
        self._process = process
        self._bytes = process.submit(_open, entry).result()
        self._molecules = entry.setting.epoch or entry.setting.molecules
        self._epochs = max(1, round(seconds / process.submit(_run, 1).result()))
        self.name = entry.name
        self.speeds: list[float] = []  # molecules/s of every round

    def round(self) -> None:
        """Run for about the requested time and record the speed."""
        seconds = self._process.submit(_run, self._epochs).result()
        self.speeds.append(self._epochs * self._molecules / seconds)

    def standing(self, first: Racer) -> Standing:
        """Sum up all rounds, relative to the first contestant."""
        megabytes = self._bytes / self._molecules / 1e6
        return Standing.of(self.name, self.speeds, first.speeds, megabytes)


def race(entries: Sequence[Entry], rounds: int, seconds: float) -> list[Standing]:
    """Run the contestants in turn, round by round; ratios are relative to the first."""
    with ExitStack() as stack:
        racers = [Racer(entry, stack.enter_context(own_process()), seconds) for entry in entries]
        for _ in range(rounds):
            for racer in racers:
                racer.round()
    return [racer.standing(racers[0]) for racer in racers]
