"""One rank of an accelerate run: goes through every loader, and writes which molecules came."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import torch.distributed
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from cases import LOADERS, budget, molecules

import atompack_torch as apt

EPOCHS = 2
STOP = 5  # steps before a stop inside of an epoch


def accelerator(**options: Any) -> Accelerator:
    return Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))


def numbers(batches: Any) -> list[list[int]]:
    return [batch.index.tolist() for batch in batches]


def epochs(loader: Any, **options: Any) -> Any:
    """The molecules of each epoch, or the error that stopped it."""
    found: list[list[list[int]]] = []
    try:
        prepared = accelerator(**options).prepare(loader)
        for _ in range(EPOCHS):
            found.append(numbers(prepared))
            assert len(found[-1]) == len(prepared), (len(found[-1]), len(prepared))
        error = None
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    return {"epochs": found, "error": error}


def skipping(make: Any, dataset: Any) -> Any:
    """An epoch that is stopped, and continued by skipping its first batches."""
    runner = accelerator()
    first = numbers(islice(iter(runner.prepare(make(dataset))), STOP))
    rest = numbers(runner.skip_first_batches(runner.prepare(make(dataset)), STOP))
    return {"epochs": [[*first, *rest]], "error": None}


def stateful(make: Any, dataset: Any) -> Any:
    """An epoch that is stopped, and continued from the state of the loader."""
    runner = accelerator(use_stateful_dataloader=True)
    prepared = runner.prepare(make(dataset))
    batches = iter(prepared)
    first = numbers(islice(batches, STOP))
    state = prepared.state_dict()
    again = runner.prepare(make(dataset))
    again.load_state_dict(state)
    return {"epochs": [[*first, *numbers(again)]], "error": None}


def explicit(dataset: Any) -> Any:
    """A sampler that was told of the ranks itself."""
    sampler = apt.AtomBudgetBatchSampler(dataset, 64, num_replicas=2, rank=0)
    return torch.utils.data.DataLoader(dataset, batch_sampler=sampler)


def main(path: str, out: str) -> None:
    dataset = apt.AtpDataset(path)
    found: dict[str, Any] = {}
    for name, make in LOADERS.items():
        found[name] = epochs(make(dataset))
    for make in (molecules, budget):
        name = make.__name__
        found[f"{name}, uneven"] = epochs(make(dataset), even_batches=False)
        found[f"{name}, split"] = epochs(make(dataset), split_batches=True)
        found[f"{name}, workers"] = epochs(make(dataset, num_workers=2))
        found[f"{name}, dispatched"] = epochs(make(dataset), dispatch_batches=True)
        found[f"{name}, skipping"] = skipping(make, dataset)
        found[f"{name}, stateful"] = stateful(make, dataset)
    found["explicit"] = epochs(explicit(dataset))
    Path(out).write_text(json.dumps(found))
    torch.distributed.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
