"""Arrays that are deleted and defined again with a different number of axes.

atlas-python panics where a file holds chunks of both; a flush that makes such a file rewrites it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracle.atlas_client import AtlasProcess

import atompack_torch as apt

Shape = tuple[int, ...]
# old shape and chunks, new shape and chunks
CHANGES: list[tuple[Shape, Shape, Shape, Shape]] = [
    ((4, 4), (2, 2), (5,), (5,)),
    ((5,), (2,), (4, 4), (2, 2)),
    ((), (), (3,), (3,)),
    ((3,), (3,), (), ()),
    ((2, 3, 4), (1, 3, 2), (6, 4), (6, 4)),
]


def numbers(shape: Shape, first: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Consecutive numbers."""
    return (first + np.arange(np.prod(shape, dtype=int))).reshape(shape).astype("float32")


def redefine(store: apt.AtlasStore, shape: Shape, chunks: Shape, first: float) -> None:
    """Deletes ``d/x`` and defines it again, with values."""
    store.delete_array("d", "x")
    store.define_array("d", "x", "float32", shape, chunk_shape=chunks)
    store.write("d", "x", numbers(shape, first))


@pytest.mark.parametrize(("old", "old_chunks", "new", "new_chunks"), CHANGES)
@pytest.mark.parametrize("n_flushes", [1, 2])
def test_the_original_reads_them(
    atlas_python: AtlasProcess,
    tmp_path: Path,
    old: Shape,
    old_chunks: Shape,
    new: Shape,
    new_chunks: Shape,
    n_flushes: int,
) -> None:
    path = tmp_path / "store"
    with apt.AtlasStore(path, "x") as store:
        for name in "de":
            store.create_dataset(name)
            store.define_array(name, "x", "float32", old, chunk_shape=old_chunks)
            store.write(name, "x", numbers(old, 1))
        store.flush()
        store.delete_array("d", "x")
        if n_flushes == 2:
            store.flush()
        store.define_array("d", "x", "float32", new, chunk_shape=new_chunks)
        store.write("d", "x", numbers(new, 7))
    found = atlas_python.read(path)
    read = apt.AtlasStore(path)
    for name, expected in {"d": numbers(new, 7), "e": numbers(old, 1)}.items():
        assert np.array_equal(found[name]["arrays"]["x"]["values"], expected)
        assert np.array_equal(np.asarray(read.read(name, "x")), expected)
    assert [file.name for file in (path / "x").glob("*.af")] == ["data.af"]


def test_readers_of_before_go_on(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with apt.AtlasStore(path, "x") as store:
        store.create_dataset("d")
        store.define_array("d", "x", "float32", (4, 4))
        store.write("d", "x", numbers((4, 4), 1))
    before = apt.AtlasStore(path)
    before.read("d", "x")
    with apt.AtlasStore(path, "a") as store:
        redefine(store, (5,), (5,), 3)
    assert np.array_equal(np.asarray(before.read("d", "x")), numbers((4, 4), 1))
    assert before.refresh()
    assert np.array_equal(np.asarray(before.read("d", "x")), numbers((5,), 3))


def test_array_files(tmp_path: Path) -> None:
    with apt.ArrayFile(tmp_path / "a.af", "x") as file:
        for i in range(3):
            shape = (2,) * (i + 1)
            file.define("x", "float32", shape)
            file.write("x", numbers(shape, i))
            file.flush()
            assert sorted(each.name for each in tmp_path.glob("*.af")) == (
                ["a.1.af", "a.af"] if i == 0 else ["a.af"]
            )
            assert np.array_equal(np.asarray(file.read("x")), numbers(shape, i))
            file.delete("x")
