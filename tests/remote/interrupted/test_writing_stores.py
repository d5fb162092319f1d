"""Writing of ATLAS stores to object stores: visibility, conflicts, interruptions."""

from __future__ import annotations

import errno
import itertools
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_server import ObjectServer, Stored

import atompack_torch as apt

URL = "s3://bucket/profiles.atlas"
PREFIX = "profiles.atlas/"
State = dict[str, dict[str, list[float]]]


def opened(server: ObjectServer, mode: Any = "a", **others: Any) -> apt.AtlasStore:
    return apt.AtlasStore(URL, mode, storage_options=server.options(), **others)


def put(store: apt.AtlasStore, dataset: str, array: str, value: float) -> None:
    if dataset not in store.datasets:
        store.create_dataset(dataset)
    if array not in store.arrays_of(dataset):
        store.define_array(dataset, array, "float64", (3,))
    store.write(dataset, array, np.full(3, value))


def state_of(store: apt.AtlasStore) -> State:
    return {
        dataset: {
            array: store.read(dataset, array).tolist()  # type: ignore[union-attr]
            for array in store.arrays_of(dataset)
        }
        for dataset in store.datasets
    }


def snapshot(objects: dict[str, Stored], folder: Path) -> State | None:
    """What a reader of these objects sees; None if there is no store."""
    place = Path(tempfile.mkdtemp(dir=folder))
    for name, stored in objects.items():
        path = place / name[len(PREFIX) :]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored.data)
    if not any(place.glob("atlas.*")):
        return None
    with apt.AtlasStore(place) as store:
        for array in store.arrays:
            for dataset, found in store.stats(array).items():
                values = store.read(dataset, array)
                assert found.max == values.max()  # type: ignore[union-attr]
        return state_of(store)


def seen(server: ObjectServer, tmp_path: Path) -> State | None:
    return snapshot(dict(server.objects), tmp_path)


def first_generation(server: ObjectServer) -> State:
    with opened(server, "x") as store:
        put(store, "d", "t", 1)
        put(store, "d", "u", 2)
        store.flush()
        put(store, "e", "t", 3)
    return {"d": {"t": [1] * 3, "u": [2] * 3}, "e": {"t": [3] * 3}}


def values_only(store: apt.AtlasStore) -> None:
    put(store, "d", "t", 10)
    put(store, "e", "t", 30)
    put(store, "d", "u", 20)


def new_arrays(store: apt.AtlasStore) -> None:
    put(store, "d", "t", 10)
    put(store, "f", "u", 40)
    put(store, "f", "v", 50)


def deletions(store: apt.AtlasStore) -> None:
    store.delete_dataset("e")
    store.delete_array("d", "u")
    put(store, "d", "w", 7)


CHANGES = [values_only, new_arrays, deletions]


def test_a_flush_makes_a_store_visible(objects: ObjectServer, tmp_path: Path) -> None:
    with opened(objects, "x") as store:
        put(store, "d", "t", 1)
        assert objects.written() == []
        assert store.path == URL
        assert state_of(store) == {"d": {"t": [1] * 3}}
        store.flush()
        assert seen(objects, tmp_path) == {"d": {"t": [1] * 3}}
        n = len(objects.written())
        store.flush()
        assert len(objects.written()) == n
        put(store, "d", "t", 2)
        assert store.scan("t").values.tolist() == [[1] * 3]  # type: ignore[union-attr]
        assert store.read("d", "t").tolist() == [2] * 3  # type: ignore[union-attr]
    assert seen(objects, tmp_path) == {"d": {"t": [2] * 3}}
    assert not list(tmp_path.glob("atompack-*"))


def test_an_exception_uploads_nothing(objects: ObjectServer, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), opened(objects, "x") as store:  # noqa: PT012
        put(store, "d", "t", 1)
        raise RuntimeError("stop")
    assert objects.written() == []
    assert not list(tmp_path.glob("atompack-*"))


