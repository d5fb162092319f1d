"""One rank of a loop of one's own: goes through every loader, and writes which molecules came."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch.distributed
from cases import LOADERS, blocks, budget, molecules
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import atompack_torch as apt

EPOCHS = 2
STOP = 5  # steps before a stop in the middle of an epoch


def set_epoch(loader: Any, epoch: int) -> None:
    """Sets the epoch as loops of other packages do, where the loader has a place for it."""
    for sampler in (loader.sampler, getattr(loader.batch_sampler, "sampler", None)):
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)


def numbers(batches: Any) -> list[list[int]]:
    return [batch.index.tolist() for batch in batches]


def train(loader: Any) -> list[list[list[int]]]:
    """All epochs."""
    found = []
    for epoch in range(EPOCHS):
        set_epoch(loader, epoch)
        found.append(numbers(loader))
    return found


def resume(make: Callable[[], Any]) -> list[list[list[int]]]:
    """An epoch that is stopped and continued from the state of the loader, and the next one."""
    loader = make()
    set_epoch(loader, 0)
    batches = iter(loader)
    first = numbers(islice(batches, STOP))
    state = json.loads(json.dumps(loader.state_dict())) if isinstance(loader, apt.Loader) else None
    again = make()
    again.load_state_dict(loader.state_dict() if state is None else state)
    rest = numbers(again)
    set_epoch(again, 1)
    return [[*first, *rest], numbers(again)]


def resume_counted(make: Callable[..., Any], dataset: Any) -> list[list[list[int]]]:
    """A plain DataLoader: the loop counts the batches, and keeps the state of the sampler."""
    loader = make(dataset, num_workers=2)
    set_epoch(loader, 0)
    first = numbers(islice(iter(loader), STOP))
    is_batches = isinstance(loader.batch_sampler, apt.AtomBudgetBatchSampler)
    sampler = loader.batch_sampler if is_batches else loader.sampler
    state = sampler.state_dict(consumed=STOP * (1 if is_batches else loader.batch_size))
    again = make(dataset, num_workers=2)
    (again.batch_sampler if is_batches else again.sampler).load_state_dict(state)
    rest = numbers(again)
    set_epoch(again, 1)
    return [[*first, *rest], numbers(again)]


def stateful(loader: DataLoader[Any], **options: Any) -> Any:
    """The same loader as torchdata's StatefulDataLoader."""
    if isinstance(loader.batch_sampler, apt.AtomBudgetBatchSampler):
        options["batch_sampler"] = loader.batch_sampler
    else:
        options |= {"batch_size": loader.batch_size, "sampler": loader.sampler}
    return StatefulDataLoader(loader.dataset, **options)


def main(path: str, out: str) -> None:
    torch.distributed.init_process_group("gloo")
    dataset = apt.AtpDataset(path)
    found: dict[str, list[list[list[int]]]] = {}
    for name in ("molecules", "blocks", "budget", "loader_budget", "loader_molecules"):
        found[name] = train(LOADERS[name](dataset))
    for name in ("loader_budget", "loader_molecules"):
        found[f"{name}, resumed"] = resume(lambda name=name: LOADERS[name](dataset))
    for make in (molecules, blocks, budget):
        name = make.__name__
        found[f"{name}, counted"] = resume_counted(make, dataset)
        for workers in (0, 2):
            made = lambda make=make, workers=workers: stateful(  # noqa: E731
                make(dataset), num_workers=workers
            )
            found[f"{name}, stateful, {workers}"] = train(made())
            found[f"{name}, stateful, {workers}, resumed"] = resume(made)
    Path(out).write_text(
        json.dumps({name: {"epochs": epochs, "error": None} for name, epochs in found.items()})
    )
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
