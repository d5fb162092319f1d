"""What can be read from objects that went through pickles and checkpoints; orders of samplers."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from golden.description import FIXTURES, Found, attempt
from golden.reading import index_lists

import atompack_torch as apt

SIZES = [3 + (7 * k) % 11 for k in range(60)]  # atoms of molecules

DATASETS: dict[str, Callable[[], Any]] = {
    "AtpDataset": lambda: apt.AtpDataset(FIXTURES / "labels.atp"),
    "AtpDataset_options": lambda: apt.AtpDataset(
        FIXTURES / "properties.atp", dtype=torch.float32, missing="drop", num_threads=2
    ).subset([2, 0]),
    "AtpDataset_descriptor": lambda: apt.AtpDataset(
        FIXTURES / "cache" / "water.atp",
        features=apt.Features(
            descriptor=apt.ChebyshevDescriptor(["O", "H"], 4, 4.0, 2, 3.0), keep="all"
        ),
    ),
    "AtpDataset_cache": lambda: apt.AtpDataset(
        FIXTURES / "cache" / "water.atp", features=apt.TorchCache(FIXTURES / "cache" / "water.h5")
    ),
    "TorchCacheDataset": lambda: apt.TorchCacheDataset(
        FIXTURES / "cache" / "water.h5", fields=["features"]
    ),
    "AtlasDataset": lambda: apt.AtlasDataset(
        FIXTURES / "atlas" / "tiny_json", ["t"], layout="list"
    ),
    "ShardDataset": lambda: apt.ShardDataset(
        FIXTURES / "atlas_shards" / "data" / "s1_atoms"
    ).subset(range(9)),
    "MixtureDataset": lambda: apt.MixtureDataset(
        [apt.AtpDataset(FIXTURES / f"{name}.atp") for name in ("commits", "commits_lz4")],
        weights=[0.75, 0.25],
        epoch="max",
    ),
}


def _batch() -> apt.MoleculeBatch:
    return apt.AtpDataset(FIXTURES / "labels.atp")[:]


def _properties() -> apt.MoleculeBatch:
    return apt.AtpDataset(FIXTURES / "properties.atp")[:3]


VALUES: dict[str, Callable[[], Any]] = {
    "batch": _batch,
    "batch_properties": _properties,
    "batch_cache": lambda: apt.TorchCacheDataset(FIXTURES / "cache" / "water.h5")[:],
    "batch_edges": lambda: apt.AtpDataset(
        FIXTURES / "labels.atp", neighbors=apt.NeighborList(2.0, vectors=False)
    )[:],
    "batch_cast": lambda: _batch().to(torch.float32),
    "molecule": lambda: apt.AtpDataset(FIXTURES / "labels.atp")[1],
    "molecules": lambda: [*_properties()],
    "molecule_by_hand": lambda: apt.Molecule(
        torch.zeros(2, 3), torch.tensor([1, 8]), energy=-1.5, properties={"k": "v"}
    ),
}


def _sampler(name: str) -> Any:
    if name == "budget":
        return apt.AtomBudgetBatchSampler(SIZES, 40, seed=3)
    if name == "blocks":
        return apt.BlockShuffleSampler(60, block=5, window=4, seed=3)
    return apt.DistributedMoleculeSampler(60, seed=3, num_replicas=2, rank=1)


SAMPLERS = ("budget", "blocks", "dealt")


def _loader(name: str) -> apt.Loader:
    dataset = apt.AtpDataset([FIXTURES / "labels.atp", FIXTURES / "commits.atp"])
    if name == "Loader_shuffle":
        return apt.Loader(dataset, 2, shuffle=True, seed=5, num_threads=1)
    if name == "Loader_budget":
        sampler = apt.AtomBudgetBatchSampler(dataset, 12, seed=5)
        return apt.Loader(dataset, batch_sampler=sampler, num_threads=1)
    return apt.Loader(
        dataset, 2, sampler=apt.DistributedMoleculeSampler(dataset, seed=5), num_threads=1
    )


LOADERS = ("Loader_shuffle", "Loader_budget", "Loader_sampler")


def _state_within(source: Any, epoch: int, n_taken: int) -> dict[str, Any]:
    """The state of a sampler or loader after some items of an epoch."""
    source.set_epoch(epoch)
    items = iter(source)
    for _ in range(n_taken):
        next(items)
    return dict(source.state_dict())


def read_dataset(name: str) -> Found:
    """Batches of a dataset that was unpickled."""
    dataset = pickle.loads(pickle.dumps(DATASETS[name]()))
    found = {"repr": attempt(lambda: repr(dataset))}
    for kind, numbers in index_lists(len(dataset)).items():
        found[kind] = attempt(partial(dataset.batch, numbers))
    found["first"] = attempt(lambda: dataset[0])
    found["subset"] = attempt(lambda: dataset.subset([1, 0])[:])
    return found


def read_value(name: str) -> Found:
    """A batch or molecules from a pickle and from a checkpoint."""
    unpickled = pickle.loads(pickle.dumps(VALUES[name](), protocol=4))
    loaded = _checkpointed(VALUES[name]())
    return {
        "pickle": attempt(lambda: unpickled),
        "pickle: repr": attempt(partial(repr, unpickled)),
        "checkpoint": attempt(lambda: loaded),
    }


def read_sampler(name: str) -> Found:
    """A sampler that resumes from a checkpoint: the state, the rest of the epoch, the next one."""
    state = _checkpointed(_state_within(_sampler(name), 2, 4))
    sampler = _sampler(name)
    sampler.load_state_dict(state)
    return {
        "state": attempt(lambda: state),
        "rest of the epoch": attempt(lambda: [*sampler]),
        "next epoch": attempt(partial(_epoch, sampler, 3)),
    }


def read_loader(name: str) -> Found:
    """The same of a loader."""
    state = _checkpointed(_state_within(_loader(name), 1, 2))
    loader = _loader(name)
    loader.load_state_dict(state)
    return {
        "state": attempt(lambda: state),
        "rest of the epoch": attempt(lambda: [*loader]),
        "next epoch": attempt(lambda: [batch.index for batch in loader]),
    }


def _checkpointed(value: Any) -> Any:
    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=False)


def read_orders() -> Found:
    """The orders of samplers and loaders, epoch by epoch."""
    found: Found = {}
    for label, make in _orders().items():
        sampler = make()
        found[f"{label}: repr"] = attempt(partial(repr, sampler))
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            found[f"{label}: epoch {epoch}"] = attempt(partial(_order, sampler))
    for name in LOADERS:
        loader = _loader(name)
        for epoch in (0, 1):
            found[f"{name}: epoch {epoch}"] = attempt(partial(_indices, loader))
    parts = apt.AtpDataset(FIXTURES / "commits.atp").split([0.5, 0.25, 0.25], seed=9)
    found["split"] = attempt(lambda: [part[:].index for part in parts])
    return found


def _orders() -> dict[str, Callable[[], Any]]:
    """Samplers of all kinds: for one to three ranks, and with every option."""
    budget, blocks = apt.AtomBudgetBatchSampler, apt.BlockShuffleSampler
    made: dict[str, Callable[[], Any]] = {
        "budget in order": partial(budget, SIZES, 40, shuffle=False),
        "budget of few": partial(budget, SIZES, 40, max_molecules=3),
        "budget of costs": partial(budget, 60, 9.5, costs=[0.5] * 60),
        "blocks of sizes": partial(blocks, [9, 1, 20], window=2),
        "blocks of workers": partial(blocks, 60, block=5, window=4, workers=2, batch_size=6),
    }
    for ranks in (1, 2, 3):
        for shared in ({}, {"pad": True}, {"drop_last": True}):
            options: dict[str, Any] = {"seed": 1, "num_replicas": ranks, "rank": ranks - 1}
            options |= shared
            label = " ".join([str(ranks), *shared])
            made[f"budget {label}"] = partial(budget, SIZES, 40, **options)
            made[f"blocks {label}"] = partial(blocks, 60, block=5, window=4, **options)
            made[f"dealt {label}"] = partial(apt.DistributedMoleculeSampler, 60, **options)
    return made


def _epoch(sampler: Any, epoch: int) -> list[Any]:
    sampler.set_epoch(epoch)
    return [*sampler]


def _order(sampler: Any) -> list[Any]:
    return [len(sampler), *sampler]


def _indices(loader: apt.Loader) -> list[Any]:
    return [len(loader), *(batch.index for batch in loader)]
