"""Orb: batches from ``.atp`` compared with its dataset of an ASE database and its adapter.

Before anything is timed, the first batch of both sides must have the same loss.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import common
import torch
from torch.utils.data import DataLoader

from atompack_torch.trainers import orb
from atompack_torch.trainers._steps.orb import Training

N = 256


def main() -> None:
    torch.set_num_threads(1)
    training = Training(common.ELEMENTS, common.CUTOFF, torch.device("cpu"))
    adapter = training.adapter
    made = common.structures(N)
    dataset = training.stock(made, common.BATCH, 0).dataset
    stock = DataLoader(dataset, common.BATCH, collate_fn=adapter.batch)
    with tempfile.TemporaryDirectory() as folder:
        path = common.write_atp(Path(folder) / "data.atp", made)
        options = {"batch_size": common.BATCH, "shuffle": False, "num_threads": 1}
        ours = orb.loader(path, adapter.radius, adapter.max_num_neighbors, **options)
        training.model.eval()  # its normalizers learn from batches
        losses = [training.model.loss(next(iter(side))).loss for side in (stock, ours)]
        torch.testing.assert_close(losses[0], losses[1])
        training.model.train()
        common.compare("Orb", {"its ASE database": stock}, ours, N)
        share = common.waiting_share(training.ours(path, common.BATCH), training.step)
        common.report_waiting("Orb", "ours", share)


if __name__ == "__main__":
    main()
