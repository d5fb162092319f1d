"""Names and paths that cannot be stored or opened: lone surrogates, NUL, undecodable bytes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.conversion import convert, convert_datasets
from atompack_torch.formats.torch_cache.verification import verify_cache

SURROGATE = "x\ud800"
NUL = "a\0b"
POSITIONS, NUMBERS = np.zeros((1, 2, 3), np.float32), np.ones((1, 2), np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind of file."""
    root = tmp_path_factory.mktemp("names")
    with apt.AtpWriter(root / "a.atp") as writer:
        writer.write_arrays(positions=POSITIONS, atomic_numbers=NUMBERS, energy=[1.0])
    with apt.AtlasStore(root / "store", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "t", "float32", (3,))
        store.write("d", "t", np.ones(3, np.float32))
        store.define_array("d", "s", "string", (2,))
        store.write("d", "s", ["a", "b"])
    with apt.ArrayFile(root / "f.af", "x") as file:
        file.define("t", "float32", (3,))
    with apt.ShardWriter(root / "shards", 4, 2) as shards:
        shards.write({"positions": np.zeros((1, 3)), "atomic_numbers": np.ones(1, int)})
    descriptor = apt.ChebyshevDescriptor(["H"], 4, 4.0, 2, 3.0)
    apt.build_cache(apt.AtpDataset(root / "a.atp"), descriptor, root / "a.h5", progress=False)
    return root


def path_takers(folder: Path) -> dict[str, Callable[[str], Any]]:
    """Everything that takes a path."""
    dataset = apt.AtpDataset(folder / "a.atp")
    descriptor = apt.ChebyshevDescriptor(["H"], 4, 4.0, 2, 3.0)
    return {
        "AtpDataset": apt.AtpDataset,
        "a list": lambda path: apt.AtpDataset([folder / "a.atp", path]),
        **{
            f"AtpWriter {mode}": lambda path, m=mode: apt.AtpWriter(path, mode=m)  # type: ignore[misc]
            for mode in "xwa"
        },
        "TorchCache": apt.TorchCache,
        "TorchCacheDataset": apt.TorchCacheDataset,
        **{
            f"ArrayFile {mode}": lambda path, m=mode: apt.ArrayFile(path + ".af", m)  # type: ignore[misc]
            for mode in "rxa"
        },
        **{
            f"AtlasStore {mode}": lambda path, m=mode: apt.AtlasStore(path, m)  # type: ignore[misc]
            for mode in "rxa"
        },
        "AtlasDataset": lambda path: apt.AtlasDataset(path, ["t"]),
        "ShardDataset": apt.ShardDataset,
        "ShardWriter": lambda path: apt.ShardWriter(path, 4, 2),
        "verify": apt.verify,
        "verify_cache": verify_cache,
        "compact from": lambda path: apt.compact(path, folder / "o.atp"),
        "compact to": lambda path: apt.compact(folder / "a.atp", path),
        "build_cache": lambda path: apt.build_cache(dataset, descriptor, path, progress=False),
        "convert from": lambda path: convert(path, folder / "c.atp", progress=False),
        "convert to": lambda path: convert(folder / "a.atp", path + ".atp", progress=False),
        "stores from": lambda path: convert_datasets(path, folder / "c"),
        "stores to": lambda path: convert_datasets(folder / "c.nc", path),
    }


@pytest.mark.parametrize("name", [NUL, SURROGATE], ids=ascii)
def test_paths_that_no_file_can_have(folder: Path, name: str) -> None:
    before = sorted(folder.iterdir())
    for taker, take in path_takers(folder).items():
        with pytest.raises(ValueError, match=r"^path: expected ") as caught:
            take(str(folder / name))
        assert ascii(name)[1:-1] in ascii(str(caught.value)).replace("\\\\", "\\"), taker
        with pytest.raises(TypeError):
            take(5)  # type: ignore[arg-type]
    assert sorted(folder.iterdir()) == before


def test_any_bytes_are_a_name(tmp_path: Path, folder: Path) -> None:
    """As the file system has them: what is no UTF-8 arrives as surrogate escapes."""
    path = tmp_path / "\udcff.atp"
    shutil.copy(folder / "a.atp", path)
    assert len(apt.AtpDataset(path)) == 1
    assert cli.main(["info", "--json", str(path)]) == 0


