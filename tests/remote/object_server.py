"""An object store in memory that speaks the part of S3 that the package uses, with conditions."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from http_servers import Quiet, listening, ranged

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@dataclass
class Stored:
    """One object."""

    data: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        """Equal for equal bytes, as in S3."""
        return f'"{hashlib.md5(self.data).hexdigest()}"'


@dataclass
class ObjectServer:
    """A running store of the bucket ``bucket``.

    ``fault`` is asked before each request: a status to answer with, ``"drop"`` to break the
    connection before the request has an effect, ``"lose"`` to break it afterwards, or None.
    """

    url: str = ""
    objects: dict[str, Stored] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    knows_conditions: bool = True
    fault: Callable[[str, str], int | str | None] = lambda method, key: None
    requests: list[tuple[str, str]] = field(default_factory=list)  # method and key
    lock: threading.RLock = field(default_factory=threading.RLock)
    before: Callable[[str, str], None] = lambda method, key: None  # runs without the lock

    def options(self) -> dict[str, Any]:
        return {"endpoint_url": self.url, "key": "AKID", "secret": "SECRETKEY"}

    def names(self, prefix: str = "") -> list[str]:
        with self.lock:
            return sorted(name for name in self.objects if name.startswith(prefix))

    def written(self) -> list[tuple[str, str]]:
        """Requests that change something, in order."""
        return [r for r in self.requests if r[0] not in ("GET", "HEAD")]

    def holds(self, key: str, headers: Any) -> bool:
        """True if the conditions of a request hold."""
        if not self.knows_conditions:
            return True
        found = self.objects.get(key)
        if headers.get("If-None-Match") == "*" and found is not None:
            return False
        wanted = headers.get("If-Match")
        return wanted is None or (found is not None and found.etag == wanted)


def _handler(server: ObjectServer) -> type[BaseHTTPRequestHandler]:
    class Handler(Quiet):
        def answer(
            self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
        ) -> None:
            if self.lost:
                self.close_connection = True
                self.connection.close()
            else:
                super().answer(status, body, headers)

        def serve(self) -> None:
            path, _, query = self.path.partition("?")
            bucket, _, key = unquote(path[1:]).partition("/")
            self.query = parse_qs(query, keep_blank_values=True)
            self.body = self.received()
            if len(self.body) < int(self.headers.get("Content-Length", 0)):  # the client died
                self.close_connection = True
                return
            server.before(self.command, key)
            fault = server.fault(self.command, key)
            self.lost = fault in ("drop", "lose")
            with server.lock:
                server.requests.append((self.command, key))
                if fault == "drop":
                    return self.answer(500)
                if isinstance(fault, int):
                    text = f"<Error><Code>Fault</Code><Message>status {fault}</Message></Error>"
                    return self.answer(fault, text.encode())
                if bucket != "bucket":
                    text = "<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>"
                    return self.answer(404, text.encode())
                getattr(self, f"_{self.command.lower()}")(key)

        def _head(self, key: str) -> None:
            if not key:
                return self.answer(200)
            found = server.objects.get(key)
            if found is None:
                return self.answer(404)
            size = str(len(found.data))
            self.answer(200, b"", {"ETag": found.etag, "Content-Length": size, **found.headers})

        def _get(self, key: str) -> None:
            if not key:
                return self._list()
            found = server.objects.get(key)
            if found is None:
                text = "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>"
                return self.answer(404, text.encode())
            if self.headers.get("If-Match", found.etag) != found.etag:
                return self.answer(412)
            status, part, place = ranged(found.data, self.headers.get("Range", "bytes=0-"))
            self.answer(status, part, {"ETag": found.etag, **place})

        def _list(self) -> None:
            prefix = self.query.get("prefix", [""])[0]
            items = "".join(
                f"<Contents><Key>{escape(name)}</Key><Size>{len(server.objects[name].data)}</Size>"
                f"<ETag>{escape(server.objects[name].etag)}</ETag></Contents>"
                for name in server.names(prefix)
            )
            text = f"<ListBucketResult {NAMESPACE}>{items}</ListBucketResult>"
            self.answer(200, text.encode())

        def _kept_headers(self) -> dict[str, str]:
            kept = ("x-amz-meta-upload",)
            return {name: self.headers[name] for name in kept if name in self.headers}

        def _put(self, key: str) -> None:
            if "uploadId" in self.query:
                upload = server.uploads[self.query["uploadId"][0]]
                upload[int(self.query["partNumber"][0])] = self.body
                return self.answer(200, headers={"ETag": Stored(self.body).etag})
            if not server.holds(key, self.headers):
                return self.answer(412)
            stored = server.objects[key] = Stored(self.body, self._kept_headers())
            self.answer(200, headers={"ETag": stored.etag})

        def _post(self, key: str) -> None:
            if "uploads" in self.query:
                number = uuid.uuid4().hex
                server.uploads[number] = {}
                self.marks = self._kept_headers()
                server.uploads[number][0] = repr(self.marks).encode()
                result = "InitiateMultipartUploadResult"
                text = f"<{result} {NAMESPACE}><UploadId>{number}</UploadId></{result}>"
                return self.answer(200, text.encode())
            if not server.holds(key, self.headers):
                return self.answer(412)
            parts = server.uploads.pop(self.query["uploadId"][0])
            marks = eval(parts.pop(0))
            numbers = [
                int(e.text or 0) for e in ElementTree.fromstring(self.body).iter("PartNumber")
            ]
            stored = Stored(b"".join(parts[n] for n in numbers), marks)
            server.objects[key] = stored
            result = "CompleteMultipartUploadResult"
            etag = escape(stored.etag)
            self.answer(200, f"<{result} {NAMESPACE}><ETag>{etag}</ETag></{result}>".encode())

        def _delete(self, key: str) -> None:
            if "uploadId" in self.query:
                server.uploads.pop(self.query["uploadId"][0], None)
                return self.answer(204)
            if not server.holds(key, self.headers):
                return self.answer(412)
            server.objects.pop(key, None)
            self.answer(204)

    return Handler


@contextmanager
def object_server(host: str = "127.0.0.1") -> Iterator[ObjectServer]:
    """Runs a store until the block ends."""
    made = ObjectServer()
    with listening(_handler(made), host) as made.url:
        yield made
