"""Which molecules come when, and together: samplers for ``DataLoader`` and ``Loader``."""

from atompack_torch.samplers.atom_budget import AtomBudgetBatchSampler
from atompack_torch.samplers.block_shuffle import BlockShuffleSampler
from atompack_torch.samplers.distributed import DistributedMoleculeSampler

__all__ = ["AtomBudgetBatchSampler", "BlockShuffleSampler", "DistributedMoleculeSampler"]
