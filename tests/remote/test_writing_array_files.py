"""Writing of array files to object stores."""

from __future__ import annotations

import errno
import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_server import ObjectServer, Stored

import atompack_torch as apt

URL = "s3://bucket/folder/values.af"
State = dict[str, list[float]]


def opened(server: ObjectServer, mode: Any = "a") -> apt.ArrayFile:
    return apt.ArrayFile(URL, mode, storage_options=server.options())


def put(file: apt.ArrayFile, name: str, value: float) -> None:
    if name not in file.names:
        file.define(name, "float64", (3,))
    file.write(name, np.full(3, value))


def state_of(file: apt.ArrayFile) -> State:
    return {name: file.read(name).tolist() for name in file.names}  # type: ignore[union-attr]


def snapshot(objects: dict[str, Stored], folder: Path) -> State | None:
    """What a reader of these objects sees; None if there is no file."""
    place = Path(tempfile.mkdtemp(dir=folder))
    for name, stored in objects.items():
        (place / name.rpartition("/")[2]).write_bytes(stored.data)
    if not (place / "values.af").exists():
        return None
    with apt.ArrayFile(place / "values.af") as file:
        for name, found in file.stats().items():
            assert found.max == file.read(name).max()  # type: ignore[union-attr]
        return state_of(file)


def seen(server: ObjectServer, tmp_path: Path) -> State | None:
    return snapshot(dict(server.objects), tmp_path)


def test_flushes_add_layers(objects: ObjectServer, tmp_path: Path) -> None:
    with opened(objects, "x") as file:
        assert file.path == URL
        put(file, "a", 1)
        assert objects.written() == []
        file.flush()
        assert seen(objects, tmp_path) == {"a": [1] * 3}
        assert file.stats()["a"].max == 1
        put(file, "b", 2)
    assert objects.names() == [f"folder/values{end}" for end in (".1.af", ".2.af", ".af", ".stats")]
    with opened(objects) as file:
        assert state_of(file) == {"a": [1] * 3, "b": [2] * 3}
        put(file, "a", 3)
    assert seen(objects, tmp_path) == {"a": [3] * 3, "b": [2] * 3}
    with pytest.raises(FileExistsError, match="appends to it"):
        opened(objects, "x")
    assert not list(tmp_path.glob("atompack-*"))


def test_an_exception_uploads_nothing(objects: ObjectServer, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), opened(objects, "x") as file:  # noqa: PT012
        put(file, "a", 1)
        raise RuntimeError("stop")
    assert objects.written() == []
    assert not list(tmp_path.glob("atompack-*"))


def test_files_beside_it_are_left_alone(objects: ObjectServer) -> None:
    others = [
        "folder/values.txt",
        "folder/values.b.af",
        "folder/values2.af",
        "folder/values.b.1.af",
    ]
    for name in others:
        objects.objects[name] = Stored(b"other")
    with opened(objects, "x") as file:
        put(file, "a", 1)
        file.flush()
        file.compact()
    assert all(objects.objects[name].data == b"other" for name in others)


def test_readers_see_whole_flushes(objects: ObjectServer, tmp_path: Path) -> None:
    with opened(objects, "x") as file:
        put(file, "a", 1)
        file.flush()
        states: list[dict[str, Stored]] = []
        objects.before = lambda method, key: states.append(dict(objects.objects))
        put(file, "a", 2)
        put(file, "b", 2)
        file.flush()
        file.compact()
        objects.before = lambda method, key: None
    found = [snapshot(state, tmp_path) for state in states]
    expected = [{"a": [1] * 3}, {"a": [2] * 3, "b": [2] * 3}]
    assert [state for state, _ in itertools.groupby([*found, seen(objects, tmp_path)])] == expected
    assert objects.names() == ["folder/values.af", "folder/values.stats"]


def test_conflicts_are_noticed(objects: ObjectServer, tmp_path: Path) -> None:
    first, second = opened(objects, "x"), opened(objects, "x")
    put(first, "a", 1)
    put(second, "a", 2)
    first.close()
    with pytest.raises(FileExistsError, match="appends to it"):
        second.close()
    second.discard()
    first, second = opened(objects), opened(objects)
    put(first, "a", 3)
    put(second, "a", 4)
    first.close()
    with pytest.raises(OSError, match="another writer has replaced") as caught:
        second.close()
    assert caught.value.errno == errno.ESTALE
    second.discard()
    assert seen(objects, tmp_path) == {"a": [3] * 3}
    third = opened(objects)
    with opened(objects) as other:
        put(other, "a", 5)
        other.flush()
        other.compact()
    with pytest.raises(OSError, match="another writer has replaced"):
        third.compact()
    third.discard()
    assert seen(objects, tmp_path) == {"a": [5] * 3}


@pytest.mark.parametrize("k", range(8))
def test_failed_uploads_are_continued(objects: ObjectServer, tmp_path: Path, k: int) -> None:
    with opened(objects, "x") as file:
        put(file, "a", 1)
    file = opened(objects)
    put(file, "a", 2)
    left = [k]

    def fault(method: str, key: str) -> int | None:
        left[0] -= method in ("PUT", "DELETE")
        return 403 if left[0] < 0 else None

    objects.fault = fault
    with pytest.raises(PermissionError, match="the local copy is kept as"):  # noqa: PT012
        file.flush()
        file.compact()
        raise PermissionError("the local copy is kept as no fault was met")
    objects.fault = lambda method, key: None
    assert seen(objects, tmp_path) in ({"a": [1] * 3}, {"a": [2] * 3})
    put(file, "b", 3)
    file.close()
    assert seen(objects, tmp_path) == {"a": [2] * 3, "b": [3] * 3}


def test_wrong_names_are_refused(objects: ObjectServer) -> None:
    with pytest.raises(apt.FieldError, match=r"expected a name that ends in \.af"):
        apt.ArrayFile("s3://bucket/values", "x", storage_options=objects.options())
