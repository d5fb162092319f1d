"""What info, head and verify say of data sets of Atlas shards."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from atompack_torch._core import ShardReader
from atompack_torch.cli._output import UsageError, print_json, printable, table
from atompack_torch.convert.formats import bytes_at, is_shards
from atompack_torch.datasets.atlas_shards import ShardDataset
from atompack_torch.errors import AtompackError

_STRATEGIES = ("bare", "zstd", "zstd, shared dictionary", "zstd, own dictionary")
_MOST_SHARDS = 20  # of a data set, in text
_MOST_CHARACTERS = 60  # of a value, in text


def are_shards(paths: Sequence[str]) -> bool:
    """Whether the paths are data sets of shards, and not .atp files."""
    found = {is_shards(Path(path)) for path in paths}
    if len(found) > 1:
        raise UsageError("expected .atp files or data sets of Atlas shards, got both")
    return found == {True}


def info(paths: Sequence[str], as_json: bool) -> int:
    """Examples, shards, strategies, use of space."""
    sets = [_describe(path) for path in paths]
    if as_json:
        print_json({"n_examples": sum(s["n_examples"] for s in sets), "data_sets": sets})
        return 0
    for described in sets:
        print(
            f"{printable(described['path'])}: {described['n_examples']:,} examples in "
            f"{len(described['shards']):,} shards, {described['file_bytes']:,} bytes"
        )
        rows = [("shard", "examples", "in a block", "stored")]
        for shard in described["shards"][:_MOST_SHARDS]:
            numbers = f"{shard['n_examples']:,}", f"{shard['block_size']:,}"
            stored = _STRATEGIES[shard["strategy"]]
            level = f" (level {shard['level']})" if shard["strategy"] else ""
            rows.append((printable(shard["name"]), *numbers, stored + level))
        print(table(rows, "  "))
        if len(described["shards"]) > _MOST_SHARDS:
            print(f"  ... and {len(described['shards']) - _MOST_SHARDS:,} more")
        if described["warning"] is not None:
            print(f"  warning: {printable(described['warning'])}")
    return 0


def _describe(path: str) -> dict[str, Any]:
    reader = ShardReader(path, None)
    keys = ("name", "strategy", "block_size", "n_examples", "level")
    return {
        "path": path,
        "n_examples": len(reader),
        "file_bytes": bytes_at(Path(path)),
        "warning": reader.shard_sizes_warning(),
        "shards": [dict(zip(keys, shard, strict=True)) for shard in reader.shards()],
    }


def head(paths: Sequence[str], n: int, as_json: bool) -> int:
    """The first examples."""
    documents = []
    for path in paths:
        dataset = _opened(path)
        numbers = range(min(n, len(dataset)))
        if as_json:
            documents += [{"example": i, "value": _json_of(dataset[i])} for i in numbers]
            continue
        for i in numbers:
            print(f"example {i}: {_kind(dataset[i])}")
            rows = [(printable(key), kind, shown) for key, kind, shown in _rows("", dataset[i])]
            print(table(rows, "  "))
        print(f"{len(numbers):,} of {len(dataset):,} examples")
    if as_json:
        print_json(documents)
    return 0


def verify(paths: Sequence[str], max_faults: int, as_json: bool) -> int:
    """Reads every block; lists those that are damaged or hold more than data."""
    n_faults = n_blocks = n_examples = 0
    faults: list[str] = []
    warned: list[str] = []
    for path in paths:
        reader = ShardReader(path, 0)
        warning = reader.shard_sizes_warning()
        warned += [] if warning is None else [warning]
        n_examples += len(reader)
        firsts = np.cumsum(_opened(path).block_sizes)
        for first in [0, *firsts[:-1].tolist()] if len(reader) else []:
            n_blocks += 1
            try:
                reader.read_example(first)  # its block is parsed as a whole
            except (AtompackError, OSError) as error:
                n_faults += 1
                faults += [str(error)] if len(faults) < max_faults else []
    if as_json:
        counts = {"n_examples": n_examples, "n_blocks": n_blocks, "n_faults": n_faults}
        print_json(counts | {"faults": faults, "warnings": warned})
        return 1 if n_faults else 0
    for fault in faults:
        print(printable(fault))
    if n_faults > len(faults):
        print(f"... and {n_faults - len(faults):,} more faults")
    for warning in warned:
        print(f"warning: {printable(warning)}")
    print(f"{n_examples:,} examples, {n_blocks:,} blocks: {n_faults:,} faults")
    return 1 if n_faults else 0


def _opened(path: str) -> ShardDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # told by info and verify
        return ShardDataset(path)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, (dict, list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def _rows(name: str, value: Any) -> list[tuple[str, str, str]]:
    """Name, kind and beginning of each value, those inside of others behind them."""
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, (list, tuple)) and len(value) <= _MOST_SHARDS:
        parts = list(enumerate(value))
    if not parts:
        return [(name, _kind(value), _shown(value))]
    return [
        row for key, part in parts for row in _rows(f"{name}.{key}" if name else str(key), part)
    ]


def _shown(value: Any) -> str:
    text = " ".join(repr(value.tolist() if isinstance(value, Tensor) else value).split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 4] + " ..."


def _json_of(value: Any) -> Any:
    """JSON has no tensors, bytes, other keys than texts, NaN: lists and texts stand for them."""
    if isinstance(value, dict):
        return {str(key): _json_of(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_of(part) for part in value]
    if isinstance(value, Tensor) and value.is_complex():
        return _json_of([value.real, value.imag])
    if isinstance(value, (Tensor, np.ndarray)):
        plain = value.tolist()
        return (
            _json_of(plain) if isinstance(value, Tensor) or value.dtype.kind in "US" else str(value)
        )
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, type(None))) else str(value)
