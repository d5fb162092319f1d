"""Epoch of a dataset whose molecules or labels change with it."""

from __future__ import annotations

from typing import Any

import torch


class SharedEpoch:
    """One number for a dataset, its copies and its worker processes, in shared memory.

    Loaders and samplers choose it in the process that trains; workers, which may live for many
    epochs, read it with each batch.

    Args:
        number: number of the epoch.

    Attributes:
        is_chosen: the user has called ``set_epoch``, so that loaders do not change it.
    """

    def __init__(self, number: int = 0) -> None:
        self.is_chosen = False
        self._share(torch.tensor([number]))

    def _share(self, memory: torch.Tensor) -> None:
        self._memory: torch.Tensor = memory.share_memory_()  # type: ignore[no-untyped-call]
        self._view = self._memory.numpy()

    @property
    def number(self) -> int:
        """Number of the epoch."""
        return int(self._view[0])

    @number.setter
    def number(self, number: int) -> None:
        self._view[0] = number

    def __getstate__(self) -> tuple[bool, torch.Tensor | int]:
        return self.is_chosen, self._memory if _is_for_worker() else self.number

    def __setstate__(self, state: tuple[bool, Any]) -> None:
        self.is_chosen, memory = state
        self._share(memory if isinstance(memory, torch.Tensor) else torch.tensor([memory]))


def _is_for_worker() -> bool:
    """Returns True while a process is started with this pickle, which may share the memory."""
    from multiprocessing.context import get_spawning_popen

    return get_spawning_popen() is not None
