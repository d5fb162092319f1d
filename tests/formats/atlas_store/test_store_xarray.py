"""Datasets of xarray, to and from stores, and by turns with atlas-python."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from oracle.atlas_client import AtlasProcess

import atompack_torch as apt


def ocean() -> xarray.Dataset:
    """Coordinates, missing values, strings and attributes of all kinds."""
    rng = np.random.default_rng(0)
    temperature = rng.normal(10, 2, (4, 3)).astype("f4")
    temperature[1, 2] = np.nan
    times = np.array(["2020-01-01", "2020-01-02T03:04:05.6", "NaT"], "M8[ns]")
    attributes = {"units": "degC", "valid_range": [0.0, 40.0], "n": np.int16(3), "flag": True}
    return xarray.Dataset(
        {
            "temperature": (("depth", "time"), temperature, attributes),
            "quality": (("time",), np.array([1, 2, 3], "i1"), {"_FillValue": np.int8(-1)}),
            "ship": (("time",), np.array(["Sonne", "", "Zürich"], object)),
            "pressure": ((), np.float64(1013.25)),
        },
        coords={
            "time": ("time", times, {"long_name": "time of the cast"}),
            "depth": np.arange(4) * 10.0,
            "lon": ("depth", np.linspace(5, 6, 4)),
        },
        attrs={
            "title": "casts",
            "number": 7,
            "share": np.float32(0.5),
            "names": ["a", 1, None],
            "nested": {"a": [1, 2]},
            "nan": float("nan"),
        },
    )


def plain(dataset: xarray.Dataset) -> xarray.Dataset:
    """NumPy's scalars among the attributes as Python's, which is how they come back."""
    copy = dataset.copy(deep=True)
    for part in (copy, *(copy[name] for name in copy.variables)):
        part.attrs = {
            k: v.item() if isinstance(v, np.generic) else v for k, v in part.attrs.items()
        }
    return copy


def assert_same(got: xarray.Dataset, want: xarray.Dataset) -> None:
    """Identical, with NaN attributes taken as equal; the order of variables may differ."""
    assert repr(got.attrs) == repr(want.attrs)
    xarray.testing.assert_identical(got.assign_attrs({}).drop_attrs(deep=False), _bare(want))
    assert set(got.coords) == set(want.coords)
    for name in want.variables:
        assert got[name].dtype == want[name].dtype, name
        assert got[name].attrs == want[name].attrs, name


def _bare(dataset: xarray.Dataset) -> xarray.Dataset:
    return dataset.drop_attrs(deep=False)


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with apt.AtlasStore(path, "x") as store:
        store.from_xarray("a", ocean(), chunks={"temperature": [2, 3]})
        assert_same(store.to_xarray("a"), plain(ocean()))  # what is pending
    store = apt.AtlasStore(path)
    assert_same(store.to_xarray("a"), plain(ocean()))
    assert store.schema("temperature", "a").chunk_shape == (2, 3)
    assert store.schema("quality", "a").fill_value == -1
    assert np.isnan(store.schema("temperature", "a").fill_value)
    assert store.stats("temperature")["a"].null_count == 1
    part = store.to_xarray("a", ["temperature"])
    assert list(part.data_vars) == ["temperature"]
    assert not part.coords


def test_ours_opened_by_the_original(atlas_python: AtlasProcess, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with apt.AtlasStore(path, "x") as store:
        store.from_xarray("a", ocean())
    theirs = atlas_python.open_xarray(path, "a")
    assert_same(theirs, plain(ocean()))
    assert_same(apt.AtlasStore(path).to_xarray("a"), theirs)


def test_the_originals_opened_by_us(atlas_python: AtlasProcess, tmp_path: Path) -> None:
    path = atlas_python.create(tmp_path / "store", meta_format="msgpack")
    atlas_python.add_xarray(path, {"a": ocean(), "b": ocean().isel(time=0)})
    store = apt.AtlasStore(path)
    for name, want in (("a", ocean()), ("b", ocean().isel(time=0))):
        assert_same(store.to_xarray(name), atlas_python.open_xarray(path, name))
        assert_same(store.to_xarray(name), plain(want))


def test_both_write_the_same(atlas_python: AtlasProcess, tmp_path: Path) -> None:
    """Arrays, schemas and attributes, in the same order."""
    dataset = ocean().drop_attrs(deep=False).assign_attrs(title="casts", names=["a", 1])
    theirs = atlas_python.create(tmp_path / "theirs")
    atlas_python.add_xarray(theirs, {"a": dataset})
    with apt.AtlasStore(tmp_path / "ours", "x") as store:
        store.from_xarray("a", dataset)
    ours, original = atlas_python.read(tmp_path / "ours")["a"], atlas_python.read(theirs)["a"]
    assert list(ours["attributes"].items()) == list(original["attributes"].items())
    assert list(ours["arrays"]) == list(original["arrays"])
    for name, want in original["arrays"].items():
        got = ours["arrays"][name]
        np.testing.assert_array_equal(got.pop("values"), want.pop("values"))
        assert repr(got) == repr(want)


@pytest.mark.parametrize("value", ["2020-01-01T00:00:00Z", "json:[1]", 2**70, [1, float("inf")]])
def test_attributes_that_are_no_plain_values(
    atlas_python: AtlasProcess, tmp_path: Path, value: Any
) -> None:
    """Texts that would come back as something else, and numbers that JSON or 64 bits lack."""
    path = tmp_path / "store"
    with apt.AtlasStore(path, "x") as store:
        store.from_xarray("a", xarray.Dataset(attrs={"k": value}))
    assert apt.AtlasStore(path).to_xarray("a").attrs == {"k": value}
    assert atlas_python.open_xarray(path, "a").attrs == {"k": value}


def test_moments_among_attributes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    moment = np.datetime64("2020-01-01T00:00:00.5", "ns")
    with apt.AtlasStore(path, "x") as store:
        store.from_xarray("a", xarray.Dataset(attrs={"when": moment}))
    assert apt.AtlasStore(path).to_xarray("a").attrs == {"when": moment}


def test_dask_is_written_by_chunks(tmp_path: Path) -> None:
    values = np.arange(70.0).reshape(7, 10)
    lazy = xarray.Dataset({"v": (("y", "x"), values)}).chunk({"y": 3, "x": 4})
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.from_xarray("a", lazy)
    found = apt.AtlasStore(tmp_path / "store")
    assert found.schema("v", "a").chunk_shape == (3, 4)
    np.testing.assert_array_equal(found.to_xarray("a")["v"], values)


def test_missing_strings(tmp_path: Path) -> None:
    names = xarray.Dataset({"s": ("x", np.array(["a", None, np.nan], object))})
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        with pytest.warns(UserWarning, match="variable 's': missing strings are stored as ''"):
            store.from_xarray("a", names)
        store.from_xarray("b", xarray.Dataset({"s": ("x", np.array([b"ab", b"c"]))}))
    found = apt.AtlasStore(tmp_path / "store")
    assert found.read("a", "s") == ["a", "", ""]
    assert found.read("b", "s") == ["ab", "c"]


def test_fill_values(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.from_xarray("one", ocean()[["temperature", "ship"]], fill_value=-9)
        store.from_xarray("some", ocean(), fill_value={"temperature": None, "quality": 5})
    found = apt.AtlasStore(tmp_path / "store")
    assert found.schema("temperature", "one").fill_value == -9
    assert found.schema("ship", "one").fill_value == ""
    assert found.schema("temperature", "some").fill_value is None
    assert found.to_xarray("some")["quality"].attrs == {"_FillValue": 5}


def test_what_cannot_be_stored(tmp_path: Path) -> None:
    """Nothing of a refused dataset is left in the store."""
    refused = {
        "arrays cannot store the dtype bool": xarray.Dataset({"v": ("x", [True])}),
        "arrays cannot store the dtype timedelta64": xarray.Dataset(
            {"v": ("x", np.array([1], "m8[ns]"))}
        ),
        "attribute 'k'": xarray.Dataset(attrs={"k": object()}),
    }
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        for message, dataset in refused.items():
            with pytest.raises(apt.FieldError, match=message):
                store.from_xarray("a", dataset)
        with pytest.raises(apt.FieldError, match="no variable w"):
            store.from_xarray("a", ocean(), chunks={"w": [1]})
        assert store.datasets == []
        store.from_xarray("a", ocean())
        with pytest.raises(apt.FieldError):
            store.from_xarray("a", ocean())
    assert apt.AtlasStore(tmp_path / "store").datasets == ["a"]


def test_stores_of_other_origin(fixtures: Path) -> None:
    """Dimension names may be missing, alike or contradict each other."""
    names = apt.AtlasStore(fixtures.parent / "atlas" / "names").to_xarray("a")
    assert names["an_array_name_that_is_rather_long"].dims == ("dim0", "dim1")
    types = apt.AtlasStore(fixtures.parent / "atlas" / "dtypes_none")
    assert types.to_xarray("rank2")["timestamp_ns"].dtype == np.dtype("M8[ns]")
    assert types.to_xarray("rank0")["string"].ndim == 0
    with pytest.raises(apt.FieldError, match="dataset 'unwritten' as xarray"):
        apt.AtlasStore(fixtures.parent / "atlas" / "empty_arrays").to_xarray("unwritten")


@pytest.fixture
def grids(tmp_path: Path) -> tuple[apt.AtlasStore, np.ndarray[Any, Any]]:
    """Three datasets of one chunked grid, and its values."""
    values = np.random.default_rng(0).normal(size=(3, 7, 6, 5))
    with apt.AtlasStore(tmp_path / "grids", "x") as store:
        for number, name in enumerate(("c", "a", "b")):
            store.create_dataset(name)
            store.define_array(name, "t", "float64", (7, 6, 5), ("z", "y", "x"), (2, 3, 5))
            store.write(name, "t", values[number])
            store.define_array(name, "label", "string", (2,), ("n",))
            store.write(name, "label", [name, "é" * number])
            store.set_attr(name, "number", number)
    return apt.AtlasStore(tmp_path / "grids"), values


KEYS: list[Any] = [
    (),
    (slice(2, 5), slice(None), slice(1, None)),
    (3, slice(None, None, 2), -1),
    (slice(None, None, -2), slice(5, 1, -1), slice(4, 0, -3)),
    (slice(3, 3), slice(None), 0),
    ([5, 0, 0], slice(None), [1, 4]),
    (np.array([True, False] * 3 + [True]), 2, slice(None)),
]


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_lazy_arrays_select_like_numpy(
    grids: tuple[apt.AtlasStore, np.ndarray[Any, Any]], key: Any
) -> None:
    store, values = grids
    memory = xarray.DataArray(values, dims=("dataset", "z", "y", "x"))
    one = store.to_xarray("a")["t"]
    np.testing.assert_array_equal(one[key].values, memory[1][key].values)
    several = store.to_xarray(["b", "c"])["t"]
    both = (slice(None), *key)
    np.testing.assert_array_equal(several[both].values, memory[[2, 0]][both].values)
    np.testing.assert_array_equal(several[1].values, values[0])


def test_only_what_is_used_is_read(
    grids: tuple[apt.AtlasStore, np.ndarray[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, values = grids
    boxes: list[Any] = []
    read = apt.AtlasStore.read

    def counted(self: apt.AtlasStore, *place: Any) -> Any:
        boxes.append(place)
        return read(self, *place)

    monkeypatch.setattr(apt.AtlasStore, "read", counted)
    opened = store.to_xarray("a")
    assert boxes == []
    np.testing.assert_array_equal(opened["t"][2:4, 1].values, values[1, 2:4, 1])
    assert boxes == [("a", "t", [2, 1, 0], [2, 1, 5])]


def test_dask_takes_the_stored_chunks(grids: tuple[apt.AtlasStore, np.ndarray[Any, Any]]) -> None:
    store, values = grids
    opened = store.to_xarray("a", chunks={})
    assert opened["t"].chunks == ((2, 2, 2, 1), (3, 3), (5,))
    np.testing.assert_array_equal(opened["t"].values, values[1])
    elsewhere = pickle.loads(pickle.dumps(opened))["t"].sum("x").compute()
    np.testing.assert_array_equal(elsewhere.values, values[1].sum(-1))
    several = store.to_xarray(["c", "a", "b"], chunks={})
    assert several["t"].chunks == ((1, 1, 1), (2, 2, 2, 1), (3, 3), (5,))
    np.testing.assert_array_equal(several["t"].values, values)


def test_several_datasets_are_stacked(grids: tuple[apt.AtlasStore, np.ndarray[Any, Any]]) -> None:
    store, values = grids
    opened = store.to_xarray(["b", "a"], concat_dim="cast")
    assert opened["t"].dims == ("cast", "z", "y", "x")
    assert opened["cast"].values.tolist() == ["b", "a"]
    assert opened["label"].values.tolist() == [["b", "éé"], ["a", "é"]]
    np.testing.assert_array_equal(opened["t"].values, values[[2, 1]])
    assert opened.attrs == {"number": 2}
    with pytest.raises(apt.FieldError, match="at least one name"):
        store.to_xarray([])
    with pytest.raises(apt.FieldError, match="'z' already"):
        store.to_xarray(["a"], concat_dim="z")


def test_stacked_datasets_show_pending_changes(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        for name in ("a", "b"):
            store.create_dataset(name)
            store.define_array(name, "t", "float64", (3,))
            store.define_array(name, "n", "string", (3,))
            store.write(name, "t", np.zeros(3))
        store.flush()
        store.write("b", "t", np.arange(3.0))
        store.write("b", "n", ["x", "y", "z"])
        made = store.to_xarray(["b", "a", "b"])
        assert made.t.values.tolist() == [[0, 1, 2], [0, 0, 0], [0, 1, 2]]
        assert made.t[0, 1:].values.tolist() == store.to_xarray("b").t[1:].values.tolist()
        assert made.n.values.tolist() == [[*"xyz"], [""] * 3, [*"xyz"]]


def test_layouts_that_differ_cannot_be_stacked(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        for name, n in (("a", 2), ("b", 3)):
            store.create_dataset(name)
            store.define_array(name, "t", "float32", (n,))
        store.create_dataset("c")
    store = apt.AtlasStore(tmp_path / "store")
    with pytest.raises(apt.FieldError, match=r"expected float32 \(2,\).*got float32 \(3,\) in 'b'"):
        store.to_xarray(["a", "b"])
    with pytest.raises(apt.FieldError, match="got none in 'c'"):
        store.to_xarray(["a", "c"])


def test_the_engine_of_xarray(grids: tuple[apt.AtlasStore, np.ndarray[Any, Any]]) -> None:
    store, values = grids
    with xarray.open_dataset(store.path, engine="atlas", group="b") as opened:
        np.testing.assert_array_equal(opened["t"].values, values[2])
    with xarray.open_dataset(store.path, group=["a", "b"], drop_variables="label") as guessed:
        assert list(guessed.data_vars) == ["t"]
        np.testing.assert_array_equal(guessed["t"].values, values[1:])
    with pytest.raises(apt.FieldError, match="one of 3 datasets"):
        xarray.open_dataset(store.path, engine="atlas")
