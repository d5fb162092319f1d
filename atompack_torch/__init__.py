"""Collated PyTorch batches of atomistic data, straight from mapped files.

import atompack_torch as apt
from torch.utils.data import DataLoader

for batch in DataLoader(apt.AtpDataset("data.atp"), batch_size=64, shuffle=True):
    print(batch.positions.shape, batch.energy)

Open        open, from_structures; AtpDataset, ExtxyzDataset, AseLmdbDataset, TorchCacheDataset,
            ShardDataset, AtlasDataset, MixtureDataset, ResidentDataset; hub, ray
Options     Augment, ChebyshevDescriptor, Features, ForceSubset, NeighborList
Load        Loader; AtomBudgetBatchSampler, BlockShuffleSampler, BucketBatchSampler,
            DistributedMoleculeSampler, EqualSizeBatchSampler; collate, collate_identity
Batches     MoleculeBatch, Molecule; neighbor_list, contract_forces
Look        info, head, statistics, verify, report
Write       convert, split, compact, build_cache; AtpWriter, ShardWriter
Stores      AtlasStore, ArrayFile, BlockCache, TorchCache
Errors      AtompackError, CorruptFileError, FieldError, UnsafePickleError,
            UnsupportedFormatError, WriterLockedError

Trainers are modules of their own: atompack_torch.trainers.mace and others.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atompack_torch import hub as hub
    from atompack_torch import ray as ray
    from atompack_torch.batch.molecule_batch import Molecule, MoleculeBatch, collate
    from atompack_torch.conversion.opening import from_structures
    from atompack_torch.conversion.pipeline import convert
    from atompack_torch.conversion.selecting import split
    from atompack_torch.datasets.augment import Augment
    from atompack_torch.datasets.collated import collate_identity
    from atompack_torch.datasets.features import Features
    from atompack_torch.datasets.force_subset import ForceSubset
    from atompack_torch.datasets.mixture import MixtureDataset
    from atompack_torch.datasets.neighbors import NeighborList
    from atompack_torch.datasets.resident.dataset import ResidentDataset
    from atompack_torch.errors import (
        AtompackError,
        CorruptFileError,
        FieldError,
        UnsafePickleError,
        UnsupportedFormatError,
        WriterLockedError,
    )
    from atompack_torch.formats.aselmdb.dataset import AseLmdbDataset
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset
    from atompack_torch.formats.atlas_shards.writer import ShardWriter
    from atompack_torch.formats.atlas_store.array_file import ArrayFile
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore
    from atompack_torch.formats.atlas_store.block_cache import BlockCache
    from atompack_torch.formats.atlas_store.dataset import AtlasDataset
    from atompack_torch.formats.atp.dataset import AtpDataset
    from atompack_torch.formats.atp.writer import AtpWriter
    from atompack_torch.formats.dispatch import compact, head, info, statistics, verify
    from atompack_torch.formats.dispatch import open as open  # noqa: A004
    from atompack_torch.formats.extxyz.dataset import ExtxyzDataset
    from atompack_torch.formats.torch_cache.building import build_cache
    from atompack_torch.formats.torch_cache.dataset import TorchCache, TorchCacheDataset
    from atompack_torch.loading.loader import Loader
    from atompack_torch.loading.samplers import (
        AtomBudgetBatchSampler,
        BlockShuffleSampler,
        BucketBatchSampler,
        DistributedMoleculeSampler,
        EqualSizeBatchSampler,
    )
    from atompack_torch.ops.chebyshev import ChebyshevDescriptor
    from atompack_torch.ops.contraction import contract_forces
    from atompack_torch.ops.neighbors import neighbor_list
    from atompack_torch.reports.building import report

    __version__: str
else:
    # The library loads on first use of a name (PEP 562), so that the command line answers --help
    # without importing torch; immediately where torch is imported already. Name -> its module.
    _HOMES = {
        "ArrayFile": "formats.atlas_store.array_file",
        "AseLmdbDataset": "formats.aselmdb.dataset",
        "AtlasDataset": "formats.atlas_store.dataset",
        "AtlasStore": "formats.atlas_store.atlas_store",
        "Augment": "datasets.augment",
        "BlockCache": "formats.atlas_store.block_cache",
        "AtomBudgetBatchSampler": "loading.samplers",
        "AtompackError": "errors",
        "AtpDataset": "formats.atp.dataset",
        "AtpWriter": "formats.atp.writer",
        "BlockShuffleSampler": "loading.samplers",
        "BucketBatchSampler": "loading.samplers",
        "ChebyshevDescriptor": "ops.chebyshev",
        "CorruptFileError": "errors",
        "DistributedMoleculeSampler": "loading.samplers",
        "EqualSizeBatchSampler": "loading.samplers",
        "ExtxyzDataset": "formats.extxyz.dataset",
        "Features": "datasets.features",
        "FieldError": "errors",
        "ForceSubset": "datasets.force_subset",
        "Loader": "loading.loader",
        "MixtureDataset": "datasets.mixture",
        "Molecule": "batch.molecule_batch",
        "MoleculeBatch": "batch.molecule_batch",
        "NeighborList": "datasets.neighbors",
        "ResidentDataset": "datasets.resident.dataset",
        "ShardDataset": "formats.atlas_shards.dataset",
        "ShardWriter": "formats.atlas_shards.writer",
        "TorchCache": "formats.torch_cache.dataset",
        "TorchCacheDataset": "formats.torch_cache.dataset",
        "UnsafePickleError": "errors",
        "UnsupportedFormatError": "errors",
        "WriterLockedError": "errors",
        "build_cache": "formats.torch_cache.building",
        "collate": "batch.molecule_batch",
        "collate_identity": "datasets.collated",
        "compact": "formats.dispatch",
        "contract_forces": "ops.contraction",
        "convert": "conversion.pipeline",
        "from_structures": "conversion.opening",
        "head": "formats.dispatch",
        "info": "formats.dispatch",
        "neighbor_list": "ops.neighbors",
        "open": "formats.dispatch",
        "report": "reports.building",
        "split": "conversion.selecting",
        "statistics": "formats.dispatch",
        "verify": "formats.dispatch",
    }
    _MODULES = {"hub", "ray", *(home.split(".")[0] for home in _HOMES.values())}

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
        special = [name for name in globals() if name.startswith("__")]
        return sorted({*__all__, *special, "__version__", "open", "ray"})

    def _load_library() -> None:
        """All of it, not just the name asked for: a process may give up rights after its start."""
        importlib.import_module(f"{__name__}._core")  # first, because it checks the installed torch
        importlib.import_module(
            f"{__name__}.datasets.transport"
        )  # registers how batches cross processes
        importlib.import_module(f"{__name__}.hub")
        importlib.import_module(f"{__name__}.ray")
        for name, home in _HOMES.items():
            globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)

    if "torch" in sys.modules:  # nothing to be gained by waiting
        _load_library()

__all__ = [
    "ArrayFile",
    "AseLmdbDataset",
    "AtlasDataset",
    "AtlasStore",
    "AtomBudgetBatchSampler",
    "AtompackError",
    "AtpDataset",
    "AtpWriter",
    "Augment",
    "BlockCache",
    "BlockShuffleSampler",
    "BucketBatchSampler",
    "ChebyshevDescriptor",
    "CorruptFileError",
    "DistributedMoleculeSampler",
    "EqualSizeBatchSampler",
    "ExtxyzDataset",
    "Features",
    "FieldError",
    "ForceSubset",
    "Loader",
    "MixtureDataset",
    "Molecule",
    "MoleculeBatch",
    "NeighborList",
    "ResidentDataset",
    "ShardDataset",
    "ShardWriter",
    "TorchCache",
    "TorchCacheDataset",
    "UnsafePickleError",
    "UnsupportedFormatError",
    "WriterLockedError",
    "build_cache",
    "collate",
    "collate_identity",
    "compact",
    "contract_forces",
    "convert",
    "from_structures",
    "head",
    "hub",
    "info",
    "neighbor_list",
    "report",
    "split",
    "statistics",
    "verify",
]
