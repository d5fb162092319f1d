"""Blocks of shards that Python unpickles, with ``allow_pickle``."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

from atompack_torch._native import ShardReader

KEPT_BLOCKS = 16  # by default


class PickledBlocks:
    """Blocks decoded by ``pickle.loads``, of which the most recent are kept."""

    def __init__(self, reader: ShardReader, most: int) -> None:
        self._reader, self._most = reader, most
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def example(self, number: int) -> Any:
        shard, block, position = self._reader.locate(number)
        examples = self._kept.pop((shard, block), None)
        if examples is None:
            examples = pickle.loads(self._reader.read_block(shard, block))
        if self._most > 0:
            self._kept[shard, block] = examples
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return examples[position]
