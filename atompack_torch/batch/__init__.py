"""Batches and molecules: their classes, how they are joined, cast, sent and converted."""

from atompack_torch.batch.molecule_batch import (
    _restore as _restore,  # pickles of version 0.1 name it here
)
