"""The HTTP servers of all tests here: many connections on loopback, and nothing printed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes, dict[str, str]]


def ranged(data: bytes, wanted: str) -> Answer:
    """Status, body and headers for a range of bytes, such as ``bytes=0-9`` or ``bytes=5-``."""
    first, last = (int(n) if n else len(data) - 1 for n in wanted.removeprefix("bytes=").split("-"))
    if first >= len(data):
        return 416, b"", {"Content-Range": f"bytes */{len(data)}"}
    part = data[first : last + 1]
    place = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
    return 206, part, {"Content-Range": place}


class Quiet(BaseHTTPRequestHandler):
    """Keeps connections alive, and answers with a body whose length it adds."""

    protocol_version = "HTTP/1.1"

    def serve(self) -> None:
        """Answers a request of any method."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.serve()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def received(self) -> bytes:
        """The body of the request; shorter than announced if the client died."""
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Says nothing of clients that are gone."""


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Iterator[str]:
    """Answers requests at a URL until the block ends."""
    http = _Server((host, 0), handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://{host}:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()
