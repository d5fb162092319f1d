"""A Ray run on two workers: goes through every loader, and writes which molecules came."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

EPOCHS = 2


def epochs(make: Any, dataset: Any, **options: Any) -> Any:
    """The molecules of each epoch, or the error that stopped it."""
    from ray.train.torch import prepare_data_loader

    found: list[list[list[int]]] = []
    try:
        loader = prepare_data_loader(make(dataset), **options)
        for epoch in range(EPOCHS):
            for sampler in (loader.sampler, getattr(loader.batch_sampler, "sampler", None)):
                if hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(epoch)
            found.append([batch.index.tolist() for batch in loader])
        error = None
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    return {"epochs": found, "error": error}


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    sys.path.insert(0, config["modules"])
    from cases import LOADERS

    import atompack_torch as apt

    dataset = apt.AtpDataset(config["path"])
    found: dict[str, Any] = {}
    for name, make in LOADERS.items():
        found[name] = epochs(make, dataset)
        found[f"{name}, own sampler"] = epochs(make, dataset, add_dist_sampler=False)
    rank = ray.train.get_context().get_world_rank()
    Path(config["out"].replace("RANK", str(rank))).write_text(json.dumps(found))


def main(path: str, out: str) -> None:
    folder = Path(out).parent
    ray.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1")
    trainer = TorchTrainer(
        train,
        train_loop_config={"path": path, "out": out, "modules": str(Path(__file__).parent)},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=ray.train.RunConfig(storage_path=str(folder / "ray")),
    )
    trainer.fit()
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
