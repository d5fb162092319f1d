"""Uploading: an object appears under its name whole or not at all."""

from __future__ import annotations

import errno
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from atompack_torch.errors import CorruptFileError, file_exists
from atompack_torch.remote.listing import parse_xml

if TYPE_CHECKING:
    from atompack_torch.remote.client import RemoteResponse, RemoteStore

MIN_PART_BYTES = 5 << 20
_MAX_PARTS = 10_000
_N_THREADS = 4
_MARK = "x-amz-meta-upload"  # tells one's own object from another one


def upload_bytes(store: RemoteStore, url: str, data: bytes, *, overwrite: bool = True) -> None:
    """Stores bytes as an object, by one request.

    Args:
        store: the client.
        url: the URL of the object.
        data: the bytes.
        overwrite: False to refuse to replace an object.

    Raises:
        FileExistsError: the object exists and ``overwrite`` is False.
        OSError: the store refuses, or gives no answer.
    """
    headers = _headers(overwrite)
    response = store.request("PUT", url, headers=headers, body=data)
    _check_creation(store, url, headers, response)


def upload_file(
    store: RemoteStore,
    url: str,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    part_bytes: int = 64 << 20,
) -> None:
    """Stores a local file as an object, large ones in parts. After an error no part is left.

    Args:
        store: the client.
        url: the URL of the object.
        path: the file; it must not change meanwhile.
        overwrite: False to refuse to replace an object.
        part_bytes: the size of a part in bytes, larger for files of more than 10,000 parts.

    Raises:
        FileExistsError: the object exists and ``overwrite`` is False.
        OSError: the store refuses, or gives no answer.
        ValueError: ``part_bytes`` is less than 5 MiB.
    """
    if part_bytes < MIN_PART_BYTES:
        raise ValueError(f"part_bytes: expected at least {MIN_PART_BYTES}, got {part_bytes}")
    size = Path(path).stat().st_size
    headers = _headers(overwrite)
    if size <= part_bytes:
        response = store.request("PUT", url, headers=headers, file=(path, 0, size))
        _check_creation(store, url, headers, response)
        return
    part_bytes = max(part_bytes, -(-size // _MAX_PARTS))
    mark = [pair for pair in headers if pair[0] == _MARK]
    started = store.request("POST", url, query=[("uploads", "")], headers=mark)
    started.check(url)
    names = ("InitiateMultipartUploadResult", "InitiateMultipartUpload")  # the second is rclone's
    upload = parse_xml(started.body, url, *names).findtext("UploadId")
    if not upload:
        raise CorruptFileError(f"{url}: the server's answer: expected an upload id")
    try:
        _upload_parts(store, url, upload, path, size, part_bytes, headers)
    except BaseException:
        with suppress(OSError):  # the first error is the one to be raised
            store.request("DELETE", url, query=[("uploadId", upload)])
        raise


def _upload_parts(
    store: RemoteStore,
    url: str,
    upload: str,
    path: str | os.PathLike[str],
    size: int,
    part_bytes: int,
    headers: list[tuple[str, str]],
) -> None:
    def send(number: int) -> str:
        offset = (number - 1) * part_bytes
        query = [("partNumber", str(number)), ("uploadId", upload)]
        part = (path, offset, min(part_bytes, size - offset))
        response = store.request("PUT", url, query=query, file=part)
        response.check(url)
        return dict(response.headers).get("etag", "")

    numbers = range(1, -(-size // part_bytes) + 1)
    with ThreadPoolExecutor(_N_THREADS) as threads:
        try:
            etags = list(threads.map(send, numbers))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
        for number, etag in zip(numbers, etags, strict=True)
    )
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    conditions = [pair for pair in headers if pair[0] != _MARK]
    response = store.request(
        "POST", url, query=[("uploadId", upload)], headers=conditions, body=body
    )
    if response.status == 404 and response.n_attempts > 1 and _is_own(store, url, headers):
        return  # an earlier attempt succeeded, but its answer was lost
    _check_creation(store, url, headers, response)
    if b"<Error>" in response.body:  # the store keeps the connection alive by a status of success
        error = parse_xml(response.body, url, "Error")
        said = f"{error.findtext('Code')}: {error.findtext('Message')}"
        raise OSError(errno.EIO, f"the parts were not joined, {said[:200]}", url)
    parse_xml(response.body, url, "CompleteMultipartUploadResult", "CompleteMultipartUpload")


def _headers(overwrite: bool) -> list[tuple[str, str]]:
    headers = [(_MARK, uuid.uuid4().hex)]
    if not overwrite:
        headers.append(("If-None-Match", "*"))
    return headers


def _check_creation(
    store: RemoteStore, url: str, headers: list[tuple[str, str]], response: RemoteResponse
) -> None:
    if response.status == 412:
        if response.n_attempts > 1 and _is_own(store, url, headers):
            return
        raise file_exists(url, "choose another name, or overwrite it")
    response.check(url)


def _is_own(store: RemoteStore, url: str, headers: list[tuple[str, str]]) -> bool:
    """True if the object is the one that was to be made: an answer was lost, not the object."""
    found = store.request("HEAD", url)
    return dict(found.headers).get(_MARK) == dict(headers)[_MARK]


def delete_object(store: RemoteStore, url: str) -> None:
    """Deletes an object; one that does not exist is no error.

    Args:
        store: the client.
        url: the URL of the object.

    Raises:
        OSError: the store refuses, or gives no answer.
    """
    response = store.request("DELETE", url)
    if response.status != 404:
        response.check(url)
