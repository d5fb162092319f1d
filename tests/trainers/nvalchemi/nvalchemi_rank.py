"""Reads two epochs on one of several ranks.

usage: nvalchemi_rank.py DATA RESULT

RESULT, in JSON: for each epoch the molecules of each batch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed

from atompack_torch.trainers import nvalchemi


def main() -> None:
    data, result = sys.argv[1:]
    torch.distributed.init_process_group("gloo")
    loader = nvalchemi.loader(data, max_atoms=12)
    epochs = []
    for epoch in range(2):
        loader.batch_sampler.set_epoch(epoch)
        epochs.append([batch.molecule_number.tolist() for batch in loader])
    Path(result).write_text(json.dumps(epochs))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
