"""Uploads of objects, whole or in parts, in the dialect of each store."""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from xml.sax.saxutils import escape

from atompack_torch.errors import CorruptFileError, UnsupportedFormatError, file_exists
from atompack_torch.options import shown_url
from atompack_torch.remote.listing import parse_xml
from atompack_torch.remote.urls import scheme_of

if TYPE_CHECKING:
    from atompack_torch.remote.client import RemoteResponse, RemoteStore


Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Dialect:
    """Interface of the stores of one scheme.

    Attributes:
        mark: header that distinguishes one's own object from another; "" if missing.
        fixed: headers of every request that stores an object.
        has_generations: True if conditions name generation numbers instead of ETags.
        parts: names of the requests for large files: ``"s3"``, ``"az"`` or "" if missing.
    """

    mark: str
    fixed: tuple[tuple[str, str], ...] = ()
    has_generations: bool = False
    parts: str = ""

    def headers(self) -> Headers:
        """Returns headers for one object, with a mark of its own."""
        mark = [(self.mark, uuid.uuid4().hex)] if self.mark else []
        return [*mark, *self.fixed]

    def absent(self) -> Headers:
        """Returns the condition that there is no object."""
        if self.has_generations:
            return [("x-goog-if-generation-match", "0")]
        return [("If-None-Match", "*")]

    def same(self, etag: str, generation: str) -> Headers:
        """Returns the condition that the object is still the known one."""
        if self.has_generations:
            return [("x-goog-if-generation-match", generation)]
        return [("If-Match", etag)]

    def mark_in(self, headers: Mapping[str, str]) -> str:
        """Returns the mark among the headers of a request or an object; "" if missing."""
        return headers.get(self.mark, "") if self.mark else ""


_DIALECTS = {
    "s3": Dialect("x-amz-meta-upload", parts="s3"),
    "gs": Dialect("x-goog-meta-upload", has_generations=True, parts="s3"),
    "az": Dialect("x-ms-meta-upload", (("x-ms-blob-type", "BlockBlob"),), parts="az"),
    "https": Dialect(""),
    "http": Dialect(""),
}


def dialect_of(url: str) -> Dialect:
    """Returns the interface for writing below a URL.

    Args:
        url: the URL as the user gave it.

    Returns:
        The interface.

    Raises:
        UnsupportedFormatError: nothing can be written there.
    """
    scheme = scheme_of(url)
    if scheme not in _DIALECTS:
        raise UnsupportedFormatError(
            f"{shown_url(url)}: expected a URL that begins with s3://, gs://, az:// or https:// "
            f"for writing, got {url.partition('://')[0]}://"
        )
    return _DIALECTS[scheme]


MIN_PART_BYTES = 5 << 20
_MAX_PARTS = 10_000
_N_THREADS = 4
_N_CONFLICTS = 5  # attempts while the store settles a conflict between two writers

OnProgress = Callable[[int], object]

T = TypeVar("T")
R = TypeVar("R")


def was_replaced(url: str) -> OSError:
    """Builds the error for an object that another writer has changed since it was read."""
    text = (
        "another writer has replaced or removed it since it was opened for writing; the changes "
        "made here cannot be added"
    )
    return OSError(errno.ESTALE, text, url)


