"""Functions for a path of any format: the module of its format answers."""

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

    from atompack_torch.batch.molecule import Molecule
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
    """Opens whatever is at a path as a data set, told by its content.

        ds = apt.open("train.atp", fields=["energy", "forces"])
        ds = apt.open("profiles.atlas", arrays=["temperature", "salinity"])

    Args:
        path: an ``.atp`` file, a list or a folder of them; a feature cache (HDF5); a folder of
            Atlas shards; an ATLAS store.
        **options: those of the class: ``AtpDataset``, ``TorchCacheDataset``, ``ShardDataset`` or
            ``AtlasDataset``, which needs ``arrays=``.

    Returns:
        An object of that class.

    Raises:
        FileNotFoundError: there is nothing at the path.
        UnsupportedFormatError: what is there is of no format that is opened here.
        TypeError: an option that the class does not have, or lacks.
    """
    paths = _listed(path)
    for one in paths:
        _check_known(one)
    entry = entry_of(paths)
    dataset: Dataset[Any] = entry.open_dataset(path, options)
    return dataset


def info(path: Paths, *, full: bool = False) -> dict[str, Any]:
    """Describes what is at a path: counts, types, use of space.

    Args:
        path: as for ``open``, and an array file; a list of ``.atp`` files counts as one data set.
        full: of ``.atp`` files: count labels in all records, however many there are, instead of
            in a sample of 10,000.

    Returns:
        Plain JSON values, as ``atompack-torch info --json`` prints them; ``"errors"`` lists what
        is damaged.

    Raises:
        FileNotFoundError: there is nothing at the path.
        UnsupportedFormatError: what is there is of no format that is described here.
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
        n: how many; fewer where there are not as many.

    Returns:
        ``Molecule`` objects of ``.atp`` files and feature caches, examples of Atlas shards; of
        ATLAS stores and array files dicts of ``dataset``, ``attributes`` and ``arrays``.

    Raises:
        FileNotFoundError: there is nothing at the path.
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

    Headers, schema, index, every record, row, block and value are held against the format; all
    that does not fit is listed. ``.atp`` records carry no checksums, so a changed number that is
    still a number cannot be found. The rows of a feature cache are computed again
    (``verify_cache`` has options for that).

    Args:
        path: as for ``info``.
        max_faults: list at most this many; the others are only counted.
        progress: show a bar, or a function that is told how many more items are done.

    Returns:
        An object with ``ok``, ``n_faults``, ``faults`` and ``as_dict()``; which counts it has
        besides depends on the format.

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
    """Gathers statistics of what is at a path.

    Args:
        path: as for ``info``.
        progress: show a bar, or a function that is told how many more molecules are done.
        **options: of molecules: ``cutoff``, and options of the data set (``fields``, ``missing``).

    Returns:
        ``Statistics`` of molecules, as ``dataset.statistics()`` gives them; of ATLAS stores and
        array files a dict an array, summed up from what is stored.

    Raises:
        TypeError: Atlas shards, whose examples may be anything.
        CorruptFileError: a record is damaged.
        FieldError: a label that no file has.
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
    """The module that answers for the format of all paths.

    Raises:
        UnsupportedFormatError: paths of several formats.
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
