"""Blocks of shards that Python unpickles, with ``allow_pickle``."""

from __future__ import annotations

import pickle
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from torch import Tensor

from atompack_torch._core import resolve_indices
from atompack_torch._native import ShardReader
from atompack_torch.batch.indices import Indices

KEPT_BLOCKS = 16  # by default


class PickledBlocks:
    """Blocks decoded by ``pickle.loads``, of which the most recent are kept."""

    def __init__(self, reader: ShardReader, most: int) -> None:
        self._reader, self._most = reader, most
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def example(self, number: int) -> Any:
        """Returns one example, from the block kept last where it has it."""
        shard, block, position = self._reader.locate(number)
        examples = self._kept.pop((shard, block), None)
        if examples is None:
            examples = pickle.loads(self._reader.read_block(shard, block))
        if self._most > 0:
            self._kept[shard, block] = examples
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return examples[position]


class PickledQueue:
    """Batches of examples that Python unpickles, made when they are taken.

    Args:
        n: number of examples in the data set.
        collate: returns the arena and the batch of indices.
    """

    def __init__(self, n: int, collate: Callable[[Indices], tuple[Tensor | None, Any]]) -> None:
        self._n, self._collate = n, collate
        self._asked: deque[Tensor] = deque()

    def submit(self, indices: Indices) -> bool:
        """Queues a batch; False: it is made when it is taken."""
        self._asked.append(resolve_indices(indices, self._n, None, "example"))
        return False

    def take(self) -> Any:
        """Makes the batch that was queued first."""
        return self._collate(self._asked.popleft())[1]

    def __len__(self) -> int:
        return len(self._asked)