def refusals(folder: Path) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """What takes a name or a string, and refuses some."""
    dataset, path = apt.AtpDataset(folder / "a.atp"), folder / "a.atp"
    reader, file = apt.AtlasStore(folder / "store"), apt.ArrayFile(folder / "f.af")
    batch = dataset.batch([0])
    yield "fields", lambda name: apt.AtpDataset(path, fields=[name])
    yield "exclude", lambda name: apt.AtpDataset(path, exclude=[name])
    yield "dtype", lambda name: apt.AtpDataset(path, dtype={name: torch.float64})
    yield "batch", lambda name: batch[name]
    yield "mask", lambda name: batch.mask(name)
    yield "molecule", lambda name: dataset[0][name]
    yield "read", lambda name: reader.read(name, "t")
    yield "read an array", lambda name: reader.read("d", name)
    yield "scan", lambda name: reader.scan(name)
    yield "scan datasets", lambda name: reader.scan("t", ["d", name])
    yield "select", lambda name: reader.select(name)
    yield "select strings", lambda name: reader.select("s", min=name)
    for method in ("schema", "stats", "attrs", "arrays_of"):
        yield method, getattr(reader, method)
    yield "AtlasDataset", lambda name: apt.AtlasDataset(reader, [name])
    yield "ArrayFile.read", file.read
    yield "ArrayFile.schema", file.schema
    yield "species", lambda name: apt.ChebyshevDescriptor([name], 4, 4.0, 2, 3.0)
    yield "levels", lambda name: apt.ShardDataset(folder / "shards", levels={name: "atom"})
    yield "cache fields", lambda name: apt.TorchCache(folder / "a.h5").batch([0], fields=[name])


def changes(store: apt.AtlasStore, file: apt.ArrayFile) -> Iterator[tuple[str, Any]]:
    """What stores a name or a string."""
    values = np.ones(3, np.float32)
    yield "create_dataset", store.create_dataset
    yield "define_array", lambda name: store.define_array("d", name, "float32", (2,))
    yield "define_array in", lambda name: store.define_array(name, "q", "float32", (2,))
    yield (
        "dimension_names",
        lambda name: store.define_array("d", "q", "float32", (2,), dimension_names=[name]),
    )
    yield "fill_value", lambda name: store.define_array("d", "q", "string", (2,), fill_value=name)
    yield "write", lambda name: store.write(name, "t", values)
    yield "write to", lambda name: store.write("d", name, values)
    yield "strings", lambda name: store.write("d", "s", ["a", name])
    yield "set_attr", lambda name: store.set_attr("d", name, 1)
    yield "set_attr of", lambda name: store.set_attr(name, "k", 1)
    yield "attribute", lambda name: store.set_attr("d", "k", name)
    yield "delete_array", lambda name: store.delete_array("d", name)
    yield "delete_dataset", store.delete_dataset
    yield "pending", lambda name: store.read("d", name)
    yield "ArrayFile.define", lambda name: file.define(name, "float32", (2,))
    yield "ArrayFile.write", lambda name: file.write(name, values)
    yield "ArrayFile.delete", file.delete


def test_names_with_lone_surrogates(folder: Path) -> None:
    for what, take in refusals(folder):
        with pytest.raises(apt.FieldError) as caught:
            take(SURROGATE)
        assert "ud800" in str(caught.value), what


def test_names_with_lone_surrogates_are_not_stored(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "store", tmp_path / "store")
    shutil.copy(folder / "f.af", tmp_path)
    with (
        apt.AtlasStore(tmp_path / "store", "a") as store,
        apt.ArrayFile(tmp_path / "f.af", "a") as file,
    ):
        for what, take in changes(store, file):
            with pytest.raises(apt.FieldError) as caught:
                take(SURROGATE)
            assert "surrogate" in str(caught.value) or "ud800" in str(caught.value), what
        assert store.datasets == ["d"]
        assert store.attrs("d") == {}


@pytest.mark.parametrize(
    "labels",
    [
        {"name": [SURROGATE]},
        {"properties": {SURROGATE: [1.0]}},
        {"properties": {"k": [SURROGATE]}},
        {"atom_properties": {SURROGATE: np.zeros((1, 2))}},
    ],
)
def test_molecules_with_lone_surrogates(labels: dict[str, Any], tmp_path: Path) -> None:
    with (
        apt.AtpWriter(tmp_path / "a.atp") as writer,
        pytest.raises(apt.FieldError, match="UTF-8"),
    ):
        writer.write_arrays(positions=POSITIONS, atomic_numbers=NUMBERS, **labels)
