"""One rank on one machine: trains from the store, from the last checkpoint, if any."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from soak.machines import MACHINES, N_EPOCHS
from torch.nn.parallel import DistributedDataParallel

import atompack_torch as apt


def energies(model: torch.nn.Module, batch: apt.MoleculeBatch) -> torch.Tensor:
    """Sums of the model's values of atoms."""
    values = model(batch.positions.float() / 100).squeeze(1)
    return torch.zeros(len(batch)).index_add(0, batch.batch, values)


def main(rank: int, folder: Path, url: str, seed: int, port: int) -> None:
    """Trains for all epochs."""
    dist.init_process_group(
        "gloo", f"tcp://{MACHINES[0]}:{port}", timedelta(seconds=100), world_size=2, rank=rank
    )
    torch.manual_seed(seed)
    options = {"endpoint_url": url, "key": "AKID", "secret": "SECRETKEY"}
    dataset = apt.AtpDataset("s3://bucket/train.atp", storage_options=options)
    sampler = apt.AtomBudgetBatchSampler(dataset, 30, seed=seed)
    loader = apt.Loader(dataset, batch_sampler=sampler, num_threads=1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    first, step, checkpoint = 0, 0, folder / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        first, step = saved["epoch"], saved["step"]
        loader.load_state_dict(saved["loader"])
        model.load_state_dict(saved["model"])
    print("training", flush=True)
    with (folder / f"batches-{rank}.jsonl").open("a") as seen:
        for epoch in range(first, N_EPOCHS):
            if epoch > first or not checkpoint.exists():
                loader.set_epoch(epoch)
            for batch in loader:
                loss = (energies(parallel, batch) - batch.energy.float()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen.write(json.dumps([epoch, step, batch.index.tolist()]) + "\n")
                seen.flush()
                step += 1
                dist.barrier()  # both have written it down
                if rank == 0:
                    state = {"epoch": epoch, "step": step, "loader": loader.state_dict()}
                    staged = checkpoint.with_suffix(".new")
                    torch.save(state | {"model": model.state_dict()}, staged)
                    staged.rename(checkpoint)
                    print(step, flush=True)
                dist.barrier()
    result = {"model": [p.tolist() for p in model.parameters()]}
    (folder / f"result-{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