def test_an_empty_store(objects: ObjectServer, tmp_path: Path) -> None:
    opened(objects, "x").close()
    assert seen(objects, tmp_path) == {}
    with pytest.raises(FileExistsError, match="appends to it"):
        opened(objects, "x")
    assert not list(tmp_path.glob("atompack-*"))


@pytest.mark.parametrize("metadata", ["json", "msgpack.zst", "json.lz4"])
def test_all_forms_of_metadata(objects: ObjectServer, tmp_path: Path, metadata: str) -> None:
    with opened(objects, "x", metadata=metadata) as store:
        put(store, "d", "t", 1)
    with opened(objects) as store:
        put(store, "d", "t", 2)
    assert f"{PREFIX}atlas.{metadata}" in objects.objects
    assert seen(objects, tmp_path) == {"d": {"t": [2] * 3}}


def test_appending_uploads_what_has_changed(objects: ObjectServer, tmp_path: Path) -> None:
    expected = first_generation(objects)
    assert seen(objects, tmp_path) == expected
    objects.requests.clear()
    with opened(objects) as store:
        assert state_of(store) == expected
        put(store, "d", "u", 5)
    assert [key[len(PREFIX) :] for _, key in objects.written()] == [
        ".atompack-intent",
        "u/data.2.af",
        "u/data.stats",
        "atlas.json",
        ".atompack-intent",
    ]
    expected["d"]["u"] = [5] * 3
    assert seen(objects, tmp_path) == expected


@pytest.mark.parametrize("change", CHANGES)
def test_readers_see_one_generation(objects: ObjectServer, tmp_path: Path, change: Any) -> None:
    """The objects after every single request are those of the last or of this flush."""
    old = first_generation(objects)
    states: list[dict[str, Stored]] = []
    objects.before = lambda method, key: states.append(dict(objects.objects))
    with opened(objects) as store:
        change(store)
        new = state_of(store)
    objects.before = lambda method, key: None
    found = [snapshot(state, tmp_path) for state in states]
    assert [old, new] == [
        state for state, _ in itertools.groupby([*found, seen(objects, tmp_path)])
    ]


def test_readers_see_the_same_during_a_compaction(objects: ObjectServer, tmp_path: Path) -> None:
    first_generation(objects)
    states: list[dict[str, Stored]] = []
    with opened(objects) as store:
        values_only(store)
        store.flush()
        expected = state_of(store)
        objects.before = lambda method, key: states.append(dict(objects.objects))
        store.compact()
        objects.before = lambda method, key: None
        assert objects.names(PREFIX) == [
            PREFIX + name
            for name in (
                ".atompack-intent",
                "atlas.json",
                "t/data.af",
                "t/data.stats",
                "u/data.af",
                "u/data.stats",
            )
        ]
        assert all(snapshot(state, tmp_path) == expected for state in states)
        assert len(states) > 8
        put(store, "d", "t", 11)
        expected["d"]["t"] = [11] * 3
    assert seen(objects, tmp_path) == expected


def test_every_flush_has_other_metadata(objects: ObjectServer) -> None:
    """ETags are made of the content, and readers know a flush by that of the metadata."""
    etags = []
    with opened(objects, "x") as store:
        for value in (1, 2, 1, 2):
            put(store, "d", "t", value)
            store.flush()
            store.compact()
            etags.append(objects.objects[f"{PREFIX}atlas.json"].etag)
    assert len(set(etags)) == 4


def test_a_conflict_of_two_writers_is_noticed(objects: ObjectServer, tmp_path: Path) -> None:
    expected = first_generation(objects)
    first, second = opened(objects), opened(objects)
    put(first, "d", "t", 8)
    put(second, "d", "t", 9)
    first.close()
    n = len(objects.written())
    with pytest.raises(OSError, match=r"another writer has replaced .* the local copy") as caught:
        second.flush()
    assert caught.value.errno == errno.ESTALE
    assert caught.value.filename == URL
    assert len(objects.written()) == n
    with pytest.raises(OSError, match="another writer"):
        second.flush()
    second.discard()
    expected["d"]["t"] = [8] * 3
    assert seen(objects, tmp_path) == expected


