"""A batch is made by one call of native code, whatever it is made of."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch import _C, _formats

NATIVE = (_C, _formats)


class Crossings(list[str]):
    """The names of native functions and properties, in the order of their calls."""

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function with a note of each call."""

        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.append(name)
            return function(*args, **kwargs)

        return counted


def methods_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Yields what a native class defines itself and Python code may use."""
    for name, value in list(vars(cls).items()):
        if name in ("__init__", "__len__") or not name.startswith("_"):
            yield name, value


@contextmanager
def counting() -> Iterator[Crossings]:
    """Counts calls of native code while the block runs."""
    gc.disable()  # or writers of other tests could end in the block
    crossings = Crossings()
    replaced: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, new: Any, old: Any) -> None:
        replaced.append((owner, name, old))
        setattr(owner, name, new)

    functions: dict[int, Callable[..., Any]] = {}
    for module in NATIVE:
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__.startswith("atompack_torch"):
                for method, old in methods_of(value):
                    label = f"{name}.{method}"
                    if isinstance(old, property):
                        assert old.fget is not None
                        replace(value, method, property(crossings.of(label, old.fget)), old)
                    elif callable(old):
                        replace(value, method, crossings.of(label, old), old)
            elif callable(value) and not isinstance(value, type):
                functions[id(value)] = crossings.of(name, value)
    for module in [m for n, m in sys.modules.items() if n.startswith("atompack_torch")]:
        for name, value in list(vars(module).items()):
            if id(value) in functions and module not in NATIVE:
                replace(module, name, functions[id(value)], value)
    try:
        yield crossings
    finally:
        for owner, name, old in reversed(replaced):
            setattr(owner, name, old)
        gc.enable()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small file of each format."""
    path = tmp_path_factory.mktemp("formats")
    rng = np.random.default_rng(0)
    counts = np.full(20, 3)
    arrays = {
        "positions": rng.normal(size=(60, 3)),
        "atomic_numbers": np.tile([8, 1, 1], 20),
        "n_atoms": counts,
        "energy": np.arange(20.0),
    }
    for name in ("a.atp", "b.atp"):
        with apt.AtpWriter(path / name) as writer:
            writer.write_arrays(**arrays)
    with apt.AtlasStore(path / "store", "x") as store:
        for i in range(20):
            store.create_dataset(f"d{i}")
            store.define_array(f"d{i}", "t", "float32", (4,))
            store.write(f"d{i}", "t", np.full(4, i, dtype=np.float32))
    with apt.ShardWriter(path / "plain", 10, 2) as shards:
        for i in range(20):
            shards.write({"x": np.arange(3.0), "y": i})
    with apt.ShardWriter(path / "molecules", 10, 2) as shards:
        for i in range(20):
            shards.write(
                {
                    "positions": rng.normal(size=(3, 3)),
                    "atomic_numbers": np.array([8, 1, 1]),
                    "i": i,
                }
            )
    descriptor = apt.ChebyshevDescriptor(["H", "O"], 2, 3.0, 1, 2.0)
    apt.build_cache(apt.AtpDataset(path / "a.atp"), descriptor, path / "c.h5", progress=False)
    return path


LIST, TENSOR, MASK = [3, 1, -1], torch.tensor([3, 1]), [True, False] * 10

OPENED: dict[str, Callable[[Path], Any]] = {
    "atp": lambda path: apt.AtpDataset(path / "a.atp"),
    "atp files": lambda path: apt.AtpDataset([path / "a.atp", path / "b.atp"]),
    "atp and neighbors": lambda path: apt.AtpDataset(
        path / "a.atp", neighbors=apt.NeighborList(3.0)
    ),
    "atp and cache": lambda path: apt.AtpDataset(
        path / "a.atp", features=apt.TorchCache(path / "c.h5"), fields=["energy", "features"]
    ),
    "mixture": lambda path: apt.MixtureDataset(
        [apt.AtpDataset(path / "a.atp"), apt.AtpDataset(path / "b.atp")]
    ),
    "cache": lambda path: apt.TorchCacheDataset(path / "c.h5"),
    "shards": lambda path: apt.ShardDataset(path / "plain"),
    "shards of molecules": lambda path: apt.ShardDataset(path / "molecules"),
    "store": lambda path: apt.AtlasDataset(path / "store", ["t"]),
}


@pytest.mark.parametrize("name", OPENED)
def test_a_batch_is_one_call(name: str, folder: Path) -> None:
    dataset = OPENED[name](folder)
    part = dataset.subset(list(range(10)))
    mask = (MASK * 2)[: len(dataset)]
    for of, indices in ((dataset, LIST), (dataset, TENSOR), (dataset, mask), (part, LIST)):
        of.batch(indices)  # opens files and names fields
        with counting() as crossings:
            of.batch(indices)
        assert len(crossings) == 1, crossings


@pytest.mark.parametrize("datasets", [None, LIST, MASK, ["d4", "d2"]], ids=str)
def test_a_scan_is_one_call(datasets: Any, folder: Path) -> None:
    store, cache = apt.AtlasStore(folder / "store"), apt.TorchCache(folder / "c.h5")
    for call in (lambda: store.scan("t", datasets), lambda: cache.batch(LIST, ["features"])):
        call()
        with counting() as crossings:
            call()
        assert len(crossings) == 1, crossings


def test_calls_are_counted(folder: Path) -> None:
    dataset = apt.AtpDataset(folder / "a.atp")
    with counting() as crossings:
        dataset.batch(LIST)
    assert "MoleculeBatcher.__init__" in crossings
    assert "AtpReader.__init__" in crossings
