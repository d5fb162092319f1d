"""A writer whose ``with`` block raises before the first commit leaves nothing behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt


class StopError(Exception):
    """What the user's code raises."""


POSITIONS = np.zeros((1, 2, 3), np.float32)


def molecule(writer: apt.AtpWriter) -> None:
    """One more molecule."""
    writer.write_arrays(positions=POSITIONS, atomic_numbers=[[1, 1]])


def in_store(store: apt.AtlasStore, name: str = "d") -> None:
    """One more dataset, with an array."""
    store.create_dataset(name)
    store.define_array(name, "t", "float32", (3,))
    store.write(name, "t", np.ones(3, np.float32))


def in_array_file(file: apt.ArrayFile) -> None:
    """An array."""
    file.define("t", "float32", (3,))
    file.write("t", np.ones(3, np.float32))


OPENED: dict[str, tuple[Callable[[Path], Any], Callable[[Any], None]]] = {
    **{
        f"atp {mode}": (lambda path, m=mode: apt.AtpWriter(path, mode=m), molecule)  # type: ignore[misc]
        for mode in "xwa"
    },
    **{
        f"store {mode}": (lambda path, m=mode: apt.AtlasStore(path, m), in_store)  # type: ignore[misc]
        for mode in "xa"
    },
    **{
        f"array file {mode}": (
            lambda path, m=mode: apt.ArrayFile(path.with_suffix(".af"), m),  # type: ignore[misc]
            in_array_file,
        )
        for mode in "xa"
    },
    "shards": (lambda path: apt.ShardWriter(path, 4, 2), lambda w: w.write({"x": 1})),
}


def entries(folder: Path) -> list[str]:
    """Everything below a folder, hidden names too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("write", [False, True], ids=["untouched", "written"])
@pytest.mark.parametrize("kind", OPENED)
def test_an_exception_before_the_first_commit(kind: str, write: bool, tmp_path: Path) -> None:
    make, fill = OPENED[kind]
    with contextlib.suppress(StopError), make(tmp_path / "made") as writer:
        if write:
            fill(writer)
        raise StopError
    assert entries(tmp_path) == []
    with make(tmp_path / "made") as writer:  # nothing is locked either
        fill(writer)
    assert entries(tmp_path) != []


@pytest.mark.parametrize("kind", [kind for kind in OPENED if kind not in ("shards",)])
def test_what_was_flushed_stays(kind: str, tmp_path: Path) -> None:
    make, fill = OPENED[kind]
    with contextlib.suppress(StopError), make(tmp_path / "made") as writer:
        fill(writer)
        writer.flush()
        committed = entries(tmp_path)
        raise StopError
    assert entries(tmp_path) == committed != []


@pytest.mark.parametrize("kind", [kind for kind in OPENED if kind not in ("shards",)])
def test_an_empty_commit_is_one(kind: str, tmp_path: Path) -> None:
    make, _ = OPENED[kind]
    with contextlib.suppress(StopError), make(tmp_path / "made") as writer:
        writer.flush()
        raise StopError
    assert entries(tmp_path) != []


@pytest.mark.parametrize("kind", OPENED)
def test_a_block_that_ends_leaves_an_empty_one(kind: str, tmp_path: Path) -> None:
    make, _ = OPENED[kind]
    with make(tmp_path / "made"):
        pass
    assert entries(tmp_path) != []


@pytest.mark.parametrize("mode", ["w", "a"])
def test_what_was_there_before_stays(mode: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.atp"
    with apt.AtpWriter(path) as writer:
        molecule(writer)
    before = path.read_bytes()
    with contextlib.suppress(StopError), apt.AtpWriter(path, mode=mode) as writer:
        molecule(writer)
        raise StopError
    assert entries(tmp_path) == ["a.atp"]
    assert path.read_bytes() == before
    with apt.AtpWriter(tmp_path / "empty.atp"):
        pass
    with contextlib.suppress(StopError), apt.AtpWriter(tmp_path / "empty.atp", mode=mode):
        raise StopError
    assert len(apt.AtpDataset(tmp_path / "empty.atp")) == 0


def test_another_file_at_the_path_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.atp"
    with contextlib.suppress(StopError), apt.AtpWriter(path):
        path.unlink()
        path.write_text("somebody else's")
        raise StopError
    assert path.read_text() == "somebody else's"


def test_a_store_keeps_its_folder_and_what_others_put_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with contextlib.suppress(StopError), apt.AtlasStore(tmp_path, "x") as store:
        in_store(store)
        raise StopError
    assert entries(tmp_path) == ["notes.txt"]


def test_a_store_that_exists_keeps_no_array_that_was_never_flushed(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        in_store(store)
    before = entries(tmp_path)
    with contextlib.suppress(StopError), apt.AtlasStore(tmp_path / "s", "a") as store:
        store.create_dataset("e")
        store.define_array("e", "other", "float32", (3,))
        store.define_array("e", "t", "float32", (3,))
        raise StopError
    assert entries(tmp_path) == before
    assert apt.AtlasStore(tmp_path / "s").datasets == ["d"]


def test_building_a_cache(tmp_path: Path) -> None:
    """What was computed is kept for the next run; where nothing was, nothing is left."""
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write_arrays(
            positions=np.full((4, 2, 3), np.nan, np.float32),
            atomic_numbers=np.ones((4, 2), np.uint8),
        )
    descriptor = apt.ChebyshevDescriptor(["H"], 4, 4.0, 2, 3.0)
    with pytest.raises(apt.FieldError):
        apt.build_cache(
            apt.AtpDataset(tmp_path / "a.atp"), descriptor, tmp_path / "a.h5", progress=False
        )
    assert entries(tmp_path) == ["a.atp"]


AGAIN = "mode='a' appends to it, mode='w' replaces it"
TAKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "atp": (apt.AtpWriter, AGAIN),
    "store": (lambda path: apt.AtlasStore(path, "x"), "mode='a' appends to it"),
    "array file": (lambda path: apt.ArrayFile(path, "x"), "mode='a' appends to it"),
    "shards": (
        lambda path: apt.ShardWriter(path, 4, 2),
        r"mode='a' appends to it, mode='w' replaces it",
    ),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_a_path_that_is_taken_names_the_modes(kind: str, tmp_path: Path) -> None:
    make, expected = TAKEN[kind]
    path = tmp_path / "made.af"
    with make(path):
        pass
    with pytest.raises(FileExistsError, match=expected) as caught:
        make(path)
    assert caught.value.filename == str(path)


def test_readers_of_a_file_that_is_taken_back_are_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "a.atp"
    with contextlib.suppress(StopError), apt.AtpWriter(path) as writer:
        dataset = apt.AtpDataset(path)
        molecule(writer)
        raise StopError
    assert len(dataset) == 0
