"""Conversion of legacy feature caches to the current version."""

from __future__ import annotations

import json
import os
from typing import Literal

import torch

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.sweeping import OnProgress
from atompack_torch.errors import CorruptFileError, FieldError, UnsupportedFormatError
from atompack_torch.fields import DERIVATIVES
from atompack_torch.formats.torch_cache.building import build_cache
from atompack_torch.formats.torch_cache.dataset import TorchCache, TorchCacheDataset
from atompack_torch.formats.torch_cache.file import descriptor_in
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.options import check_threads


def upgrade_cache(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    features: bool = False,
    num_threads: int | None = None,
    progress: bool | OnProgress = True,
    resume: bool = True,
) -> TorchCache:
    """Copies the entries of a legacy file (version 1) to a new one (schema 2).

    Positions, species, labels, names and derivatives are copied bit for bit, and the new file gets
    a descriptor manifest. A cell without periodicity flags gets the ones it implies: all true.
    Other strings of an entry (display_name, source_id, source_kind), its frame_idx, and the
    settings of the energy filter are not carried over.

    Args:
        source: the legacy file.
        target: the new file.
        features: also compute features, with the descriptor named in the old file.
        num_threads: number of threads, as in ``build_cache``.
        progress: as in ``build_cache``.
        resume: as in ``build_cache``.

    Returns:
        The new cache, open.

    Raises:
        UnsupportedFormatError: the source is not of version 1, or names a different descriptor.
        FieldError: an entry has forces but no derivatives, or the reverse, which schema 2 cannot
            express.
        CorruptFileError, OSError: the source is damaged; a file cannot be read or written.
        FileExistsError: the target exists.
        TypeError, ValueError: an option does not have one of its values.
    """
    check_threads(num_threads)
    cache = TorchCache(source)
    if not cache._reader().is_legacy:
        raise UnsupportedFormatError(
            f"{cache.path}: expected a legacy cache (/force_derivatives, version 1), got "
            + (f"schema {found}" if (found := cache.info.get("schema_version")) else "no cache")
        )
    stored = _StoredRows(cache, features)
    return build_cache(
        TorchCacheDataset(cache),
        stored,
        target,
        features=features,
        force_derivatives=True,
        dtype=stored.dtype,
        num_threads=num_threads,
        progress=progress,
        resume=resume,
    )


class _StoredRows:
    """Descriptor of a build whose derivatives are already in the batch."""

    def __init__(self, cache: TorchCache, features: bool) -> None:
        self._path = str(cache.path)
        descriptor = _rebuilt(cache)
        schema = TorchCacheDataset(cache).schema
        double = any(schema[name].dtype == torch.float64 for name in DERIVATIVES if name in schema)
        self.dtype: Literal["float32", "float64"] = "float64" if double else "float32"
        self.compat = descriptor.compat
        self._features = None
        if features:
            self._features = descriptor.with_dtype(self.dtype)

    def compute(self, batch: MoleculeBatch, derivatives: bool = False) -> MoleculeBatch:
        """Returns the batch, with features if requested."""
        rows, forces = batch.mask("radial_dG_drij"), batch.mask("forces")
        for i in torch.nonzero(rows != forces).flatten().tolist():
            words = ("none", "a row")
            raise FieldError(
                f"{self._path}: force_derivatives: expected {words[int(forces[i])]} for an entry "
                f"{'with' if forces[i] else 'without'} forces, got {words[int(rows[i])]} "
                f"(molecule {int(batch.index[i])}, field 'force_derivatives')"
            )
        return batch if self._features is None else self._features.compute(batch)


def _rebuilt(cache: TorchCache) -> ChebyshevDescriptor:
    """Rebuilds the descriptor named in the derivatives' group; a manifest may name another."""
    text = str(cache.info["descriptor_compat_json"])
    descriptor = descriptor_in(text, "float64", cache.path)
    if descriptor.compat != json.loads(text):
        raise UnsupportedFormatError(
            f"{cache.path}: descriptor_compat_json: expected {descriptor.compat_json}, "
            f"got {text[:400]}"
        )
    reader = cache._reader()
    got = (reader.n_radial, reader.n_angular)
    if got != (descriptor.n_radial, descriptor.n_angular):
        raise CorruptFileError(
            f"{cache.path}: force_derivatives: expected {descriptor.n_radial} radial and "
            f"{descriptor.n_angular} angular functions as its descriptor has, "
            f"got {got[0]} and {got[1]}"
        )
    return descriptor
