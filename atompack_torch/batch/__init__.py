"""Batches and molecules: their classes, how they are joined, cast, sent and converted."""

from typing import Any


def __getattr__(name: str) -> Any:
    # Pickles of version 0.1 name it here; importing it needs torch, other modules in here do not.
    if name == "_restore":
        from atompack_torch.batch.molecule_batch import _restore

        return _restore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
