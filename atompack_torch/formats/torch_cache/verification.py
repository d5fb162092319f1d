"""Verification of feature caches: reads all entries with all checks and recomputes their rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import AtompackError, UnsupportedFormatError
from atompack_torch.fields import DERIVATIVES
from atompack_torch.formats.torch_cache.building import ordered_map
from atompack_torch.formats.torch_cache.dataset import TorchCache, TorchCacheDataset
from atompack_torch.formats.torch_cache.recomputation import Difference, Recomputation
from atompack_torch.formats.verification import Fault, Verification
from atompack_torch.options import check_threads, checked_integer, threads_or_cores

# Bytes that each thread reads at once, unless one entry is larger.
_BYTES_AT_ONCE = 32 << 20
_ENTRIES_AT_ONCE = 64

# Irregularities that readers tolerate, by number of entries.
_NO_FEATURES = "have no features, where others have"
_NO_DERIVATIVES = "have forces but no derivatives, where others have both"
_NO_FORCES = "have derivatives but no forces"
_NON_FINITE = "store NaN or infinite values"


def verify_cache(
    path: str | os.PathLike[str],
    *,
    recompute: bool = True,
    tolerance: float | None = None,
    max_faults: int = 100_000,
    num_threads: int | None = None,
    progress: bool | OnProgress = False,
) -> Verification:
    """Reads every entry of a cache file with all checks, and recomputes its rows.

    Attributes with their hashes, indexes, structures, and every row with the range of its indices
    are checked against the format and each other. Then features and derivatives are computed from
    the structures with the file's own descriptor. Features are compared number by number.
    Derivative rows may be in any order, and rows exactly at a cutoff are optional, so they are
    contracted with fixed weights and the resulting forces compared. Entries that differ are listed;
    those that the original library computes wrongly (atoms outside their cell in entries with
    forces, and atoms outside in a non-periodic direction) are marked as such.

    Entries are processed in order, by several threads, in memory independent of the file size.

    Args:
        path: path of the file, schema 2 or legacy 1, or without a cache.
        recompute: False: only read.
        tolerance: allowed difference, relative to the largest number of an entry or to 1, whichever
            is larger. None: 1e-9 for float64; 1e-4 for float32, and more where triplets are
            straight, whose gradients are lost in single precision.
        max_faults: list at most this many faults and this many differences; count the rest.
        num_threads: number of parts processed in parallel; None: one per core.
        progress: show a bar, or a function called with the number of entries done since the last
            call.

    Returns:
        What was found, with counts of all and the first ``max_faults`` of each kind.

    Raises:
        OSError: the file cannot be opened.
        TypeError, ValueError: an option does not have one of its values.
    """
    check_threads(num_threads)
    checked_integer("max_faults", max_faults, 0)
    file = os.fspath(path)
    result = Verification([file], _nothing_read(), differences=[])
    try:
        cache = TorchCache(path)._without_mapping()
        again = _recomputation(cache, tolerance, result) if recompute else None
        examiner = _Examiner(cache, again)
    except AtompackError as error:
        result.add_fault(Fault(file, None, str(error)), max_faults)
        return result
    unusual: Counter[str] = Counter()
    threads = threads_or_cores(num_threads)
    with reporting(progress, len(cache), "verifying") as report:
        for found in ordered_map(examiner.examine, examiner.parts(), threads, 2 * threads):
            _add(found, result, max_faults)
            unusual += found.unusual
            if report is not None:
                report(found.counts["entries"])
    result.warnings += [f"{file}: {n} entries {what}" for what, n in sorted(unusual.items())]
    return result


def _recomputation(
    cache: TorchCache, tolerance: float | None, result: Verification
) -> Recomputation | None:
    if not (cache.has_features or cache.has_force_derivatives):
        return None
    try:
        return Recomputation(cache, tolerance)
    except UnsupportedFormatError as error:
        result.warnings.append(f"nothing is computed again: {error}")
        return None


def _nothing_read() -> Counter[str]:
    return Counter(entries=0, feature_rows=0, derivative_rows=0, recomputed=0)


@dataclass
class _Findings:
    """Findings in a part of the entries."""

    counts: Counter[str]
    faults: list[Fault] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    unusual: Counter[str] = field(default_factory=Counter)


def _add(found: _Findings, result: Verification, max_faults: int) -> None:
    assert result.differences is not None
    result.counts.update(found.counts)
    result.n_differences += len(found.differences)
    for fault in sorted(found.faults, key=lambda fault: fault.molecule or 0):
        result.add_fault(fault, max_faults)
    found.differences.sort(key=lambda difference: (difference.entry, difference.field))
    result.differences += found.differences[: max(0, max_faults - len(result.differences))]


class _Examiner:
    """Examines entries; thread-safe."""

    def __init__(self, cache: TorchCache, again: Recomputation | None) -> None:
        self._path = str(cache.path)
        self._reader = cache._reader()
        self._again = again
        self._dataset = TorchCacheDataset(cache, dtype=torch.float64, num_threads=1)
        self._n_atoms = self._dataset.n_atoms.tolist()
        self._atom_bytes = 96 + 8 * (self._reader.n_features if cache.has_features else 0)

    def parts(self) -> Iterator[range]:
        """Yields all entries in parts of bounded size."""
        first = n_bytes = 0
        for entry, n_atoms in enumerate(self._n_atoms):
            more = self._atom_bytes * max(n_atoms, 0) + self._row_bytes(entry)
            is_full = entry - first == _ENTRIES_AT_ONCE or n_bytes + more > _BYTES_AT_ONCE
            if is_full and entry > first:
                yield range(first, entry)
                first, n_bytes = entry, 0
            n_bytes += more
        if first < len(self._n_atoms):
            yield range(first, len(self._n_atoms))

    def _row_bytes(self, entry: int) -> int:
        reader = self._reader
        if not reader.has_force_derivatives:
            return 0
        try:
            n_edges, n_triplets = reader.derivative_sizes(entry) or (0, 0)
        except AtompackError:  # reading the row will report it
            return 0
        of_edge = 16 + 8 * (3 * reader.n_radial + 1)
        return n_edges * of_edge + n_triplets * (24 + 8 * (9 * reader.n_angular + 1))

    def examine(self, part: range) -> _Findings:
        """Reads the entries, and recomputes them if requested."""
        findings = _Findings(Counter(entries=len(part)))
        sound = list(self._read(list(part), findings))
        if self._again is not None:
            for share in self._again.shares(sound):
                self._recompute(self._again, share, findings)
        return findings

    def _read(self, entries: list[int], findings: _Findings) -> Iterator[int]:
        """Yields the entries that can be read."""
        try:
            batch = self._dataset.batch(entries)
            self._survey(batch, findings)
        except AtompackError as error:
            if len(entries) == 1:
                findings.faults.append(Fault(self._path, entries[0], str(error)))
                return
            half = len(entries) // 2
            yield from self._read(entries[:half], findings)
            yield from self._read(entries[half:], findings)
            return
        yield from entries

    def _survey(self, batch: MoleculeBatch, findings: _Findings) -> None:
        forces = batch.mask("forces").numpy()
        claimed = np.array([self._reader.has_forces(entry) for entry in batch.index.tolist()], bool)
        for i in np.flatnonzero(forces != claimed):
            entry, words = int(batch.index[i]), ("none", "forces")
            message = (
                f"{self._path}: structure: expected {words[int(claimed[i])]} as /entries/meta "
                f"says, got {words[int(forces[i])]} (molecule {entry}, field 'forces')"
            )
            findings.faults.append(Fault(self._path, entry, message))
        if "features" in batch:
            rows = batch.mask("features").numpy()
            findings.counts["feature_rows"] += int(rows.sum())
            findings.unusual[_NO_FEATURES] += int((~rows).sum())
        if "radial_dG_drij" in batch:
            rows = batch.mask("radial_dG_drij").numpy()
            findings.counts["derivative_rows"] += int(rows.sum())
            findings.unusual[_NO_DERIVATIVES] += int((forces & ~rows).sum())
            findings.unusual[_NO_FORCES] += int((rows & ~forces).sum())
        findings.unusual[_NON_FINITE] += _n_non_finite(batch)
        findings.unusual = +findings.unusual  # drops zero counts

    def _recompute(self, again: Recomputation, entries: list[int], findings: _Findings) -> None:
        try:
            if len(entries) == 1:
                again.check_size(entries[0])
            found = list(again.compare(self._dataset.batch(entries)))
        except AtompackError as error:
            if len(entries) == 1:
                message = _with_entry(str(error), self._path, entries[0])
                findings.faults.append(Fault(self._path, entries[0], message))
                return
            for entry in entries:
                self._recompute(again, [entry], findings)
            return
        findings.counts["recomputed"] += len(entries)
        findings.differences += found


def _n_non_finite(batch: MoleculeBatch) -> int:
    """Number of entries with a non-finite value in any present row."""
    bad = np.zeros(len(batch), bool)
    for name in ("features", *DERIVATIVES):
        if name not in batch or not batch[name].is_floating_point():
            continue
        values = batch[name].numpy()
        rows = np.unique(np.nonzero(~np.isfinite(values))[0])
        begins = batch.ptr if name == "features" else batch._first_rows(_centers_of(name))
        owners = np.searchsorted(begins.numpy(), rows, side="right") - 1
        present = batch.mask(name).numpy()
        bad[owners[present[owners]]] = True
    return int(bad.sum())


def _centers_of(name: str) -> str:
    return f"{name.partition('_')[0]}_center_idx"


def _with_entry(message: str, path: str, entry: int) -> str:
    """Rewrites a message about a batch of one so that it names the entry."""
    if message.startswith(path):
        return message
    return f"{path}: {message.replace('molecule 0', f'molecule {entry}', 1)}"
