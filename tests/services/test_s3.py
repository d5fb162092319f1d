"""Reading, listing and writing through servers that others have written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, cast

import pytest
from reference.uploading import upload_bytes, upload_file
from s3_servers import KEY, SECRET, Server

from atompack_torch.remote.client import RemoteStore
from atompack_torch.remote.listing import list_objects
from atompack_torch.remote.objects import MIN_PART_BYTES

KEYS = [
    "plain.atp",
    "with space",
    "a+b=c",
    "50%",
    "100%25",
    "caf\u00e9/\u6c34",
    "~un-re_served.",
    "a;b,c@d$e!f'(g)*",
    "q?m#h&x:y",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_written_listed_read_and_deleted(server: Server, key: str) -> None:
    store = server.store()
    url = f"s3://bucket/keys/{key}"
    data = f"content of {key}".encode() * 100
    upload_bytes(store, url, data)
    assert [(o.url, o.size) for o in list_objects(store, url)] == [(url, len(data))]
    found = store.open(url, n_first=10)
    assert (found.size, found.first) == (len(data), data[:10])
    assert found.etag.startswith('"')
    assert found.read(5, 1000) == data[5:1005]
    assert found.read(len(data) - 1, 1) == data[-1:]
    store.request("DELETE", url).check(url)
    assert list(list_objects(store, url)) == []
    with pytest.raises(FileNotFoundError, match="status 404"):
        store.open(url)


def test_an_empty_object(server: Server) -> None:
    store = server.store()
    upload_bytes(store, "s3://bucket/empty", b"")
    found = store.open("s3://bucket/empty")
    assert (found.size, found.first) == (0, b"")


def test_session_tokens_are_signed(server: Server) -> None:
    store = server.store(token="TOKEN/+==")
    upload_bytes(store, "s3://bucket/with token", b"abc")
    assert store.open("s3://bucket/with token").first == b"abc"


def test_wrong_keys_are_refused(rclone: Server) -> None:
    secret = "wrong" + SECRET
    with pytest.raises(PermissionError, match="status 403") as caught:
        rclone.store(secret=secret).open("s3://bucket/plain")
    assert secret not in str(caught.value)
    assert KEY not in str(caught.value)


def test_other_errors_have_their_types(moto: Server) -> None:
    store = moto.store()
    with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
        list(list_objects(store, "s3://no-such-bucket/"))
    with pytest.raises(FileNotFoundError, match="NoSuchKey"):
        store.open("s3://bucket/no such key")


def test_existing_objects_are_kept(moto: Server, tmp_path: Path) -> None:
    store = moto.store()
    url = "s3://bucket/kept"
    upload_bytes(store, url, b"first", overwrite=False)
    with pytest.raises(FileExistsError, match="exists already"):
        upload_bytes(store, url, b"second", overwrite=False)
    path = tmp_path / "file"
    path.write_bytes(b"third")
    with pytest.raises(FileExistsError, match="exists already"):
        upload_file(store, url, path, overwrite=False)
    assert store.open(url).first == b"first"
    upload_file(store, url, path)
    assert store.open(url).first == b"third"


def test_a_failed_upload_leaves_no_parts(moto: Server, tmp_path: Path) -> None:
    store = moto.store()
    url = "s3://bucket/aborted"
    path = tmp_path / "file"
    path.write_bytes(bytes(2 * MIN_PART_BYTES))

    class Failing:
        def request(self, method: str, *args: Any, **others: Any) -> Any:
            if method == "PUT" and ("partNumber", "2") in others["query"]:
                raise TimeoutError("the second part")
            return store.request(method, *args, **others)

    with pytest.raises(TimeoutError, match="the second part"):
        upload_file(cast(RemoteStore, Failing()), url, path, part_bytes=MIN_PART_BYTES)
    left = store.request("GET", "s3://bucket", query=[("uploads", "")])
    left.check(url)
    assert b"aborted" not in left.body
    with pytest.raises(FileNotFoundError):
        store.open(url)


def test_listings_of_many_pages(server: Server) -> None:
    store = server.store()
    names = [f"s3://bucket/many/{i:04} +" for i in range(1203)]
    for name in names:
        upload_bytes(store, name, b"x")
    assert [o.url for o in list_objects(store, "s3://bucket/many/")] == names


def test_large_files_are_sent_in_parts(server: Server, tmp_path: Path) -> None:
    store = server.store()
    data = os.urandom(2 * MIN_PART_BYTES + 12345)
    path = tmp_path / "large"
    path.write_bytes(data)
    url = "s3://bucket/a large+file"
    upload_file(store, url, path, part_bytes=MIN_PART_BYTES)
    found = store.open(url)
    assert found.size == len(data)
    assert found.read(0, len(data)) == data
    with pytest.raises(ValueError, match="part_bytes: expected at least 5242880, got 1"):
        upload_file(store, url, path, part_bytes=1)


def test_a_changed_object_is_stale(server: Server) -> None:
    store = server.store()
    url = "s3://bucket/changing"
    upload_bytes(store, url, b"first version")
    found = store.open(url, n_first=1)
    upload_bytes(store, url, b"other version")
    with pytest.raises(OSError, match="changed") as caught:
        found.read(0, 5)
    assert caught.value.errno == errno.ESTALE
    assert store.open(url).first == b"other version"
