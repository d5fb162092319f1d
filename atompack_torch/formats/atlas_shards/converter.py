"""Datasets of shards as source and target of conversions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Columns, of_batch
from atompack_torch.batch.conversions import Parts
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    RESERVED,
    prefixed_id,
)
from atompack_torch.formats.atlas_shards.dataset import ShardDataset
from atompack_torch.formats.atlas_shards.writer import ShardWriter
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import (
    ForwardingWriter,
    Source,
    SourceOptions,
    TargetOptions,
    TargetTraits,
    readable,
)
from atompack_torch.formats.records import BLOCK_STRUCTURES, records_of
from atompack_torch.options import redact_path

_Path = str | os.PathLike[str]

_SHARDS = (10_000, 100, 2)  # examples per shard and per block, strategy
TARGET = TargetTraits(("x",), codecs=("zstd",), has_shards=True)


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a dataset, whose examples must all be molecules."""
    dataset = ShardDataset(path)
    read_block = partial(_molecules, dataset)

    def read(report: Report, first: int = 0, last: int | None = None) -> Iterator[Columns]:
        end = len(dataset) if last is None else last
        for begin in range(first, end, BLOCK_STRUCTURES):
            yield from readable(read_block, begin, min(begin + BLOCK_STRUCTURES, end), report)

    return Source(path, read, lambda: len(dataset), read_range=read, keeps_open=True)


def open_target(path: str, options: TargetOptions) -> Writer:
    """Opens a dataset for writing."""
    return Writer(path, options.shards or _SHARDS, options.level)


def _molecules(dataset: ShardDataset, first: int, last: int) -> Columns:
    try:
        batch = dataset.batch(range(first, last))
    except (KeyError, TypeError) as error:  # keys or types not allowed in a batch
        raise FieldError(str(error)) from None
    if not isinstance(batch, MoleculeBatch):
        raise FieldError(
            f"{redact_path(dataset.root)}: expected dicts with positions and atomic_numbers, got "
            f"others (examples {first} to {last - 1})"
        )
    return of_batch(batch)


class Writer(ForwardingWriter):
    """Writes one dataset; it appears when the ``with`` block ends without an error.

    Examples are dicts: positions, atomic numbers and labels by name, properties by their key. A
    per-molecule array is stored as ``properties/KEY``, so that readers do not mistake its rows for
    atoms.
    """

    _writer: ShardWriter

    def __init__(self, path: _Path, shards: tuple[int, int, Any], level: int) -> None:
        self._writer = ShardWriter(path, *shards, level=level)

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        for record in records_of(columns):
            self._writer.write(_example(record))


def _example(record: Parts) -> dict[str, Any]:
    example = {"positions": record.positions, "atomic_numbers": record.atomic_numbers}
    example |= {key: _plain(value) for key, value in record.labels.items()}
    for key, value in record.atom_properties.items():
        taken = _is_taken(key) or key in record.properties
        example[PREFIXES[ATOM_PROPERTY] + key if taken else key] = value
    for key, value in record.properties.items():
        taken = _is_taken(key) or np.ndim(value) > 0
        example[PREFIXES[MOLECULE_PROPERTY] + key if taken else key] = _plain(value)
    return example


def _is_taken(key: str) -> bool:
    return key in BUILTINS or key in RESERVED or prefixed_id(key) is not None


def _plain(value: Any) -> Any:
    """Converts scalars to Python numbers."""
    return (
        value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value
    )
