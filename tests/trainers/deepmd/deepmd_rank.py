"""One rank that goes through the loader of frames, and writes which molecules came."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import torch.distributed
from ase.data import chemical_symbols
from structures import ELEMENTS

from atompack_torch.trainers.deepmd import loader

STOP = 3
TYPE_MAP = [chemical_symbols[number] for number in ELEMENTS]


def main(path: str, out: str) -> None:
    torch.distributed.init_process_group("gloo")
    batches = loader(path, 4, TYPE_MAP, seed=1)
    epochs = [[frames["fid"] for frames in batches] for _ in range(2)]
    stopped = loader(path, 4, TYPE_MAP, seed=1)
    first = [frames["fid"] for frames in islice(stopped, STOP)]
    resumed = loader(path, 4, TYPE_MAP, seed=1)
    resumed.load_state_dict(stopped.state_dict())
    again = [[*first, *(frames["fid"] for frames in resumed)]]
    again.append([frames["fid"] for frames in resumed])
    Path(out).write_text(json.dumps({"epochs": epochs, "again": again}))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
