"""Description of data sets of Atlas shards: examples, shards, strategies, use of space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from atompack_torch._native import ShardReader
from atompack_torch.formats import bytes_at


def describe(path: str) -> dict[str, Any]:
    """Describes a data set; no block is read."""
    reader = ShardReader(path, None)
    keys = ("name", "strategy", "block_size", "n_examples", "level")
    return {
        "path": path,
        "n_examples": len(reader),
        "file_bytes": bytes_at(Path(path)),
        "warning": reader.shard_sizes_warning(),
        "shards": [dict(zip(keys, shard, strict=True)) for shard in reader.shards()],
    }
