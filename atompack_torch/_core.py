"""The one door to the native extension: everything else imports it from here."""

import torch

from atompack_torch._build_info import TORCH_VERSION


def _check_torch_version() -> None:
    # A C++ extension only fits the torch it was compiled for; without this check, the loader
    # would report an undefined symbol that says nothing to the reader.
    running, built = torch.__version__.split("+")[0], TORCH_VERSION.split("+")[0]
    if running != built:
        raise ImportError(
            f"atompack_torch was built for torch {built} but torch {running} is installed: "
            f"rebuild it with `pip install --no-build-isolation --force-reinstall atompack_torch` "
            f"or install torch {built}"
        )


_check_torch_version()

from atompack_torch._C import (  # noqa: E402  (only after the check)
    AtpReader,
    AtpSnapshot,
    Collator,
    ConcatSource,
    FieldTable,
    MoleculeSource,
    allocate_arena,
    parallel_thread_ids,
    read_atom_counts,
    view_arena,
)

__all__ = [
    "AtpReader",
    "AtpSnapshot",
    "Collator",
    "ConcatSource",
    "FieldTable",
    "MoleculeSource",
    "allocate_arena",
    "parallel_thread_ids",
    "read_atom_counts",
    "view_arena",
]
