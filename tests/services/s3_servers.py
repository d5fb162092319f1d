"""Real servers on loopback: moto and rclone, both of which speak S3."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from atompack_torch.remote import StorageOptions
from atompack_torch.remote.client import RemoteStore, open_store

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@dataclass
class Server:
    """A running server and the options with which it is reached."""

    name: str
    endpoint: str

    def options(self, **others: Any) -> StorageOptions:
        given = {"endpoint_url": self.endpoint, "key": KEY, "secret": SECRET, **others}
        return StorageOptions.parse({name: value for name, value in given.items() if value})

    def store(self, **others: Any) -> RemoteStore:
        return open_store("s3://bucket/", self.options(**others))[0]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(name: str, folder: Path) -> Iterator[Server]:
    port = free_port()
    if name == "moto":
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    else:
        rclone = str(Path(sys.executable).parent / "rclone")
        command = [rclone, "serve", "s3", "--auth-key", f"{KEY},{SECRET}"]
        command += ["--addr", f"127.0.0.1:{port}", str(folder)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "RCLONE_"))}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    made = Server(name, f"http://127.0.0.1:{port}")
    try:
        wait_for(made.endpoint, process)
        made.store().request("PUT", "s3://bucket").check("s3://bucket")
        yield made
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Close to Amazon's behaviour, but accepts any signature."""
    with running("moto", tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Checks signatures; answers ranged requests with status 200."""
    with running("rclone", tmp_path_factory.mktemp("rclone")) as server:
        yield server


@pytest.fixture(params=["moto", "rclone"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def wait_for(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server has ended"
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the server does not answer")
