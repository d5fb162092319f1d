"""The one door to the native extension: everything else imports it from here."""

import ctypes
from importlib.util import find_spec
from pathlib import Path

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


def _load_vesin() -> None:
    # As torch's libraries are by now: found wherever Python finds it, not only beside this package.
    found = find_spec("vesin")
    if found is None or not found.submodule_search_locations:
        raise ImportError("atompack_torch needs vesin: `pip install vesin`")
    ctypes.CDLL(str(Path(found.submodule_search_locations[0]) / "lib" / "libvesin.so"))


_check_torch_version()
_load_vesin()

from atompack_torch._C import (  # noqa: E402  (only after the check)
    AtpReader,
    AtpSnapshot,
    AtpSpaceUse,
    AtpWriter,
    CacheBuilder,
    CacheHeader,
    Collator,
    ConcatSource,
    EncodedEntries,
    ExtxyzReader,
    Featurizer,
    FieldTable,
    JoinedSource,
    MixtureSource,
    MoleculeSource,
    Prefetcher,
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
    read_atom_counts,
    receive_arena,
    ring_to_attach,
    send_arena,
    survey_extxyz,
    view_arena,
    work_alone,
)

__all__ = [
    "AtpReader",
    "AtpSnapshot",
    "AtpSpaceUse",
    "AtpWriter",
    "CacheBuilder",
    "CacheHeader",
    "Collator",
    "ConcatSource",
    "EncodedEntries",
    "ExtxyzReader",
    "Featurizer",
    "FieldTable",
    "JoinedSource",
    "MixtureSource",
    "MoleculeSource",
    "Prefetcher",
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
    "read_atom_counts",
    "receive_arena",
    "ring_to_attach",
    "send_arena",
    "survey_extxyz",
    "view_arena",
    "work_alone",
]