def test_two_writers_of_a_new_store(objects: ObjectServer, tmp_path: Path) -> None:
    first, second = opened(objects, "x"), opened(objects, "x")
    put(first, "d", "t", 8)
    put(second, "e", "t", 9)
    first.close()
    with pytest.raises(FileExistsError, match="another writer has created it"):
        second.close()
    second.discard()
    assert seen(objects, tmp_path) == {"d": {"t": [8] * 3}}


def test_stores_without_conditions_are_looked_at(objects: ObjectServer, tmp_path: Path) -> None:
    objects.knows_conditions = False
    expected = first_generation(objects)
    first, second = opened(objects), opened(objects)
    put(first, "d", "t", 8)
    put(second, "d", "t", 9)
    first.close()
    with pytest.raises(OSError, match="another writer has replaced"):
        second.close()
    second.discard()
    expected["d"]["t"] = [8] * 3
    assert seen(objects, tmp_path) == expected


def fail_after(server: ObjectServer, n: int) -> list[int]:
    """Lets n requests change the server and refuses the later ones; n can be set in the list."""
    left = [n]

    def fault(method: str, key: str) -> int | None:
        left[0] -= method in ("PUT", "DELETE")
        return 403 if left[0] < 0 else None

    server.fault = fault
    return left


def n_written_by(server: ObjectServer, change: Any) -> int:
    """The number of requests that publish a change, of a flush that is then undone."""
    before = dict(server.objects)
    n = len(server.written())
    with opened(server) as store:
        change(store)
    server.objects.clear()
    server.objects.update(before)
    return len(server.written()) - n


@pytest.mark.parametrize("change", CHANGES)
def test_a_writer_that_stops_anywhere_is_followed_by_another(
    objects: ObjectServer, tmp_path: Path, change: Any
) -> None:
    """All steps of the first one, some before and some after the second has taken over."""
    old = first_generation(objects)
    before = dict(objects.objects)
    n = n_written_by(objects, change)
    for k in range(n + 1):
        objects.objects.clear()
        objects.objects.update(before)
        store = opened(objects)
        change(store)
        new = state_of(store)
        fail_after(objects, k)
        if k < n:
            with pytest.raises(PermissionError):
                store.flush()
        else:
            store.flush()
        objects.fault = lambda method, key: None
        found = seen(objects, tmp_path)
        assert found == (new if k >= n - 1 else old)
        with opened(objects) as other:
            assert state_of(other) == found
            assert seen(objects, tmp_path) == found
            put(other, "z", "t", 99)
        expected = {**found, "z": {"t": [99] * 3}}
        assert seen(objects, tmp_path) == expected
        if k < n - 1:  # the first writer continues, too late
            with pytest.raises(OSError, match="another writer has replaced"):
                store.flush()
        else:
            store.flush()
        assert seen(objects, tmp_path) == expected
        store.discard()


