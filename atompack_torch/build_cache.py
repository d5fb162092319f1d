"""Feature caches made before training."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from atompack_torch._core import (
    CacheBuilder,
    CacheHeader,
    EncodedEntries,
    encode_cache_entries,
    work_alone,
)
from atompack_torch.batch import MoleculeBatch
from atompack_torch.datasets._base import MoleculeDataset
from atompack_torch.datasets.torch_cache import TorchCache
from atompack_torch.elements import SYMBOLS
from atompack_torch.errors import FieldError
from atompack_torch.fields import DERIVATIVES
from atompack_torch.sweeping import Report, reporting

# About so many atoms are computed at once by each thread: enough work for a call, little memory.
_ATOMS_AT_ONCE = 1024
_MOLECULES_AT_ONCE = 256


class Descriptor(Protocol):
    """What may stand in for ``ChebyshevDescriptor``.

    ``compat`` is what two descriptors must share for their features to be the same; ``compute``
    adds ``features`` and, if asked, the derivative fields to a batch.
    """

    @property
    def compat(self) -> dict[str, Any]: ...

    def compute(self, batch: MoleculeBatch, derivatives: bool = False) -> MoleculeBatch: ...


def build_cache(
    dataset: MoleculeDataset,
    descriptor: Descriptor,
    path: str | os.PathLike[str],
    *,
    features: bool = True,
    force_derivatives: bool = False,
    dtype: Literal["float32", "float64"] = "float64",
    num_threads: int | None = None,
    progress: bool | Report = True,
    resume: bool = True,
) -> TorchCache:
    """Computes features of all molecules and writes them to an HDF5 file that aenet-python reads.

    Molecules come in order, in bounded memory, computed by several threads. Every entry gets a row
    of features, those with forces a row of derivatives; an absent energy is NaN. The file appears
    under its name when it is whole. A build that was stopped, by whatever, leaves two hidden files
    beside it and goes on from there when it is called again for the same molecules, descriptor and
    options.

    Where ``torch.distributed`` is initialised, all ranks must call this: each computes a part, and
    rank 0 joins them.

    Args:
        dataset: what is cached; entry i of the file is ``dataset[i]``.
        descriptor: a ``ChebyshevDescriptor``, or an object with ``compat`` and ``compute``.
        path: of the new file.
        features: store features.
        force_derivatives: store local derivatives too.
        dtype: of what is stored.
        num_threads: how many molecules' chunks are computed at once; None: one for each core.
        progress: show a bar, or a function that is told how many more molecules are done.
        resume: False: what an earlier build has left is thrown away.

    Returns:
        The new cache, open.

    Raises:
        FileExistsError: something stands at the path.
        WriterLockedError: another process builds this file.
        FieldError: nothing to store was asked for, or an element that the descriptor does not know.
    """
    if not (features or force_derivatives):
        raise FieldError("build_cache: expected features, force_derivatives or both, got neither")
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype: expected 'float32' or 'float64', got {dtype!r}")
    target = Path(path).absolute()
    if target.exists():
        raise FileExistsError(17, os.strerror(17), str(target))
    header = _header(descriptor, features, force_derivatives, dtype)
    header.source_id, header.source_kind = _source_of(dataset)
    job = _Job(dataset, descriptor, header, _fingerprint(dataset, header), target)
    threads = num_threads or len(os.sched_getaffinity(0))
    job.run(threads, progress, resume)
    return TorchCache(target)


@dataclass
class _Job:
    dataset: MoleculeDataset
    descriptor: Descriptor
    header: CacheHeader
    fingerprint: str
    target: Path

    def run(self, threads: int, progress: bool | Report, resume: bool) -> None:
        rank, world = _rank_and_world()
        borders = [len(self.dataset) * r // world for r in range(world + 1)]
        builder = self._builder(self._part_path(rank, world), resume)
        first = borders[rank] + len(builder)
        quiet = progress if rank == 0 else False
        with reporting(quiet, borders[rank + 1] - borders[rank], "build_cache") as report:
            if report is not None:
                report(len(builder))
            for entries, n in self._encoded(first, borders[rank + 1], threads):
                builder.append(entries)
                if report is not None:
                    report(n)
        if world == 1:
            return builder.finish()
        builder.checkpoint()
        del builder  # its lock, so that rank 0 may take it
        self._join(rank, world)

    def _builder(self, path: Path, resume: bool) -> CacheBuilder:
        builder = CacheBuilder(path, self.header, self.fingerprint)
        if resume or len(builder) == 0:
            return builder
        builder.discard()
        del builder
        return CacheBuilder(path, self.header, self.fingerprint)

    def _part_path(self, rank: int, world: int) -> Path:
        name = self.target.name if world == 1 else f"{self.target.name}.part{rank}of{world}"
        return self.target.with_name(name)

    def _join(self, rank: int, world: int) -> None:
        torch.distributed.barrier()
        if rank == 0:
            whole = self._builder(self.target, resume=False)
            for part in range(world):
                whole.absorb(self._part_path(part, world), self.fingerprint)
            whole.finish()
        torch.distributed.barrier()

    def _encoded(self, first: int, last: int, threads: int) -> Iterator[tuple[EncodedEntries, int]]:
        """Entries in order; at most two chunks a thread are on their way."""
        chunks = iter(_chunks(self.dataset.n_atoms[first:last], first))
        waiting: deque[tuple[Future[EncodedEntries], int]] = deque()
        with ThreadPoolExecutor(threads, initializer=work_alone) as pool:
            try:
                while True:
                    while len(waiting) < 2 * threads and (chunk := next(chunks, None)):
                        waiting.append((pool.submit(self._encode, chunk), len(chunk)))
                    if not waiting:
                        return
                    future, n = waiting.popleft()
                    yield future.result(), n
            finally:
                for future, _ in waiting:
                    future.cancel()

    def _encode(self, chunk: range) -> EncodedEntries:
        batch = self.dataset.batch(chunk)
        made = self.descriptor.compute(batch, derivatives=self.header.force_derivatives)
        return encode(made, self.header)


def encode(batch: MoleculeBatch, header: CacheHeader) -> EncodedEntries:
    """Entries of a batch that holds what the header promises."""
    columns: dict[str, Tensor | None] = {
        "ptr": batch.ptr,
        "positions": batch.positions.double().contiguous(),
        "atomic_numbers": batch.atomic_numbers,
    }
    for name, dtype in _LABELS.items():
        if name in batch:
            columns[name] = batch[name].to(dtype).contiguous()
            columns[f"{name}_mask"] = batch.mask(name).contiguous()
    if header.features:
        columns["features"] = batch.features.contiguous()
    if header.force_derivatives:
        columns |= {name: batch[name].contiguous() for name in DERIVATIVES if name in batch}
        columns["edge_ptr"] = batch._first_rows("radial_center_idx")
        columns["triplet_ptr"] = batch._first_rows("angular_center_idx")
    names = list(batch["name"]) if "name" in batch else []
    return encode_cache_entries(columns, names, list(SYMBOLS), header)


_LABELS = {
    "energy": torch.float64,
    "forces": torch.float64,
    "cell": torch.float64,
    "pbc": torch.bool,
}


def _chunks(n_atoms: Tensor, first: int) -> Iterator[range]:
    """Runs of molecules of about ``_ATOMS_AT_ONCE`` atoms, one molecule at least."""
    ends = n_atoms.cumsum(0)
    begin = 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = int(torch.searchsorted(ends, before + _ATOMS_AT_ONCE, right=True))
        end = min(max(end, begin + 1), begin + _MOLECULES_AT_ONCE)
        yield range(first + begin, first + end)
        begin = end


def _header(
    descriptor: Descriptor, features: bool, force_derivatives: bool, dtype: str
) -> CacheHeader:
    compat = descriptor.compat
    header = CacheHeader()
    header.features, header.force_derivatives = features, force_derivatives
    header.storage_dtype = dtype
    header.n_radial, header.n_angular = compat["rad_order"] + 1, compat["ang_order"] + 1
    header.multi = compat["multi"]
    header.n_features = (header.n_radial + header.n_angular) * (2 if header.multi else 1)
    header.compat_json = canonical_json(compat)
    header.compat_sha256 = _sha256(header.compat_json)
    config = {
        **{key: compat[key] for key in _CONFIG},
        "device": "cpu",
        "dtype": dtype,
        "n_features": header.n_features,
    }
    config_json = canonical_json(config)
    header.set_manifest(compat["descriptor_class"], config_json, _sha256(config_json))
    return header


_CONFIG = ("ang_cutoff", "ang_order", "min_cutoff", "rad_cutoff", "rad_order", "species")


def canonical_json(value: dict[str, Any]) -> str:
    """As cache files hold settings: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _source_of(dataset: MoleculeDataset) -> tuple[str, str]:
    """Where the molecules are from, for the reader of the file's table of entries."""
    path = dataset._path
    return (str(path) if isinstance(path, (str, os.PathLike)) else ""), "file"


def _fingerprint(dataset: MoleculeDataset, header: CacheHeader) -> str:
    """What is built, from what: the same only if the work of an earlier build is of use."""
    facts = {
        "compat": header.compat_json,
        "features": header.features,
        "force_derivatives": header.force_derivatives,
        "dtype": header.storage_dtype,
        "source": dataset._identity(),
        "force_fraction": dataset._forces and [*dataset._forces, dataset._epoch],
        "n_atoms": hashlib.sha256(np.asarray(dataset.n_atoms).tobytes()).hexdigest(),
        "selection": None
        if dataset._selection is None
        else hashlib.sha256(np.asarray(dataset._selection).tobytes()).hexdigest(),
    }
    return canonical_json(facts)


def _rank_and_world() -> tuple[int, int]:
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
