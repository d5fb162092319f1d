"""Which molecules come when, and together: samplers for ``DataLoader`` and ``Loader``."""

from atompack_torch.loading.samplers.atom_budget import AtomBudgetBatchSampler
from atompack_torch.loading.samplers.block_shuffle import BlockShuffleSampler
from atompack_torch.loading.samplers.distributed import DistributedMoleculeSampler

__all__ = ["AtomBudgetBatchSampler", "BlockShuffleSampler", "DistributedMoleculeSampler"]
