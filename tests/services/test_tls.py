"""Certificates, and redirects from https."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from atompack_torch.remote.client import RemoteStore


def write_certificate(path: Path) -> None:
    """A key and a certificate of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8
    path.write_bytes(
        key.private_bytes(pem, private, serialization.NoEncryption())
        + certificate.public_bytes(pem)
    )


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves three bytes; /redirect leads to an address without TLS."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_redirect = self.path == "/redirect"
        body = b"" if is_redirect else b"abc"
        self.send_response(302 if is_redirect else 200)
        if is_redirect:
            self.send_header("Location", "http://127.0.0.1:1/secret?sig=1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    write_certificate(path)
    return path


@pytest.fixture(scope="module")
def url(pem: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_unknown_certificates_are_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(OSError, match="certificate") as caught:
        RemoteStore().open(f"{url}/x")
    assert caught.value.errno == 5
    assert "attempts" not in str(caught.value)


def test_certificates_come_from_options_and_environment(
    url: str, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert RemoteStore(ca_file=pem).open(f"{url}/x").first == b"abc"
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    assert RemoteStore().open(f"{url}/x").first == b"abc"
    assert RemoteStore(ca_file="/nowhere").open(f"{url}/x").first == b"abc"


def test_redirects_keep_tls(url: str, pem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(OSError, match="redirects from https to http") as caught:
        RemoteStore(ca_file=pem).open(f"{url}/redirect")
    assert "sig" not in str(caught.value)
