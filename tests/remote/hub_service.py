"""A stand-in for the Hugging Face hub on loopback that takes commits, by git LFS."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from http_servers import Answer, Quiet, listening, ranged

REPO = "owner/name"
TOKEN = "hf_SECRET"


def _json(value: object, status: int = 200, **headers: str) -> Answer:
    return status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers}


@dataclass
class HubService:
    """One dataset repository: commits, each a dictionary from names to contents."""

    url: str = ""
    small: int = 500  # files of up to this many bytes come with the commit
    part_bytes: int = 0  # parts of a multipart upload; 0: one PUT
    exists: bool = False
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)  # by SHA-256
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # METHOD path
    refuses: str = ""  # pattern of requests that fail

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.branches["main"]]

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        number = f"{len(self.commits) + 1:040x}"
        self.commits[number] = files
        self.branches[branch] = number
        self.exists = True
        return number

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        if self.refuses and fnmatchcase(f"{method} {path}", self.refuses):
            return _json({"error": "refused here"}, 403)
        if path.startswith("/lfs/"):
            return self._put_blob(method, path.split("/")[2:], body)
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return _json({"error": "Invalid username or password."}, 401)
        if path == "/api/repos/create":
            asked = json.loads(body)
            if self.exists:
                return _json({"error": "exists", "url": f"{self.url}/datasets/{REPO}"}, 409)
            assert asked["type"] == "dataset"
            self.commit({})
            return _json({"url": f"{self.url}/datasets/{REPO}", "id": REPO})
        if not self.exists:
            return _json({"error": "no such repository"}, 404, **{"X-Error-Code": "RepoNotFound"})
        for prefix, handler in (
            (f"/api/datasets/{REPO}/", self._api),
            (f"/datasets/{REPO}/resolve/", self._resolve),
        ):
            if path.startswith(prefix):
                return handler(method, path.removeprefix(prefix), body, headers)
        if path == f"/datasets/{REPO}.git/info/lfs/objects/batch":
            return self._batch(json.loads(body)["objects"])
        return _json({"error": f"unknown: {path}"}, 404)

    def _api(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        action, _, rest = path.partition("/")
        if action == "preupload":
            return _json({"files": [self._mode(each) for each in json.loads(body)["files"]]})
        if action == "commit":
            return self._commit(unquote(rest), body)
        revision, _, _ = rest.partition("/")
        number = self._commit_of(unquote(revision or "main"))
        if number is None:
            return _json({"error": "no revision"}, 404, **{"X-Error-Code": "RevisionNotFound"})
        files = self.commits[number]
        if action == "tree":
            return _json([self._entry(name, files[name]) for name in files])
        siblings = [{"rfilename": name} for name in files]
        return _json({"id": REPO, "sha": number, "siblings": siblings, "private": False})

    def _commit_of(self, revision: str) -> str | None:
        return revision if revision in self.commits else self.branches.get(revision)

    def _mode(self, asked: dict[str, Any]) -> dict[str, Any]:
        mode = "regular" if asked["size"] <= self.small else "lfs"
        return {"path": asked["path"], "uploadMode": mode, "shouldIgnore": False, "oid": None}

    def _entry(self, name: str, content: bytes) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content)}
        entry["oid"] = hashlib.sha1(content).hexdigest()
        if len(content) > self.small:
            number = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": number, "size": len(content), "pointerSize": 130}
        return entry

    def _batch(self, objects: list[dict[str, Any]]) -> Answer:
        answers = []
        for each in objects:
            answer: dict[str, Any] = {"oid": each["oid"], "size": each["size"]}
            if each["oid"] not in self.blobs:
                answer["actions"] = {"upload": self._action(each["oid"], each["size"])}
            answers.append(answer)
        multipart = {"transfer": "multipart" if self.part_bytes else "basic"}
        return _json({"objects": answers, **multipart})

    def _action(self, number: str, size: int) -> dict[str, Any]:
        place = f"{self.url}/lfs/{number}"
        if not self.part_bytes:
            return {"href": place}
        count = -(-size // self.part_bytes)
        urls = {str(i + 1): f"{place}/{i + 1}" for i in range(count)}
        return {"href": place, "header": {"chunk_size": str(self.part_bytes), **urls}}

    def _put_blob(self, method: str, path: list[str], body: bytes) -> Answer:
        number = path[0]
        if len(path) > 1:
            self.parts.setdefault(number, {})[int(path[1])] = body
            return 200, b"", {"ETag": f'"{path[1]}"'}
        content = body
        if method == "POST":  # all parts are there
            content = b"".join(part for _, part in sorted(self.parts[number].items()))
        if hashlib.sha256(content).hexdigest() != number:
            return _json({"error": "another SHA-256"}, 422)
        self.blobs[number] = content
        return 200, b"{}", {}

    def _commit(self, branch: str, body: bytes) -> Answer:
        files = dict(self.commits[self.branches[branch]])
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                self.messages.append(value["summary"])
            elif entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.blobs[value["oid"]]
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
            else:
                return _json({"error": f"unknown: {entry['key']}"}, 400)
        number = self.commit(files, branch)
        url = f"{self.url}/datasets/{REPO}/commit/{number}"
        return _json({"success": True, "commitOid": number, "commitUrl": url, "hookOutput": ""})

    def _resolve(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        revision, _, name = path.partition("/")
        number = self._commit_of(unquote(revision))
        content = self.commits.get(number or "", {}).get(unquote(name))
        if content is None:
            return _json({"error": "no file"}, 404, **{"X-Error-Code": "EntryNotFound"})
        digest = hashlib.sha256(content).hexdigest()
        found = {"ETag": f'"{digest}"', "X-Repo-Commit": str(number)}
        if "range" in headers and method == "GET":
            status, part, place = ranged(content, headers["range"])
            return status, part, {**found, **place}
        return 200, content, found


def _handler(service: HubService) -> type[BaseHTTPRequestHandler]:
    class Handler(Quiet):
        def serve(self) -> None:
            path = quote(unquote(urlsplit(self.path).path), safe="/%")
            service.asked.append(f"{self.command} {path}")
            headers = {k.lower(): v for k, v in self.headers.items()}
            self.answer(*service.answer(self.command, path, self._body(headers), headers))

        def _body(self, headers: dict[str, str]) -> bytes:
            if headers.get("transfer-encoding") != "chunked":
                return self.received()
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

    return Handler


@contextmanager
def serving_hub() -> Iterator[HubService]:
    """Runs a hub until the block ends."""
    service = HubService()
    with listening(_handler(service)) as service.url:
        yield service
