"""Collated PyTorch batches of atomistic data, straight from mapped files.

import atompack_torch as apt
from torch.utils.data import DataLoader

for batch in DataLoader(apt.AtpDataset("data.atp"), batch_size=64, shuffle=True):
    print(batch.positions.shape, batch.energy)
"""

from importlib.metadata import version as _version

from atompack_torch import _core as _core  # first: it checks the torch this was built for
from atompack_torch import _sending as _sending  # registers how batches cross processes
from atompack_torch import hub as hub
from atompack_torch.array_file import ArrayFile
from atompack_torch.array_schema import ArraySchema
from atompack_torch.array_statistics import ArrayStatistics
from atompack_torch.atlas_store import AtlasStore
from atompack_torch.batch import MoleculeBatch
from atompack_torch.build_cache import build_cache
from atompack_torch.cache_verification import CacheVerification, verify_cache
from atompack_torch.column_scan import ColumnScan
from atompack_torch.compaction import compact
from atompack_torch.contraction import contract_forces
from atompack_torch.datasets._collated import collate_identity
from atompack_torch.datasets.atlas_shards import ShardDataset
from atompack_torch.datasets.atlas_store import AtlasDataset
from atompack_torch.datasets.atp import AtpDataset
from atompack_torch.datasets.mixture import MixtureDataset
from atompack_torch.datasets.torch_cache import TorchCache, TorchCacheDataset
from atompack_torch.descriptors import ChebyshevDescriptor
from atompack_torch.errors import (
    AtompackError,
    CorruptFileError,
    FieldError,
    UnsafePickleError,
    UnsupportedFormatError,
    WriterLockedError,
)
from atompack_torch.fields import FieldSpec
from atompack_torch.joining import collate
from atompack_torch.loader import Loader
from atompack_torch.molecule import Molecule
from atompack_torch.neighbors import NeighborList
from atompack_torch.samplers import (
    AtomBudgetBatchSampler,
    BlockShuffleSampler,
    DistributedMoleculeSampler,
)
from atompack_torch.shard_writer import ShardWriter
from atompack_torch.statistics import Statistics
from atompack_torch.verification import Verification, verify
from atompack_torch.writer import AtpWriter

__version__ = _version("atompack_torch")

__all__ = [
    "ArrayFile",
    "ArraySchema",
    "ArrayStatistics",
    "AtlasDataset",
    "AtlasStore",
    "AtomBudgetBatchSampler",
    "AtompackError",
    "AtpDataset",
    "AtpWriter",
    "BlockShuffleSampler",
    "CacheVerification",
    "ChebyshevDescriptor",
    "ColumnScan",
    "CorruptFileError",
    "DistributedMoleculeSampler",
    "FieldError",
    "FieldSpec",
    "Loader",
    "MixtureDataset",
    "Molecule",
    "MoleculeBatch",
    "NeighborList",
    "ShardDataset",
    "ShardWriter",
    "Statistics",
    "TorchCache",
    "TorchCacheDataset",
    "UnsafePickleError",
    "UnsupportedFormatError",
    "Verification",
    "WriterLockedError",
    "build_cache",
    "collate",
    "collate_identity",
    "compact",
    "contract_forces",
    "hub",
    "verify",
    "verify_cache",
]
