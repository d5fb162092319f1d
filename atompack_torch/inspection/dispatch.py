"""Functions for paths of any format, dispatched to the module of the format."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.formats import FORMATS, entry_name, recognize

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from atompack_torch.batch.molecule_batch import Molecule
    from atompack_torch.caches.verification import CacheVerification
    from atompack_torch.inspection.entry import Entry
    from atompack_torch.inspection.shards import ShardVerification
    from atompack_torch.inspection.stores import StoreVerification
    from atompack_torch.passes.statistics import Statistics
    from atompack_torch.passes.sweeping import Report
    from atompack_torch.passes.verification import Verification

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]


def open(path: Paths, **options: Any) -> Dataset[Any]:  # noqa: A001
    """Opens a path as a data set; the format is detected by content.

        ds = apt.open("train.atp", fields=["energy", "forces"])
        ds = apt.open("profiles.atlas", arrays=["temperature", "salinity"])

    Args:
        path: an ``.atp`` file, a list or a folder of them; a feature cache (HDF5); a folder of
            Atlas shards; an ATLAS store.
        **options: options of the class: ``AtpDataset``, ``TorchCacheDataset``, ``ShardDataset`` or
            ``AtlasDataset``, which requires ``arrays=``.

    Returns:
        An object of that class.

    Raises:
        FileNotFoundError: the path does not exist.
        UnsupportedFormatError: the format is not supported.
        TypeError: an option is unknown to the class, or a required one is absent.
    """
    paths = _listed(path)
    for one in paths:
        _check_known(one)
    entry = entry_of(paths)
    dataset: Dataset[Any] = entry.open_dataset(path, options)
    return dataset


def info(path: Paths, *, full: bool = False) -> dict[str, Any]:
    """Describes the data at a path: counts, types, use of space.

    Args:
        path: as for ``open``, or an array file; a list of ``.atp`` files counts as one data set.
        full: for ``.atp`` files: count labels in all records, however many there are, instead of
            in a sample of 10,000.

    Returns:
        Plain JSON values, as printed by ``atompack-torch info --json``; ``"errors"`` lists any
        damage.

    Raises:
        FileNotFoundError: the path does not exist.
        UnsupportedFormatError: the format is not supported.
    """
    paths = _listed(path)
    described = entry_of(paths).describe(paths, full, False)
    document = described.document
    if isinstance(document, list):
        document = document[0] if len(document) == 1 else {"stores": document}
    return {**document, "errors": list(described.errors)}


def head(path: Paths, n: int = 5) -> list[Molecule | Any]:
    """Reads the first items at a path.

    Args:
        path: as for ``info``.
        n: maximum number of items.

    Returns:
        ``Molecule`` objects of ``.atp`` files and feature caches, examples of Atlas shards; for
        ATLAS stores and array files dicts of ``dataset``, ``attributes`` and ``arrays``.

    Raises:
        FileNotFoundError: the path does not exist.
        CorruptFileError: an item is damaged.
        ValueError: ``n`` is negative.
    """
    if n < 0:
        raise ValueError(f"n: expected a number from 0, got {n}")
    paths = _listed(path)
    return list(entry_of(paths).head(paths, n, None).values)


def verify(
    path: Paths, *, max_faults: int = 100_000, progress: bool | Report = False
) -> Verification | CacheVerification | StoreVerification | ShardVerification:
    """Reads everything at a path with all checks.

    Headers, schema, index, every record, row, block and value are checked against the format, and
    all violations are listed. ``.atp`` records carry no checksums, so an altered number that is
    still a valid number cannot be detected. The rows of a feature cache are recomputed
    (``verify_cache`` has options for that).

    Args:
        path: as for ``info``.
        max_faults: list at most this many; the others are only counted.
        progress: show a bar, or a function called with the number of items done since the last
            call.

    Returns:
        An object with ``ok``, ``n_faults``, ``faults`` and ``as_dict()``; its other counts depend
        on the format.

    Raises:
        OSError: a file cannot be opened.
    """
    paths = _listed(path)
    found: Verification | CacheVerification | StoreVerification | ShardVerification
    found = entry_of(paths).verify(paths, max_faults, progress)  # type: ignore[assignment]
    return found


def statistics(
    path: Paths, *, progress: bool | Report = False, **options: Any
) -> Statistics | list[dict[str, Any]]:
    """Gathers statistics of the data at a path.

    Args:
        path: as for ``info``.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.
        **options: for molecules: ``cutoff``, and options of the data set (``fields``, ``missing``).

    Returns:
        For molecules ``Statistics``, as from ``dataset.statistics()``; for ATLAS stores and array
        files a dict per array, aggregated from the stored statistics.

    Raises:
        TypeError: the path holds Atlas shards, whose examples may be anything.
        CorruptFileError: a record is damaged.
        FieldError: no file has a requested label.
    """
    paths = _listed(path)
    found: Statistics | list[dict[str, Any]] = (
        entry_of(paths).statistics(paths, options, progress).value
    )
    return found


def _listed(path: Paths) -> list[str]:
    if isinstance(path, (str, os.PathLike)):
        return [os.fspath(path)]
    paths = [os.fspath(one) for one in path]
    if not paths:
        raise ValueError("path: expected at least one path, got an empty list")
    return paths


def entry_of(paths: Sequence[str]) -> Entry:
    """Returns the module of the format that all paths have.

    Raises:
        UnsupportedFormatError: the paths are of several formats.
    """
    names = dict.fromkeys(entry_name(path) for path in paths)
    if len(names) > 1:
        raise UnsupportedFormatError(f"{paths[0]} and others: expected one format, got several")
    entry: Entry = importlib.import_module(next(iter(names)))
    return entry


def _check_known(path: str) -> None:
    if Path(path).exists() and recognize(path) is None:
        sought = ", ".join(f"{known.title}" for known in FORMATS if known.entry)
        raise UnsupportedFormatError(f"{path}: expected {sought}; got none of them")
