from collections.abc import Callable, Sequence
from os import PathLike

from atompack_torch._formats import FileStore

# access key, secret key, session token, bearer token, expiry in seconds since 1970
_Credentials = tuple[str, str, str, str, float | None]
_Pairs = Sequence[tuple[str, str]]

class RemoteResponse:
    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> list[tuple[str, str]]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def n_attempts(self) -> int: ...
    def check(self, url: str) -> None: ...

class RemoteObject:
    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def modified(self) -> str: ...
    @property
    def first(self) -> bytes: ...
    def read(self, offset: int, length: int) -> bytes: ...

class ObjectStore:
    def open(self, url: str, n_first: int = 65536) -> RemoteObject: ...

class PagedStore(FileStore):
    def __init__(
        self,
        objects: ObjectStore,
        *,
        memory_bytes: int,
        cache_folder: str | PathLike[str] | None,
        cache_bytes: int,
        list_folder: Callable[[str], list[str]],
        find_address: Callable[[str], tuple[str, str]] | None = None,
    ) -> None: ...
    def stats(self) -> dict[str, int | str]: ...

class PythonRequest:
    @property
    def url(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def length(self) -> int: ...
    def finish(self, data: bytes) -> None: ...
    def fail(self, code: int, reason: str) -> None: ...

class RequestQueue:
    def take(self, n: int) -> list[PythonRequest]: ...
    def close(self) -> None: ...

class PythonStore(ObjectStore):
    def __init__(
        self, open_file: Callable[[str, int], tuple[int, str, bytes]], queue: RequestQueue
    ) -> None: ...

class RemoteStore(ObjectStore):
    def __init__(
        self,
        *,
        endpoint: str = "",
        region: str = "",
        credentials: Callable[[], _Credentials] | None = None,
        headers: _Pairs = (),
        ca_file: str | PathLike[str] | None = None,
        max_in_flight: int = 512,
        connect_timeout: float = 10.0,
        stall_timeout: float = 20.0,
        max_attempts: int = 8,
    ) -> None: ...
    def request(
        self,
        method: str,
        url: str,
        *,
        query: _Pairs = (),
        headers: _Pairs = (),
        body: bytes = b"",
        file: tuple[str | PathLike[str], int, int] | None = None,
        max_response: int = 67108864,
    ) -> RemoteResponse: ...