@dataclass
class Upload:
    """One object to be stored.

    Attributes:
        store: the client.
        url: the URL by which the client knows the object.
        shown: the URL for messages.
        dialect: the interface of the store.
        condition: headers with the condition of the request.
        is_new: True if the condition is that there is no object.
        marks: marks of earlier attempts to store the same bytes, which may have succeeded.
        headers: the other headers.
    """

    store: RemoteStore
    url: str
    shown: str
    dialect: Dialect
    condition: Headers
    is_new: bool = False
    marks: set[str] = field(default_factory=set)
    headers: Headers = field(default_factory=list)

    def __post_init__(self) -> None:
        self.headers = self.dialect.headers()
        self._is_first = not self.marks
        self.marks.add(self.dialect.mark_in(dict(self.headers)))

    def own_etag(self) -> str | None:
        """Returns the ETag of the object if an earlier attempt stored it, else None."""
        found = dict(self.store.request("HEAD", self.url).headers)
        mark = self.dialect.mark_in(found)
        return found.get("etag", "") if mark and mark in self.marks else None

    def send(
        self,
        data: bytes = b"",
        file: tuple[str | os.PathLike[str], int, int] | None = None,
    ) -> str:
        """Stores bytes, or a part of a file, by one request.

        Args:
            data: the bytes.
            file: path, offset and size, instead of the bytes.

        Returns:
            The ETag of the object; "" if the store does not tell it.

        Raises:
            FileExistsError: the object exists, and must not.
            OSError: another writer has replaced it (``ESTALE``), the store refuses, or does not
                respond.
        """
        headers = [*self.headers, *self.condition]

        def request() -> RemoteResponse:
            return self.store.request("PUT", self.url, headers=headers, body=data, file=file)

        return self.stored(request)

    def stored(self, request: Callable[[], RemoteResponse]) -> str:
        """Stores the object by a request; see ``send``."""
        response, own = self.settled(request)
        if own is None:
            response.check(self.shown)
        return dict(response.headers).get("etag", "") if own is None else own

    def settled(self, request: Callable[[], RemoteResponse]) -> tuple[RemoteResponse, str | None]:
        """Sends a conditional request until its outcome is known.

        Args:
            request: sends it.

        Returns:
            The response, and the ETag of the object if it was stored by an earlier attempt whose
            response was lost, else None.

        Raises:
            FileExistsError, OSError: the condition does not hold; see ``send``.
        """
        for i in range(_N_CONFLICTS):
            response = request()
            if response.status != 409 or not self.condition:
                break
            time.sleep(0.1 * 2**i)  # a request of another writer is under way
        is_refused = response.status in (409, 412)
        is_gone = response.status == 404 and bool(self.condition) and not self.is_new
        if not (self.condition and (is_refused or is_gone)):
            return response, None
        if response.n_attempts > 1 or not self._is_first:
            own = self.own_etag()
            if own is not None:
                return response, own
        if is_gone and b"NoSuchBucket" in response.body:
            response.check(self.shown)
        raise self.conflict()

    def conflict(self) -> OSError:
        """Returns the error for a condition that does not hold."""
        if self.is_new:
            return file_exists(self.shown, "choose another name, or overwrite it")
        return was_replaced(self.shown)


