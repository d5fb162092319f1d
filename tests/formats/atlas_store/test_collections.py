"""Collections in everything that takes a store: loaders, xarray, commands, copies, URLs."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from reference.compare import assert_same
from reference.fixture_files import fixtures_root

import atompack_torch as apt
from atompack_torch.cli import main

N_DATASETS = 90
COLLECTIONS = ("0.16.0_removed", "0.17.2_removed")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays of numbers in chunks, of strings, of timestamps; attributes of all types."""
    path = tmp_path_factory.mktemp("stores") / "store"
    rng = np.random.default_rng(0)
    with apt.AtlasStore(path, "x") as made:
        for i in range(N_DATASETS):
            name = f"d{i}"
            made.create_dataset(name)
            made.set_attr(name, "number", i)
            made.set_attr(name, "at", np.datetime64(1_700_000_000_123_456_789 + i, "ns"))
            made.define_array(name, "x", "float32", (4, 25), ["a", "b"], (2, 10), np.nan)
            made.write(name, "x", rng.normal(size=(4, 15)), (0, 0))
            made.set_attr(name, "x.units", "kelvin")
            made.define_array(name, "s", "string", (2,), ["a"])
            made.write(name, "s", [name, "a text of more than sixteen bytes"])
            if i % 3:
                made.define_array(name, "y", "int64", ())
                made.write(name, "y", i)
    return path


@pytest.fixture(scope="module")
def collection(store: Path) -> Path:
    path = store.with_name("collection")
    apt.AtlasStore(store).export(path)
    return path


def assert_copy(copy: apt.AtlasStore, store: apt.AtlasStore) -> None:
    assert copy.datasets == store.datasets
    assert copy.arrays == store.arrays
    for name in store.datasets:
        assert copy.arrays_of(name) == store.arrays_of(name)
        for array in store.arrays_of(name):
            assert_same(copy.read(name, array), store.read(name, array), f"{array} of {name}")
            ours, its = copy.schema(array, name), store.schema(array, name)
            assert ours[:4] == its[:4]
            assert repr(ours.fill_value) == repr(its.fill_value)
            assert copy.array_attrs(name, array) == store.array_attrs(name, array)
            assert repr(copy.stats(array)[name]) == repr(store.stats(array)[name])


def test_a_copy_as_a_collection(store: Path, collection: Path) -> None:
    ours, original = apt.AtlasStore(collection), apt.AtlasStore(store)
    assert [path.name for path in collection.iterdir()] == ["data.atlas"]
    assert_copy(ours, original)
    assert ours.attrs("d7") == {"number": 7, "at": original.attrs("d7")["at"]}
    assert ours.array_attrs("d7", "x") == {"units": "kelvin"}


def test_a_collection_becomes_a_store_again(
    store: Path, collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(collection), str(tmp_path / "again.atlas"), "--quiet"]) == 0
    again = apt.AtlasStore(tmp_path / "again.atlas", "a")
    again.create_dataset("more")
    again.close()
    again = apt.AtlasStore(tmp_path / "again.atlas")
    again_attrs = again.attrs("d7")
    assert again_attrs == apt.AtlasStore(store).attrs("d7")
    assert again.datasets[-1] == "more"
    command = ["convert", str(store), str(tmp_path / "c"), "--to", "atlas-collection", "--quiet"]
    assert main(command) == 0
    assert_copy(apt.AtlasStore(tmp_path / "c"), apt.AtlasStore(store))
    assert main(command) != 0
    assert "--overwrite" in capsys.readouterr().err


