"""A server of files in a folder, with ranges, ETags, listings as of S3, and faults on request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from http_servers import Quiet, listening


@dataclass
class FileServer:
    """A running server; ``fault`` is a status to answer with instead of a file.

    Below ``/bucket/`` are the same files, which can be listed: ``s3://bucket/`` with ``s3``.
    """

    folder: Path
    url: str = ""
    token: str | None = None  # that requests must bear
    fault: int | None = None
    headers: dict[str, str] = field(default_factory=dict)  # instead of an ETag
    page: bytes = b""  # for whatever is asked for
    n_cuts: int = 0  # number of answers to break off
    stalls: bool = False  # do not answer for now
    requests: list[tuple[str, str]] = field(default_factory=list)  # path and range
    by_query: dict[str, Path] = field(default_factory=dict)  # files of certain queries

    @property
    def s3(self) -> dict[str, Any]:
        """The ``storage_options`` that lead here."""
        return {"endpoint_url": self.url, "anonymous": True}

    def listing(self, prefix: str) -> bytes:
        """The answer to ListObjectsV2."""
        files = (file for file in self.folder.rglob("*") if file.is_file())
        keys = sorted(file.relative_to(self.folder).as_posix() for file in files)
        entries = "".join(
            f"<Contents><Key>{quote(key)}</Key><Size>1</Size></Contents>"
            for key in keys
            if key.startswith(prefix)
        )
        return (
            f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
            f"{entries}</ListBucketResult>"
        ).encode()


def _handler(server: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(Quiet):
        def serve(self) -> None:
            wanted = self.headers.get("Range", "")
            server.requests.append((self.path, wanted))
            while server.stalls:
                time.sleep(0.01)
            place, _, query = self.path[1:].partition("?")
            name = unquote(place).removeprefix("bucket/")
            file = server.by_query.get(query, server.folder / name)
            if server.fault is not None:
                return self.answer(server.fault, b"the reason")
            if server.page:
                return self.answer(200, server.page, {"Content-Type": "text/html"})
            if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
                return self.answer(403)
            if name == "bucket":
                return self.answer(200, server.listing(dict(parse_qsl(query)).get("prefix", "")))
            if not file.is_file():
                return self.answer(404)
            status = file.stat()
            size = status.st_size
            etag = f'"{status.st_ino}-{size}-{status.st_mtime_ns}"'
            if self.headers.get("If-Match", etag) != etag:
                return self.answer(412)
            first, last = (int(x) if x else size - 1 for x in wanted[6:].split("-"))
            if first >= size:
                return self.answer(416, headers={"Content-Range": f"bytes */{size}"})
            with file.open("rb") as opened:
                opened.seek(first)
                part = opened.read(last + 1 - first)
            place = f"bytes {first}-{first + len(part) - 1}/{size}"
            version = server.headers or {"ETag": etag}
            return self.answer(206, part, {**version, "Content-Range": place})

        def answer(
            self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
        ) -> None:
            length = {"Content-Length": str(len(body))}
            if server.n_cuts > 0 and body:
                server.n_cuts -= 1
                self.close_connection = True
                body = body[: len(body) // 2]
            super().answer(status, body, {**(headers or {}), **length})

    return Handler


@contextmanager
def serving(folder: Path, by_query: dict[str, Path] | None = None) -> Iterator[FileServer]:
    """Serves a folder until the block ends."""
    made = FileServer(folder, by_query=by_query or {})
    with listening(_handler(made)) as made.url:
        yield made
