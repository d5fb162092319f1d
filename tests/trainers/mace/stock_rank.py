"""One rank of ``mace_run_train`` on a CPU, for which it starts no process group itself."""

from __future__ import annotations

from typing import Any

import torch
from mace.cli import run_train
from torch.nn.parallel import DistributedDataParallel


def parallel(model: torch.nn.Module, device_ids: Any) -> DistributedDataParallel:
    return DistributedDataParallel(model)


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    run_train.DDP = parallel
    run_train.main()
