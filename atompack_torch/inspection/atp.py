"""Description of ``.atp`` files: molecules, labels, codec, commits, use of space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from atompack_torch._native import (
    AtpReader,
    AtpSpaceUse,
    BatchRequest,
    ConcatSource,
    MoleculeSource,
    NanIsMissingSource,
    StatisticsPass,
    describe_slots,
)
from atompack_torch.errors import AtompackError
from atompack_torch.fields import RESERVED, FieldId, public_names
from atompack_torch.passes.atp_files import files_of, snapshot_of
from atompack_torch.passes.sweeping import Report, available_threads, reporting, steps

_SAMPLE = 10_000  # molecules whose records are read, unless all are asked for
_SUMMED = (
    "n_molecules",
    "n_atoms",
    "file_bytes",
    "record_bytes",
    "uncompressed_bytes",
    "schema_bytes",
    "index_bytes",
    "dead_bytes",
    "tail_bytes",
)


class Labels(NamedTuple):
    """Counts of molecules by label.

    Attributes:
        molecules: label → those of the molecules looked at that have it.
        nan: label → those of them whose label is NaN throughout; labels without any are left out.
        n_looked_at: molecules whose records were read.
        exact: these are all; else a sample.
    """

    molecules: dict[str, int]
    nan: dict[str, int]
    n_looked_at: int
    exact: bool


def describe(
    paths: Sequence[str], *, full: bool = False, progress: bool | Report = False
) -> tuple[dict[str, Any], list[str]]:
    """Describes files, or folders of them, as one data set.

    Args:
        paths: files and folders.
        full: count labels in all records, however many there are.
        progress: show a bar, or a function that is told how many more molecules are done.

    Returns:
        Sums over all files, ``schema``, ``labels`` and ``files``; and the messages about what is
        damaged.
    """
    files = [describe_file(file) for path in paths for file in files_of(path)]
    sound = [file["path"] for file in files if "error" not in file]
    errors = [file["error"] for file in files if "error" in file]
    schema: dict[str, Any] = {}
    labels: Labels | None = None  # a damaged record hinders counting
    try:
        if sound:
            source = _source(sound)
            schema = _schema(source)
            labels = count_labels(source, full, progress)
    except AtompackError as error:
        errors.append(str(error))
    total = {key: _sum(file[key] for file in files if "error" not in file) for key in _SUMMED}
    plain = labels and labels._asdict()
    return {**total, "schema": schema, "labels": plain, "files": files}, errors


def describe_file(path: str) -> dict[str, Any]:
    """Describes one file; ``error`` in place of all but the slots if it cannot be read."""
    slots = [
        {"generation": generation, "n_molecules": n_molecules, "problem": problem}
        for generation, n_molecules, problem in describe_slots(path)
    ]
    try:
        snapshot = snapshot_of(path)
        space = AtpSpaceUse.measure(path, snapshot)
    except AtompackError as error:
        return {"path": path, "slots": dict(zip("AB", slots, strict=True)), "error": str(error)}
    in_use = [slot["generation"] == snapshot.generation for slot in slots].index(True)
    for i, slot in enumerate(slots):
        slot["in_use"] = i == in_use
    return {
        "path": path,
        "n_molecules": snapshot.n_molecules,
        "n_atoms": space.n_atoms,
        "codec": snapshot.codec,
        "level": snapshot.level,
        "record_format": snapshot.record_format,
        "generation": snapshot.generation,
        "slots": dict(zip("AB", slots, strict=True)),
        "file_bytes": snapshot.file_bytes,
        "record_bytes": space.stored_bytes,
        "uncompressed_bytes": space.decoded_bytes,
        "schema_bytes": space.schema_bytes,
        "index_bytes": space.index_bytes,
        "dead_bytes": space.dead_bytes,  # None: records lie over one another
        "tail_bytes": snapshot.file_bytes - snapshot.committed_bytes,
    }


def count_labels(source: MoleculeSource, full: bool, progress: bool | Report) -> Labels:
    """Counts labels in all records, or in a sample of a large data set.

    Raises:
        CorruptFileError: a record is damaged.
    """
    sample = None if full or len(source) <= _SAMPLE else _sample(len(source))
    n_looked_at = len(source) if sample is None else len(sample)
    with reporting(progress if full else False, 2 * n_looked_at, "statistics") as report:
        molecules = _coverage(source, sample, report)
        present = _coverage(NanIsMissingSource(source), sample, report)
    nan = {name: n - present.get(name, 0) for name, n in molecules.items()}
    return Labels(molecules, {k: n for k, n in nan.items() if n}, n_looked_at, sample is None)


def _coverage(source: MoleculeSource, sample: Any, report: Report | None) -> dict[str, int]:
    no_references = [0.0] * 256
    threads = available_threads(None)
    counting = StatisticsPass(source, BatchRequest(), sample, no_references, None, threads)
    for _ in steps(counting, report):
        pass
    fields = counting.found()["coverage"]
    names = public_names([FieldId(scope, key) for scope, key, *_ in fields], RESERVED)
    return {name: field[3] for name, field in zip(names, fields, strict=True)}


def _sample(n: int) -> Any:
    """One molecule from each of equal stretches of ``n``: the same ones each time."""
    edges = np.arange(_SAMPLE + 1, dtype=np.int64) * n // _SAMPLE
    share = np.random.default_rng(0).random(_SAMPLE)
    return edges[:-1] + (share * np.diff(edges)).astype(np.int64)


def _source(files: list[str]) -> MoleculeSource:
    readers = [AtpReader(file, snapshot_of(file), "read", False) for file in files]
    return readers[0] if len(readers) == 1 else ConcatSource(readers)


def _schema(source: MoleculeSource) -> dict[str, Any]:
    request = BatchRequest()
    promises = request.promises(source)
    names = public_names([FieldId(scope, key) for scope, key, *_ in promises], RESERVED)
    schema: dict[str, Any] = {
        "positions": {"dtype": request.positions(source), "level": "atom", "shape": (3,)},
        "atomic_numbers": {"dtype": "int64", "level": "atom", "shape": ()},
    }
    for name, (_, _, level, dtype, shape) in zip(names, promises, strict=True):
        schema[name] = {"dtype": dtype, "level": level, "shape": shape}
    return schema


def _sum(values: Any) -> int | None:
    numbers = list(values)
    return None if None in numbers else sum(numbers)
