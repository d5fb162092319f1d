"""Downloading whole objects, pinned to one version, with several requests in flight."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from atompack_torch.progress import Progress
from atompack_torch.remote.urls import shown_url

if TYPE_CHECKING:
    from atompack_torch.remote.client import RemoteObject

_PART_BYTES = 4 << 20
_IN_FLIGHT = 8
_SECONDS_UNSEEN = 2.0  # transfers that are shorter show no progress

Report = Callable[[int], object]  # called with the number of bytes done since the last call


class ObjectVersion(NamedTuple):
    """Version of an object.

    Attributes:
        etag: its ETag, with quotes; "" if the server sends none.
        modified: its Last-Modified date; "" if the server sends none.
        size: its size in bytes.
    """

    etag: str
    modified: str
    size: int

    @property
    def is_strong(self) -> bool:
        """True if an object of this version has the same bytes, whenever it is opened."""
        return bool(self.etag) and not self.etag.startswith("W/")


def version_of(source: RemoteObject) -> ObjectVersion:
    """Returns the version of an object that is open."""
    return ObjectVersion(source.etag, source.modified, source.size)


def fetch_into(file: int, source: RemoteObject, url: str, progress: bool | Report = True) -> None:
    """Writes all bytes of an object that is open to a file, with at most 32 MiB in memory.

    Args:
        file: descriptor of the file, which gets the length of the object.
        source: the object.
        url: its URL, for progress and errors.
        progress: True to show a bar on a terminal once it has taken seconds, False for none, or a
            function that is called with the number of further bytes that are done.

    Raises:
        PermissionError: the store refuses it.
        TimeoutError: the store does not respond.
        OSError: the object changed meanwhile (ESTALE), or the file cannot be written.
    """

    def fetch(offset: int) -> int:
        length = min(_PART_BYTES, source.size - offset)
        _write(file, source.read(offset, length), offset)
        return length

    os.truncate(file, source.size)
    offsets = range(len(source.first), source.size, _PART_BYTES)
    waiting: deque[Future[int]] = deque()
    threads = ThreadPoolExecutor(_IN_FLIGHT, "atompack-download")
    try:
        with _reporting(progress, url, source.size) as report:
            if source.first:
                _write(file, source.first, 0)
                report(len(source.first))
            for offset in offsets:
                waiting.append(threads.submit(fetch, offset))
                if len(waiting) >= _IN_FLIGHT:
                    report(waiting.popleft().result())
            while waiting:
                report(waiting.popleft().result())
    finally:
        threads.shutdown(cancel_futures=True)
    if os.fstat(file).st_size != source.size:
        raise OSError(errno.ESTALE, "the local copy was changed meanwhile", shown_url(url))


def _write(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        n = os.pwrite(file, view, offset)
        view, offset = view[n:], offset + n


@contextmanager
def _reporting(progress: bool | Report, url: str, size: int) -> Iterator[Report]:
    if callable(progress):
        yield progress
        return
    with contextlib.ExitStack() as stack:
        yield _LateBar(stack, url, size).add if progress else lambda n: None


class _LateBar:
    """A progress bar that appears after some seconds, and only on a terminal."""

    def __init__(self, stack: contextlib.ExitStack, url: str, size: int) -> None:
        self._stack, self._url, self._size = stack, url, size
        self._start = time.monotonic()
        self._done = 0
        self._bar: Progress | None = None

    def add(self, n_bytes: int) -> None:
        self._done += n_bytes
        if self._bar is None:
            is_terminal = sys.stderr is not None and sys.stderr.isatty()
            if not is_terminal or time.monotonic() - self._start < _SECONDS_UNSEEN:
                return
            name = shown_url(self._url).rpartition("/")[2]
            total = -(-self._size >> 20)
            self._bar = self._stack.enter_context(
                Progress(total, "MiB", label=f"downloading {name}")
            )
        self._bar.update((self._done >> 20) - self._bar.done)
