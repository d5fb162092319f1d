"""Stores written here, read and changed by atlas-python; stores changed by turns."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oracle.atlas_client import AtlasProcess
from reference.atlas_compare import assert_as_original, assert_as_planned
from reference.atlas_plans import Operation, Plan

import atompack_torch as apt

CODECS = ("zstd", "lz4", "none")
FORMS = ("json", "json.zst", "json.lz4", "msgpack", "msgpack.zst", "msgpack.lz4")


def apply(path: Path, operations: Sequence[Operation], mode: str = "a", **options: Any) -> None:
    """Operations carried out by us; flushed at the end."""
    with apt.AtlasStore(path, mode, **options) as store:  # type: ignore[arg-type]
        for name, *arguments in operations:
            getattr(store, name)(*arguments)


def is_left(path: Path, dataset: str, array: str) -> bool:
    """Whether the file of an array still holds it for a dataset, which the store may deny."""
    file = path / array / "data.af"
    return file.exists() and dataset in apt.ArrayFile(file).names


def assert_agreed(path: Path, plan: Plan, atlas_python: AtlasProcess) -> None:
    """The plan, the original and we agree about a store."""
    store = apt.AtlasStore(path)
    assert_as_planned(store, plan)
    assert_as_original(store, atlas_python.read(path))


@pytest.mark.parametrize("form", FORMS)
def test_metadata_forms(atlas_python: AtlasProcess, tmp_path: Path, form: str) -> None:
    plan = Plan(np.random.default_rng(9))
    path = tmp_path / "store"
    apply(path, plan.operations(60), "x", metadata=form)
    assert (path / f"atlas.{form}").is_file()
    assert_agreed(path, plan, atlas_python)
    atlas_python.apply(path, plan.operations(10))
    apply(path, plan.operations(10))
    assert_agreed(path, plan, atlas_python)
    assert [p.name for p in path.iterdir() if p.name.startswith("atlas.")] == [f"atlas.{form}"]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    turns=st.lists(st.sampled_from(["ours", "theirs", "we compact", "they compact"]), max_size=6),
    codec=st.sampled_from(CODECS),
    is_ours=st.booleans(),
)
@example(seed=1 << 30, turns=["theirs", "we compact", "theirs"], codec="zstd", is_ours=False)
def test_changed_by_turns(
    atlas_python: AtlasProcess,
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    turns: list[str],
    codec: str,
    is_ours: bool,
) -> None:
    """Whoever writes, and whoever compacts, both continue with what the other left."""
    plan = Plan(np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("turns") / "store"
    if is_ours:
        apply(path, plan.operations(15), "x", codec=codec)
    else:
        atlas_python.create(path, plan.operations(15), codec=codec)
    kept = apt.AtlasStore(path)
    for turn in turns:
        if turn == "ours":
            apply(path, plan.operations(12))
        elif turn == "theirs":
            atlas_python.apply(path, plan.operations(12))
        else:
            if turn == "we compact":
                apply(path, [("compact",)])
                # The original leaves some deleted arrays in their files, and refuses to define
                # those again, or panics where one comes back with a different number of axes.
                plan.deleted = {pair for pair in plan.deleted if is_left(path, *pair)}
            else:
                atlas_python.apply(path, [("compact",)])
        assert_agreed(path, plan, atlas_python)
        kept.refresh()
        assert_as_planned(kept, plan)


def test_what_the_original_writes_meanwhile_is_not_lost(
    atlas_python: AtlasProcess, tmp_path: Path
) -> None:
    """It takes no lock: it may come between our opening of a store and our flush."""
    plan, path = Plan(np.random.default_rng(11)), tmp_path / "store"
    apply(path, plan.operations(15), "x")
    store = apt.AtlasStore(path, "a")
    store.create_dataset("ours")
    store.define_array("ours", "v", "int32", (2,))
    store.write("ours", "v", [1, 2])
    atlas_python.apply(path, plan.operations(20))
    for change in (store.flush, store.compact, store.flush):
        with pytest.raises(OSError, match="another program has written to this store") as caught:
            change()
        assert caught.value.errno == errno.ESTALE
    store.discard()
    assert_agreed(path, plan, atlas_python)
    with apt.AtlasStore(path, "a") as store:  # with nothing pending: a compaction by itself
        atlas_python.apply(path, plan.operations(5))
        with pytest.raises(OSError, match="another program"):
            store.compact()
    assert_agreed(path, plan, atlas_python)


def test_pending_changes_are_seen_by_the_writer_alone(tmp_path: Path) -> None:
    plan, path = Plan(np.random.default_rng(4)), tmp_path / "store"
    apply(path, plan.operations(40), "x")
    before = apt.AtlasStore(path).datasets
    with apt.AtlasStore(path, "a") as store:
        for name, *arguments in plan.operations(40):
            if name != "flush":
                getattr(store, name)(*arguments)
        assert sorted(store.datasets) == sorted(plan.arrays)
        for dataset, arrays in plan.arrays.items():
            for array in arrays:
                values = store.read(dataset, array)
                want = arrays[array].values
                got = values.numpy() if isinstance(values, torch.Tensor) else values
                np.testing.assert_array_equal(got, want.tolist() if want.dtype == "O" else want)
        assert apt.AtlasStore(path).datasets == before
    assert_as_planned(apt.AtlasStore(path), plan)


def test_what_was_discarded_is_not_seen_any_more(tmp_path: Path) -> None:
    store = apt.AtlasStore(tmp_path / "s", "x")
    store.create_dataset("kept")
    store.flush()
    store.create_dataset("dropped")
    store.define_array("dropped", "v", "int8", (1,))
    assert (store.datasets, store.arrays) == (["kept", "dropped"], ["v"])
    store.discard()
    assert (store.datasets, store.arrays) == (["kept"], [])


def test_values_of_all_kinds(atlas_python: AtlasProcess, tmp_path: Path) -> None:
    """Tensors, arrays, lists, numbers, moments and strings become what the dtype says."""
    path = tmp_path / "store"
    moments = np.array(["2024-05-01T12:00", "NaT"], "M8[s]")
    with apt.AtlasStore(path, "x") as store:
        store.create_dataset("d")
        for array, dtype, shape, values in (
            ("tensor", torch.float32, (2, 3), torch.arange(6.0).reshape(3, 2).T),
            ("array", np.dtype("i2"), (3,), np.array([1, 2, 3], ">i2")),
            ("list", "float64", (2, 2), [[1, 2], [3, 4.5]]),
            ("scalar", "int8", (), -5),
            ("time", "timestamp_ns", (2,), moments),
            ("text", "string", (2,), ["Zürich", ""]),
            ("word", "string", (), "one"),
        ):
            store.define_array("d", array, dtype, shape)
            store.write("d", array, values)
        store.set_attr("d", "when", np.datetime64("2024-05-01T12:00:00.5"))
    store = apt.AtlasStore(path)
    assert_as_original(store, atlas_python.read(path))
    assert store.read("d", "tensor").tolist() == [[0, 2, 4], [1, 3, 5]]
    assert store.read("d", "array").tolist() == [1, 2, 3]
    assert store.read("d", "list").tolist() == [[1, 2], [3, 4.5]]
    assert store.read("d", "scalar").item() == -5
    assert store.read("d", "time").tolist() == moments.astype("M8[ns]").view("i8").tolist()
    assert store.read("d", "text") == ["Zürich", ""]
    assert store.read("d", "word") == "one"
    assert store.attrs("d") == {"when": np.datetime64("2024-05-01T12:00:00.5", "ns")}


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with apt.AtlasStore(path, "x"):
        with pytest.raises(apt.WriterLockedError, match=str(path)):
            apt.AtlasStore(path, "a")
        assert len(apt.AtlasStore(path)) == 0
    with pytest.raises(FileExistsError):
        apt.AtlasStore(path, "x")


def test_refusals(tmp_path: Path) -> None:
    """A refused change leaves the writer usable."""
    path = tmp_path / "store"
    with apt.AtlasStore(path, "x") as store:
        store.create_dataset("d")
        store.define_array("d", "v", "int16", (3,))
        for call in (
            lambda: store.create_dataset("d"),
            lambda: store.create_dataset("_hidden"),
            lambda: store.create_dataset("a/b"),
            lambda: store.define_array("d", "v", "int16", (3,)),
            lambda: store.define_array("d", "é", "int16", (3,)),
            lambda: store.define_array("x", "v", "int16", (3,)),
            lambda: store.write("d", "w", [1]),
            lambda: store.write("d", "v", [1, 2, 3, 4]),
            lambda: store.write("d", "v", [1, 2], start=[2]),
            lambda: store.write("d", "v", [1 << 20, 0, 0]),
            lambda: store.set_attr("d", "k", float("nan")),
            lambda: store.set_attr("d", "k", "2024-05-01T12:00:00Z"),
            lambda: store.set_attr("d", "k", 1 << 63),
            lambda: store.delete_array("d", "w"),
            lambda: store.delete_dataset("x"),
        ):
            with pytest.raises(apt.FieldError):
                call()
        with pytest.raises(TypeError):
            store.set_attr("d", "k", [1])
        with pytest.raises(ValueError, match="complex64"):
            store.define_array("d", "c", "complex64", (3,))
        store.write("d", "v", [1, 2, 3])
    assert apt.AtlasStore(path).read("d", "v").tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r'mode "a" or "x", got "r"'):
        apt.AtlasStore(path).create_dataset("e")


def test_empty_slices_of_what_is_pending(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "v", "float32", (3, 4))
        store.define_array("d", "none", "int64", (0,))
        store.define_array("d", "s", "string", (2,))
        for start, shape, want in (([3, 0], None, (0, 4)), (None, [2, 0], (2, 0))):
            assert store.read("d", "v", start, shape).shape == want
        assert store.read("d", "none").shape == (0,)
        assert store.read("d", "s", [2]) == []


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3), (0, 0)])
@pytest.mark.parametrize(
    ("dtype", "given"), [("string", object), ("string", "U1"), ("binary", "S1")]
)
def test_empty_arrays_of_texts_keep_their_axes(
    shape: tuple[int, ...], dtype: str, given: Any
) -> None:
    with apt.AtlasStore(None, "x") as store:
        store.create_dataset("d")
        store.define_array("d", "s", dtype, shape)
        store.write("d", "s", np.empty(shape, given))
        store.flush()
        assert store.read("d", "s") == [[] for _ in range(shape[0])]
        with pytest.raises(apt.FieldError, match="axes of the slice"):
            store.write("d", "s", np.empty((0,), given))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64", "timestamp_ns"])
def test_values_however_they_lie_in_memory(tmp_path: Path, dtype: str) -> None:
    """In the stored form, in steps, by columns, of the other byte order, of a different type."""
    stored = np.dtype("int64" if dtype == "timestamp_ns" else dtype)
    values = np.arange(12, dtype=stored).reshape(3, 4)
    spread = np.zeros((6, 8), stored)
    spread[::2, ::2] = values
    forms: list[Any] = [
        values,
        spread[::2, ::2],
        np.asfortranarray(values),
        values.astype(stored.newbyteorder(">")),
        values.astype("int16"),
        values.tolist(),
        torch.from_numpy(values.copy()),
        torch.from_numpy(np.ascontiguousarray(values.T)).T,
    ]
    if dtype == "timestamp_ns":
        forms.append(values.view("datetime64[ns]"))
    with (
        apt.AtlasStore(tmp_path / "s", "x") as store,
        apt.ArrayFile(tmp_path / "f.af", "x") as file,
    ):
        for i, form in enumerate(forms):
            store.create_dataset(f"d{i}")
            store.define_array(f"d{i}", "v", dtype, (3, 4))
            store.write(f"d{i}", "v", form)
            file.define(f"d{i}", dtype, (3, 4))
            file.write(f"d{i}", form)
        for wrong in (values[0], values[:, :, None], np.zeros((4, 4), stored)):
            with pytest.raises(apt.FieldError):
                store.write("d0", "v", wrong)
            with pytest.raises(apt.FieldError):
                file.write("d0", wrong)
        for other in ("bool", "complex64", "U1"):
            with pytest.raises(apt.FieldError, match="values: expected"):
                store.write("d0", "v", np.ones((3, 4), other))
    expected = torch.from_numpy(values)
    for i in range(len(forms)):
        assert torch.equal(apt.AtlasStore(tmp_path / "s").read(f"d{i}", "v"), expected), i
        assert torch.equal(apt.ArrayFile(tmp_path / "f.af").read(f"d{i}"), expected), i


@pytest.mark.parametrize("names", [(), ("x",), ("x", "y", "z")])
def test_one_dimension_name_an_axis(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Others would be lost: the format gives such an array names of its own."""
    match = rf"dimension_names: expected one for each of 2 axes, got {len(names)}"
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        store.create_dataset("d")
        with pytest.raises(apt.FieldError, match=match):
            store.define_array("d", "v", "float64", (3, 4), dimension_names=names)
        assert store.arrays_of("d") == []
    with (
        apt.ArrayFile(tmp_path / "f.af", "x") as file,
        pytest.raises(apt.FieldError, match=match),
    ):
        file.define("v", "float64", (3, 4), dimension_names=names)
