"""Everything that is read from the fixtures: each kind of file, with the options that apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from golden.description import FIXTURES, Found, attempt

import atompack_torch as apt

_ALL_KINDS = ("all", "shuffled", "one", "none", "outside")
_STRUCTURE = ("positions", "atomic_numbers")
_DATA_ONLY = ("s2_atoms", "proto5_nested", "torch_tensors", "aliases")  # pickles that are safe

MOLECULE_OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "missing=error": {"missing": "error"},
    "missing=drop": {"missing": "drop"},
    "dtype=float32": {"dtype": torch.float32},
    "dtype=float64": {"dtype": torch.float64},
    "fields=[]": {"fields": []},
    "nan_is_missing": {"nan_is_missing": True},
}


def index_lists(n: int) -> dict[str, list[int]]:
    """All, a strided shuffle with repeats and negative numbers, one, none, one out of range."""
    stride = next(k for k in (7, 5, 3, 2, 1) if n % k or k == 1)
    shuffled = [(3 + stride * k) % n for k in range(n)] if n else []
    return {
        "all": [*range(n)],
        "shuffled": [*shuffled, *(k - n for k in shuffled[:2])],
        "one": [n // 2] if n else [0],
        "none": [],
        "outside": [0, n],
    }


def _opened(found: Found, label: str, make: Callable[[], Any]) -> Any:
    """What a call makes, its ``repr`` or error being described; None after an error."""
    made: list[Any] = []

    def opening() -> str:
        made.append(make())
        return repr(made[0])

    found[f"{label}: open"] = attempt(opening)
    return made[0] if made else None


def _batches(
    found: Found, label: str, dataset: Any, kinds: Sequence[str] = ("all", "shuffled", "none")
) -> None:
    lists = index_lists(len(dataset))
    for kind in kinds:
        found[f"{label}: {kind}"] = attempt(partial(dataset.batch, lists[kind]))


def _molecules(found: Found, open_with: Callable[..., Any]) -> None:
    """Batches of a dataset of molecules with every option, and its single molecules."""
    plain = _opened(found, "default", open_with)
    if plain is None:
        return
    names: list[str] = []

    def schema() -> Any:
        names.extend(name for name in plain.schema if name not in _STRUCTURE)
        return plain.schema

    found["schema"] = attempt(schema)
    found["n_atoms"] = attempt(lambda: plain.n_atoms)
    found["molecules"] = attempt(lambda: [plain[k] for k in range(len(plain))])
    options = dict(MOLECULE_OPTIONS)
    if names:
        options["fields=first"] = {"fields": names[:1]}
        options["fields=last two, missing=drop"] = {"fields": names[-2:], "missing": "drop"}
        options["exclude=first"] = {"exclude": names[:1], "dtype": {names[-1]: torch.float64}}
    for label, chosen in options.items():
        dataset = _opened(found, label, partial(open_with, **chosen))
        if dataset is not None:
            _batches(found, label, dataset, _ALL_KINDS)


def read_atp(path: Path) -> Found:
    """A file or folder of molecules."""
    found: Found = {}
    _molecules(found, lambda **options: apt.AtpDataset(path, **options))
    return found


def read_joined(path: Path) -> Found:
    """Molecules of a file joined with the features beside it, and mixtures of them."""
    found: Found = {}
    cache = apt.TorchCache(path.with_suffix(".h5"))
    _molecules(found, lambda **options: apt.AtpDataset(path, features=cache, **options))
    labels = FIXTURES / "labels.atp"
    parts = [apt.AtpDataset(path), apt.AtpDataset(labels)]
    for label, options in {
        "mixture": {},
        "weights": {"weights": [0.75, 0.25], "epoch": "max"},
        "seven": {"weights": [1, 2], "epoch": 7},
    }.items():
        mixture = apt.MixtureDataset(parts, **options)  # type: ignore[arg-type]
        _batches(found, label, mixture)
        found[f"{label}: schema"] = attempt(partial(getattr, mixture, "schema"))
        mixture.set_epoch(2)
        _batches(found, f"{label} in epoch 2", mixture)
    for epoch in (0, 1):
        half = apt.AtpDataset(labels, force_subset=apt.ForceSubset(0.5, True, 5))
        half.set_epoch(epoch)
        _batches(found, f"half of the forces in epoch {epoch}", half)
    both = apt.AtpDataset([path, labels])
    _batches(found, "two files", both)
    _batches(found, "subset", both.subset([3, 0, -1]))
    for number, part in enumerate(both.split([0.5, 0.5], seed=1)):
        _batches(found, f"half {number}", part)
    return found


def read_cache(path: Path) -> Found:
    """A feature cache."""
    found: Found = {}
    _molecules(found, lambda **options: apt.TorchCacheDataset(path, **options))
    cache = _opened(found, "cache", lambda: apt.TorchCache(path))
    if cache is not None:
        found["info"] = attempt(lambda: cache.info)
        found["descriptor"] = attempt(lambda: repr(cache.descriptor))
        rows = range(len(cache))
        found["features"] = attempt(lambda: [cache.load_features(k) for k in rows])
        derivatives = cache.load_force_derivatives
        found["derivatives"] = attempt(lambda: [derivatives(k) for k in rows])
        found["batch"] = attempt(lambda: cache.batch(rows))
        parts = apt.TorchCacheDataset(path)
        found["aenet_split"] = attempt(lambda: [p[:]["index"] for p in parts.aenet_split(0.4, 3)])
    return found


def read_store(path: Path) -> Found:
    """An ATLAS store."""
    found: Found = {}
    store = _opened(found, "store", lambda: apt.AtlasStore(path))
    if store is None:
        return found
    found["datasets"] = attempt(lambda: store.datasets)
    found["attrs"] = attempt(lambda: {name: store.attrs(name) for name in store.datasets})
    arrays = store.arrays
    found["arrays"] = attempt(lambda: {name: store.arrays_of(name) for name in store.datasets})
    for array in arrays:
        found[f"{array}: schema"] = attempt(partial(store.schema, array))
        found[f"{array}: stats"] = attempt(partial(store.stats, array))
        _columns(found, f"{array}: list", path, [array], _ALL_KINDS, layout="list")
        if path.parent.name == "reject":
            continue
        for layout in ("stacked", "jagged"):
            _columns(found, f"{array}: {layout}", path, [array], layout=layout)
        for dtype in (torch.float32, torch.float64):
            _columns(found, f"{array}: {dtype}", path, [array], layout="list", dtype=dtype)
        cut: dict[str, Any] = {"start": [1], "shape": [2], "layout": "list"}
        _columns(found, f"{array}: from 1, two", path, [array], **cut)
    if arrays:
        _columns(found, "all arrays", path, arrays, layout="list")
    return found


def _columns(
    found: Found,
    label: str,
    path: Path,
    arrays: Sequence[str],
    kinds: Sequence[str] = ("all", "shuffled", "none"),
    **options: Any,
) -> None:
    dataset = _opened(found, label, lambda: apt.AtlasDataset(path, arrays, **options))
    if dataset is not None:
        _batches(found, label, dataset, kinds)
        found[f"{label}: first"] = attempt(lambda: dataset[0])


def read_array_file(path: Path) -> Found:
    """A single array file."""
    found: Found = {}
    with apt.ArrayFile(path) as file:
        found["names"] = attempt(lambda: file.names)
        found["stats"] = attempt(lambda: file.stats())
        for name in file.names:
            found[name] = attempt(partial(_array, file, name))
    return found


def _array(file: apt.ArrayFile, name: str) -> dict[str, Any]:
    schema = file.schema(name)
    half = [size // 2 for size in schema.shape]
    return {
        "schema": repr(schema),
        "whole": file.read(name),
        "first half": file.read(name, shape=half),
        "second half": file.read(name, start=half),
    }


def read_shards(path: Path) -> Found:
    """A dataset of shards."""
    found: Found = {}
    options: dict[str, dict[str, Any]] = {
        "default": {},
        "layout=jagged": {"layout": "jagged"},
        "cache_blocks=0": {"cache_blocks": 0},
    }
    if path.name in _DATA_ONLY:
        options["allow_pickle"] = {"allow_pickle": True}
    for label, chosen in options.items():
        dataset = _opened(found, label, partial(apt.ShardDataset, path, **chosen))
        if dataset is None:
            continue
        found[f"{label}: blocks"] = attempt(partial(getattr, dataset, "block_sizes"))
        found[f"{label}: examples"] = attempt(partial(_examples, dataset))
        _batches(found, label, dataset, _ALL_KINDS)
    return found


def _examples(dataset: apt.ShardDataset) -> list[Any]:
    return [dataset[k] for k in range(len(dataset))]


def _sorted(paths: Any) -> list[str]:
    return sorted(path.relative_to(FIXTURES).as_posix() for path in paths)


def _stores(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_dir() and p.name != "reject"]


# Kind -> what reads a fixture, and the fixtures, relative to the folder of all.
KINDS: dict[str, tuple[Callable[[Path], Found], list[str]]] = {
    "atp": (
        read_atp,
        [*_sorted(p for p in FIXTURES.rglob("*.atp") if "shards" not in p.parts), "atp/shards"],
    ),
    "joined": (read_joined, ["cache/water.atp"]),
    "cache": (read_cache, _sorted(FIXTURES.rglob("*.h5"))),
    "store": (read_store, _sorted(_stores(FIXTURES / "atlas"))),
    "rejected_store": (read_store, _sorted(_stores(FIXTURES / "atlas" / "reject"))),
    "array_file": (
        read_array_file,
        _sorted(p for p in (FIXTURES / "atlas").glob("*/*/data.af") if "reject" not in p.parts),
    ),
    "shards": (read_shards, _sorted((FIXTURES / "atlas_shards" / "data").iterdir())),
}


def read(kind: str, fixture: str) -> Found:
    """Everything that is read from one fixture."""
    return KINDS[kind][0](FIXTURES / fixture)
