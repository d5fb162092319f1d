"""Samplers for ``DataLoader`` and ``Loader``: order of items, and their division into batches."""

from atompack_torch.loading.samplers.atom_budget import AtomBudgetBatchSampler
from atompack_torch.loading.samplers.block_shuffle import BlockShuffleSampler
from atompack_torch.loading.samplers.bucket import BucketBatchSampler
from atompack_torch.loading.samplers.distributed import DistributedMoleculeSampler
from atompack_torch.loading.samplers.equal_size import EqualSizeBatchSampler

__all__ = [
    "AtomBudgetBatchSampler",
    "BlockShuffleSampler",
    "BucketBatchSampler",
    "DistributedMoleculeSampler",
    "EqualSizeBatchSampler",
]
