"""Batches and molecules: the classes, and how they are joined, cast, moved and converted."""

from collections.abc import Callable


def __getattr__(name: str) -> Callable[..., object]:
    # Pickles of version 0.1 name it here; importing it needs torch, other modules in here do not.
    if name == "_restore":
        from atompack_torch.batch.molecule_batch import restore_batch

        return restore_batch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
