"""Reader of LMDB files that reads page by page with ``pread``.

The LMDB library maps the file, so a truncated file, even one truncated while it is read, kills the
process by SIGBUS. Here a missing page is an error. The format is that of LMDB 0.9 on 64-bit
little-endian machines; its structures are named as in ``mdb.c``.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple, NoReturn

from atompack_torch.errors import CorruptFileError, UnsupportedFormatError

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_PAGE_HEADER = struct.Struct("<QHHHH")  # pgno, pad, flags, lower, upper
_NODE = struct.Struct("<HHHH")  # lo, hi, flags, ksize
_META = struct.Struct("<IIQQ")  # magic, version, address, mapsize
_DB = struct.Struct("<IHHQQQQQ")  # pad, flags, depth, pages of three kinds, entries, root
_NO_ROOT = 2**64 - 1
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_BIG_VALUE, _SPECIAL_VALUE = 1, 2 | 4  # flags of nodes: on pages of its own; a database, duplicates
_MIN_ENTRY_BYTES = 2 + _NODE.size + 1  # an offset, a node and its key
_MAX_DEPTH = 32
_CACHED_PAGES = 256


class _Meta(NamedTuple):
    """Header written by a commit."""

    page_bytes: int
    root: int
    entries: int
    last_page: int
    transaction: int


class LmdbFile:
    """The main database of an LMDB file as of its last commit, read-only.

    It replaces an environment and a transaction of the package ``lmdb``, as far as ASE's databases
    use them. If a writer changes the file meanwhile, reading a reused page is an error.

    Args:
        path: path of the file.

    Attributes:
        entries: number of keys.

    Raises:
        CorruptFileError: the file is not an LMDB file, or its headers are damaged.
        UnsupportedFormatError: the version of the format is not supported.
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._pages: dict[int, bytes] = {}
        try:
            self._meta = self._last_commit()
        except BaseException:
            self.close()
            raise
        self.entries = self._meta.entries

    def begin(self, *, write: bool = False) -> LmdbFile:
        """Begins a transaction, which is the file itself."""
        if write:
            raise ValueError(f"{self._path}: opened for reading")
        return self

    def commit(self) -> None:
        """Ends a transaction; does nothing."""

    def close(self) -> None:
        """Closes the file; further calls do nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of a key, or None.

        Args:
            key: the key.

        Returns:
            The value; None if there is no such key.

        Raises:
            CorruptFileError: a page is missing or invalid.
        """
        if self._meta.root == _NO_ROOT:
            return None
        number = self._meta.root
        for _ in range(_MAX_DEPTH):
            page = self._page(number)
            _, _, flags, lower, _ = _PAGE_HEADER.unpack_from(page)
            nodes = self._nodes(number, page, lower)
            if flags & _LEAF:
                return self._value(number, page, nodes, key)
            if not flags & _BRANCH or not nodes:
                self._fail(number, f"expected a page of keys, got flags {flags}")
            # The first key of a branch page compares less than all others.
            at = self._last_not_above(page, nodes, key, first=1)
            lo, hi, high, _ = _NODE.unpack_from(page, nodes[at])
            number = lo | hi << 16 | high << 32
        self._fail(number, f"expected at most {_MAX_DEPTH} levels, got more")

    def _value(self, number: int, page: bytes, nodes: list[int], key: bytes) -> bytes | None:
        at = self._last_not_above(page, nodes, key, first=0)
        if at < 0 or self._key(page, nodes[at]) != key:
            return None
        lo, hi, flags, key_bytes = _NODE.unpack_from(page, nodes[at])
        size, begin = lo | hi << 16, nodes[at] + _NODE.size + key_bytes
        if flags & _SPECIAL_VALUE:
            self._fail(number, f"expected a value, got a node with flags {flags}")
        if not flags & _BIG_VALUE:
            if begin + size > len(page):
                self._fail(number, f"expected a value of {size} bytes, got the end of the page")
            return page[begin : begin + size]
        if begin + 8 > len(page):
            self._fail(number, "expected the number of a page, got the end of the page")
        (first,) = struct.unpack_from("<Q", page, begin)
        n_pages = -(-(_PAGE_HEADER.size + size) // self._meta.page_bytes)
        data = self._read(first, n_pages, _OVERFLOW)
        return data[_PAGE_HEADER.size : _PAGE_HEADER.size + size]

    def _nodes(self, number: int, page: bytes, lower: int) -> list[int]:
        """Returns the node offsets, in key order."""
        n = (lower - _PAGE_HEADER.size) // 2
        if lower > len(page) or n < 0:
            self._fail(number, f"expected offsets in the page, got {lower}")
        offsets = [*struct.unpack_from(f"<{n}H", page, _PAGE_HEADER.size)]
        for offset in offsets:
            if offset + _NODE.size > len(page):
                self._fail(number, f"expected a node in the page, got one at {offset}")
        return offsets

    @staticmethod
    def _key(page: bytes, node: int) -> bytes:
        key_bytes = _NODE.unpack_from(page, node)[3]
        return page[node + _NODE.size : node + _NODE.size + key_bytes]

    def _last_not_above(self, page: bytes, nodes: list[int], key: bytes, first: int) -> int:
        """Index of the last node from ``first`` on with a key <= ``key``; ``first - 1`` if none."""
        low, high = first, len(nodes)
        while low < high:
            middle = (low + high) // 2
            if self._key(page, nodes[middle]) <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            if len(self._pages) == _CACHED_PAGES:
                self._pages.clear()
            page = self._pages[number] = self._read(number, 1, _BRANCH | _LEAF)
        return page

    def _read(self, number: int, n_pages: int, kinds: int) -> bytes:
        """Reads a run of pages; the first one states their kind."""
        page_bytes = self._meta.page_bytes
        if number > self._meta.last_page or n_pages > self._meta.last_page - number + 1:
            self._fail(number, f"expected pages up to {self._meta.last_page}")
        size = os.fstat(self._fd).st_size
        n_bytes = page_bytes * n_pages
        if n_bytes > size - number * page_bytes:  # checked before allocating
            self._fail_short(number, size)
        data = os.pread(self._fd, n_bytes, number * page_bytes)
        if len(data) < n_bytes:
            self._fail_short(number, number * page_bytes + len(data))
        own, _, flags, _, _ = _PAGE_HEADER.unpack_from(data)
        if own != number or not flags & kinds:
            self._fail(number, f"expected a page of this number, got {own} with flags {flags}")
        return data

    def _fail(self, number: int, what: str) -> NoReturn:
        offset = number * self._meta.page_bytes
        raise CorruptFileError(f"{self._path}: page {number}: {what} (offset {offset})")

    def _fail_short(self, number: int, size: int) -> NoReturn:
        expected = (self._meta.last_page + 1) * self._meta.page_bytes
        self._fail(number, f"expected a file of {expected} bytes, got {size}: it was cut")

    def _last_commit(self) -> _Meta:
        """Returns the newer of the two headers; each commit overwrites the older one."""
        first = self._header_at(0)
        second = self._header_at(first.page_bytes)
        return max(first, second, key=lambda meta: meta.transaction)

    def _header_at(self, offset: int) -> _Meta:
        n_bytes = _PAGE_HEADER.size + _META.size + 2 * _DB.size + 16
        data = os.pread(self._fd, n_bytes, offset)
        if len(data) < n_bytes:
            size = os.fstat(self._fd).st_size
            raise CorruptFileError(f"{self._path}: expected an LMDB file, got {size} bytes")
        at = _PAGE_HEADER.size
        magic, version, _, _ = _META.unpack_from(data, at)
        if magic != _MAGIC:
            raise CorruptFileError(
                f"{self._path}: expected an LMDB file, got another (offset {at})"
            )
        if version != _VERSION:
            raise UnsupportedFormatError(
                f"{self._path}: version: expected {_VERSION}, got {version} (offset {at + 4})"
            )
        at += _META.size
        page_bytes = _DB.unpack_from(data, at)[0]
        _, flags, _, _, _, _, entries, root = _DB.unpack_from(data, at + _DB.size)
        last_page, transaction = struct.unpack_from("<QQ", data, at + 2 * _DB.size)
        if page_bytes & (page_bytes - 1) or not 256 <= page_bytes <= 65536:
            raise CorruptFileError(f"{self._path}: size of pages: got {page_bytes} (offset {at})")
        if flags:
            raise UnsupportedFormatError(f"{self._path}: flags of the database: got {flags}")
        if entries > os.fstat(self._fd).st_size // _MIN_ENTRY_BYTES:
            raise CorruptFileError(
                f"{self._path}: expected keys in the file, got {entries} of them"
            )
        return _Meta(page_bytes, root, entries, last_page, transaction)


def checked_ids(path: str | os.PathLike[str], next_id: int, n_deleted: int, entries: int) -> None:
    """Checks the ids that a database claims against the number of its keys.

    Args:
        path: the database, for messages.
        next_id: the id that the next row would get.
        n_deleted: number of deleted ids.
        entries: number of keys.

    Raises:
        CorruptFileError: the database claims more rows than it has keys.
    """
    if next_id - 1 - n_deleted > entries:
        got = f"got ids up to {next_id - 1}, {n_deleted} of them deleted"
        raise CorruptFileError(f"{Path(path)}: nextid: expected at most {entries} rows, {got}")
