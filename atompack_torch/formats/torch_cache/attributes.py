"""Attributes of feature caches, read without torch."""

from __future__ import annotations

from typing import Any

from atompack_torch._native import TorchCacheReader


def attributes_of(reader: TorchCacheReader) -> dict[str, Any]:
    """Returns the file's attributes by their own names: those of the cache, root and two groups."""
    found = reader.info
    of_cache = found["torch_cache"] or found["force_derivatives"] or {}
    groups = {
        name: found[name]
        for name in ("descriptor_manifest", "force_derivatives")
        if found[name] is not None
    }
    return {**(found["root"] or {}), **of_cache, **groups}
