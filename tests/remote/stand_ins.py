"""Stand-ins for services on loopback: Azure's blobs, Google's XML interface, Hugging Face's hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from http_servers import Answer, Quiet, listening, ranged


@dataclass
class Asked:
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class StandIn:
    """A running service: names of objects → bytes."""

    objects: dict[str, bytes] = field(default_factory=dict)
    token: str = "SECRET-TOKEN"
    page: int = 2  # entries of one page of a listing
    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    def answer(self, request: Asked) -> Answer:
        """Returns status, body and headers."""
        raise NotImplementedError

    def is_authorized(self, request: Asked) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.token}"

    def etag(self, body: bytes) -> str:
        return f'"{hash(body) & 0xFFFFFFFF:x}-{len(body)}"'

    def ranged(self, request: Asked, body: bytes) -> Answer:
        etag = self.etag(body)
        if request.headers.get("if-match", etag) != etag:
            return 412, b"", {}
        status, part, place = ranged(body, request.headers["range"])
        return status, part, {"ETag": etag, **place}

    def paged(self, names: list[str], after: str) -> tuple[list[str], str]:
        """Returns the names of one page, and the mark of the next one."""
        start = int(after or 0)
        end = start + self.page
        return names[start:end], str(end) if end < len(names) else ""


@dataclass
class Azure(StandIn):
    """Blobs under /CONTAINER/NAME; a token in the header, or a signature in the query."""

    signature: ClassVar[str] = "sv=2021&sig=SECRET%2BSIG%3D"
    marks: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, dict[str, bytes]] = field(default_factory=dict)  # name → id → bytes

    def answer(self, request: Asked) -> Answer:
        is_signed = request.query.get("sig") == "SECRET+SIG=" and request.query.get("sv") == "2021"
        if not (is_signed or self.is_authorized(request)):
            return 403, b"<Error><Code>AuthenticationFailed</Code></Error>", {}
        if request.headers.get("x-ms-version", "") < "2020":
            return 400, b"<Error><Code>InvalidHeaderValue</Code></Error>", {}
        if request.query.get("comp") != "list":
            name = unquote(request.path[1:])
            if request.method == "PUT":
                return self._put(request, name)
            if name not in self.objects:
                return 404, b"<Error><Code>BlobNotFound</Code></Error>", {}
            if request.method == "HEAD":
                body = self.objects[name]
                return (
                    200,
                    body,
                    {"ETag": self.etag(body), "x-ms-meta-upload": self.marks.get(name, "")},
                )
            return self.ranged(request, self.objects[name])
        assert request.query["restype"] == "container"
        start = f"{unquote(request.path[1:])}/{request.query.get('prefix', '')}"
        names = sorted(name for name in self.objects if name.startswith(start))
        names, marker = self.paged(names, request.query.get("marker", ""))
        blobs = "".join(
            f"<Blob><Name>{escape(name.partition('/')[2])}</Name><Properties><Content-Length>"
            f"{len(self.objects[name])}</Content-Length><Etag>0x1</Etag></Properties></Blob>"
            for name in names
        )
        body = (
            "\ufeff<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>"
            f"{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
        )
        return 200, body.encode(), {}

    def _put(self, request: Asked, name: str) -> Answer:
        body, kind = request.body, request.query.get("comp")
        if kind == "block":
            self.blocks.setdefault(name, {})[request.query["blockid"]] = body
            return 201, b"", {}
        here = self.objects.get(name)
        if here is not None and "if-none-match" in request.headers:
            return 409, b"<Error><Code>BlobAlreadyExists</Code></Error>", {}
        if "if-match" in request.headers and (
            here is None or request.headers["if-match"] != self.etag(here)
        ):
            return 412, b"<Error><Code>ConditionNotMet</Code></Error>", {}
        if kind == "blocklist":
            blocks = self.blocks.pop(name)
            body = b"".join(blocks[each.text or ""] for each in ElementTree.fromstring(body))
        elif request.headers.get("x-ms-blob-type") != "BlockBlob":
            return 400, b"<Error><Code>MissingRequiredHeader</Code></Error>", {}
        self.objects[name], self.marks[name] = body, request.headers["x-ms-meta-upload"]
        return 201, b"", {"ETag": self.etag(body)}


class Google(StandIn):
    """Objects under /BUCKET/NAME, with a token in the header."""

    def answer(self, request: Asked) -> Answer:
        if not self.is_authorized(request):
            return 401, b"<Error><Code>AuthenticationRequired</Code></Error>", {}
        bucket, _, name = unquote(request.path[1:]).partition("/")
        if name:
            key = f"{bucket}/{name}"
            if key not in self.objects:
                return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
            return self.ranged(request, self.objects[key])
        assert request.query["list-type"] == "2"
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter")
        keys = sorted(k.partition("/")[2] for k in self.objects if k.startswith(f"{bucket}/"))
        keys = [key for key in keys if key.startswith(prefix)]
        if delimiter:
            keys = sorted({_until(key, len(prefix)) for key in keys})
        keys, token = self.paged(keys, request.query.get("continuation-token", ""))
        items = "".join(
            f"<CommonPrefixes><Prefix>{quote(key)}</Prefix></CommonPrefixes>"
            if delimiter and key.endswith("/")
            else f"<Contents><Key>{quote(key)}</Key><Size>1</Size></Contents>"
            for key in keys
        )
        more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        body = (
            "<ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'><EncodingType>url"
            f"</EncodingType><IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}{items}"
            "</ListBucketResult>"
        )
        return 200, body.encode(), {}


def _until(key: str, start: int) -> str:
    end = key.find("/", start)
    return key if end < 0 else key[: end + 1]


@dataclass
class Hub(StandIn):
    """Files of one repository by revision; bytes are at another address."""

    commits: dict[str, str] = field(default_factory=dict)  # branch → commit
    trees: dict[str, dict[str, bytes]] = field(default_factory=dict)  # commit → path → bytes
    store: StandIn | None = None
    foreign_page: bool = False  # the next page of a listing is at another address

    def answer(self, request: Asked) -> Answer:
        if not self.is_authorized(request):
            return 401, b'{"error": "no such repository"}', {}
        path = unquote(request.path)
        api, resolve = "/api/datasets/owner/name/", "/datasets/owner/name/resolve/"
        if path.startswith(f"{api}revision/"):
            revision = path.removeprefix(f"{api}revision/")
            commit = self.commits.get(revision)
            return (200, json.dumps({"sha": commit}).encode(), {}) if commit else (404, b"", {})
        if path.startswith(f"{api}tree/"):
            commit, _, folder = path.removeprefix(f"{api}tree/").partition("/")
            return self._tree(request, commit, folder)
        if path.startswith(resolve):
            commit, _, name = path.removeprefix(resolve).partition("/")
            if name not in self.trees.get(commit, {}):
                return 404, b"", {}
            assert self.store is not None
            target = f"{self.store.url}/{commit}/{quote(name)}?sig=SECRET-SIG"
            return 302, b"", {"Location": target}
        return 404, b"", {}

    def _tree(self, request: Asked, commit: str, folder: str) -> Answer:
        files = self.trees.get(commit, {})
        names = sorted(name for name in files if name.startswith(f"{folder}/" if folder else ""))
        if not names:
            return 404, b"", {}
        page, cursor = self.paged(names, request.query.get("cursor", ""))
        items: list[dict[str, Any]] = [{"type": "directory", "path": "d", "size": 0}]
        items += [{"type": "file", "path": name, "size": len(files[name])} for name in page]
        headers = {}
        if cursor:
            base = "http://127.0.0.2:1" if self.foreign_page else self.url
            link = f"{base}{request.path}?recursive=1&cursor={cursor}"
            headers["Link"] = f'<{link}>; rel="next"'
        return 200, json.dumps(items).encode(), headers


class Bytes(StandIn):
    """The bytes of the hub, which must never see its token."""

    def answer(self, request: Asked) -> Answer:
        if "authorization" in request.headers or request.query.get("sig") != "SECRET-SIG":
            return 400, b"unexpected credentials", {}
        name = unquote(request.path[1:])
        return self.ranged(request, self.objects[name]) if name in self.objects else (404, b"", {})


def _handler(service: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(Quiet):
        def serve(self) -> None:
            parts = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
            headers = {k.lower(): v for k, v in self.headers.items()}
            request = Asked(self.command, parts.path, query, headers, self.received())
            service.asked.append(request)
            self.answer(*service.answer(request))

    return Handler


@contextmanager
def running(service: StandIn) -> Iterator[StandIn]:
    """Runs a service until the block ends."""
    with listening(_handler(service)) as service.url:
        yield service