def send_file(
    upload: Upload,
    path: str | os.PathLike[str],
    report: OnProgress | None = None,
    *,
    part_bytes: int = 64 << 20,
) -> str:
    """Stores a local file, large ones in parts; after an error no part is left.

    Args:
        upload: the object.
        path: the file; it must not change in the meantime.
        report: called with the number of bytes sent since the last call.
        part_bytes: the size of a part in bytes, larger for files of more than 10,000 parts.

    Returns:
        The ETag of the object; "" if the store does not tell it.

    Raises:
        FileExistsError, OSError: as for ``Upload.send``.
        ValueError: ``part_bytes`` is less than 5 MiB.
    """
    if part_bytes < MIN_PART_BYTES:
        raise ValueError(f"part_bytes: expected at least {MIN_PART_BYTES}, got {part_bytes}")
    report = report or (lambda n: None)
    size = Path(path).stat().st_size
    if size <= part_bytes or not upload.dialect.parts:
        etag = upload.send(file=(path, 0, size))
        report(size)
        return etag
    part_bytes = max(part_bytes, -(-size // _MAX_PARTS))
    offsets = range(0, size, part_bytes)
    parts = [(path, offset, min(part_bytes, size - offset)) for offset in offsets]
    if upload.dialect.parts == "az":
        return _send_blocks(upload, parts, report)
    store, url = upload.store, upload.url
    mark = [pair for pair in upload.headers if pair[0] == upload.dialect.mark]
    started = store.request("POST", url, query=[("uploads", "")], headers=mark)
    started.check(upload.shown)
    names = ("InitiateMultipartUploadResult", "InitiateMultipartUpload")  # the second is rclone's
    number = parse_xml(started.body, upload.shown, *names).findtext("UploadId")
    if not number:
        raise CorruptFileError(f"{upload.shown}: the server's response: expected an upload id")
    try:
        return _send_parts(upload, number, parts, report)
    except BaseException:
        with suppress(OSError):  # the first error is the one to be raised
            store.request("DELETE", url, query=[("uploadId", number)])
        raise


_Part = tuple[str | os.PathLike[str], int, int]


def each(function: Callable[[T], R], items: Sequence[T], n_threads: int) -> list[R]:
    """Calls a function with each item, on threads; the first error ends the others.

    Args:
        function: the function.
        items: its arguments.
        n_threads: number of calls at a time.

    Returns:
        Its results, in the order of the items.
    """
    if len(items) == 1:
        return [function(items[0])]
    with ThreadPoolExecutor(n_threads) as threads:
        try:
            return list(threads.map(function, items))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _send_parts(upload: Upload, number: str, parts: list[_Part], report: OnProgress) -> str:
    def send(i: int) -> str:
        query = [("partNumber", str(i + 1)), ("uploadId", number)]
        response = upload.store.request("PUT", upload.url, query=query, file=parts[i])
        response.check(upload.shown)
        report(parts[i][2])
        etag: str = dict(response.headers).get("etag", "")
        return etag

    joined = "".join(
        f"<Part><PartNumber>{i + 1}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
        for i, etag in enumerate(each(send, range(len(parts)), _N_THREADS))
    )
    body = f"<CompleteMultipartUpload>{joined}</CompleteMultipartUpload>".encode()

    def complete() -> RemoteResponse:
        query = [("uploadId", number)]
        return upload.store.request(
            "POST", upload.url, query=query, headers=upload.condition, body=body
        )

    response, own = upload.settled(complete)
    if own is not None:
        return own
    if response.status == 404 and response.n_attempts > 1:
        own = upload.own_etag()
        if own is not None:
            return own  # an earlier attempt succeeded, but its response was lost
    response.check(upload.shown)
    if b"<Error>" in response.body:  # the store keeps the connection alive by a status of success
        error = parse_xml(response.body, upload.shown, "Error")
        if error.findtext("Code") in ("PreconditionFailed", "ConditionalRequestConflict"):
            raise upload.conflict()
        said = f"{error.findtext('Code')}: {error.findtext('Message')}"
        raise OSError(errno.EIO, f"the parts were not joined, {said[:200]}", upload.shown)
    names = ("CompleteMultipartUploadResult", "CompleteMultipartUpload")
    return parse_xml(response.body, upload.shown, *names).findtext("ETag") or ""


def _send_blocks(upload: Upload, parts: list[_Part], report: OnProgress) -> str:
    """Stores the blocks of an Azure blob, which disappear by themselves if it is not finished."""
    names = [f"{i:08}" for i in range(len(parts))]  # valid base64 of equal length

    def send(i: int) -> str:
        query = [("comp", "block"), ("blockid", names[i])]
        upload.store.request("PUT", upload.url, query=query, file=parts[i]).check(upload.shown)
        report(parts[i][2])
        return names[i]

    listed = "".join(
        f"<Latest>{name}</Latest>" for name in each(send, range(len(parts)), _N_THREADS)
    )
    fixed = [pair for pair in upload.headers if pair[0] != "x-ms-blob-type"]

    def complete() -> RemoteResponse:
        return upload.store.request(
            "PUT",
            upload.url,
            query=[("comp", "blocklist")],
            headers=[*fixed, *upload.condition],
            body=f"<BlockList>{listed}</BlockList>".encode(),
        )

    return upload.stored(complete)
