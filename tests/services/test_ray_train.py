"""Ray's ``prepare_data_loader`` on two workers, over epochs that nobody counts."""

from __future__ import annotations

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt

ray = pytest.importorskip("ray")
train = pytest.importorskip("ray.train.torch")
pytestmark = pytest.mark.timeout(300)

N = 60


def note_epochs(config: dict[str, Any]) -> None:
    """Writes the molecules of three passes of one worker."""
    from ray.train import get_context
    from torch.utils.data import DataLoader

    dataset = apt.AtpDataset(config["path"])
    budget = apt.AtomBudgetBatchSampler(dataset, 25)
    loaders = {
        "budget": DataLoader(dataset, batch_sampler=budget),
        "items": DataLoader(dataset, 7, sampler=apt.DistributedMoleculeSampler(dataset)),
    }
    found = {}
    for name, loader in loaders.items():
        prepared = train.prepare_data_loader(loader, add_dist_sampler=name == "items")
        found[name] = [[batch.index.tolist() for batch in prepared] for _ in range(3)]
    rank = get_context().get_world_rank()
    (Path(config["folder"]) / f"{rank}.json").write_text(json.dumps(found))


def test_each_epoch_has_another_order(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "data.atp") as writer:
        for n in np.random.default_rng(0).integers(1, 9, N):
            writer.write(apt.Molecule(np.zeros((n, 3)), [6] * int(n)))
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1")
    try:
        train.TorchTrainer(
            note_epochs,
            train_loop_config={"path": str(tmp_path / "data.atp"), "folder": str(tmp_path)},
            scaling_config=ray.train.ScalingConfig(num_workers=2),
            run_config=ray.train.RunConfig(storage_path=str(tmp_path / "ray")),
        ).fit()
    finally:
        ray.shutdown()
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for name in ("budget", "items"):
        epochs = []
        for of_ranks in zip(*(rank[name] for rank in ranks), strict=True):
            numbers = [list(chain.from_iterable(batches)) for batches in of_ranks]
            assert sorted(chain.from_iterable(numbers)) == list(range(N))
            epochs.append(numbers)
        assert len({str(numbers) for numbers in epochs}) == 3
