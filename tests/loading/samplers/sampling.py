"""What several tests of samplers use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import Dataset


class Numbers(Dataset[Any]):
    """Molecules that are their own numbers."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: int) -> int:
        return index


@contextmanager
def process_group(rank: int, n_ranks: int) -> Iterator[None]:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=n_ranks)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def attempt(call: Any) -> tuple[Any, str | None]:
    """The result of a call, or the message of its ValueError."""
    try:
        return call(), None
    except ValueError as error:
        return [], str(error)
