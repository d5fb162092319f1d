"""Listing the objects of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree import ElementTree

from atompack_torch.errors import CorruptFileError

if TYPE_CHECKING:
    from atompack_torch.remote.client import RemoteStore

_MAX_PAGE_BYTES = 16 << 20  # a page has at most 1,000 keys of 1,024 bytes


@dataclass(frozen=True)
class ObjectEntry:
    """One object of a listing.

    Attributes:
        url: its URL.
        size: its size in bytes.
        etag: its ETag, with quotes.
    """

    url: str
    size: int
    etag: str


def list_objects(store: RemoteStore, url: str) -> Iterator[ObjectEntry]:
    """Lists the objects whose URLs begin with a URL, in the order of their keys.

    Args:
        store: the client.
        url: ``s3://BUCKET/PREFIX`` or ``gs://BUCKET/PREFIX``; the prefix may be empty, and end
            anywhere.

    Yields:
        One entry an object, among them objects whose keys end with ``/``.

    Raises:
        OSError: the store refuses, or gives no answer.
        CorruptFileError: the answer is not a listing.
    """
    scheme, _, rest = url.partition("://")
    bucket, _, prefix = rest.partition("/")
    root = f"{scheme}://{bucket}"
    token: str | None = None
    while True:
        query = [("list-type", "2"), ("encoding-type", "url"), ("prefix", prefix)]
        if token is not None:
            query.append(("continuation-token", token))
        response = store.request("GET", root, query=query, max_response=_MAX_PAGE_BYTES)
        response.check(url)
        page = parse_xml(response.body, url, "ListBucketResult")
        is_encoded = page.findtext("EncodingType") == "url"
        for item in page.findall("Contents"):
            key = item.findtext("Key")
            size = item.findtext("Size", "")
            if key is None or not size.isdecimal():
                raise CorruptFileError(f"{url}: a listing: expected a key and a size")
            key = unquote(key.replace("+", " "), errors="surrogateescape") if is_encoded else key
            yield ObjectEntry(f"{root}/{key}", int(size), item.findtext("ETag", ""))
        if page.findtext("IsTruncated") != "true":
            return
        last, token = token, page.findtext("NextContinuationToken")
        if not token or token == last:
            raise CorruptFileError(f"{url}: a listing: expected another continuation token")


def parse_xml(body: bytes, url: str, *roots: str) -> ElementTree.Element:
    """Parses an answer of a store and drops the namespaces.

    Args:
        body: the answer.
        url: for messages.
        *roots: the expected names of the outermost element.

    Returns:
        The outermost element.

    Raises:
        CorruptFileError: the answer is not XML, declares entities, or has another root.
    """
    if b"<!" in body:  # entities may grow without bounds, and no store declares any
        raise CorruptFileError(f"{url}: the server's answer: expected XML without declarations")
    try:
        element = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise CorruptFileError(f"{url}: the server's answer: expected XML, got {error}") from None
    for part in element.iter():
        part.tag = part.tag.rpartition("}")[2]
    if element.tag not in roots:
        raise CorruptFileError(
            f"{url}: the server's answer: expected <{roots[0]}>, got <{element.tag[:40]}>"
        )
    return element
