"""The one door to the native extension: everything else imports it from here."""

from __future__ import annotations

import sys
from pathlib import Path

_REBUILD = (
    "build it again from its source folder (`make setup`, or `pip install --no-build-isolation "
    "--no-deps --force-reinstall .` there)"
)


def _built_for() -> str:
    """The torch that the extension was compiled for."""
    try:
        from atompack_torch._build_info import TORCH_VERSION
    except ModuleNotFoundError:
        raise ImportError(_not_built()) from None
    return TORCH_VERSION


def _check_torch_version() -> None:
    # A C++ extension only fits the torch it was compiled for; without this check, the loader
    # would report an undefined symbol that says nothing to the reader.
    built_for = _built_for().split("+")[0]
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"atompack_torch needs torch {built_for}, and no torch is installed: "
            f"`pip install torch=={built_for}`"
        ) from None
    if torch.__version__.split("+")[0] != built_for:
        raise ImportError(
            f"atompack_torch was built for torch {built_for} but torch {torch.__version__} is "
            f"installed: `pip install torch=={built_for}`, or {_REBUILD}"
        )


def _not_built() -> str:
    """The message for a package folder without an extension for this Python."""
    folder = Path(__file__).parent
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    others = sorted(file.name for file in folder.glob("_C.*.so"))
    found = f"found {', '.join(others)}, expected one for {python}" if others else "found none"
    return (
        f"{folder}: the native extension _C of atompack_torch is missing here ({found}): {_REBUILD}"
        "; if it is installed elsewhere, run Python outside of the source folder, which hides it"
    )


def _not_loadable(error: ImportError) -> str:
    """The message for an extension that the dynamic linker or Python refuses."""
    return (
        f"atompack_torch: its native extension, built for torch {_built_for()}, cannot be loaded "
        f"({error}): if a library is missing, install it (libhdf5, libzstd, liblz4, "
        f"zlib, libcrypto; libtorch and libgomp come with torch); else {_REBUILD}"
    )


_check_torch_version()

try:
    from atompack_torch._C import (
        LZ4_LEVELS,
        ZSTD_LEVELS,
        ArrayFileReader,
        ArrayFileVerification,
        ArrayFileWriter,
        AtlasReader,
        AtlasVerification,
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
        NanIsMissingSource,
        Prefetcher,
        ShardFileWriter,
        ShardReader,
        StatisticsPass,
        TorchCacheReader,
        TorchCacheSource,
        Verifier,
        allocate_arena,
        attach_ring,
        check_regular_file,
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
        resolve_index,
        resolve_indices,
        ring_to_attach,
        send_arena,
        survey_extxyz,
        view_arena,
        work_alone,
    )
except ModuleNotFoundError as error:
    if error.name != "atompack_torch._C":
        raise
    raise ImportError(_not_built()) from None
except ImportError as error:
    raise ImportError(_not_loadable(error)) from None

__all__ = [
    "LZ4_LEVELS",
    "ZSTD_LEVELS",
    "ArrayFileReader",
    "ArrayFileVerification",
    "ArrayFileWriter",
    "AtlasReader",
    "AtlasVerification",
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
    "NanIsMissingSource",
    "Prefetcher",
    "ShardFileWriter",
    "ShardReader",
    "StatisticsPass",
    "TorchCacheReader",
    "TorchCacheSource",
    "Verifier",
    "allocate_arena",
    "attach_ring",
    "check_regular_file",
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
    "resolve_index",
    "resolve_indices",
    "ring_to_attach",
    "send_arena",
    "survey_extxyz",
    "view_arena",
    "work_alone",
]
