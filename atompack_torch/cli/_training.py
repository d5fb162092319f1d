"""Training steps that wait for data: measured with two loaders, predicted for faster devices."""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from atompack_torch.errors import FieldError, printable

TRAINERS = ("mace", "nequip", "orb")
_FASTER = (1, 2, 5, 10, 20, 50)
_WARM_UP = 3  # steps of a pass that do not count
_PASSES = 2


@dataclass(frozen=True)
class Side:
    """Seconds that training with one loader takes.

    Attributes:
        prepares: to make the loader, of the molecules that were measured.
        makes: to make a batch while nothing else runs, on average.
        waits: that a step waited for its batch, on average.
        step: that a step itself takes, with either loader, as it computes the same: the first
            quartile, since compiling slows many down.
    """

    prepares: float
    makes: float
    waits: float
    step: float

    def would_wait(self, step: float) -> float:
        """Predicts the seconds that a step waits for its batch.

        A loader that works ahead makes the next batch while a step runs; what a long step still
        waited for, up to a whole batch, is work that does not overlap with it.

        Args:
            step: seconds that the step takes, at most as many as the measured one.

        Returns:
            The seconds.
        """
        return max(self.makes - step, min(self.waits, self.makes))


def times_of_steps(
    batches: Iterable[Any], step: Callable[[Any], object]
) -> list[tuple[float, float]]:
    """Measures the steps of one pass.

    Args:
        batches: of the pass.
        step: takes one of them.

    Returns:
        For each step, the seconds it waits for its batch, and those it takes itself.
    """
    times: list[tuple[float, float]] = []
    iterator = iter(batches)
    while True:
        start = time.perf_counter()
        batch = next(iterator, None)
        arrived = time.perf_counter()
        if batch is None:
            return times
        step(batch)
        times.append((arrived - start, time.perf_counter() - arrived))


def measured_sides(
    loaders: Mapping[str, Callable[[], Iterable[Any]]],
    step: Callable[[Any], object],
) -> dict[str, Side]:
    """Measures loaders, each alone and with training steps, in turns.

    Args:
        loaders: name to a function that makes the loader.
        step: takes a batch.

    Returns:
        Name to what was measured.
    """
    made, prepares, alone = {}, {}, {}
    steps: dict[str, list[tuple[float, float]]] = {}
    for name, make in loaders.items():
        start = time.perf_counter()
        made[name] = make()
        prepares[name] = time.perf_counter() - start
        alone[name] = _counted(times_of_steps(made[name], lambda batch: None))
        steps[name] = []
    for _ in range(_PASSES):
        for name, batches in made.items():
            steps[name] += _counted(times_of_steps(batches, step))
    takes = sorted(takes for times in steps.values() for _, takes in times)
    return {
        name: Side(
            prepares[name],
            statistics.fmean(waits for waits, _ in alone[name]),
            statistics.fmean(waits for waits, _ in steps[name]),
            takes[len(takes) // 4],
        )
        for name in made
    }


def _counted(times: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the steps after the warm-up, and at least the last one."""
    return times[min(_WARM_UP, len(times) - 1) :]


def measured(shown: str, dataset: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Measures a trainer's steps on molecules of a dataset, with its own loader and with ours.

    Args:
        shown: path of the data, without secrets.
        dataset: the molecules.
        options: the parsed options.

    Returns:
        The result as plain JSON values.

    Raises:
        FieldError: there are no molecules with atoms, or no labels, to train on.
        ImportError: the trainer is not installed.
    """
    import torch

    from atompack_torch.datasets.base import MoleculeDataset

    if not isinstance(dataset, MoleculeDataset):
        kind = type(dataset).__name__
        raise FieldError(f"{shown}: expected molecules to train on, got a {kind}")
    dataset = dataset.subset(dataset.n_atoms > 0)  # the trainers' own loaders take no others
    if len(dataset) == 0:
        raise FieldError(f"{shown}: expected molecules to train on, got none with atoms")
    n, size = len(dataset), options.batch_size or 16
    import_module(f"atompack_torch.trainers.{options.train}")  # names the package it needs
    most = min(n, size * (options.steps + _WARM_UP))
    molecules = dataset.subset(sorted(random.Random(0).sample(range(n), most)))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    steps = import_module(f"atompack_torch.trainers._steps.{options.train}")
    training = steps.Training(molecules.statistics().elements, options.cutoff, device)

    def step(batch: Any) -> None:
        if options.step_ms is not None:
            time.sleep(options.step_ms / 1000)
            return
        training.step(batch)
        if device.type == "cuda":
            torch.cuda.synchronize()

    atoms = [molecule.to_ase() for molecule in molecules]
    loaders = {
        "stock": partial(training.stock, atoms, size, options.workers),
        "ours": partial(training.ours, molecules, size),
    }
    sides = measured_sides(loaders, step)
    return {
        "path": shown,
        "trainer": options.train,
        "molecules": n,
        "measured": most,
        "batch_size": size,
        "cutoff": options.cutoff,
        "device": device.type,
        **{name: _document(side, -(-n // size), n / most) for name, side in sides.items()},
        "faster": _predictions(sides),
    }


def _document(side: Side, n_batches: int, times: float) -> dict[str, Any]:
    """One loader as plain JSON values, for all molecules, which are some times those measured."""
    return {
        "prepares_s": side.prepares * times,
        "makes_ms": 1000 * side.makes,
        "waits_ms": 1000 * side.waits,
        "step_ms": 1000 * side.step,
        "waiting": side.waits / (side.waits + side.step),
        "epoch_s": n_batches * (side.waits + side.step),
    }


def _predictions(sides: dict[str, Side]) -> list[dict[str, Any]]:
    step = sides["ours"].step
    rows = []
    for times in _FASTER:
        row: dict[str, Any] = {"times": times, "step_ms": 1000 * step / times}
        for name, side in sides.items():
            row[f"{name}_waits_ms"] = 1000 * side.would_wait(step / times)
        rows.append(row)
    return rows


def tables(found: dict[str, Any]) -> str:
    """Formats a result of ``measured`` as text."""
    from atompack_torch.formats.text import table

    rows = [("", "batch alone", "step", "waits", "of the time", "an epoch", "before the first")]
    for name in ("stock", "ours"):
        one = found[name]
        rows.append(
            (
                name,
                f"{one['makes_ms']:.2f} ms",
                f"{one['step_ms']:.2f} ms",
                f"{one['waits_ms']:.2f} ms",
                f"{100 * one['waiting']:.1f} %",
                f"{one['epoch_s']:,.1f} s",
                f"{one['prepares_s']:,.1f} s",
            )
        )
    faster = [("speed-up", "step", "waits, stock", "waits, ours")]
    for row in found["faster"]:
        step = row["step_ms"]
        stock, ours = (
            f"{waits:.2f} ms ({100 * waits / (waits + step):.0f} %)"
            for waits in (row["stock_waits_ms"], row["ours_waits_ms"])
        )
        faster.append((f"{row['times']}", f"{step:.2f} ms", stock, ours))
    return (
        f"{printable(found['path'])}: {found['molecules']:,} molecules, of which "
        f"{found['measured']:,} were measured: {found['trainer']} on {found['device']}, batches of "
        f"{found['batch_size']:,}, cutoff {found['cutoff']:g} Å\n"
        f"{table(rows, '  ')}\non a faster device:\n{table(faster, '  ')}"
    )
