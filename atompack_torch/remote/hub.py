"""Revisions of the Hugging Face hub."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from atompack_torch.errors import CorruptFileError
from atompack_torch.remote.listing import parse_json
from atompack_torch.remote.urls import hub_endpoint, parse_hub_url

if TYPE_CHECKING:
    from atompack_torch.remote.files import RemoteFiles

_COMMIT = re.compile(r"[0-9a-f]{40}")


def resolve_revision(remote: RemoteFiles, url: str) -> str:
    """Finds out which commit a branch or tag names now.

    Args:
        remote: access to the hub.
        url: a URL that begins with ``hf://``.

    Returns:
        The commit, 40 digits.

    Raises:
        OSError: the hub refuses or does not answer; FileNotFoundError: no such repository or
            revision.
        CorruptFileError: the answer names no commit.
    """
    where = parse_hub_url(url)
    if _COMMIT.fullmatch(where.revision):
        return where.revision
    endpoint = hub_endpoint(remote.options, os.environ)
    revision = quote(where.revision, safe="")
    address = f"{endpoint}/api/{where.kind}/{where.repo}/revision/{revision}"
    response = remote.objects(url).request("GET", address)
    response.check(url)
    commit = parse_json(response.body, url, dict).get("sha")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise CorruptFileError(f"{url}: the server's answer: expected a commit")
    return commit
