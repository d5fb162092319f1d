"""Ordered, bounded map over threads for Python functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from atompack_torch._core import use_one_thread

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int, ahead: int
) -> Generator[Result, None, None]:
    """Calls ``function`` on threads and yields the results in the order of the items.

    An item is drawn only when fewer than ``ahead`` results are outstanding. Closing the generator
    cancels the calls that have not begun and waits for the others.

    Args:
        function: must be thread-safe; torch runs single-threaded inside of it.
        items: drawn on the caller's thread.
        n_threads: at least 1.
        ahead: results that are computed and not yet yielded, at least 1.

    Yields:
        Results, in the order of the items.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_threads, initializer=use_one_thread) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) == ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
