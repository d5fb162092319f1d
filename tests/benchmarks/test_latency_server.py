"""The server of `benchmarks/latency_server.py`: answers as a store of objects gives them, late."""

from __future__ import annotations

import http.client
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "latency_server.py"
SIZE = 1_000_000
LATENCY = 0.05  # seconds


def load() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("latency_server", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "data").write_bytes(os.urandom(SIZE))
    (folder / "with space+é").write_bytes(b"named")
    (folder / "empty").write_bytes(b"")
    (folder / "inside").mkdir()
    (folder / "inside" / "file").write_bytes(b"inside")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Any]:
    with load().LatencyServer(folder, latency_ms=round(1e3 * LATENCY)) as server:
        yield server


@pytest.fixture
def connection(server: Any) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    yield connection
    connection.close()


Answer = tuple[int, bytes, http.client.HTTPMessage]


def get(
    connection: http.client.HTTPConnection, path: str, method: str = "GET", **fields: str
) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def test_whole_files(connection: http.client.HTTPConnection, folder: Path) -> None:
    status, body, fields = get(connection, "/data")
    assert (status, body) == (200, (folder / "data").read_bytes())
    assert fields["Accept-Ranges"] == "bytes"
    assert fields["Last-Modified"].endswith(" GMT")
    assert get(connection, "/with%20space+%C3%A9")[:2] == (200, b"named")
    assert get(connection, "/inside/file?a=b")[:2] == (200, b"inside")
    assert get(connection, "/empty")[:2] == (200, b"")


@pytest.mark.parametrize(
    ("value", "begin", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=4096-8191", 4096, 8192),
        ("bytes=999999-", 999_999, SIZE),
        ("bytes=0-", 0, SIZE),
        ("bytes=-5", SIZE - 5, SIZE),
        ("bytes=-2000000", 0, SIZE),
        ("bytes=10-5000000", 10, SIZE),
    ],
)
def test_ranges(
    connection: http.client.HTTPConnection, folder: Path, value: str, begin: int, end: int
) -> None:
    status, body, fields = get(connection, "/data", Range=value)
    assert (status, body) == (206, (folder / "data").read_bytes()[begin:end])
    assert fields["Content-Range"] == f"bytes {begin}-{end - 1}/{SIZE}"


@pytest.mark.parametrize("value", ["bytes=5-4", "bytes=0-1,5-6", "bytes=a-b", "items=0-1", "bytes"])
def test_other_ranges_mean_the_whole_file(
    connection: http.client.HTTPConnection, value: str
) -> None:
    status, body, _ = get(connection, "/data", Range=value)
    assert (status, len(body)) == (200, SIZE)


@pytest.mark.parametrize(
    ("path", "value"), [("/data", f"bytes={SIZE}-"), ("/data", "bytes=-0"), ("/empty", "bytes=0-9")]
)
def test_unsatisfiable_ranges(
    connection: http.client.HTTPConnection, path: str, value: str
) -> None:
    status, body, fields = get(connection, path, Range=value)
    assert (status, body) == (416, b"")
    assert fields["Content-Range"] == f"bytes */{SIZE if path == '/data' else 0}"


@pytest.mark.parametrize("path", ["/none", "/inside", "/", "/../etc/passwd", "/inside/../data"])
def test_missing_files(connection: http.client.HTTPConnection, path: str) -> None:
    assert get(connection, path)[:2] == (404, b"")


def test_head_and_other_methods(connection: http.client.HTTPConnection) -> None:
    status, body, fields = get(connection, "/data", "HEAD")
    assert (status, body, fields["Content-Length"]) == (200, b"", str(SIZE))
    assert get(connection, "/data", Range="bytes=0-3")[1]
    status, _, fields = get(connection, "/data", "DELETE")
    assert (status, fields["Connection"]) == (405, "close")


def test_versions(connection: http.client.HTTPConnection, folder: Path) -> None:
    path = folder / "changing"
    path.write_bytes(b"first")
    etag = get(connection, "/changing")[2]["ETag"]
    assert etag.startswith('"')
    assert get(connection, "/changing", If_Match=etag)[:2] == (200, b"first")
    assert get(connection, "/changing", If_Match=f'"x", {etag}')[0] == 200
    assert get(connection, "/changing", If_Match="*")[0] == 200
    path.write_bytes(b"second")
    assert get(connection, "/changing", If_Match=etag)[:2] == (412, b"")
    assert get(connection, "/changing")[1] == b"second"


def test_answers_are_late(connection: http.client.HTTPConnection) -> None:
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        get(connection, "/inside/file")
        spent.append(time.perf_counter() - start)
    assert min(spent) >= LATENCY
    assert min(spent) < 3 * LATENCY


def test_connections_do_not_delay_each_other(server: Any) -> None:
    answers = []

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        answers.extend(get(connection, "/data", Range="bytes=0-99")[0] for _ in range(5))
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(40)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [206] * 200
    assert time.perf_counter() - start < 100 * LATENCY  # 200 one after the other


def test_stopping_tells_the_work(folder: Path) -> None:
    server = load().LatencyServer(folder, latency_ms=0)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for _ in range(10):
        get(connection, "/inside/file")
    connection.close()
    served = server.stop()
    assert served.answers == 10
    assert 0 < served.microseconds < 1e6


def test_wrong_arguments(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with status 2"):
        load().LatencyServer(folder, latency_ms=-1)
    with (
        pytest.raises(RuntimeError, match="ended with status 1"),
        load().LatencyServer(folder) as s,
    ):
        load().LatencyServer(folder, port=s.port)
