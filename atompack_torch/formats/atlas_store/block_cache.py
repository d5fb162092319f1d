"""Caches of decoded blocks that stores and array files can share."""

from __future__ import annotations

from atompack_torch._native import BlockCache as NativeCache
from atompack_torch.options import checked_integer


class BlockCache:
    """Memory for decoded blocks of ATLAS stores and array files, shared by several handles.

        cache = apt.BlockCache(1 << 30)
        store = apt.AtlasStore("profiles", cache_bytes=cache)
        other = apt.AtlasStore("grids", cache_bytes=cache)

    Blocks that were used last are kept, as many as fit. They are found by the identity of their
    file: handles of one local store that are open at the same time share them. It can be used by
    several threads; a forked process starts with an empty one, and a pickle holds only the size.

    Decoded blocks are one thing, ``cache`` of ``storage_options`` another: a folder on local disk
    for what is read from URLs.

    Args:
        max_bytes: limit on the decoded blocks; 0: none are kept.

    Raises:
        TypeError: the limit is not an integer.
        ValueError: it is negative.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = checked_integer("max_bytes", max_bytes, 0)
        self._native = NativeCache(self._max_bytes)

    @property
    def max_bytes(self) -> int:
        """Limit on the decoded blocks, in bytes."""
        return self._max_bytes

    @property
    def used_bytes(self) -> int:
        """Size of the blocks that are kept in this process."""
        return self._native.used

    @property
    def hits(self) -> int:
        """Number of times that a block was needed and found, in this process."""
        return self._native.hits

    @property
    def misses(self) -> int:
        """Number of times that a block had to be decoded, in this process."""
        return self._native.misses

    def clear(self) -> None:
        """Drops all blocks; the numbers of hits and misses stay."""
        self._native.clear()

    @property
    def native(self) -> NativeCache:
        """The cache as native readers take it."""
        return self._native

    def __reduce__(self) -> tuple[type[BlockCache], tuple[int]]:
        return BlockCache, (self._max_bytes,)

    def __repr__(self) -> str:
        return f"BlockCache({self._max_bytes})"


def checked_cache(cache_bytes: int | BlockCache | None) -> BlockCache | None:
    """Returns the cache that the option ``cache_bytes`` stands for.

    Args:
        cache_bytes: a cache, the size of a new one, or None.

    Returns:
        The cache; None: that of the process.

    Raises:
        TypeError: the option has a different type.
        ValueError: the size is negative.
    """
    if cache_bytes is None or isinstance(cache_bytes, BlockCache):
        return cache_bytes
    return BlockCache(checked_integer("cache_bytes", cache_bytes, 0))
