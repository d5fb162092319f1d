"""Sole importer of the native extension without torch, which reads and writes files."""

from __future__ import annotations

import sys
from pathlib import Path

REBUILD = (
    "build it again from its source folder (`make setup`, or `pip install --no-build-isolation "
    "--no-deps --force-reinstall .` there)"
)


def not_built(name: str) -> str:
    """Returns the message for a package folder that lacks a native extension for this Python."""
    folder = Path(__file__).parent
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    others = sorted(file.name for file in folder.glob(f"{name}.*.so"))
    found = f"found {', '.join(others)}, expected one for {python}" if others else "found none"
    return (
        f"{folder}: the native extension {name} of atompack_torch is missing here ({found}): "
        f"{REBUILD}; if it is installed elsewhere, run Python outside of the source folder, which "
        "hides it"
    )


def built_for() -> str:
    """Returns the torch version that the extensions were compiled for.

    Returns:
        The version, such as ``2.13.0``.

    Raises:
        ImportError: the extensions are not built.
    """
    try:
        from atompack_torch._build_info import TORCH_VERSION
    except ModuleNotFoundError:
        raise ImportError(not_built("_C")) from None
    return TORCH_VERSION


def not_loadable(error: ImportError) -> str:
    """Returns the message for an extension that the dynamic linker or Python cannot load."""
    return (
        f"atompack_torch: its native extension, built for torch {built_for()}, cannot be loaded "
        f"({error}): if a library is missing, install it (libhdf5, libzstd, liblz4, "
        f"zlib, libcrypto, liburing; libtorch and libgomp come with torch); else {REBUILD}"
    )


try:
    from atompack_torch._formats import (
        BUILTIN_FIELDS,
        DERIVATIVE_FIELDS,
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
        BatchRequest,
        BlockCache,
        ConcatSource,
        ExtxyzRemarks,
        ExtxyzScanner,
        ExtxyzSource,
        FieldMap,
        FileStore,
        ForceSubsetSource,
        JoinedSource,
        LmdbFile,
        LmdbRowBlockSource,
        LmdbRowReader,
        LmdbRowScanner,
        LmdbRowSource,
        MemoryStore,
        MixtureSource,
        MoleculeSource,
        NanIsMissingSource,
        ParsedIndex,
        RenamedSource,
        ShardReader,
        StatisticsPass,
        TorchCacheReader,
        TorchCacheSource,
        Verifier,
        array_layer_digest,
        block_cache_usage,
        check_regular_file,
        check_same_records,
        decode_flush_record,
        describe_slots,
        direct_reads,
        element_symbols,
        encode_flush_record,
        exchange_names,
        file_version,
        fingerprint_of_metadata,
        format_extxyz,
        is_uring_available,
        read_array_statistics,
        read_atom_counts,
        stamp_metadata,
    )
except ModuleNotFoundError as error:
    if error.name != "atompack_torch._formats":
        raise
    raise ImportError(not_built("_formats")) from None
except ImportError as error:
    raise ImportError(not_loadable(error)) from None

__all__ = [
    "BUILTIN_FIELDS",
    "DERIVATIVE_FIELDS",
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
    "BatchRequest",
    "BlockCache",
    "ConcatSource",
    "ExtxyzRemarks",
    "ExtxyzScanner",
    "ExtxyzSource",
    "FieldMap",
    "FileStore",
    "ForceSubsetSource",
    "JoinedSource",
    "LmdbFile",
    "LmdbRowBlockSource",
    "LmdbRowReader",
    "LmdbRowScanner",
    "LmdbRowSource",
    "MemoryStore",
    "MixtureSource",
    "MoleculeSource",
    "NanIsMissingSource",
    "ParsedIndex",
    "RenamedSource",
    "ShardReader",
    "StatisticsPass",
    "TorchCacheReader",
    "TorchCacheSource",
    "Verifier",
    "array_layer_digest",
    "block_cache_usage",
    "check_regular_file",
    "check_same_records",
    "decode_flush_record",
    "describe_slots",
    "direct_reads",
    "element_symbols",
    "encode_flush_record",
    "exchange_names",
    "file_version",
    "fingerprint_of_metadata",
    "format_extxyz",
    "is_uring_available",
    "read_array_statistics",
    "read_atom_counts",
    "stamp_metadata",
]
