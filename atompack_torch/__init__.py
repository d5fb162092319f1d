"""Collated PyTorch batches of atomistic data, straight from mapped files.

import atompack_torch as apt
from torch.utils.data import DataLoader

for batch in DataLoader(apt.AtpDataset("data.atp"), batch_size=64, shuffle=True):
    print(batch.positions.shape, batch.energy)
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atompack_torch import hub as hub
    from atompack_torch.array_file import ArrayFile
    from atompack_torch.array_schema import ArraySchema
    from atompack_torch.array_statistics import ArrayStatistics
    from atompack_torch.atlas_store import AtlasStore
    from atompack_torch.batch import MoleculeBatch
    from atompack_torch.cache_building import build_cache
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

    __version__: str
else:
    # The library loads on first use of a name (PEP 562), so that the command line answers --help
    # without importing torch; at once where torch is imported already. Name -> module that has it.
    _HOMES = {
        "ArrayFile": "array_file",
        "ArraySchema": "array_schema",
        "ArrayStatistics": "array_statistics",
        "AtlasDataset": "datasets.atlas_store",
        "AtlasStore": "atlas_store",
        "AtomBudgetBatchSampler": "samplers",
        "AtompackError": "errors",
        "AtpDataset": "datasets.atp",
        "AtpWriter": "writer",
        "BlockShuffleSampler": "samplers",
        "CacheVerification": "cache_verification",
        "ChebyshevDescriptor": "descriptors",
        "ColumnScan": "column_scan",
        "CorruptFileError": "errors",
        "DistributedMoleculeSampler": "samplers",
        "FieldError": "errors",
        "FieldSpec": "fields",
        "Loader": "loader",
        "MixtureDataset": "datasets.mixture",
        "Molecule": "molecule",
        "MoleculeBatch": "batch",
        "NeighborList": "neighbors",
        "ShardDataset": "datasets.atlas_shards",
        "ShardWriter": "shard_writer",
        "Statistics": "statistics",
        "TorchCache": "datasets.torch_cache",
        "TorchCacheDataset": "datasets.torch_cache",
        "UnsafePickleError": "errors",
        "UnsupportedFormatError": "errors",
        "Verification": "verification",
        "WriterLockedError": "errors",
        "build_cache": "cache_building",
        "collate": "joining",
        "collate_identity": "datasets._collated",
        "compact": "compaction",
        "contract_forces": "contraction",
        "verify": "verification",
        "verify_cache": "cache_verification",
    }
    _MODULES = {"hub", *(home.split(".")[0] for home in _HOMES.values())}

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            globals()[name] = version("atompack_torch")
        elif name in _HOMES or name in _MODULES:
            _load_library()
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES, *_MODULES, "__version__"})

    def _load_library() -> None:
        """All of it, not just the name asked for: a process may give up rights after its start."""
        importlib.import_module(f"{__name__}._core")  # first, because it checks the installed torch
        importlib.import_module(f"{__name__}._pytree")  # registers batches as pytree nodes
        importlib.import_module(f"{__name__}._sending")  # registers how batches cross processes
        importlib.import_module(f"{__name__}.hub")
        for name, home in _HOMES.items():
            globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)

    if "torch" in sys.modules:  # nothing to be gained by waiting
        _load_library()

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
