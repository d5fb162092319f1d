"""Listing the files of remote stores, by the interface that each of them has."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urljoin, urlsplit
from xml.etree import ElementTree

from atompack_torch.errors import CorruptFileError
from atompack_torch.options import shown_url
from atompack_torch.remote.urls import (
    FSSPEC,
    azure_address,
    hub_endpoint,
    is_http,
    join_url,
    parse_hub_url,
    scheme_of,
)

if TYPE_CHECKING:
    from atompack_torch.remote.client import RemoteStore
    from atompack_torch.remote.files import RemoteFiles

_MAX_PAGE_BYTES = 16 << 20  # a page has at most 1,000 keys of 1,024 bytes; of Azure 5,000
_MAX_PAGES, _MAX_EMPTY_PAGES = 100_000, 1000
_NEXT = re.compile(r'<([^>]*)>\s*;[^,]*\brel="?next"?')


@dataclass(frozen=True)
class ObjectEntry:
    """One object of a listing.

    Attributes:
        url: its URL.
        size: its size in bytes.
        etag: its ETag, with quotes; empty if the listing has none.
    """

    url: str
    size: int
    etag: str

    def __post_init__(self) -> None:
        if "\0" in self.url:
            shown = shown_url(self.url.replace("\0", ""))
            raise CorruptFileError(f"{shown}: a listing: expected a name without NUL, got one")


# Entries of a page, and what names the next page; None at the end.
_Page = tuple[list[ObjectEntry], str | None]


def _all_pages(url: str, request: Callable[[str], _Page]) -> Iterator[ObjectEntry]:
    """Yields the entries of all pages of a listing, which are limited in number.

    Args:
        url: the URL of the folder, for messages.
        request: returns a page, given what the page before it names; empty for the first one.

    Raises:
        CorruptFileError: a page was read already, or there are too many.
    """
    following: str | None = ""
    seen: set[str | None] = {following}
    n_empty = 0
    while following is not None:
        entries, following = request(following)
        yield from entries
        n_empty += not entries
        if following in seen:
            raise CorruptFileError(
                f"{shown_url(url)}: a listing: expected another page, got none or an old one"
            )
        if len(seen) > _MAX_PAGES or n_empty > _MAX_EMPTY_PAGES:
            raise CorruptFileError(
                f"{shown_url(url)}: a listing: expected at most {_MAX_PAGES} pages and "
                f"{_MAX_EMPTY_PAGES} empty ones, got more"
            )
        seen.add(following)


def can_list(url: str) -> bool:
    """Returns False for folders that have no listing: those of plain HTTP servers."""
    return not is_http(url)


def list_files(remote: RemoteFiles, url: str) -> Iterator[ObjectEntry]:
    """Lists all files below a folder, in the order of the store.

    Args:
        remote: access to the store.
        url: the URL of the folder.

    Yields:
        One entry per file; none if there is no such folder.

    Raises:
        OSError: the store refuses or does not respond, or folders of this kind cannot be listed.
        CorruptFileError: the response is not a listing.
    """
    scheme = scheme_of(url)
    if scheme in ("s3", "gs"):
        entries = list_objects(remote.objects(url), f"{url.rstrip('/')}/")
    elif scheme == "az":
        entries = _list_blobs(remote, url)
    elif scheme == "hf":
        entries = _list_repository(remote, url)
    elif scheme == FSSPEC:
        entries = _list_file_system(remote, url)
    else:
        text = "folders of HTTP servers cannot be listed: name the files in a list"
        raise OSError(errno.EOPNOTSUPP, text, shown_url(url))
    for entry in entries:
        if not entry.url.endswith("/"):  # stands for a folder
            yield entry


def list_names(remote: RemoteFiles, url: str) -> list[str]:
    """Lists the names of the entries of a folder, without those of its subfolders.

    Args:
        remote: access to the store.
        url: the URL of the folder.

    Returns:
        Names of files and folders, sorted; none if there is no such folder.

    Raises:
        OSError: as for ``list_files``.
        CorruptFileError: the response is not a listing.
    """
    folder = f"{url.rstrip('/')}/"
    if scheme_of(url) in ("s3", "gs"):
        found = [entry.url for entry in list_objects(remote.objects(url), folder, by_folder=True)]
        names = {one[len(folder) :].partition("/")[0] for one in found}
    else:
        names = {name.partition("/")[0] for name in relative_names(remote, url)}
    return sorted(names - {""})


def relative_names(remote: RemoteFiles, url: str) -> Iterator[str]:
    """Lists the paths of all files below a folder, relative to it."""
    if scheme_of(url) == FSSPEC:
        for name, _ in remote.file_systems().find(url):
            yield name
        return
    start = len(_appendable(url).rstrip("/")) + 1
    for entry in list_files(remote, url):
        yield _appendable(entry.url)[start:]


def _appendable(url: str) -> str:
    return f"/{parse_hub_url(url).path}" if scheme_of(url) == "hf" else url


def list_objects(store: RemoteStore, url: str, *, by_folder: bool = False) -> Iterator[ObjectEntry]:
    """Lists the objects whose URLs begin with a URL, in the order of their keys.

    Args:
        store: the client.
        url: ``s3://BUCKET/PREFIX`` or ``gs://BUCKET/PREFIX``; the prefix may be empty, and end
            anywhere.
        by_folder: list folders, whose URLs end with ``/``, instead of the objects in them.

    Returns:
        One entry per object, including objects whose keys end with ``/``.

    Raises:
        OSError: the store refuses, or does not respond.
        CorruptFileError: the response is not a listing.
    """
    scheme, _, rest = url.partition("://")
    bucket, _, prefix = rest.partition("/")
    root = f"{scheme}://{bucket}"

    def request(token: str) -> _Page:
        query = [("list-type", "2"), ("encoding-type", "url"), ("prefix", prefix)]
        if by_folder:
            query.append(("delimiter", "/"))
        if token:
            query.append(("continuation-token", token))
        response = store.request("GET", root, query=query, max_response=_MAX_PAGE_BYTES)
        response.check(url)
        page = parse_xml(response.body, url, "ListBucketResult")
        is_encoded = page.findtext("EncodingType") == "url"

        def entry(key: str | None, size: str, etag: str = "") -> ObjectEntry:
            if key is None or not size.isdecimal():
                raise CorruptFileError(f"{url}: a listing: expected a key and a size")
            if is_encoded:
                key = unquote(key.replace("+", " "), errors="surrogateescape")
            return ObjectEntry(f"{root}/{key}", int(size), etag)

        entries = [
            entry(item.findtext("Key"), item.findtext("Size", ""), item.findtext("ETag", ""))
            for item in page.findall("Contents")
        ]
        entries += [entry(item.text or "", "0") for item in page.findall("CommonPrefixes/Prefix")]
        is_last = page.findtext("IsTruncated") != "true"
        return entries, None if is_last else page.findtext("NextContinuationToken", "")

    return _all_pages(url, request)


def _list_blobs(remote: RemoteFiles, url: str) -> Iterator[ObjectEntry]:
    """Lists the blobs of a container of Azure."""
    container, _, folder = url.partition("://")[2].partition("/")
    prefix = f"{folder.rstrip('/')}/" if folder.rstrip("/") else ""
    address = azure_address(container, remote.options, os.environ)
    client = remote.objects(url)

    def request(marker: str) -> _Page:
        query = [("restype", "container"), ("comp", "list"), ("prefix", prefix)]
        if marker:
            query.append(("marker", marker))
        response = client.request("GET", address, query=query, max_response=_MAX_PAGE_BYTES)
        response.check(url)
        page = parse_xml(response.body, shown_url(url), "EnumerationResults")
        entries = []
        for item in page.findall("Blobs/Blob"):
            name, size = item.find("Name"), item.findtext("Properties/Content-Length", "")
            if name is None or not name.text or not size.isdecimal():
                raise CorruptFileError(f"{shown_url(url)}: a listing: expected a name and a size")
            key = unquote(name.text) if name.get("Encoded") == "true" else name.text
            etag = item.findtext("Properties/Etag", "")
            entries.append(ObjectEntry(f"az://{container}/{key}", int(size), etag))
        return entries, page.findtext("NextMarker") or None

    return _all_pages(url, request)


def _list_repository(remote: RemoteFiles, url: str) -> Iterator[ObjectEntry]:
    """Lists the files of a folder on the Hugging Face hub, in the revision that is pinned."""
    where = parse_hub_url(url)
    endpoint = hub_endpoint(remote.options, os.environ)
    tree = f"{endpoint}/api/{where.kind}/{where.repo}/tree/{remote.commit_of(url)}"
    first = f"{tree}/{quote(where.path)}" if where.path else tree
    client = remote.objects(url)

    def request(following: str) -> _Page:
        address, query = (following, []) if following else (first, [("recursive", "1")])
        response = client.request("GET", address, query=query, max_response=_MAX_PAGE_BYTES)
        if response.status == 404 and not following:
            return [], None
        response.check(url)
        entries = []
        for item in parse_json(response.body, url, list):
            if not isinstance(item, dict) or not isinstance(item.get("path"), str):
                raise CorruptFileError(f"{shown_url(url)}: a listing: expected files with paths")
            if item.get("type") == "file":
                size = item.get("size")
                if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                    raise CorruptFileError(f"{shown_url(url)}: a listing: expected a size")
                entries.append(ObjectEntry(where.with_path(item["path"]), size, ""))
        return entries, _next_page(dict(response.headers).get("link", ""), address, url)

    return _all_pages(url, request)


def _next_page(link: str, address: str, url: str) -> str | None:
    found = _NEXT.search(link)
    if found is None:
        return None
    following: str = urljoin(address, found[1])
    here, there = urlsplit(address), urlsplit(following)
    if (here.scheme, here.netloc) != (there.scheme, there.netloc):  # that must not see the token
        raise CorruptFileError(f"{shown_url(url)}: a listing: expected its next page on the hub")
    return following


def _list_file_system(remote: RemoteFiles, url: str) -> Iterator[ObjectEntry]:
    """Lists the files of a folder through fsspec."""
    for name, size in remote.file_systems().find(url):
        yield ObjectEntry(join_url(url, name), size, "")


def parse_json(body: bytes, url: str, kind: type) -> Any:
    """Parses a response of the hub.

    Args:
        body: the response.
        url: for messages.
        kind: the expected type, list or dict.

    Returns:
        The value, of this type.

    Raises:
        CorruptFileError: the response is not JSON, or of a different type.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise CorruptFileError(f"{shown_url(url)}: the server's response: expected JSON") from None
    if not isinstance(value, kind):
        raise CorruptFileError(
            f"{shown_url(url)}: the server's response: expected a {kind.__name__}, "
            f"got a {type(value).__name__}"
        )
    return value


def parse_xml(body: bytes, url: str, *roots: str) -> ElementTree.Element:
    """Parses a response of a store and drops the namespaces.

    Args:
        body: the response.
        url: for messages.
        *roots: the expected names of the outermost element.

    Returns:
        The outermost element.

    Raises:
        CorruptFileError: the response is not XML, declares entities, or has a different root.
    """
    if b"<!" in body:  # entities may grow without bounds, and no store declares any
        raise CorruptFileError(f"{url}: the server's response: expected XML without declarations")
    try:
        element = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise CorruptFileError(f"{url}: the server's response: expected XML, got {error}") from None
    for part in element.iter():
        part.tag = part.tag.rpartition("}")[2]
    if element.tag not in roots:
        raise CorruptFileError(
            f"{url}: the server's response: expected <{roots[0]}>, got <{element.tag[:40]}>"
        )
    return element
