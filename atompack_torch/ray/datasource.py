"""Datasource of Ray Data for ``.atp`` files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from ray.data import DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata

from atompack_torch.batch.columns import Array
from atompack_torch.datasets.sweeping import runs
from atompack_torch.formats.atp.dataset import AtpDataset
from atompack_torch.ray.blocks import arrow_schema, bytes_per_row, table_of

# A block is complete when it reaches either limit.
_BLOCK_MOLECULES = 16_384
_BLOCK_ATOMS = 1 << 19


class AtpDatasource(Datasource):  # type: ignore[misc]  # Ray's base classes are not annotated
    """Molecules of a dataset, in tasks of about equally many atoms.

    Args:
        dataset: the dataset, which is sent to the tasks: they read the same commit.
    """

    def __init__(self, dataset: AtpDataset) -> None:
        super().__init__()
        self._dataset = dataset
        self._schema = arrow_schema(dataset)
        self._ends: Array = np.cumsum(dataset.n_atoms.numpy())

    def estimate_inmemory_data_size(self) -> int:
        """Estimates the size of all blocks in bytes.

        Returns:
            The number of bytes.
        """
        return self._bytes_of(0, len(self._ends))

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Divides the molecules among tasks.

        Args:
            parallelism: number of tasks wanted.
            per_task_row_limit: maximum number of rows that a task returns.
            data_context: settings of Ray, which have no effect.

        Returns:
            The tasks, in the order of the molecules.
        """
        n = len(self._ends)
        # An atom more for each molecule: those without atoms count too.
        work = self._ends + np.arange(1, n + 1)
        targets = np.linspace(0, work[-1] if n else 0, min(parallelism, n) + 1)[1:-1]
        inner = np.searchsorted(work, targets, side="left") + 1
        bounds = np.unique([0, *inner.tolist(), n]).tolist()
        tasks = []
        for first, last in pairwise(bounds):
            is_dropping = self._dataset.request.missing == "drop"
            metadata = BlockMetadata(
                num_rows=None if is_dropping else last - first,
                size_bytes=self._bytes_of(first, last),
                input_files=None,
                exec_stats=None,
            )
            read = partial(_read, self._dataset, self._schema, first, last)
            tasks.append(ReadTask(read, metadata, self._schema, per_task_row_limit))
        return tasks

    def _bytes_of(self, first: int, last: int) -> int:
        n = last - first
        if n <= 0:
            return 0
        n_atoms = int(self._ends[last - 1] - (self._ends[first - 1] if first else 0))
        return int(n * bytes_per_row(self._schema, n_atoms / n))


def _read(dataset: AtpDataset, schema: pa.Schema, first: int, last: int) -> Iterator[Any]:
    """Yields the molecules of a range in tables of limited size."""
    for run in runs(dataset.n_atoms[:last].numpy(), _BLOCK_ATOMS, _BLOCK_MOLECULES, first):
        yield table_of(dataset[run.start : run.stop], schema)
