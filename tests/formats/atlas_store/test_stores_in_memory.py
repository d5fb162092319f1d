"""Array files and stores in memory: the same values and errors as from files."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.compare import assert_same
from torch.utils.data import DataLoader

import atompack_torch as apt


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A store with two layers."""
    path: Path = tmp_path_factory.mktemp("memory") / "store"
    rng = np.random.default_rng(0)
    with apt.AtlasStore(path, "x") as store:
        for name in "abc":
            store.create_dataset(name)
            store.set_attr(name, "rank", ord(name))
            store.define_array(name, "grid", "float32", (30, 20), chunk_shape=(10, 10))
            store.write(name, "grid", rng.standard_normal((30, 20)).astype("float32"))
            store.define_array(name, "text", "string", (2,))
            store.write(name, "text", [name, "é"])
    with apt.AtlasStore(path, "a") as store:
        store.write("b", "grid", np.ones((5, 5), "float32"), [3, 3])
    return path


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def assert_same_store(store: apt.AtlasStore, expected: apt.AtlasStore) -> None:
    assert store.datasets == expected.datasets
    assert store.arrays == expected.arrays
    for dataset in expected:
        assert store.attrs(dataset) == expected.attrs(dataset)
        for array in expected.arrays_of(dataset):
            assert_same(store.read(dataset, array), expected.read(dataset, array), array)
            assert store.schema(array, dataset) == expected.schema(array, dataset)
    assert_same(store.scan("grid").values, expected.scan("grid").values, "scan")
    assert store.stats("grid") == expected.stats("grid")


def test_stores(folder: Path) -> None:
    expected = apt.AtlasStore(folder)
    assert any(name.endswith(".1.af") for name in contents(folder))
    store = apt.AtlasStore(contents(folder))
    assert store.path == "<memory>"
    assert_same_store(store, expected)
    assert_same_store(pickle.loads(pickle.dumps(store)), expected)
    store.refresh()
    assert_same_store(store, expected)
    assert_same_store(store.last_flush(), expected)


def test_equal_sizes_do_not_share_blocks(folder: Path, tmp_path: Path) -> None:
    """Decoded blocks are kept by file, and files in memory all have the same version."""
    other = tmp_path / "other"
    for path, value in ((tmp_path / "one", 1.0), (other, 2.0)):
        with apt.AtlasStore(path, "x", codec="none") as store:
            store.create_dataset("a")
            store.define_array("a", "x", "float64", (3,))
            store.write("a", "x", [value] * 3)
    first, second = apt.AtlasStore(contents(tmp_path / "one")), apt.AtlasStore(contents(other))
    for _ in range(2):
        assert first.read("a", "x").tolist() == [1.0] * 3
        assert second.read("a", "x").tolist() == [2.0] * 3


def test_workers(folder: Path) -> None:
    store = apt.AtlasStore(contents(folder))
    expected = apt.AtlasStore(folder).scan("grid").values
    assert_same(store.scan("grid").values, expected, "parent")
    loader = DataLoader(apt.AtlasDataset(store, ["grid"]), batch_size=1, num_workers=2)
    for k, batch in enumerate(loader):
        assert_same(batch["grid"], expected[k : k + 1], f"batch {k}")


