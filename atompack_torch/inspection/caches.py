"""Description of feature caches: entries, rows, the descriptor, the file's own attributes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from atompack_torch._native import TorchCacheReader
from atompack_torch.formats import opening
from atompack_torch.inspection.values import plain
from atompack_torch.options import absolute_path


def describe(path: str) -> dict[str, Any]:
    """Describes a file from its indexes; no row is read."""
    with opening(path, "a feature cache (HDF5)", "hdf5"):
        reader = TorchCacheReader(absolute_path(path))
    info = attributes_of(reader)
    entries = range(len(reader))
    return {
        "path": path,
        "file_bytes": Path(path).stat().st_size,
        "version": 1 if reader.is_legacy else info.get("schema_version"),
        "n_entries": len(reader),
        "n_atoms": int(reader.atom_counts().sum()),
        "n_with_energy": sum(not math.isnan(reader.energy(entry)) for entry in entries),
        "n_with_forces": sum(reader.has_forces(entry) for entry in entries),
        "storage_dtype": info.get("storage_dtype"),
        "features": {"n_features": reader.n_features} if reader.has_features else None,
        "force_derivatives": _rows(reader) if reader.has_force_derivatives else None,
        "descriptor": _settings(info),
        "descriptor_compat_sha256": info.get("descriptor_compat_sha256"),
        "attributes": plain(info),
    }


def attributes_of(reader: TorchCacheReader) -> dict[str, Any]:
    """The file's attributes under its own names: those of the cache, the root, and two groups."""
    found = reader.info
    of_cache = found["torch_cache"] or found["force_derivatives"] or {}
    groups = {
        name: found[name]
        for name in ("descriptor_manifest", "force_derivatives")
        if found[name] is not None
    }
    return {**(found["root"] or {}), **of_cache, **groups}


def _rows(reader: TorchCacheReader) -> dict[str, int]:
    sizes = [reader.derivative_sizes(entry) for entry in range(len(reader))]
    there = [size for size in sizes if size is not None]
    return {
        "n_rows": len(there),
        "n_edges": sum(edges for edges, _ in there),
        "n_triplets": sum(triplets for _, triplets in there),
        "n_radial": reader.n_radial,
        "n_angular": reader.n_angular,
    }


def _settings(info: dict[str, Any]) -> Any:
    """The stored settings of the descriptor, whether it can be rebuilt here or not."""
    manifest = info.get("descriptor_manifest")
    text = info.get("descriptor_compat_json") or (manifest and manifest["config_json"])
    try:
        return None if text is None else plain(json.loads(text))
    except (ValueError, RecursionError):  # the text itself is among the attributes
        return None
