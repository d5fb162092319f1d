"""Ray runs on two workers: go through every loader, and write which molecules came."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import ray
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

EPOCHS = 2
STOP = 5  # steps before a failure in the middle of an epoch


def epochs(make: Any, dataset: Any, *, counts: bool = True, **options: Any) -> Any:
    """The molecules of each epoch, which the loop counts or not, or the error that stopped it."""
    from ray.train.torch import prepare_data_loader

    found: list[list[list[int]]] = []
    try:
        loader = prepare_data_loader(make(dataset), **options)
        for epoch in range(EPOCHS):
            for sampler in (loader.sampler, getattr(loader.batch_sampler, "sampler", None)):
                if counts and hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(epoch)
            found.append([batch.index.tolist() for batch in loader])
        error = None
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    return {"epochs": found, "error": error}


def alone(make: Any, dataset: Any) -> Any:
    """The molecules of each epoch of a loader that is not prepared."""
    loader = make(dataset)
    return {
        "epochs": [[batch.index.tolist() for batch in loader] for _ in range(EPOCHS)],
        "error": None,
    }


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    sys.path.insert(0, config["modules"])
    from cases import LOADERS, budget, molecules

    import atompack_torch as apt

    dataset = apt.AtpDataset(config["path"])
    found: dict[str, Any] = {}
    for name, make in LOADERS.items():
        found[name] = epochs(make, dataset)
        found[f"{name}, own sampler"] = epochs(make, dataset, add_dist_sampler=False)
        if name.startswith("loader"):
            found[f"{name}, alone"] = alone(make, dataset)
    found["molecules, not counted"] = epochs(molecules, dataset, counts=False)
    uncounted = epochs(budget, dataset, counts=False, add_dist_sampler=False)
    found["budget, not counted"] = uncounted
    _write(config, found)


def train_and_fail(config: dict[str, Any]) -> None:
    """What each worker does until it fails in the middle of an epoch, and after its restart."""
    sys.path.insert(0, config["modules"])
    from cases import loader_budget

    import atompack_torch as apt

    loader = loader_budget(apt.AtpDataset(config["path"]))
    found: list[list[list[int]]] = []
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        found.append([batch.index.tolist() for batch in islice(loader, STOP)])
        with tempfile.TemporaryDirectory() as folder:
            rank = ray.train.get_context().get_world_rank()
            kept = {"loader": loader.state_dict(), "found": found}
            torch.save(kept, Path(folder) / f"rank{rank}.pt")
            ray.train.report({}, checkpoint=Checkpoint.from_directory(folder))
        raise RuntimeError("fails on purpose")
    with checkpoint.as_directory() as folder:
        rank = ray.train.get_context().get_world_rank()
        found = torch.load(Path(folder) / f"rank{rank}.pt", weights_only=True)["found"]
        # The state of one rank is that of all.
        state = torch.load(Path(folder) / "rank0.pt", weights_only=True)["loader"]
    loader.load_state_dict(state)
    found[0] += [batch.index.tolist() for batch in loader]
    found.append([batch.index.tolist() for batch in loader])
    _write(config, {"loader_budget, failed": {"epochs": found, "error": None}})


def _write(config: dict[str, Any], found: dict[str, Any]) -> None:
    rank = ray.train.get_context().get_world_rank()
    (Path(config["folder"]) / f"worker{rank}.json").write_text(json.dumps(found))


def run(path: str, folder: Path, function: Any) -> list[dict[str, Any]]:
    """Returns what came on each worker."""
    trainer = TorchTrainer(
        function,
        train_loop_config={
            "path": path,
            "folder": str(folder),
            "modules": str(Path(__file__).parent),
        },
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(
            name=function.__name__,
            storage_path=str(folder / "ray"),
            failure_config=FailureConfig(max_failures=1),
        ),
    )
    trainer.fit()
    return [json.loads((folder / f"worker{rank}.json").read_text()) for rank in range(2)]


def main(path: str, out: str) -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    folder = Path(out).parent
    ray.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1")
    found = run(path, folder, train)
    failed = run(path, folder, train_and_fail)
    ray.shutdown()
    Path(out).write_text(json.dumps([a | b for a, b in zip(found, failed, strict=True)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