def test_array_files(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "grid.af"
    path.write_bytes((folder / "grid" / "data.af").read_bytes())
    expected = apt.ArrayFile(path)
    file = apt.ArrayFile(memoryview(b"x" + path.read_bytes())[1:])
    assert file.path == "<memory>.af"
    for handle in (file, pickle.loads(pickle.dumps(file))):
        assert handle.names == expected.names
        for name in expected.names:
            assert handle.schema(name) == expected.schema(name)
            assert_same(handle.read(name), expected.read(name), name)
            part = expected.read(name, [3, 4], [20, 9])
            assert_same(handle.read(name, [3, 4], [20, 9]), part, name)
    assert not file.refresh()


def outcome(data: Any, name: str) -> tuple[type, str] | None:
    try:
        file = apt.ArrayFile(data)
        for array in file.names:
            file.read(array)
    except (apt.AtompackError, OSError) as error:
        return type(error), str(error).replace(name, "NAME")
    return None


def test_damage_gives_the_same_errors(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "grid" / "data.af").read_bytes()
    rng = np.random.default_rng(6)
    file = tmp_path / "damaged.af"
    failed = 0
    for _ in range(100):
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        if rng.integers(2):
            del data[int(rng.integers(len(data))) :]
        file.write_bytes(data)
        expected = outcome(file, os.fspath(file))
        assert outcome(bytes(data), "<memory>.af") == expected
        failed += expected is not None
    assert failed > 30


def test_mistakes(folder: Path) -> None:
    files: dict[Any, Any] = dict(contents(folder))
    with pytest.raises(FileNotFoundError, match="<memory>"):
        apt.AtlasStore({})
    for mode in ("a", "x"):
        with pytest.raises(ValueError, match="mode: expected one of r, got"):
            apt.AtlasStore(files, mode)
        with pytest.raises(ValueError, match="mode: expected one of r, got"):
            apt.ArrayFile(b"", mode)
    for name in ("/atlas.json", "a//b", "../a", "./a", "a\0b", ""):
        with pytest.raises(ValueError, match="path: expected relative paths"):
            apt.AtlasStore({**files, name: b""})
    with pytest.raises(TypeError, match="path: expected relative paths as str"):
        apt.AtlasStore({**files, 3: b""})
    with pytest.raises(TypeError, match="path: expected bytes or a buffer for 'a', got str"):
        apt.AtlasStore({**files, "a": "text"})
    lost = {name: data for name, data in files.items() if not name.startswith("grid/")}
    with pytest.raises(FileNotFoundError, match=r"<memory>/grid/data\.af"):
        apt.AtlasStore(lost).read("a", "grid")


def test_array_files_made_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((40, 8))
    files = [apt.ArrayFile(None, "x", "lz4"), apt.ArrayFile(tmp_path / "a.af", "x", "lz4")]
    for file in files:
        assert file.names == []
        file.define("a", "float64", (40, 8), chunk_shape=(10, 8))
        file.write("a", values)
        file.flush()
        file.define("text", "string", (2,))
        file.write("text", ["one", "é"])
        file.write("a", values[:3] + 1, [5, 0])
    assert files[0].path == "<memory>.af"
    data = files[0].to_bytes()
    files[1].compact()
    assert data == (tmp_path / "a.af").read_bytes()
    files[0].write("a", values[:1] + 9, [0, 0])  # it continues
    assert files[0].to_bytes() != data
    with pytest.raises(apt.FieldError, match=r"<memory>\.af: no such array"):
        files[0].read("b")
    place = files[0]._handle.local
    for file in files:
        file.close()
    assert not Path(place).parent.exists()
    with pytest.raises(ValueError, match="closed"):
        files[0].to_bytes()
    with pytest.raises(ValueError, match="expected a file without a path"):
        files[1].to_bytes()
    found, expected = apt.ArrayFile(data), apt.ArrayFile(tmp_path / "a.af")
    assert found.names == expected.names == ["a", "text"]
    for name in found.names:
        assert_same(found.read(name), expected.read(name), name)


def test_array_files_made_in_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode: expected one of x, a"):
        apt.ArrayFile(None)
    with apt.ArrayFile(None, "x") as file, pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(file)
    with pytest.raises(RuntimeError, match="stop"), apt.ArrayFile(None, "a") as file:
        raise RuntimeError("stop")
    assert not list(tmp_path.iterdir())


def test_stores_made_in_memory(folder: Path, tmp_path: Path) -> None:
    stores = [apt.AtlasStore(None, "x", "lz4"), apt.AtlasStore(tmp_path / "store", "x", "lz4")]
    for store in stores:
        for name in "ab":
            store.create_dataset(name)
            store.define_array(name, "grid", "float32", (3, 2))
            store.write(name, "grid", np.full((3, 2), ord(name), "float32"))
            store.flush()
        store.set_attr("a", "units", "K", array="grid")
        assert store.array_attrs("a", "grid") == {"units": "K"}
        with pytest.raises(apt.FieldError, match="dataset 'a' has no array 'none'"):
            store.set_attr("a", "units", "K", array="none")
    made = stores[0]
    assert made.path == "<memory>"
    assert made.scan("grid").values.shape == (2, 3, 2)
    files = made.to_bytes()
    stores[1].compact()
    assert files == contents(tmp_path / "store")
    made.delete_dataset("b")  # it continues
    assert apt.AtlasStore(made.to_bytes()).datasets == ["a"]
    with pytest.raises(apt.FieldError, match=r"<memory>.*no such dataset"):
        made.write("b", "grid", 0)
    place = made._handle.local
    for store in stores:
        store.close()
    assert not Path(place).exists()
    with pytest.raises(ValueError, match="closed"):
        made.to_bytes()
    with pytest.raises(ValueError, match="expected a store without a path"):
        stores[1].to_bytes()
    found = apt.AtlasStore(files)
    assert_same_store(found, apt.AtlasStore(tmp_path / "store"))
    assert found.array_attrs("a", "grid") == {"units": "K"}
    with pytest.raises(ValueError, match="mode: expected one of x, a"):
        apt.AtlasStore(None)
    with apt.AtlasStore(None, "a") as made, pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(made)
