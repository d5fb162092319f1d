"""ShardWriter with URLs, against a store in memory that enforces conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from object_server import ObjectServer

import atompack_torch as apt

URL = "s3://bucket/sets/train"
PREFIX = "sets/train/"


def writer(server: ObjectServer, **others: Any) -> apt.ShardWriter:
    return apt.ShardWriter(URL, 3, 2, storage_options=server.options(), **others)


def fill(made: apt.ShardWriter, n: int = 7) -> None:
    for i in range(n):
        made.write({"number": i})


def numbers(server: ObjectServer, folder: Path) -> list[int]:
    """Downloads what is there and reads it."""
    for name in server.names(PREFIX):
        path = folder / name[len(PREFIX) :]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(server.objects[name].data)
    dataset: Any = apt.ShardDataset(folder)
    return [dataset[i]["number"] for i in range(len(dataset))]


def temporary_folders(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("atompack-*"))


def test_a_data_set_appears_when_the_writer_is_closed(
    objects: ObjectServer, tmp_path: Path
) -> None:
    with writer(objects) as made:
        fill(made)
        assert made.path == URL
        assert repr(made) == f"ShardWriter({URL!r})"
        assert objects.written() == []
    assert temporary_folders(tmp_path) == []
    assert numbers(objects, tmp_path / "read") == list(range(7))


def test_metadata_come_after_what_they_describe(objects: ObjectServer) -> None:
    with writer(objects) as made:
        fill(made)
    stored = [key[len(PREFIX) :] for method, key in objects.written() if method == "PUT"]
    assert stored[-1] == "meta.json"
    for shard in "012":
        files = [name for name in stored if name.startswith(f"{shard}/")]
        assert files[-1] == f"{shard}/meta.json"
        assert len(files) == 3


def test_an_exception_uploads_nothing(objects: ObjectServer, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), writer(objects) as made:  # noqa: PT012
        fill(made)
        raise RuntimeError("stop")
    assert objects.written() == []
    assert temporary_folders(tmp_path) == []


def test_existing_objects_are_refused_at_once(objects: ObjectServer, tmp_path: Path) -> None:
    writer(objects).close()
    with pytest.raises(FileExistsError, match="exists already: mode='w' replaces it"):
        writer(objects)
    del objects.objects[f"{PREFIX}meta.json"]
    with pytest.raises(FileExistsError, match="of an upload that was interrupted"):
        writer(objects)
    assert temporary_folders(tmp_path) == []


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_there_is_replaced(objects: ObjectServer, tmp_path: Path, killed: bool) -> None:
    with writer(objects) as made:
        fill(made, 9)
    if killed:  # before the last object
        del objects.objects[f"{PREFIX}meta.json"]
    with pytest.raises(RuntimeError, match="stop"), writer(objects, mode="w") as made:  # noqa: PT012
        fill(made, 4)
        raise RuntimeError("stop")
    with writer(objects, mode="w") as made:
        fill(made, 4)
        assert f"{PREFIX}2/data.bin" in objects.objects
    assert numbers(objects, tmp_path / "read") == list(range(4))
    assert f"{PREFIX}2/data.bin" not in objects.objects
    objects.objects[f"{PREFIX}mine.txt"] = objects.objects[f"{PREFIX}meta.json"]
    with pytest.raises(FileExistsError, match=r"holds an object already, mine\.txt"):
        writer(objects, mode="w")
    with pytest.raises(ValueError, match="expected 'x' or 'w' for a URL, got 'a'"):
        writer(objects, mode="a")


def test_the_second_of_two_writers_leaves_the_first(objects: ObjectServer, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="the local copy is kept as") as caught:  # noqa: PT012, SIM117
        with writer(objects) as made:
            fill(made, 7)
            with writer(objects) as other:
                fill(other, 8)
    assert numbers(objects, tmp_path / "read") == list(range(8))
    kept = Path(str(caught.value.strerror).partition("kept as ")[2].partition(":")[0])
    assert len(apt.ShardDataset(kept)) == 7


def test_a_writer_that_meets_only_some_objects_removes_its_own(objects: ObjectServer) -> None:
    """The other one is still uploading."""
    made = writer(objects)
    fill(made)
    other = objects.objects[f"{PREFIX}1/data.bin"] = type(
        "Other", (), {"data": b"other", "etag": '"o"', "headers": {}}
    )()
    with pytest.raises(FileExistsError):
        made.close()
    assert objects.names(PREFIX) == [f"{PREFIX}1/data.bin"]
    assert objects.objects[f"{PREFIX}1/data.bin"] is other


@pytest.mark.parametrize("failing", ["0/index.npy", "2/meta.json", "meta.json"])
def test_a_failed_upload_leaves_nothing_and_can_be_repeated(
    objects: ObjectServer, tmp_path: Path, failing: str
) -> None:
    made = writer(objects)
    fill(made)
    objects.fault = lambda method, key: 403 if (method, key) == ("PUT", PREFIX + failing) else None
    with pytest.raises(PermissionError, match="the local copy is kept"):
        made.close()
    assert objects.names() == []
    objects.fault = lambda method, key: None
    made.close()
    assert numbers(objects, tmp_path / "read") == list(range(7))
    assert temporary_folders(tmp_path) == []


def test_objects_that_cannot_be_deleted_are_named(objects: ObjectServer) -> None:
    made = writer(objects)
    fill(made)

    def fault(method: str, key: str) -> int | None:
        return 403 if method == "DELETE" or (method, key) == ("PUT", f"{PREFIX}meta.json") else None

    objects.fault = fault
    with pytest.raises(PermissionError, match=r"not deleted there: .*data\.bin"):
        made.close()
    assert f"{PREFIX}meta.json" not in objects.objects
    made.discard()


def test_a_lost_last_answer_is_a_success(objects: ObjectServer, tmp_path: Path) -> None:
    lost = ["lose"]

    def fault(method: str, key: str) -> str | None:
        return lost.pop() if (method, key) == ("PUT", f"{PREFIX}meta.json") and lost else None

    objects.fault = fault
    with writer(objects) as made:
        fill(made)
    assert not lost
    assert numbers(objects, tmp_path / "read") == list(range(7))


def test_folders_that_cannot_be_listed_are_refused(objects: ObjectServer) -> None:
    with pytest.raises(OSError, match="cannot be written to"):
        apt.ShardWriter(f"{objects.url}/bucket/train", 3, 2)
