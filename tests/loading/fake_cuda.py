"""Streams and events of CUDA for machines without it: their "device" is the CPU.

What ``Loader`` does for a CUDA device runs on the CPU with them, on the same threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Event:
    """The thread and the stream that recorded it."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.thread = stream, threading.get_ident()


class Stream:
    """Counts the waits for events, and the memory that is kept for it."""

    device = torch.device("cpu")

    def __init__(self, device: Any = None) -> None:
        self.waited_for: list[Event | Stream] = []
        self.kept: list[int] = []

    def record_event(self) -> Event:
        assert current_stream() is self
        return Event(self)

    def wait_event(self, event: Event) -> None:
        self.waited_for.append(event)

    def wait_stream(self, stream: Stream) -> None:
        self.waited_for.append(stream)


DEFAULT = Stream()
_of_thread = threading.local()


def current_stream(device: Any = None) -> Stream:
    return getattr(_of_thread, "stream", None) or DEFAULT


@contextmanager
def stream(chosen: Stream) -> Iterator[None]:
    before = getattr(_of_thread, "stream", None)
    _of_thread.stream = chosen
    try:
        yield
    finally:
        _of_thread.stream = before


def record_stream(tensor: torch.Tensor, chosen: Stream) -> None:
    chosen.kept.append(tensor.untyped_storage().data_ptr())


def install(set_attribute: Callable[[Any, str, Any], None] = setattr) -> None:
    """Puts them in the place of torch's own."""
    for name in ("Stream", "current_stream", "stream"):
        set_attribute(torch.cuda, name, globals()[name])
    set_attribute(torch.Tensor, "record_stream", record_stream)
