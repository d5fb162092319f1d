"""Data sets of shards as a source and as a target of conversions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch import RESERVED, MoleculeBatch
from atompack_torch.columns import Columns, of_batch
from atompack_torch.committing import Committing
from atompack_torch.conversions import Parts
from atompack_torch.convert.records import BLOCK_STRUCTURES, records_of
from atompack_torch.convert.report import Report
from atompack_torch.datasets.atlas_shards import ShardDataset
from atompack_torch.errors import AtompackError, FieldError
from atompack_torch.fields import ATOM_PROPERTY, BUILTINS, MOLECULE_PROPERTY, PREFIXES, prefixed_id
from atompack_torch.shard_writer import ShardWriter

_Path = str | os.PathLike[str]


class Shape(NamedTuple):
    """Of the shards to write, as for ``ShardWriter``."""

    shard_size: int = 10_000
    block_size: int = 100
    strategy: Any = 2


def count(path: _Path) -> int:
    """Number of examples."""
    return len(ShardDataset(path))


def read(path: _Path, *, report: Report) -> Iterator[Columns]:
    """Blocks of the examples, which are all molecules, in order.

    Raises:
        CorruptFileError: a block is damaged.
        FieldError: an example is no dict with positions and atomic numbers.
    """
    dataset = ShardDataset(path)
    for first in range(0, len(dataset), BLOCK_STRUCTURES):
        yield from _block(dataset, first, min(first + BLOCK_STRUCTURES, len(dataset)), report)


def _block(dataset: ShardDataset, first: int, last: int, report: Report) -> Iterator[Columns]:
    try:
        batch = dataset.batch(range(first, last))
        if not isinstance(batch, MoleculeBatch):
            raise FieldError(
                f"{dataset.root}: expected dicts with positions and atomic_numbers, got others "
                f"(examples {first} to {last - 1})"
            )
    except (AtompackError, KeyError, TypeError) as error:
        if last - first == 1:
            known = error if isinstance(error, AtompackError) else FieldError(str(error))
            report.refuse(known)
            return
        # Those that are damaged, or differ from others in a type, stand alone.
        for i in range(first, last):
            yield from _block(dataset, i, i + 1, report)
        return
    yield of_batch(batch)


class Writer(Committing):
    """Writes one data set; it is there when the block of ``with`` ends without an error.

    Examples are dicts: positions, atomic numbers and labels by name, properties by their key. An
    array of a molecule goes by ``properties/KEY``, so that no reader takes its rows for atoms.
    """

    def __init__(self, path: _Path, shape: Shape, level: int) -> None:
        self._writer = ShardWriter(path, *shape, level=level)

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        for record in records_of(columns):
            self._writer.write(_example(record))

    def close(self) -> None:
        """The commit."""
        self._writer.close()

    def discard(self) -> None:
        """Nothing of it stays."""
        self._writer.discard()

    def _is_unfinished(self) -> bool:
        return False  # the writer inside tells


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
    """Single numbers as Python has them."""
    return (
        value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value
    )
