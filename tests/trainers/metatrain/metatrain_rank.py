"""One rank that goes through two epochs of the loader, and notes which structures came.

usage: metatrain_rank.py DATA RESULT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed

from atompack_torch.trainers import metatrain

if __name__ == "__main__":
    data, result = sys.argv[1:]
    torch.distributed.init_process_group("gloo")
    loader = metatrain.loader(data, 3, seed=1)
    epochs = [
        [targets["energy"].block().samples.values[:, 0].tolist() for _, targets in loader]
        for _ in range(2)
    ]
    Path(result).write_text(json.dumps(epochs))
    torch.distributed.destroy_process_group()
