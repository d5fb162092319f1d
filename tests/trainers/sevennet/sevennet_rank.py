"""One rank of a run of SevenNet's Trainer: writes which molecules came."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.distributed
from sevenn import _keys
from sevennet_cases import BATCH, TYPE_MAP, new_trainer
from structures import CUTOFF

from atompack_torch.trainers import sevennet


def main(path: str, out: str) -> None:
    torch.distributed.init_process_group("gloo")
    # Its other backend next to nccl, by which it chooses the CPU; the group already exists.
    trainer = new_trainer(**{_keys.IS_DDP: True, _keys.DDP_BACKEND: "mpi"})
    loader = sevennet.loader(path, TYPE_MAP, CUTOFF, batch_size=BATCH)
    epochs: list[list[list[int]]] = []

    def noting() -> Iterator[Any]:
        epochs.append([])
        for batch in loader:
            epochs[-1].append(batch.index.tolist())
            yield batch

    for _ in range(2):
        trainer.run_one_epoch(noting(), is_train=True)
    weights = [float(parameter.detach().sum()) for parameter in trainer.model.parameters()]
    Path(out).write_text(json.dumps({"epochs": epochs, "weights": weights}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
