"""Iteration over batches that native threads prepare."""

from __future__ import annotations

import atexit
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Sampler

from atompack_torch.batch.indices import Indices
from atompack_torch.datasets.batches import Batch, BatchPrefetcher
from atompack_torch.loading.accelerate import leave_accelerate
from atompack_torch.loading.transfer import SideStream, to_device
from atompack_torch.random_order import mix, shuffled

if TYPE_CHECKING:
    from atompack_torch.loading.loader import Loader


Prepared = TypeVar("Prepared")


class BackgroundPrefetcher(Generic[Prepared]):
    """A ``BatchPrefetcher`` that takes the batches of another on a thread of its own.

    Requests are passed on by the calling thread. Batches arrive in their order, and an error of the
    thread replaces its batch.

    Args:
        batches: takes requests; its ``take`` may run concurrently with its ``submit``.
        prepare: takes the oldest batch from ``batches`` and prepares it, on the thread.
        receive: makes the batch that ``take`` returns of that, on the thread that calls ``take``.
        n_ahead: number of batches to prepare in addition to those that were taken.
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
        """Number of items that ``missing="drop"`` dropped from the batches delivered."""
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
            raise RuntimeError("threads do not survive fork(): start a new pass in the child")
        while self._n_waiting and len(self._started) <= self._n_ahead:
            self._started.append(self._thread.submit(self._prepare, self._batches))
            self._n_waiting -= 1
        self._started[0].exception()  # waits; Ctrl-C leaves the batch there
        return self._receive(self._started.popleft().result())

    def __len__(self) -> int:
        return self._n_waiting + len(self._started)

    def close(self) -> None:
        """Stops the thread after the batch in progress."""
        self._thread.shutdown(cancel_futures=True)


class OwnOrder(Sampler[int]):
    """Yields all items in a random order that depends only on seed and epoch."""

    def __init__(self, dataset: Sized, seed: int) -> None:
        self._dataset = dataset
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._dataset)

    def numbers(self, first: int, step: int) -> Iterator[Tensor]:
        """Iterates over the items of this epoch in order.

        Args:
            first: number of items to skip.
            step: the number of items in each tensor but the last is a multiple of this.

        Yields:
            The next items, int64.
        """
        # A hash of both, so that epoch 1 of seed 0 differs from epoch 0 of seed 1.
        order = shuffled(mix((self.seed - 1) * _SPREAD + self.epoch + 1) >> 1, len(self))
        size = step * -(-_AHEAD // step)
        for begin in range(first, len(self), size):
            yield torch.from_numpy(order.between(begin, min(begin + size, len(self))))

    def __iter__(self) -> Iterator[int]:
        for numbers in self.numbers(0, 1):
            yield from numbers.tolist()

    def __repr__(self) -> str:
        return f"OwnOrder({len(self)} items, seed={self.seed}, epoch={self.epoch})"


def chunks(
    order: OwnOrder | None, n: int, size: int, drop_last: bool, skip: int
) -> Iterator[Tensor]:
    """Splits items into batches.

    Args:
        order: the items in order; None: the stored order.
        n: number of items.
        size: number of items in a batch.
        drop_last: drop a last batch that is not full.
        skip: number of items to skip at the start.

    Yields:
        The items of a batch, int64.
    """
    size = min(size, n + 1)  # torch refuses sizes beyond 64 bits
    end = n - (n - skip) % size if drop_last and skip < n else n
    if order is None:
        for first in range(skip, end, size):
            yield torch.arange(first, min(first + size, end))
        return
    for numbers in order.numbers(skip, size):
        for chunk in torch.split(numbers, size):
            if len(chunk) == size or not drop_last:
                yield chunk


_SPREAD = 0x9E3779B97F4A7C15  # keeps the epochs of one seed apart from those of the next
_AHEAD = 1 << 14  # items of an order that are computed ahead
_N_ON_DEVICE = 2  # batches on a CUDA device next to those that were delivered

# Their threads must not outlive the interpreter.
_running: weakref.WeakSet[BatchIterator[Any]] = weakref.WeakSet()


class BatchIterator(Generic[Batch]):
    """One pass of a ``Loader``: requests batches ahead and takes them in order.

    Args:
        loader: its options; counts the batches delivered.
        indices: molecule numbers of each batch.
    """

    def __init__(self, loader: Loader[Batch], indices: Iterator[Sequence[int] | Tensor]) -> None:
        self._loader = loader
        self.token = object()  # by which the loader knows its last pass
        self._dataset = loader._batches_of
        self._drops_items = self._dataset.drops_items
        self._indices = indices
        self._request: Sequence[int] | Tensor | None = None  # after those that were submitted
        self._has_started = False
        self._broken_by: BaseException | None = None
        self._native: BatchPrefetcher | None = self._dataset.prefetch(
            loader.num_threads, loader.prefetch, loader.pin_memory
        )
        self._device = loader.device
        if self._device is not None and loader._is_cuda:
            side = SideStream(self._device, loader.neighbors)
            self._native = BackgroundPrefetcher(self._native, side.take, side.receive, _N_ON_DEVICE)
            self._device = None  # the batches taken are ready
        _running.add(self)

    def __iter__(self) -> BatchIterator[Batch]:
        return self

    def __next__(self) -> Batch:
        native = self._native
        if native is None:
            raise StopIteration
        if not self._has_started:
            self._has_started = True
            self._request = self._next_request()
        while True:
            while (request := self._request) is not None:
                self._request = self._next_request()
                if not native.submit(request):
                    break
            if len(native) == 0:
                self._end(native)
                raise StopIteration
            batch = self._take(native)
            if len(native) == 0 and self._request is None and self._broken_by is None:
                self._loader.end_of_dataloader = True
                self._loader._end_pass(self.token)  # with the last batch
            if batch is not None:
                return self._dataset.apply_transform(to_device(batch, self._device))

    def _end(self, native: BatchPrefetcher) -> None:
        if self._broken_by is not None:
            raise RuntimeError(
                "batches are missing, as the sampler failed or was interrupted: start a new pass"
            ) from self._broken_by
        if n := getattr(native, "n_dropped", 0):
            self._loader._warn_of_drops(n)
        self.close()
        self._loader._end_pass(self.token)
        leave_accelerate(self._loader)

    def _next_request(self) -> Sequence[int] | Tensor | None:
        """Returns the next request, or None at the end.

        After an exception a generator is at its end, although requests are missing.
        """
        try:
            return next(self._indices, None)
        except BaseException as error:
            self._broken_by = error
            raise

    def _take(self, native: BatchPrefetcher) -> Any:
        """Returns the oldest batch, None if it is skipped; an error counts as delivered too."""
        n, is_delivered = len(native), True
        try:
            batch = native.take()
            is_delivered = not self._drops_items or self._dataset.count_items(batch) > 0
        finally:
            if len(native) < n:  # Ctrl-C leaves the batch there
                self._loader._count_request(self.token, is_delivered=is_delivered)
        return batch if is_delivered else None

    def close(self) -> None:
        """Stops the threads, after the batches in progress."""
        native, self._native = self._native, None
        if isinstance(native, BackgroundPrefetcher):
            native.close()


@atexit.register
def _stop_all() -> None:
    for batches in list(_running):
        batches.close()
