"""Rewriting of ``.atp`` files: without dead space, in another codec, order or selection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from atompack_torch._core import resolve_indices
from atompack_torch._native import (
    ZSTD_LEVELS,
    AtpReader,
    AtpSnapshot,
    AtpWriter,
    check_same_records,
)
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import FieldError, file_exists
from atompack_torch.formats.atp.files import snapshot_of
from atompack_torch.formats.atp.writer import Codec
from atompack_torch.formats.entry import Array, CompactOptions, pieces_of
from atompack_torch.options import CODECS, DEFAULT_LEVEL, check_choice, check_level, is_url
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.staging import StagedFile

_INSTEAD = "only the source itself is replaced: choose another path"
_RUN = 4096  # molecules between two progress reports


def compact(files: list[str], target: str, remote: RemoteFiles, options: CompactOptions) -> None:
    """Copies files to one new file; see ``atompack_torch.compact``.

    Args:
        files: absolute paths and URLs.
        target: path or URL of the new file.
        remote: access to URLs.
        options: codec, order and others.
    """
    check_choice("codec", options.codec, CODECS, optional=True)
    if not is_url(target):
        place = os.path.realpath(target)
        in_place = [_real(file) for file in files] == [place]
        if Path(place).exists() and not in_place:
            raise file_exists(target, _INSTEAD)
        return _compact(files, place, remote, options, in_place=in_place)
    mode: Literal["a", "x"] = "a" if files == [target] else "x"
    access: Any = remote  # taken like the options of a store
    staged = StagedFile(
        target,
        mode,
        access,
        instead=_INSTEAD,
        progress=options.progress is True,
        download=False,
    )
    try:
        _compact(files, str(staged.path), remote, options, in_place=False)
    except BaseException:
        staged.discard()
        raise
    staged.publish()


def _real(file: str) -> str:
    return file if is_url(file) else os.path.realpath(file)


def _compact(
    files: list[str], target: str, remote: RemoteFiles, options: CompactOptions, *, in_place: bool
) -> None:
    snapshots = [snapshot_of(file, remote) for file in files]
    codec, level = _codec_of(snapshots, options.codec, options.level)
    native = AtpWriter(target, "w", codec, level, options.num_threads or 0)  # locks the target
    try:
        if in_place:
            snapshots = [snapshot_of(file) for file in files]  # cannot change while locked
        sources = [
            _reader(file, snapshot, remote) for file, snapshot in zip(files, snapshots, strict=True)
        ]
        numbers = _checked_order(options.order, sum(snapshot.n_molecules for snapshot in snapshots))
        with reporting(options.progress, 2 * len(numbers), "compacting") as report:
            _copy(native, sources, numbers, report)
        native.close()
    except BaseException:
        if native.is_open:
            native.discard()
        raise


def _reader(file: str, snapshot: AtpSnapshot, remote: RemoteFiles) -> AtpReader:
    return AtpReader(remote.location(file), snapshot, "read", False)


def _codec_of(
    snapshots: list[AtpSnapshot], codec: Codec | None, level: int | None
) -> tuple[str, int]:
    found = {(snapshot.codec, snapshot.level) for snapshot in snapshots}
    names = {name for name, _ in found}
    if codec is None and len(names) > 1:
        raise FieldError("codec: the sources differ in it, so one has to be named")
    codec_name = codec or names.pop()
    if level is not None:
        check_level(codec_name, level)
        return codec_name, level
    first = snapshots[0].level
    its_level = first if found == {(codec_name, first)} else DEFAULT_LEVEL
    low, high = ZSTD_LEVELS  # another writer may have put any number into the header
    return codec_name, min(max(its_level, low), high)


def _checked_order(order: Any, n_molecules: int) -> Array:
    if order is None:
        return np.arange(n_molecules, dtype=np.int64)
    given = np.asarray(order)
    if given.dtype.kind not in "iu" and given.size:
        raise TypeError(f"order: expected integers, got {given.dtype}")
    flat = given.reshape(-1) if given.size else np.empty(0, np.int64)
    try:
        numbers: Array = resolve_indices(flat, n_molecules, None, "molecule").numpy()
    except IndexError as error:
        raise IndexError(f"order: {error}") from None
    return numbers


def _copy(native: AtpWriter, sources: list[AtpReader], numbers: Array, report: OnProgress) -> None:
    sizes = [len(source) for source in sources]
    for _, source, indices in pieces_of(sizes, numbers, _RUN):
        native.copy(sources[source], indices)
        report(len(indices))
    native.commit(publish=False)
    path = native.present_path
    copied = AtpReader(path, AtpSnapshot.take(path), "read", False)
    for done, source, indices in pieces_of(sizes, numbers, _RUN):
        check_same_records(sources[source], indices, copied, done)
        report(len(indices))
