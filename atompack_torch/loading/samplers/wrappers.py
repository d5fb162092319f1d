"""Detection of frameworks that deal the items of a sampler to the ranks themselves.

accelerate, and wrappers similar to torch's ``DistributedSampler``, iterate over the sampler on each
rank and keep the part of that rank. If the sampler has dealt its items already, the rest is lost.
Only the call stack shows on whose behalf a sampler is iterated. Frameworks are not imported here:
one that the program has not loaded cannot be on the stack.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from torch.utils.data import DistributedSampler

_ACCELERATE = "accelerate.data_loader"
_LOOPS = tuple(
    f"{package}.loops.{loop}_loop"
    for package in ("lightning.pytorch", "pytorch_lightning")
    for loop in ("fit", "evaluation")
)
_ITERATING = ("__iter__", "__len__", "__init__")  # methods in which wrappers use their sampler


class Dealer(NamedTuple):
    """A wrapper that deals the items of a sampler to ranks."""

    name: str
    n_ranks: int


def find_dealer(own: type) -> Dealer | None:
    """Finds the wrapper that iterates over the calling sampler, or asks for its length.

    Args:
        own: class of samplers of this package, which are not wrappers.

    Returns:
        The wrapper, or None.

    Raises:
        ValueError: the wrapper cuts batches by rows (accelerate's ``dispatch_batches``).
    """
    refuse_dispatching()
    for wrapper in _owners(_may_deal):
        name = type(wrapper).__name__
        if name in ("BatchSamplerShard", "IterableDatasetShard") and wrapper.num_processes > 1:
            return Dealer(f"accelerate's {name}", wrapper.num_processes)
        wraps = isinstance(wrapper, DistributedSampler) and not isinstance(wrapper, own)
        if wraps and wrapper.num_replicas > 1:
            return Dealer(name, wrapper.num_replicas)
    return None


def refuse_dispatching() -> None:
    """Raises an error in calls from accelerate's ``DataLoaderDispatcher``.

    It joins the batches of one process and gives each rank the same number of rows of every tensor,
    ignoring the boundaries of molecules.

    Raises:
        ValueError: the dispatcher is on the call stack.
    """
    if _ACCELERATE not in sys.modules:
        return
    for loader in _owners(lambda frame: _module(frame) == _ACCELERATE):
        if type(loader).__name__ == "DataLoaderDispatcher":
            raise ValueError(
                "dispatch_batches: expected False, got True: accelerate would cut tensors by rows, "
                "across molecules; each process makes its own batches with dispatch_batches=False"
            )


def is_skipping() -> bool:
    """Returns True in calls from accelerate's ``skip_first_batches``."""
    frame = sys._getframe(2)
    return _module(frame) == _ACCELERATE and frame.f_code.co_name != "__getattr__"


def is_overfitting() -> bool:
    """Returns True if Lightning's ``overfit_batches`` requires the same batches every epoch."""
    return any(loop.trainer.overfit_batches > 0 for loop in _loops())


def epoch_of_trainer(epoch: int) -> int:
    """Returns the epoch of the Lightning loop that begins a pass; ``epoch`` outside of one.

    A run that is resumed starts the workers of a ``DataLoader`` before it sets the epoch of the
    samplers.

    Args:
        epoch: that of the sampler.

    Returns:
        Number of the epoch.
    """
    for loop in _loops():
        if (progress := getattr(loop, "epoch_progress", None)) is not None:
            return int(progress.current.processed)
    return epoch


def _loops() -> Iterator[Any]:
    """Yields the loops of Lightning on the call stack."""
    if any(name in sys.modules for name in _LOOPS):
        yield from _owners(lambda frame: _module(frame) in _LOOPS)


def _may_deal(frame: FrameType) -> bool:
    return _module(frame) == _ACCELERATE or frame.f_code.co_name in _ITERATING


def _module(frame: FrameType) -> Any:
    return frame.f_globals.get("__name__")


def _owners(chosen: Callable[[FrameType], bool]) -> Iterator[Any]:
    """Yields the objects whose methods are on the call stack, innermost first.

    Only for chosen frames, because reading the variables of a frame can keep them alive.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_varnames[:1] == ("self",) and chosen(frame):
            yield frame.f_locals.get("self")
        frame = frame.f_back
