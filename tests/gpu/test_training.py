"""Static shapes, CUDA graphs, resident datasets and several ranks, on a device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from conftest import assert_same

import atompack_torch as apt

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_padded_batches(path: Path, device: torch.device) -> None:
    neighbors = apt.NeighborList(3.0)
    dataset = apt.AtpDataset(path, fields=["energy", "forces"], neighbors=neighbors)
    sampler = apt.BucketBatchSampler(dataset, 256, buckets=4, edges=neighbors.count(dataset))
    shapes = set()
    for batch in apt.Loader(dataset, batch_sampler=sampler):
        padded = batch.padded_to(**sampler.shape_of(batch)._asdict())
        there = batch.to(device).padded_to(**sampler.shape_of(batch)._asdict())
        assert there.atom_mask.device.type == device.type
        assert_same(there, padded)
        shapes.add((len(there), len(there.positions), there.edge_index.shape[1]))
    assert len(shapes) <= len(sampler.shapes)


def test_a_step_as_a_cuda_graph(path: Path, cuda: torch.device) -> None:
    """A graph that is captured for one batch gives the values of the others of its shape."""
    dataset = apt.AtpDataset(path, fields=["forces"])
    batches = [dataset[k : k + 8].padded_to(10, 400).to(cuda) for k in range(0, 80, 8)]
    weights = torch.ones(3, device=cuda, requires_grad=True)

    def step(batch: apt.MoleculeBatch) -> torch.Tensor:
        loss = ((batch.positions * weights - batch.forces).pow(2).sum(1) * batch.atom_mask).sum()
        return torch.autograd.grad(loss, weights)[0]

    own = batches[0].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(own)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step(own)
    for batch in batches:
        for name, tensor in own.to_dlpack().items():
            tensor.copy_(batch.to_dlpack()[name])
        graph.replay()
        torch.testing.assert_close(result, step(batch), rtol=1e-5, atol=1e-4)


def test_the_example_of_static_shapes(tmp_path: Path, device: torch.device) -> None:
    pytest.importorskip("ase", reason="ase, which the example makes molecules with, is missing")
    options = ["--molecules", "60", "--epochs", "3", "--buckets", "2", "--max-atoms", "256"]
    options += ["--backend", "aot_eager"]
    done = subprocess.run(
        [sys.executable, EXAMPLES / "08_static_shapes.py", *options, "--out", tmp_path],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "2 steps for 2 shapes" in done.stdout
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert losses[-1] < losses[0]


def test_a_resident_data_set(path: Path, device: torch.device) -> None:
    dataset = apt.AtpDataset(path, neighbors=apt.NeighborList(3.0, vectors=True))
    resident = apt.ResidentDataset(dataset, device)
    found = apt.Loader(resident, 32, shuffle=True, seed=1)
    for ours, theirs in zip(found, apt.Loader(dataset, 32, shuffle=True, seed=1), strict=True):
        assert ours.positions.device.type == device.type
        assert_same(ours, theirs)


def test_resident_bytes_are_those_of_the_device(path: Path, cuda: torch.device) -> None:
    dataset = apt.AtpDataset(path, fields=["energy", "forces"])
    before = torch.cuda.memory_allocated()
    resident = apt.ResidentDataset(dataset, cuda)
    taken = torch.cuda.memory_allocated() - before
    assert resident.nbytes <= taken + 4096 <= 2 * resident.nbytes + 65536
    with pytest.raises(MemoryError):
        apt.ResidentDataset(dataset, cuda, max_bytes=resident.nbytes - 1)


def test_one_rank(path: Path, device: torch.device, tmp_path: Path) -> None:
    """Gradients of a distributed step by nccl (gloo on the CPU), with a sampler of ours."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    if not dist.is_available() or (backend == "nccl" and not dist.is_nccl_available()):
        pytest.skip(f"this torch is built without {backend}")
    dist.init_process_group(backend, init_method=f"file://{tmp_path}/s", rank=0, world_size=1)
    try:
        model = torch.nn.Linear(3, 1).to(device)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        dataset = apt.AtpDataset(path, fields=["forces"])
        sampler = apt.AtomBudgetBatchSampler(dataset, 256, seed=0)
        seen = 0
        for batch in apt.Loader(dataset, batch_sampler=sampler, device=device):
            model.zero_grad()
            parallel(batch.forces).sum().backward()
            expected = batch.forces.sum(0)
            torch.testing.assert_close(model.weight.grad[0], expected, rtol=1e-4, atol=1e-4)
            seen += len(batch)
        assert seen == len(dataset)
        total = torch.ones(3, device=device)
        dist.all_reduce(total)
        assert total.tolist() == [1, 1, 1]
    finally:
        dist.destroy_process_group()