@pytest.mark.parametrize("change", CHANGES)
def test_a_writer_goes_on_while_another_recovers(
    objects: ObjectServer, tmp_path: Path, change: Any
) -> None:
    """The first writer proceeds at any step of the second, which takes it for dead."""
    old = first_generation(objects)
    before = dict(objects.objects)
    n = n_written_by(objects, change)
    outcomes = set()
    for k, m in itertools.product((1, n // 2, n - 1), (1, 4, 8, 12)):
        objects.objects.clear()
        objects.objects.update(before)
        store = opened(objects)
        change(store)
        new = state_of(store)
        fail_after(objects, k)
        with pytest.raises(PermissionError):
            store.flush()
        objects.fault = lambda method, key: None
        succeeded: list[bool] = []
        left = [m]

        def go_on(
            method: str,
            key: str,
            left: list[int] = left,
            succeeded: list[bool] = succeeded,
            store: apt.AtlasStore = store,
        ) -> None:
            left[0] -= 1
            if left[0] == 0 and not succeeded:
                succeeded.append(True)
                objects.before = lambda method, key: None
                try:
                    store.flush()
                except OSError as error:
                    if error.errno != errno.ESTALE:
                        raise
                    succeeded[0] = False

        objects.before = go_on
        other = opened(objects)
        objects.before = lambda method, key: None
        found = seen(objects, tmp_path)
        assert found == state_of(other)
        assert found in (old, new)
        if succeeded:
            assert found == (new if succeeded[0] else found)
            outcomes.add(succeeded[0])
        put(other, "z", "t", 99)
        other.close()
        assert seen(objects, tmp_path) == {**found, "z": {"t": [99] * 3}}
        store.discard()
    assert outcomes == {False, True}


def test_a_recovery_that_stops_is_taken_up(objects: ObjectServer, tmp_path: Path) -> None:
    old = first_generation(objects)
    store = opened(objects)
    new_arrays(store)
    left = fail_after(objects, 4)
    with pytest.raises(PermissionError):
        store.flush()
    before = dict(objects.objects)
    for k, m in [(0, 0), (0, 3), (1, 0), (1, 5), (2, 2), (3, 1), (4, 6), (5, 5), (6, 0), (7, 8)]:
        objects.objects.clear()
        objects.objects.update(before)
        for stop in (k, m):
            left[0] = stop
            with suppress(PermissionError):
                opened(objects).discard()
            left[0] = 10**6
            assert seen(objects, tmp_path) == old
        with opened(objects) as other:
            assert state_of(other) == old
            put(other, "d", "t", 5)
        assert seen(objects, tmp_path) == {**old, "d": {**old["d"], "t": [5] * 3}}
    with pytest.raises(OSError, match="another writer"):
        store.flush()
    store.discard()


@pytest.mark.parametrize("k", range(7))
def test_a_new_store_that_was_interrupted(objects: ObjectServer, tmp_path: Path, k: int) -> None:
    store = opened(objects, "x")
    put(store, "d", "t", 1)
    fail_after(objects, k)
    is_stopped = k < 6
    if is_stopped:
        with pytest.raises(PermissionError):
            store.flush()
    else:
        store.flush()
    objects.fault = lambda method, key: None
    is_there = k >= 5
    assert seen(objects, tmp_path) == ({"d": {"t": [1] * 3}} if is_there else None)
    if is_there:
        with pytest.raises(FileExistsError):
            opened(objects, "x")
    else:
        with opened(objects, "x") as other:
            put(other, "e", "t", 2)
        assert seen(objects, tmp_path) == {"e": {"t": [2] * 3}}
        with pytest.raises(FileExistsError, match="another writer"):
            store.flush()
        assert seen(objects, tmp_path) == {"e": {"t": [2] * 3}}
    store.discard()


@pytest.mark.parametrize("k", range(12))
def test_an_interrupted_compaction(objects: ObjectServer, tmp_path: Path, k: int) -> None:
    expected = first_generation(objects)
    store = opened(objects)
    fail_after(objects, k)
    if k < 10:
        with pytest.raises(PermissionError):
            store.compact()
    else:
        store.compact()
    objects.fault = lambda method, key: None
    assert seen(objects, tmp_path) == expected
    put(store, "d", "t", 4)
    store.close()
    expected["d"]["t"] = [4] * 3
    assert seen(objects, tmp_path) == expected


def test_errors_about_data_name_the_url(objects: ObjectServer) -> None:
    with opened(objects, "x") as store:
        with pytest.raises(apt.FieldError, match=URL):
            store.write("none", "t", np.zeros(3))
        with pytest.raises(apt.FieldError) as caught:
            store.create_dataset("")
        assert "atompack-" not in str(caught.value)
    objects.objects[f"{PREFIX}atlas.json"].data = b"{}x"
    with pytest.raises(apt.CorruptFileError, match=URL):
        opened(objects)


def test_a_damaged_record_counts_as_none(objects: ObjectServer, tmp_path: Path) -> None:
    expected = first_generation(objects)
    objects.objects[f"{PREFIX}.atompack-intent"].data = b"damaged"
    with opened(objects) as store:
        put(store, "d", "t", 4)
    expected["d"]["t"] = [4] * 3
    assert seen(objects, tmp_path) == expected
