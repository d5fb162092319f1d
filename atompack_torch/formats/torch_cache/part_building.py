"""Building of a feature cache by processes that know nothing of each other, as in job arrays."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from atompack_torch._core import CacheBuilder
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.errors import WriterLockedError
from atompack_torch.formats.torch_cache.build_identity import BuildOptions, Descriptor
from atompack_torch.formats.torch_cache.building import BuildJob, CachePart, unfinished_parts
from atompack_torch.formats.torch_cache.dataset import TorchCache
from atompack_torch.options import absolute_path, checked_part, is_url

_PATIENCE = 10.0  # seconds for which others may look at a part
_PAUSE = 0.2


def build_part(
    dataset: MoleculeDataset,
    descriptor: Descriptor,
    path: str | os.PathLike[str],
    part: tuple[int, int],
    options: BuildOptions,
) -> TorchCache | list[int]:
    """Builds one part of a cache; the process that completes the last one joins them.

    Parts are hidden files beside the path. They may be built in any order, at once and again: an
    interrupted part resumes, a complete one takes no time. Joining moves them into the new file,
    which equals one that was built by a single process and appears when it is complete; an
    interrupted join is resumed by any part that is built again.

    Args:
        dataset: all molecules of the cache.
        descriptor: as for ``build_cache``.
        path: path of the cache, on storage that all processes share.
        part: number of the part, from 0, and number of parts.
        options: options of ``build_cache``.

    Returns:
        The cache if it is complete; otherwise the numbers of the parts that are not.

    Raises:
        ValueError: there is no such part, or the path is a URL.
        WriterLockedError: another process is building this part.
        OSError: a file cannot be written.
    """
    number, n_parts = checked_part(part)
    if is_url(path):
        raise ValueError("part: expected a local path, got a URL: all parts build beside it")
    target = Path(absolute_path(path))
    if target.exists() and not unfinished_parts(target):
        return TorchCache(target)
    job = replace(BuildJob.of(dataset, descriptor, options), target=target)
    parts = [job.part(k, n_parts) for k in range(n_parts)]
    if not target.exists() and not _is_joined(job, parts[number]):
        with _opened(job, parts[number].path, options.resume) as builder:
            job.fill(builder, parts[number].entries, options.progress)
    missing = _join_if_complete(job, parts)
    return missing or TorchCache(target)


def _is_joined(job: BuildJob, part: CachePart) -> bool:
    """True if an interrupted join has moved the part into the new file already."""
    if not _is_there(job.target):
        return False
    try:
        with job.open(job.target, resume=True) as whole:
            return len(whole) >= part.entries.stop
    except WriterLockedError:
        return False


@contextmanager
def _opened(job: BuildJob, path: Path, resume: bool) -> Iterator[CacheBuilder]:
    """Opens a part; waits while others look whether it is complete."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        with ExitStack() as stack:
            try:
                builder = stack.enter_context(job.open(path, resume))
            except WriterLockedError:
                if time.monotonic() > deadline:
                    raise
            else:
                yield builder
                return
        time.sleep(_PAUSE)


def _join_if_complete(job: BuildJob, parts: list[CachePart]) -> list[int]:
    """Joins the parts if all are complete; returns the numbers of those that are not.

    Of processes that end at the same time, each waits until it has looked by itself, so that the
    last one sees all parts.
    """
    while not job.target.exists():
        try:
            with job.open(job.target, resume=True) as whole:
                missing = _missing(job, parts, len(whole))
                if not missing:
                    job.join(parts, whole, "build this part again")
                elif not len(whole):
                    whole.discard()
        except WriterLockedError:  # another process looks, or joins
            time.sleep(_PAUSE)
            continue
        except FileExistsError:  # it has just joined
            break
        if missing:
            return missing
    job.sweep()
    return []


def _missing(job: BuildJob, parts: list[CachePart], n_joined: int) -> list[int]:
    """Returns the numbers of the parts that are neither complete nor joined."""
    wanted = [k for k, part in enumerate(parts) if part.entries.stop > n_joined and part.entries]
    absent = [k for k in wanted if not _is_there(parts[k].path)]
    return absent or [k for k in wanted if not _is_complete(job, parts[k])]


def _is_there(path: Path) -> bool:
    """True if there is an unfinished build of a path."""
    return path.with_name(f".{path.name}.new").exists()


def _is_complete(job: BuildJob, part: CachePart) -> bool:
    try:
        with job.open(part.path, resume=True) as builder:
            return len(builder) == len(part.entries)
    except WriterLockedError:  # it is being built
        return False
