"""Iterator over the batches of one pass of a ``Loader``."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic

from torch import Tensor

from atompack_torch.datasets.batches import Batch, BatchPrefetcher
from atompack_torch.loading.accelerate import leave_accelerate
from atompack_torch.loading.background import BackgroundPrefetcher
from atompack_torch.loading.transfer import SideStream, to_device

if TYPE_CHECKING:
    from atompack_torch.loading.loader import Loader

_N_ON_DEVICE = 2  # batches on a CUDA device beside those that were delivered

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
        self._drops_items = self._dataset._drops_items
        self._indices = indices
        self._request: Sequence[int] | Tensor | None = None  # after those that were submitted
        self._has_started = False
        self._broken_by: BaseException | None = None
        self._native: BatchPrefetcher | None = self._dataset._prefetch(
            loader.num_threads, loader.prefetch, loader.pin_memory
        )
        self._device = loader.device
        if self._device is not None and loader._is_cuda:
            side = SideStream(self._device, loader.neighbors)
            self._native = BackgroundPrefetcher(self._native, side.take, side.receive, _N_ON_DEVICE)
            self._device = None  # the batches taken are there
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
                return self._dataset._apply_transform(to_device(batch, self._device))

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
            is_delivered = not self._drops_items or self._dataset._n_items(batch) > 0
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