def test_the_file_of_a_collection_by_its_name(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both ways to write write the same; any other name is that of a folder."""
    for folder in ("exported", "converted"):
        (tmp_path / folder).mkdir()
    original = apt.AtlasStore(store)
    original.export(tmp_path / "exported" / "data.atlas")
    assert main(["convert", str(store), str(tmp_path / "converted/data.atlas"), "--quiet"]) == 0
    for folder in ("exported", "converted"):
        assert [path.name for path in (tmp_path / folder).iterdir()] == ["data.atlas"]
        assert_copy(apt.AtlasStore(tmp_path / folder), original)
    original.export(tmp_path / "out.atlas")
    assert_copy(apt.AtlasStore(tmp_path / "out.atlas" / "data.atlas"), original)
    with pytest.raises(ValueError, match="expected a folder for a store"):
        original.export(tmp_path / "data.atlas", "store")
    command = ["convert", str(store), str(tmp_path / "data.atlas"), "--to", "atlas", "--quiet"]
    assert main(command) != 0
    assert "expected a folder for a store" in capsys.readouterr().err
    for other in ("deleted.mask", "atlas.json"):
        (tmp_path / "out.atlas" / other).touch()
        with pytest.raises(FileExistsError, match="a collection needs a folder without it"):
            original.export(tmp_path / "out.atlas" / "data.atlas", mode="w")
        (tmp_path / "out.atlas" / other).unlink()
    original.export(tmp_path / "out.atlas" / "data.atlas", mode="w", datasets=["d7"])
    assert apt.AtlasStore(tmp_path / "out.atlas").datasets == ["d7"]


def test_a_failed_export_leaves_nothing(store: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(store, damaged)
    file = damaged / "x" / "data.af"
    layer = next(file.parent.glob("data.1.af"), file)
    content = bytearray(layer.read_bytes())
    content[:100] = bytes(100)
    layer.write_bytes(content)
    with pytest.raises(apt.CorruptFileError):
        apt.AtlasStore(damaged).export(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(apt.FieldError, match="no dataset"):
        apt.AtlasStore(store).export(tmp_path / "out", datasets=["nowhere"])
    assert {path.name for path in tmp_path.iterdir()} == {"damaged"}


def test_export_of_attributes_of_all_types(tmp_path: Path) -> None:
    for name in ("0.17.2_attrs", "0.16.0_attrs"):
        store = apt.AtlasStore(fixtures_root() / "atlas_today" / name)
        store.export(tmp_path / name)
        copy = apt.AtlasStore(tmp_path / name)
        for dataset in store.datasets:
            assert repr(copy.attrs(dataset)) == repr(store.attrs(dataset))
            for array in store.arrays_of(dataset):
                ours = copy.array_attrs(dataset, array)
                assert repr(ours) == repr(store.array_attrs(dataset, array))


def test_a_pickle_sees_that_the_collection_was_replaced(collection: Path, tmp_path: Path) -> None:
    shutil.copytree(collection, tmp_path / "c")
    store = apt.AtlasStore(tmp_path / "c")
    pickled = pickle.dumps(store)
    assert pickle.loads(pickled).datasets == store.datasets
    mask = b"ATLM" + np.array([1, 2, 0, 3], "<u4").tobytes()
    (tmp_path / "c" / "deleted.mask").write_bytes(mask)
    with pytest.raises(apt.FieldError, match="written to since"):
        len(pickle.loads(pickled))
    assert len(store) == N_DATASETS
    assert store.refresh()
    assert store.datasets == [f"d{i}" for i in range(N_DATASETS) if i not in (0, 3)]


def test_a_mask_that_is_older_than_its_collection(collection: Path, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    mask = tmp_path / "c" / "deleted.mask"
    mask.write_bytes(b"ATLM" + np.array([1, 1, 5], "<u4").tobytes())
    time.sleep(1.1)
    shutil.copy(collection / "data.atlas", tmp_path / "c")
    with pytest.warns(UserWarning, match="older than the collection"):
        assert "d5" not in apt.AtlasStore(tmp_path / "c").datasets


@pytest.mark.parametrize("name", COLLECTIONS)
def test_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fixtures_root() / "atlas_today" / name
    store = apt.AtlasStore(folder)
    for path in (folder, folder / "data.atlas"):
        assert main(["info", str(path), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        document = document[0] if isinstance(document, list) else document
        assert document["n_datasets"] == len(store.datasets)
        assert len(apt.head(path, 2)) == 2
        assert main(["show", str(path), store.datasets[-1]]) == 0
        assert store.datasets[-1] in capsys.readouterr().out
        assert main(["verify", str(path)]) == 0
        capsys.readouterr()
        dataset = apt.open(path, arrays=store.arrays[:1])
        assert isinstance(dataset, apt.AtlasDataset)
        assert len(dataset) == len(store)


def test_xarray(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    folder = fixtures_root() / "atlas_today" / "0.17.2_netcdf_whole"
    store = apt.AtlasStore(folder)
    kinds = set()
    for name in store.datasets:
        opened = xarray.open_dataset(folder, engine="atlas", group=name)
        file = xarray.open_dataset(folder / "data.atlas", engine="atlas", group=name)
        assert opened.identical(file)
        assert set(opened.variables) == set(store.arrays_of(name))
        for variable in opened.variables.values():
            kinds.add(variable.dtype.kind)
            assert not any(str(key).startswith("_pyatlas") for key in variable.attrs)
        assert list(opened.coords)
    assert {"M", "m", "f", "i"} <= kinds


def test_bytes_of_a_collection(collection: Path) -> None:
    store = apt.AtlasStore({"data.atlas": (collection / "data.atlas").read_bytes()})
    assert_copy(store, apt.AtlasStore(collection))
