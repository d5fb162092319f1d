"""One rank of an accelerate run: goes through every loader, and writes which molecules came."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch.distributed
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from cases import LOADERS

import atompack_torch as apt

EPOCHS = 2


def epochs(loader: Any, **options: Any) -> Any:
    """The molecules of each epoch, or the error that stopped it."""
    found: list[list[list[int]]] = []
    try:
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
        prepared = accelerator.prepare(loader)
        for _ in range(EPOCHS):
            found.append([batch.index.tolist() for batch in prepared])
            assert len(found[-1]) == len(prepared), (len(found[-1]), len(prepared))
        error = None
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    return {"epochs": found, "error": error, "warnings": []}


def main(path: str, out: str) -> None:
    dataset = apt.AtpDataset(path)
    found: dict[str, Any] = {}
    for name, make in LOADERS.items():
        found[name] = epochs(make(dataset))
        found[f"{name}, uneven"] = epochs(make(dataset), even_batches=False)
        found[f"{name}, split"] = epochs(make(dataset), split_batches=True)
        found[f"{name}, stateful"] = epochs(make(dataset), use_stateful_dataloader=True)
    Path(out).write_text(json.dumps(found))
    torch.distributed.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
