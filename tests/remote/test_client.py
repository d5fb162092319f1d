"""The native client from Python, against a server of the standard library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from http_servers import Quiet, listening, ranged

from atompack_torch.remote.client import RemoteStore, open_store
from atompack_torch.remote.urls import StorageOptions

BODY = bytes(range(256)) * 4


class Handler(Quiet):
    """Answers ranges of BODY; /secure wants a token, /hang never answers."""

    seen: list[dict[str, str]]

    def serve(self) -> None:
        self.seen.append({k.lower(): v for k, v in self.headers.items()})
        if self.path == "/hang":
            time.sleep(30)
        if self.path == "/secure" and self.headers.get("Authorization") != "Bearer 2":
            return self.answer(403)
        status, part, place = ranged(BODY, self.headers["Range"])
        return self.answer(status, part, {"ETag": '"v"', **place})


@pytest.fixture
def url() -> Iterator[str]:
    Handler.seen = []
    with listening(Handler) as made:
        yield made


def test_ranges_and_versions(url: str) -> None:
    store, native = open_store(f"{url}/a", StorageOptions.parse({"headers": {"X-A": "1"}}))
    found = store.open(native, n_first=10)
    assert (found.size, found.etag, found.first) == (len(BODY), '"v"', BODY[:10])
    assert found.read(100, 200) == BODY[100:300]
    assert found.read(5, 0) == b""
    with pytest.raises(IndexError, match="expected a range of 1024 bytes"):
        found.read(1024, 1)
    assert Handler.seen[0]["x-a"] == "1"


def test_callables_for_credentials_are_called_again(url: str) -> None:
    calls: list[int] = []

    def credentials() -> dict[str, object]:
        calls.append(len(calls) + 1)
        return {"token": str(calls[-1])}

    store, native = open_store(f"{url}/secure", StorageOptions(credentials=credentials))
    assert store.open(native).first == BODY
    assert calls == [1, 2]


def test_errors_of_a_callable_reach_every_caller(url: str) -> None:
    calls: list[int] = []

    def credentials() -> dict[str, object]:
        calls.append(1)
        time.sleep(0.3)
        raise LookupError("no token today")

    store, native = open_store(f"{url}/secure", StorageOptions(credentials=credentials))

    def message(_: int) -> str:
        with pytest.raises(LookupError) as caught:
            store.open(native)
        return str(caught.value)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(message, range(4))) == {"no token today"}
    assert len(calls) < 4


def test_a_callable_does_not_end_a_loop(url: str) -> None:
    options = StorageOptions(credentials=lambda: next(iter(())))
    store, native = open_store(f"{url}/secure", options)
    with pytest.raises(RuntimeError, match="credentials raised StopIteration"):
        store.open(native)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="headers: expected a value of one line for 'X'"):
        RemoteStore(headers=[("X", "SECRET\nY: 1")])
    with pytest.raises(ValueError, match="expected a URL that begins with"):
        RemoteStore().open("file:///etc/passwd")


def test_ctrl_c_ends_a_wait(url: str) -> None:
    store, native = open_store(f"{url}/hang", StorageOptions())
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        store.open(native)
    assert time.monotonic() - start < 10


@pytest.mark.timeout(60)
def test_forks_and_ends_of_processes_do_not_hang(url: str) -> None:
    """A store that is alive when the interpreter ends, in the parent and in a fork."""
    script = f"""
import os, threading
from atompack_torch.remote.client import open_store
from atompack_torch.remote.urls import StorageOptions
store, url = open_store({url + "/a"!r}, StorageOptions())
found = store.open(url)
threading.Thread(target=lambda: store.open({url + "/hang"!r}), daemon=True).start()
child = os.fork()
if child == 0:
    try:
        store.open(url)
    except RuntimeError as error:
        assert "fork" in str(error)
        raise SystemExit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert found.read(1, 2) == {BODY[1:3]!r}
print("end")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
