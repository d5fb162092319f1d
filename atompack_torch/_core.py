"""The one door to the native extension: everything else imports it from here."""

import torch

from atompack_torch._build_info import TORCH_VERSION


def _check_torch_version() -> None:
    # A C++ extension only fits the torch it was compiled for; without this check, the loader
    # would report an undefined symbol that says nothing to the reader.
    if torch.__version__.split("+")[0] != TORCH_VERSION.split("+")[0]:
        raise ImportError(
            f"atompack_torch was built for torch {TORCH_VERSION} but torch {torch.__version__} is "
            "installed: build it again with `pip install --no-build-isolation`"
        )


_check_torch_version()

from atompack_torch._C import (  # noqa: E402  (only after the check)
    ArrayFileReader,
    ArrayFileWriter,
    AtlasReader,
    AtlasWriter,
    AtpReader,
    AtpSnapshot,
    AtpSpaceUse,
    AtpWriter,
    CacheBuilder,
    CacheHeader,
    Collator,
    ColumnPrefetcher,
    ColumnScanner,
    ConcatSource,
    EncodedEntries,
    ExampleCollator,
    ExamplePrefetcher,
    ExtxyzReader,
    Featurizer,
    FieldTable,
    ForceSubsetSource,
    JoinedSource,
    MixtureSource,
    MoleculeSource,
    Prefetcher,
    ShardFileWriter,
    ShardReader,
    StatisticsPass,
    TorchCacheReader,
    TorchCacheSource,
    Verifier,
    allocate_arena,
    attach_ring,
    check_same_records,
    contract,
    contract_transposed,
    describe_slots,
    element_symbols,
    encode_cache_entries,
    format_extxyz,
    parallel_thread_ids,
    read_array_statistics,
    read_atom_counts,
    receive_arena,
    ring_to_attach,
    send_arena,
    survey_extxyz,
    view_arena,
    work_alone,
    zstd_levels,
)

__all__ = [
    "ArrayFileReader",
    "ArrayFileWriter",
    "AtlasReader",
    "AtlasWriter",
    "AtpReader",
    "AtpSnapshot",
    "AtpSpaceUse",
    "AtpWriter",
    "CacheBuilder",
    "CacheHeader",
    "Collator",
    "ColumnPrefetcher",
    "ColumnScanner",
    "ConcatSource",
    "EncodedEntries",
    "ExampleCollator",
    "ExamplePrefetcher",
    "ExtxyzReader",
    "Featurizer",
    "FieldTable",
    "ForceSubsetSource",
    "JoinedSource",
    "MixtureSource",
    "MoleculeSource",
    "Prefetcher",
    "ShardFileWriter",
    "ShardReader",
    "StatisticsPass",
    "TorchCacheReader",
    "TorchCacheSource",
    "Verifier",
    "allocate_arena",
    "attach_ring",
    "check_same_records",
    "contract",
    "contract_transposed",
    "describe_slots",
    "element_symbols",
    "encode_cache_entries",
    "format_extxyz",
    "parallel_thread_ids",
    "read_array_statistics",
    "read_atom_counts",
    "receive_arena",
    "ring_to_attach",
    "send_arena",
    "survey_extxyz",
    "view_arena",
    "work_alone",
    "zstd_levels",
]
