"""Pickles and checkpoints, and what can be read from the objects in them.

Data sets know the folder and the identity of their files (inode, time); both are left out of the
stored pickles and filled in from the fixtures when they are read.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from golden.description import FIXTURES, GOLDEN, Found, attempt
from golden.reading import index_lists

import atompack_torch as apt

SIZES = [3 + (7 * k) % 11 for k in range(60)]  # atoms of molecules
_SMALLEST = 10_000  # smaller numbers could mean something else

DATASETS: dict[str, tuple[str, Callable[[], Any]]] = {
    "AtpDataset": ("labels.atp", lambda: apt.AtpDataset(FIXTURES / "labels.atp")),
    "AtpDataset_options": (
        "properties.atp",
        lambda: apt.AtpDataset(
            FIXTURES / "properties.atp", dtype=torch.float32, missing="drop", num_threads=2
        ).subset([2, 0]),
    ),
    "AtpDataset_descriptor": (
        "cache/water.atp",
        lambda: apt.AtpDataset(
            FIXTURES / "cache" / "water.atp",
            descriptor=apt.ChebyshevDescriptor(["O", "H"], 4, 4.0, 2, 3.0),
            cache_features="all",
        ),
    ),
    "AtpDataset_cache": (
        "cache/water.h5",
        lambda: apt.AtpDataset(
            FIXTURES / "cache" / "water.atp", cache=apt.TorchCache(FIXTURES / "cache" / "water.h5")
        ),
    ),
    "TorchCacheDataset": (
        "cache/water.h5",
        lambda: apt.TorchCacheDataset(FIXTURES / "cache" / "water.h5", fields=["features"]),
    ),
    "AtlasDataset": (
        "atlas/tiny_json/atlas.json",
        lambda: apt.AtlasDataset(FIXTURES / "atlas" / "tiny_json", ["t"], layout="list"),
    ),
    "ShardDataset": (
        "atlas_shards/data/s1_atoms/meta.json",
        lambda: apt.ShardDataset(FIXTURES / "atlas_shards" / "data" / "s1_atoms").subset(range(9)),
    ),
    "MixtureDataset": (
        "commits.atp",
        lambda: apt.MixtureDataset(
            [apt.AtpDataset(FIXTURES / f"{name}.atp") for name in ("commits", "commits_lz4")],
            weights=[0.75, 0.25],
            epoch="max",
        ),
    ),
}
# Of which the identity is part of a pickle besides the one named above.
_ALSO = {"AtpDataset_cache": ("cache/water.atp",), "MixtureDataset": ("commits_lz4.atp",)}


def _identity(file: str) -> dict[str, int]:
    """Numbers that tell a file from others, by name."""
    found = (FIXTURES / file).stat()
    return {
        "device": found.st_dev,
        "inode": found.st_ino,
        "nanoseconds": found.st_mtime_ns,
        "second": found.st_mtime_ns // 10**9,
        "rest": found.st_mtime_ns % 10**9,
    }


class _Pickler(pickle.Pickler):
    """Leaves the folder of the fixtures and the identity of files out."""

    def __init__(self, file: io.BytesIO, fixtures: tuple[str, ...]) -> None:
        super().__init__(file, protocol=4)
        self._known: dict[int, tuple[str, str, str]] = {}
        for fixture in reversed(fixtures):
            for name, number in _identity(fixture).items():
                if number < _SMALLEST:
                    raise ValueError(f"{fixture}: {name} {number} is too small to be recognized")
                self._known[number] = ("identity", fixture, name)

    def persistent_id(self, obj: Any) -> tuple[str, ...] | None:
        if type(obj) is int:
            return self._known.get(obj)
        if type(obj) is str and obj.startswith(f"{FIXTURES}/"):
            return ("path", os.path.relpath(obj, FIXTURES))
        if isinstance(obj, Path) and obj.is_relative_to(FIXTURES):
            return ("Path", os.path.relpath(obj, FIXTURES))
        return None


class _Unpickler(pickle.Unpickler):
    """Fills in what was left out."""

    def persistent_load(self, pid: tuple[str, ...]) -> Any:
        if pid[0] == "identity":
            return _identity(pid[1])[pid[2]]
        path = FIXTURES / pid[1]
        return path if pid[0] == "Path" else str(path)


def _batch() -> apt.MoleculeBatch:
    return apt.AtpDataset(FIXTURES / "labels.atp")[:]


def _properties() -> apt.MoleculeBatch:
    return apt.AtpDataset(FIXTURES / "properties.atp")[:3]


# Values that hold no path.
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


def write_all() -> None:
    """Writes every pickle and checkpoint anew."""
    for name, (fixture, make) in DATASETS.items():
        stream = io.BytesIO()
        _Pickler(stream, (fixture, *_ALSO.get(name, ()))).dump(make())
        (GOLDEN / f"{name}.pickle").write_bytes(stream.getvalue())
    for name, make in VALUES.items():
        (GOLDEN / f"{name}.pickle").write_bytes(pickle.dumps(make(), protocol=4))
        torch.save(make(), GOLDEN / f"{name}.pt")
    for name in SAMPLERS:
        torch.save(_state_within(_sampler(name), 2, 4), GOLDEN / f"state_{name}.pt")
    for name in LOADERS:
        torch.save(_state_within(_loader(name), 1, 2), GOLDEN / f"state_{name}.pt")


def names() -> list[str]:
    """The names of all stored objects."""
    states = [f"state_{name}.pt" for name in (*SAMPLERS, *LOADERS)]
    values = [f"{name}.{suffix}" for name in VALUES for suffix in ("pickle", "pt")]
    return [*(f"{name}.pickle" for name in DATASETS), *values, *states]


def read_object(name: str) -> Found:
    """What a stored object gives."""
    path, stem = GOLDEN / name, Path(name).stem
    if stem in DATASETS:
        return _of_dataset(path)
    if stem in VALUES:
        load = _unpickled if path.suffix == ".pickle" else _loaded
        value = load(path)
        return {"value": attempt(lambda: value), "repr": attempt(partial(repr, value))}
    state = _loaded(path)
    stem = stem.removeprefix("state_")
    if stem in SAMPLERS:
        sampler = _sampler(stem)
        sampler.load_state_dict(state)
        return {
            "state": attempt(lambda: state),
            "rest of the epoch": attempt(lambda: [*sampler]),
            "next epoch": attempt(partial(_epoch, sampler, 3)),
        }
    loader = _loader(stem)
    loader.load_state_dict(state)
    return {
        "state": attempt(lambda: state),
        "rest of the epoch": attempt(lambda: [*loader]),
        "next epoch": attempt(lambda: [batch.index for batch in loader]),
    }


def _of_dataset(path: Path) -> Found:
    dataset = _unpickled(path)
    found = {"repr": attempt(lambda: repr(dataset))}
    for kind, numbers in index_lists(len(dataset)).items():
        found[kind] = attempt(partial(dataset.batch, numbers))
    found["first"] = attempt(lambda: dataset[0])
    found["subset"] = attempt(lambda: dataset.subset([1, 0])[:])
    found["sent on"] = attempt(lambda: pickle.loads(pickle.dumps(dataset))[:1])
    return found


def _unpickled(path: Path) -> Any:
    return _Unpickler(io.BytesIO(path.read_bytes())).load()


def _loaded(path: Path) -> Any:
    return torch.load(path, weights_only=False)


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
