"""Objects of a remote store as writers need them: states, contents, uploads under conditions."""

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
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.listing import list_objects, parse_xml
from atompack_torch.remote.local_copies import OnProgress, fetch_into
from atompack_torch.remote.urls import native_url, scheme_of

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
        mark = [(self.dialect.mark, uuid.uuid4().hex)] if self.dialect.mark else []
        self.headers = [*mark, *self.dialect.fixed]
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


_FIRST_BYTES = 1 << 20  # of an object, received by the request that opens it


@dataclass(frozen=True)
class ObjectState:
    """Version of an object.

    Attributes:
        etag: its ETag; "" if the store does not tell it.
        size: its size in bytes.
        generation: its generation number, where conditions need it.
    """

    etag: str
    size: int
    generation: str = ""

    @classmethod
    def of(cls, etag: str, size: int, generation: str = "") -> ObjectState:
        """Returns a state; some stores omit the quotes of ETags, and others do so in lists."""
        is_bare = bool(etag) and not etag.startswith(('"', "W/"))
        return cls(f'"{etag}"' if is_bare else etag, size, generation)


class RemoteObjects:
    """Objects at and below a URL.

    An ``expected`` state of an object is that under which it may be changed: an ``ObjectState``, or
    None if it must not exist. Stores that do not know conditions are asked for the state just
    before the change, which leaves a gap of one request.

    A request whose response was lost may be repeated: an object that it stored differs from one of
    another writer.

    Args:
        url: the URL, as the user gave it.
        storage_options: options of the store.

    Raises:
        UnsupportedFormatError: nothing can be written there.
        ImportError: the package was built without libcurl.
        PermissionError: the store needs credentials and there are none.
        ValueError, TypeError: an option does not have one of its values.
    """

    def __init__(
        self,
        url: str,
        storage_options: RemoteFiles | Mapping[str, object] | None = None,
    ) -> None:
        self._dialect = dialect_of(url)
        self._remote = RemoteFiles.checked(storage_options)
        self._store: RemoteStore = self._remote.objects(url)
        self._marks: dict[str, set[str]] = {}  # of attempts whose outcome is unknown, by URL
        self.url = url

    def state(self, url: str) -> ObjectState | None:
        """Returns the state of an object; None if missing.

        Args:
            url: its URL.

        Returns:
            The state.

        Raises:
            OSError: the store refuses, or does not respond.
        """
        response = self._store.request("HEAD", self._native(url))
        if response.status == 404:
            return None
        response.check(shown_url(url))
        found = dict(response.headers)
        size = found.get("content-length", "0")
        return ObjectState.of(
            found.get("etag", ""),
            int(size) if size.isdecimal() else 0,
            found.get("x-goog-generation", ""),
        )

    def check_bucket(self) -> None:
        """Raises FileNotFoundError if the bucket does not exist, as far as one may know.

        Raises:
            FileNotFoundError: there is no such bucket.
            OSError: the store does not respond.
        """
        scheme, _, rest = self.url.partition("://")
        if scheme.lower() not in ("s3", "gs"):
            return
        bucket = f"{scheme}://{rest.partition('/')[0]}"
        if self._store.request("HEAD", bucket).status == 404:
            raise FileNotFoundError(errno.ENOENT, "no such bucket", shown_url(self.url))

    def list(self, folder: str, start: str = "") -> dict[str, ObjectState]:
        """Lists the objects of a folder.

        Args:
            folder: its URL, without the last slash.
            start: the beginning of their names.

        Returns:
            Name, relative to the folder, to state; empty if there is nothing.

        Raises:
            OSError: the folder cannot be listed.
        """
        prefix = f"{folder}/"
        if scheme_of(folder) not in ("s3", "gs"):
            text = "folders of this kind cannot be written to"
            raise OSError(errno.EOPNOTSUPP, text, shown_url(folder))
        entries = list_objects(self._store, prefix + start)
        return {
            entry.url[len(prefix) :]: ObjectState.of(entry.etag, entry.size) for entry in entries
        }

    def find(self, url: str) -> dict[str, ObjectState]:
        """Finds an object, or the objects of a folder.

        Args:
            url: the URL of either; one that ends with a slash is that of a folder.

        Returns:
            Name, relative to the folder, to state; that of an object itself is empty.

        Raises:
            FileNotFoundError: there is neither.
            OSError: as for ``state``.
        """
        state = None if url.endswith("/") else self.state(url)
        if state is not None:
            return {"": state}
        if scheme_of(url) not in ("s3", "gs"):
            text = "no such file; of a folder of this kind, name the files in a list"
            raise FileNotFoundError(errno.ENOENT, text, shown_url(url))
        found = self.list(url.rstrip("/"))
        if not found:
            raise FileNotFoundError(errno.ENOENT, "no such object or folder", shown_url(url))
        return found

    def read(self, url: str) -> tuple[bytes, ObjectState] | None:
        """Returns the bytes of a small object and its state; None if missing.

        Args:
            url: its URL.

        Returns:
            Bytes and state.

        Raises:
            OSError: as for ``state``.
        """
        try:
            opened = self._store.open(self._native(url), n_first=_FIRST_BYTES)
            first, n = opened.first, len(opened.first)
            data = first + (opened.read(n, opened.size - n) if n < opened.size else b"")
        except FileNotFoundError:
            return None
        return data, ObjectState.of(opened.etag, opened.size)

    def fetch(
        self, url: str, path: Path, expected: ObjectState | None, report: OnProgress
    ) -> ObjectState:
        """Downloads an object.

        Args:
            url: its URL.
            path: the file to write.
            expected: the state that it must have; None: any.
            report: called with the number of bytes received since the last call.

        Returns:
            Its state.

        Raises:
            OSError: it is a different version (``ESTALE``), the store refuses, or does not respond.
        """
        opened = self._store.open(self._native(url), n_first=_FIRST_BYTES)
        found = ObjectState.of(opened.etag, opened.size)
        if expected is not None and expected.etag and found.etag != expected.etag:
            raise OSError(errno.ESTALE, "was replaced while it was downloaded", shown_url(url))
        with path.open("wb", buffering=0) as file:
            fetch_into(file.fileno(), opened, url, report)
        return found

    def put(
        self,
        url: str,
        content: bytes | Path,
        *,
        expected: ObjectState | None = None,
        anyway: bool = False,
        is_last: bool = False,
        report: OnProgress | None = None,
    ) -> ObjectState:
        """Stores an object, large files in parts.

        Args:
            url: its URL.
            content: its bytes, or a file that holds them.
            expected: the state that it must have; None: it must not exist.
            anyway: True to store it whatever there is.
            is_last: True for an object that makes others visible: its state is looked at before,
                for stores that do not know conditions.
            report: called with the number of bytes sent since the last call.

        Returns:
            Its new state.

        Raises:
            FileExistsError: it exists, and must not.
            OSError: it has a different state (``ESTALE``), the store refuses, or does not respond.
        """
        upload = Upload(
            self._store,
            self._native(url),
            shown_url(url),
            self._dialect,
            [] if anyway else self._condition(url, expected),
            is_new=not anyway and expected is None,
            marks=self._marks.setdefault(url, set()),
        )
        if is_last and not anyway and not self._is_expected(upload, url, expected):
            raise upload.conflict()
        if isinstance(content, bytes):
            etag, size = upload.send(content), len(content)
        else:
            size = content.stat().st_size
            etag = send_file(upload, content, report)
        del self._marks[url]
        if etag:
            return ObjectState.of(etag, size)
        return self.state(url) or ObjectState("", size)

    def is_own(self, url: str) -> bool:
        """True if an object was stored by an attempt of ``put`` that raised.

        Args:
            url: its URL.

        Returns:
            True or False.

        Raises:
            OSError: the store does not respond.
        """
        marks = self._marks.get(url, set())
        if not marks:
            return False
        found = dict(self._store.request("HEAD", self._native(url)).headers)
        return self._dialect.mark_in(found) in marks - {""}

    def delete(self, url: str, expected: ObjectState | None = None) -> None:
        """Deletes an object; one that does not exist is not an error.

        Args:
            url: its URL.
            expected: the state that it must have, where the store knows conditions; None: any.

        Raises:
            OSError: it has a different state (``ESTALE``), the store refuses, or does not respond.
        """
        condition: Headers = []
        if expected is not None and not self._dialect.has_generations and expected.etag:
            condition = self._dialect.same(expected.etag, "")
        response = self._store.request("DELETE", self._native(url), headers=condition)
        if response.status == 412:
            raise was_replaced(shown_url(url))
        if response.status != 404:
            response.check(shown_url(url))

    def _is_expected(self, upload: Upload, url: str, expected: ObjectState | None) -> bool:
        found = self.state(url)
        if (found and found.etag) == (expected and expected.etag):
            return True
        return upload.own_etag() is not None

    def _condition(self, url: str, expected: ObjectState | None) -> Headers:
        if expected is None:
            return self._dialect.absent()
        generation = expected.generation
        if self._dialect.has_generations and not generation:
            found = self.state(url)
            if found is None or found.etag != expected.etag:
                raise was_replaced(shown_url(url))
            generation = found.generation
        if not (generation if self._dialect.has_generations else expected.etag):
            return []
        return self._dialect.same(expected.etag, generation)

    def _native(self, url: str) -> str:
        return native_url(url, self._remote.options, os.environ)

    def __repr__(self) -> str:
        return f"RemoteObjects({shown_url(self.url)!r})"
