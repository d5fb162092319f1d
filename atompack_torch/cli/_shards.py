"""What head and verify say of data sets of Atlas shards."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from atompack_torch._core import read_example
from atompack_torch._native import ShardReader
from atompack_torch.cli._output import (
    are_all,
    print_json,
    printable,
    report_faults,
    shows_progress,
    table,
)
from atompack_torch.datasets.atlas_shards import ShardDataset
from atompack_torch.errors import AtompackError
from atompack_torch.formats import is_shards
from atompack_torch.inspection.values import plain
from atompack_torch.progress import Progress

_MOST_ITEMS = 20  # of a list, in text
_MOST_CHARACTERS = 60  # of a value, in text


def are_shards(paths: Sequence[str]) -> bool:
    """Whether the paths are data sets of shards, and not .atp files."""
    return are_all(paths, is_shards, "data sets of Atlas shards")


def head(paths: Sequence[str], n: int, as_json: bool) -> int:
    """The first examples."""
    documents = []
    for path in paths:
        dataset = _opened(path)
        numbers = range(min(n, len(dataset)))
        if as_json:
            documents += [{"example": i, "value": plain(dataset[i])} for i in numbers]
            continue
        for i in numbers:
            print(f"example {i}: {_kind(dataset[i])}")
            rows = [(printable(key), kind, shown) for key, kind, shown in _rows("", dataset[i])]
            print(table(rows, "  "))
        print(f"{len(numbers):,} of {len(dataset):,} examples")
    if as_json:
        print_json(documents)
    return 0


def verify(options: argparse.Namespace) -> int:
    """Reads every block; lists those that are damaged or hold more than data."""
    faults: list[str] = []
    n_faults = 0
    readers = [ShardReader(path, 0) for path in options.path]
    found = [reader.shard_sizes_warning() for reader in readers]
    warned = [warning for warning in found if warning is not None]
    blocks = [
        (reader, first)
        for reader, path in zip(readers, options.path, strict=True)
        for first in _first_examples(_opened(path))
    ]
    shows = shows_progress(options)
    with Progress(len(blocks), "blocks", label="verifying", enabled=shows) as progress:
        for reader, first in blocks:
            try:
                read_example(reader, first)  # its block is parsed as a whole
            except (AtompackError, OSError) as error:
                n_faults += 1
                faults += [str(error)] if len(faults) < options.max_faults else []
            progress.update()
    n_examples = sum(map(len, readers))
    counts = {"n_examples": n_examples, "n_blocks": len(blocks), "n_faults": n_faults}
    return report_faults(
        counts | {"faults": faults, "warnings": warned},
        options.json,
        {"faults": (faults, n_faults)},
        warned,
        f"{n_examples:,} examples, {len(blocks):,} blocks: {n_faults:,} faults",
    )


def _first_examples(dataset: ShardDataset) -> list[int]:
    """Of each block."""
    ends: list[int] = np.cumsum(dataset.block_sizes).tolist()
    return [0, *ends[:-1]] if ends else []


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
    elif isinstance(value, (list, tuple)) and len(value) <= _MOST_ITEMS:
        parts = list(enumerate(value))
    if not parts:
        return [(name, _kind(value), _shown(value))]
    return [
        row for key, part in parts for row in _rows(f"{name}.{key}" if name else str(key), part)
    ]


def _shown(value: Any) -> str:
    text = " ".join(repr(value.tolist() if isinstance(value, Tensor) else value).split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 4] + " ..."
