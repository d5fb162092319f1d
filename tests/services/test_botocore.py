"""Credentials that botocore finds: profiles, containers, and none."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from atompack_torch.remote.credentials import Resolved, credentials_provider
from atompack_torch.remote.urls import StorageOptions


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def resolve(**options: str) -> Resolved:
    provider = credentials_provider("s3://b/k", StorageOptions.parse(options))
    assert provider is not None
    return provider()


def test_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = S\n"
        "[other]\naws_access_key_id = B\naws_secret_access_key = S\naws_session_token = T\n"
    )
    assert resolve() == ("A", "S", "", "", None)
    assert resolve(profile="other") == ("B", "S", "T", "", None)
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert resolve() == ("B", "S", "T", "", None)


def test_nothing_is_an_error_that_names_the_ways() -> None:
    with pytest.raises(PermissionError, match=r"no credentials found.*anonymous=True"):
        resolve()


class Container(http.server.BaseHTTPRequestHandler):
    """What a container's agent answers."""

    def do_GET(self) -> None:
        body = json.dumps(
            {
                "AccessKeyId": "C",
                "SecretAccessKey": "S",
                "Token": "T",
                "Expiration": "2099-01-01T00:00:00Z",
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def container() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Container)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_credentials_of_containers_expire(container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", container)
    assert resolve() == ("C", "S", "T", "", 4070908800.0)
