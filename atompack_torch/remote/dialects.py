"""Differences between the interfaces of object stores, as far as writing is concerned."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.remote.urls import scheme_of, shown_url

Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Dialect:
    """Interface of the stores of one scheme.

    Attributes:
        mark: header that tells one's own object from another one; "" if there is none.
        fixed: headers of every request that stores an object.
        has_generations: True if conditions name generation numbers instead of ETags.
        parts: names of the requests for large files: ``"s3"``, ``"az"`` or "" if there are none.
    """

    mark: str
    fixed: tuple[tuple[str, str], ...] = ()
    has_generations: bool = False
    parts: str = ""

    def headers(self) -> Headers:
        """Returns headers for one object, with a mark of its own."""
        mark = [(self.mark, uuid.uuid4().hex)] if self.mark else []
        return [*mark, *self.fixed]

    def absent(self) -> Headers:
        """Returns the condition that there is no object."""
        if self.has_generations:
            return [("x-goog-if-generation-match", "0")]
        return [("If-None-Match", "*")]

    def same(self, etag: str, generation: str) -> Headers:
        """Returns the condition that the object is still the known one."""
        if self.has_generations:
            return [("x-goog-if-generation-match", generation)]
        return [("If-Match", etag)]

    def mark_in(self, headers: Mapping[str, str]) -> str:
        """Returns the mark among the headers of a request or an object; "" if there is none."""
        return headers.get(self.mark, "") if self.mark else ""


S3 = Dialect("x-amz-meta-upload", parts="s3")
_AZURE = Dialect("x-ms-meta-upload", (("x-ms-blob-type", "BlockBlob"),), parts="az")
_DIALECTS = {
    "s3": S3,
    "gs": Dialect("x-goog-meta-upload", has_generations=True, parts="s3"),
    "az": _AZURE,
    "https": Dialect(""),
    "http": Dialect(""),
}


def dialect_of(url: str) -> Dialect:
    """Returns the interface for writing below a URL.

    Args:
        url: the URL as the user gave it.

    Returns:
        The interface.

    Raises:
        UnsupportedFormatError: nothing can be written there.
    """
    scheme = scheme_of(url)
    if scheme not in _DIALECTS:
        raise UnsupportedFormatError(
            f"{shown_url(url)}: expected a URL that begins with s3://, gs://, az:// or https:// "
            f"for writing, got {url.partition('://')[0]}://"
        )
    return _DIALECTS[scheme]
