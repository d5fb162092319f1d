"""Batches that a thread prepares ahead of their use."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from atompack_torch.batch.indices import Indices
from atompack_torch.datasets.batches import BatchPrefetcher

Prepared = TypeVar("Prepared")


class BackgroundPrefetcher(Generic[Prepared]):
    """A ``BatchPrefetcher`` that takes the batches of another one on a thread of its own.

    Requests are passed on by the calling thread. Batches arrive in their order, and an error of the
    thread takes the place of its batch.

    Args:
        batches: takes requests; its ``take`` may run beside its ``submit``.
        prepare: takes the oldest batch from ``batches`` and prepares it, on the thread.
        receive: makes the batch that ``take`` returns of that, on the thread that calls ``take``.
        n_ahead: number of batches to prepare beside those that were taken.
    """

    def __init__(
        self,
        batches: BatchPrefetcher,
        prepare: Callable[[BatchPrefetcher], Prepared],
        receive: Callable[[Prepared], Any],
        n_ahead: int,
    ) -> None:
        self._batches, self._prepare, self._receive = batches, prepare, receive
        self._n_ahead = n_ahead
        self._thread = ThreadPoolExecutor(1, "atompack_torch transfer")
        self._started: deque[Future[Prepared]] = deque()
        self._n_waiting = 0  # requests beyond those that the thread has got
        self._process = os.getpid()
        # Without waiting: garbage may be collected on the thread itself.
        weakref.finalize(self, self._thread.shutdown, wait=False, cancel_futures=True)

    @property
    def n_dropped(self) -> int:
        """Number of items that ``missing="drop"`` left out of the batches taken."""
        n: int = getattr(self._batches, "n_dropped", 0)
        return n

    def submit(self, indices: Indices) -> bool:
        """Requests a batch; returns True if there is room for more requests."""
        has_room = self._batches.submit(indices)
        self._n_waiting += 1
        return has_room or len(self) <= self._n_ahead

    def take(self) -> Any:
        """Returns the oldest batch, or raises the error that stopped it."""
        if self._process != os.getpid():
            raise RuntimeError("the thread of these batches is the parent's: iterate anew")
        while self._n_waiting and len(self._started) <= self._n_ahead:
            self._started.append(self._thread.submit(self._prepare, self._batches))
            self._n_waiting -= 1
        self._started[0].exception()  # waits; Ctrl-C leaves the batch there
        return self._receive(self._started.popleft().result())

    def __len__(self) -> int:
        return self._n_waiting + len(self._started)

    def close(self) -> None:
        """Ends the thread, after the batch in progress."""
        self._thread.shutdown(cancel_futures=True)
