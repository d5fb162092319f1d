"""
Native client for objects over HTTP; use the package, not this module.
"""

from __future__ import annotations
import atompack_torch._formats
import collections.abc
import os
import typing

class RemoteResponse:
    def check(self, url: str) -> None: ...
    @property
    def body(self) -> bytes: ...
    @property
    def headers(self) -> list[typing.Any]: ...
    @property
    def n_attempts(self) -> int: ...
    @property
    def status(self) -> int: ...

class RemoteObject:
    def read(self, offset: int, length: int) -> bytes: ...
    @property
    def etag(self) -> str: ...
    @property
    def first(self) -> bytes: ...
    @property
    def modified(self) -> str: ...
    @property
    def size(self) -> int: ...

class ObjectStore:
    def open(self, url: str, n_first: int = 65536) -> RemoteObject: ...

class PagedStore(atompack_torch._formats.FileStore):
    def __init__(
        self,
        objects: ObjectStore,
        *,
        memory_bytes: int,
        cache_folder: str | os.PathLike[str] | None,
        cache_bytes: int,
        list_folder: typing.Any,
        find_address: typing.Any | None = None,
    ) -> None: ...
    def stats(self) -> dict[str, typing.Any]: ...

class RemoteStore(ObjectStore):
    def __init__(
        self,
        *,
        endpoint: str = "",
        region: str = "",
        credentials: typing.Any | None = None,
        headers: collections.abc.Sequence[tuple[str, str]] = [],
        ca_file: str | os.PathLike[str] | None = None,
        max_in_flight: int = 512,
        max_attempts: int = 8,
    ) -> None: ...
    def request(
        self,
        method: str,
        url: str,
        *,
        query: collections.abc.Sequence[tuple[str, str]] = [],
        headers: collections.abc.Sequence[tuple[str, str]] = [],
        body: bytes = b"",
        file: tuple[str | os.PathLike[str], int, int] | None = None,
        max_response: int = 67108864,
    ) -> RemoteResponse: ...

class PythonRequest:
    def fail(self, code: int, reason: str | os.PathLike[str]) -> None: ...
    def finish(self, data: bytes) -> None: ...
    @property
    def length(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def url(self) -> str: ...
    @property
    def version(self) -> str: ...

class RequestQueue:
    def __init__(self) -> None: ...
    def close(self) -> None: ...
    def take(self, n: int) -> list[PythonRequest]: ...

class PythonStore(ObjectStore):
    def __init__(self, open_file: typing.Any, queue: RequestQueue) -> None: ...
