"""Objects of a remote store as writers need them: states, contents, conditional changes."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from atompack_torch.options import shown_url
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.listing import list_objects
from atompack_torch.remote.local_copies import fetch_into
from atompack_torch.remote.uploads import (
    Dialect,
    Headers,
    OnProgress,
    Upload,
    dialect_of,
    send_file,
    was_replaced,
)
from atompack_torch.remote.urls import native_url, scheme_of

if TYPE_CHECKING:
    from atompack_torch.remote.client import RemoteStore

_FIRST_BYTES = 1 << 20  # of an object, received by the request that opens it


@dataclass(frozen=True)
class ObjectState:
    """Version of an object.

    Attributes:
        etag: its ETag; "" if the store does not tell it.
        size: its size in bytes.
        generation: its generation number, where conditions need it.
    """

    etag: str
    size: int
    generation: str = ""

    @classmethod
    def of(cls, etag: str, size: int, generation: str = "") -> ObjectState:
        """Returns a state; some stores omit the quotes of ETags, and others do so in lists."""
        is_bare = bool(etag) and not etag.startswith(('"', "W/"))
        return cls(f'"{etag}"' if is_bare else etag, size, generation)


class RemoteObjects:
    """Objects at and below a URL.

    An ``expected`` state of an object is that under which it may be changed: an ``ObjectState``, or
    None if it must not exist. Stores that do not know conditions are asked for the state just
    before the change, which leaves a gap of one request.

    A request whose response was lost may be repeated: an object that it stored differs from one of
    another writer.

    Args:
        url: the URL, as the user gave it.
        storage_options: options of the store.

    Raises:
        UnsupportedFormatError: nothing can be written there.
        ImportError: the package was built without libcurl.
        PermissionError: the store needs credentials and there are none.
        ValueError, TypeError: an option does not have one of its values.
    """

    def __init__(
        self,
        url: str,
        storage_options: RemoteFiles | Mapping[str, object] | None = None,
    ) -> None:
        self._dialect: Dialect = dialect_of(url)
        self._remote = RemoteFiles.checked(storage_options)
        self._store: RemoteStore = self._remote.objects(url)
        self._marks: dict[str, set[str]] = {}  # of attempts whose outcome is unknown, by URL
        self.url = url

    def state(self, url: str) -> ObjectState | None:
        """Returns the state of an object; None if missing.

        Args:
            url: its URL.

        Returns:
            The state.

        Raises:
            OSError: the store refuses, or does not respond.
        """
        response = self._store.request("HEAD", self._native(url))
        if response.status == 404:
            return None
        response.check(shown_url(url))
        found = dict(response.headers)
        size = found.get("content-length", "0")
        return ObjectState.of(
            found.get("etag", ""),
            int(size) if size.isdecimal() else 0,
            found.get("x-goog-generation", ""),
        )

    def check_bucket(self) -> None:
        """Raises FileNotFoundError if the bucket does not exist, as far as one may know.

        Raises:
            FileNotFoundError: there is no such bucket.
            OSError: the store does not respond.
        """
        scheme, _, rest = self.url.partition("://")
        if scheme.lower() not in ("s3", "gs"):
            return
        bucket = f"{scheme}://{rest.partition('/')[0]}"
        if self._store.request("HEAD", bucket).status == 404:
            raise FileNotFoundError(errno.ENOENT, "no such bucket", shown_url(self.url))

    def list(self, folder: str, start: str = "") -> dict[str, ObjectState]:
        """Lists the objects of a folder.

        Args:
            folder: its URL, without the last slash.
            start: the beginning of their names.

        Returns:
            Name, relative to the folder, to state; empty if there is nothing.

        Raises:
            OSError: the folder cannot be listed.
        """
        prefix = f"{folder}/"
        if scheme_of(folder) not in ("s3", "gs"):
            text = "folders of this kind cannot be written to"
            raise OSError(errno.EOPNOTSUPP, text, shown_url(folder))
        entries = list_objects(self._store, prefix + start)
        return {
            entry.url[len(prefix) :]: ObjectState.of(entry.etag, entry.size) for entry in entries
        }

    def read(self, url: str) -> tuple[bytes, ObjectState] | None:
        """Returns the bytes of a small object and its state; None if missing.

        Args:
            url: its URL.

        Returns:
            Bytes and state.

        Raises:
            OSError: as for ``state``.
        """
        try:
            opened = self._store.open(self._native(url), n_first=_FIRST_BYTES)
            first, n = opened.first, len(opened.first)
            data = first + (opened.read(n, opened.size - n) if n < opened.size else b"")
        except FileNotFoundError:
            return None
        return data, ObjectState.of(opened.etag, opened.size)

    def fetch(
        self, url: str, path: Path, expected: ObjectState | None, report: OnProgress
    ) -> ObjectState:
        """Downloads an object.

        Args:
            url: its URL.
            path: the file to write.
            expected: the state that it must have; None: any.
            report: called with the number of bytes received since the last call.

        Returns:
            Its state.

        Raises:
            OSError: it is a different version (``ESTALE``), the store refuses, or does not respond.
        """
        opened = self._store.open(self._native(url), n_first=_FIRST_BYTES)
        found = ObjectState.of(opened.etag, opened.size)
        if expected is not None and expected.etag and found.etag != expected.etag:
            raise OSError(errno.ESTALE, "was replaced while it was downloaded", shown_url(url))
        with path.open("wb", buffering=0) as file:
            fetch_into(file.fileno(), opened, url, report)
        return found

    def put(
        self,
        url: str,
        content: bytes | Path,
        *,
        expected: ObjectState | None = None,
        anyway: bool = False,
        is_last: bool = False,
        report: OnProgress | None = None,
    ) -> ObjectState:
        """Stores an object, large files in parts.

        Args:
            url: its URL.
            content: its bytes, or a file that holds them.
            expected: the state that it must have; None: it must not exist.
            anyway: True to store it whatever there is.
            is_last: True for an object that makes others visible: its state is looked at before,
                for stores that do not know conditions.
            report: called with the number of bytes sent since the last call.

        Returns:
            Its new state.

        Raises:
            FileExistsError: it exists, and must not.
            OSError: it has a different state (``ESTALE``), the store refuses, or does not respond.
        """
        upload = Upload(
            self._store,
            self._native(url),
            shown_url(url),
            self._dialect,
            [] if anyway else self._condition(url, expected),
            is_new=not anyway and expected is None,
            marks=self._marks.setdefault(url, set()),
        )
        if is_last and not anyway and not self._is_expected(upload, url, expected):
            raise upload.conflict()
        if isinstance(content, bytes):
            etag, size = upload.send(content), len(content)
        else:
            size = content.stat().st_size
            etag = send_file(upload, content, report)
        del self._marks[url]
        if etag:
            return ObjectState.of(etag, size)
        return self.state(url) or ObjectState("", size)

    def is_own(self, url: str) -> bool:
        """True if an object was stored by an attempt of ``put`` that raised.

        Args:
            url: its URL.

        Returns:
            True or False.

        Raises:
            OSError: the store does not respond.
        """
        marks = self._marks.get(url, set())
        if not marks:
            return False
        found = dict(self._store.request("HEAD", self._native(url)).headers)
        return self._dialect.mark_in(found) in marks - {""}

    def delete(self, url: str, expected: ObjectState | None = None) -> None:
        """Deletes an object; one that does not exist is not an error.

        Args:
            url: its URL.
            expected: the state that it must have, where the store knows conditions; None: any.

        Raises:
            OSError: it has a different state (``ESTALE``), the store refuses, or does not respond.
        """
        condition: Headers = []
        if expected is not None and not self._dialect.has_generations and expected.etag:
            condition = self._dialect.same(expected.etag, "")
        response = self._store.request("DELETE", self._native(url), headers=condition)
        if response.status == 412:
            raise was_replaced(shown_url(url))
        if response.status != 404:
            response.check(shown_url(url))

    def _is_expected(self, upload: Upload, url: str, expected: ObjectState | None) -> bool:
        found = self.state(url)
        if (found and found.etag) == (expected and expected.etag):
            return True
        return upload.own_etag() is not None

    def _condition(self, url: str, expected: ObjectState | None) -> Headers:
        if expected is None:
            return self._dialect.absent()
        generation = expected.generation
        if self._dialect.has_generations and not generation:
            found = self.state(url)
            if found is None or found.etag != expected.etag:
                raise was_replaced(shown_url(url))
            generation = found.generation
        if not (generation if self._dialect.has_generations else expected.etag):
            return []
        return self._dialect.same(expected.etag, generation)

    def _native(self, url: str) -> str:
        return native_url(url, self._remote.options, os.environ)

    def __repr__(self) -> str:
        return f"RemoteObjects({shown_url(self.url)!r})"
