"""Verification of .atp files: reads everything with all checks to find damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike

import numpy as np

from atompack_torch import formats
from atompack_torch._native import (
    AtpReader,
    AtpSnapshot,
    AtpSpaceUse,
    FileStore,
    Verifier,
    describe_slots,
)
from atompack_torch.datasets.sweeping import Report, available_threads, reporting, steps
from atompack_torch.errors import AtompackError
from atompack_torch.fields import BUILTIN, PREFIXES
from atompack_torch.formats.atp.files import files_of
from atompack_torch.formats.check_report import CheckReport
from atompack_torch.options import checked_part, part_range
from atompack_torch.remote.files import RemoteFiles

Place = tuple[str, FileStore | None]  # for native readers


@dataclass(frozen=True)
class Fault:
    """A violation of the format.

    Attributes:
        path: the file.
        molecule: index of the molecule in that file; None if the fault concerns the whole file.
        message: description of the fault and its place, including file and molecule.
    """

    path: str
    molecule: int | None
    message: str


@dataclass
class Verification:
    """Result of ``verify``.

    Attributes:
        files: the verified files.
        n_molecules: number of molecules whose records were read.
        n_bytes: uncompressed size of the valid records.
        n_faults: total number of faults.
        faults: the first faults: at most ``max_faults`` in all, and a hundred per molecule.
        warnings: irregularities that readers tolerate.
    """

    files: list[str]
    n_molecules: int = 0
    n_bytes: int = 0
    n_faults: int = 0
    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if there are no faults; warnings do not count."""
        return self.n_faults == 0

    def __repr__(self) -> str:
        return (
            f"Verification({len(self.files):,} files, {self.n_molecules:,} molecules: "
            f"{self.n_faults:,} faults, {len(self.warnings):,} warnings)"
        )

    def as_dict(self) -> dict[str, object]:
        """Converts the result to plain values, for JSON.

        Returns:
            Name → value; ``ok`` is True if there is no fault.
        """
        return {"ok": self.ok, **asdict(self)}

    def report(self) -> CheckReport:
        """Formats the result.

        Returns:
            The faults and warnings, and a summary in one line.
        """
        return CheckReport(
            {"faults": ([fault.message for fault in self.faults], self.n_faults)},
            self.warnings,
            f"{len(self.files):,} files, {self.n_molecules:,} molecules, {self.n_bytes:,} bytes of "
            f"records: {self.n_faults:,} faults, {len(self.warnings):,} warnings",
        )


def verify(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    max_faults: int = 100_000,
    progress: bool | Report = False,
    remote: RemoteFiles | None = None,
    part: tuple[int, int] | None = None,
) -> Verification:
    """Reads every record of a file, a list of files, or a folder of shards, with all checks.

    Headers, schema, index, every record and every value in it are checked against the format, and
    all violations are listed. ``.atp`` records carry no checksums, so an altered number that is
    still a valid number cannot be detected. Warnings concern a damaged header slot for which
    another one substitutes, bytes after the last commit, overlapping records, and NaN or infinite
    values.

    Args:
        path: path or paths, as for ``AtpDataset``.
        max_faults: list at most this many; the others are only counted.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.
        remote: access to URLs; None: only local files.
        part: check the records of one of n equal ranges of the molecules: its number, from 0, and
            n. Files as a whole are checked with their first molecule. None: check everything.

    Returns:
        The faults and warnings.

    Raises:
        OSError: a file cannot be opened.
        ValueError: there is no such part.
    """
    access = remote or RemoteFiles()
    places = [access.location(file) for file in files_of(path, remote)]
    result = Verification([name for name, _ in places])
    of_files = {place: Verification([]) for place in places}
    snapshots = {place: _snapshot_of(place, of_files[place], max_faults) for place in places}
    total = sum(snapshot.n_molecules for snapshot in snapshots.values() if snapshot)
    own = part_range((0, 1) if part is None else checked_part(part), total)
    is_first = part is None or part[0] == 0
    first = 0
    with reporting(progress, len(own), "verifying") as report:
        for place, snapshot in snapshots.items():
            n = snapshot.n_molecules if snapshot else 0
            # No part can be certain of its range where a file cannot be opened.
            for fault in of_files[place].faults:
                _add_fault(result, fault, max_faults)
            owns_file = first in own or (n == 0 and is_first)
            if owns_file:
                result.warnings += of_files[place].warnings
            begin, end = max(own.start - first, 0), min(own.stop - first, n)
            first += n
            if snapshot is None or (begin >= end and not owns_file):
                continue
            try:
                if _check_overlap(place, snapshot, result, max_faults, warns=owns_file):
                    numbers = None if end - begin == n else range(begin, end)
                    _verify_records(place, snapshot, result, max_faults, report, numbers)
            except AtompackError as error:  # concerns the whole file
                _add_fault(result, Fault(place[0], None, str(error)), max_faults)
    return result


def _add_fault(result: Verification, fault: Fault, max_faults: int) -> None:
    result.n_faults += 1
    if len(result.faults) < max_faults:
        result.faults.append(fault)


def _snapshot_of(place: Place, result: Verification, max_faults: int) -> AtpSnapshot | None:
    file, store = place
    try:
        with formats.opening(file):
            snapshot = AtpSnapshot.take(file, store)
    except AtompackError as error:
        _add_fault(result, Fault(file, None, str(error)), max_faults)
        return None
    for slot, (_, _, problem) in zip("AB", describe_slots(file, store), strict=True):
        if problem is not None:
            result.warnings.append(
                f"{file}: header slot {slot} is damaged, the other one is used: {problem}"
            )
    if (tail := snapshot.file_bytes - snapshot.committed_bytes) > 0:
        result.warnings.append(
            f"{file}: {tail} bytes behind the last commit are no part of the data"
            f" (offset {snapshot.committed_bytes})"
        )
    return snapshot


def _verify_records(
    place: Place,
    snapshot: AtpSnapshot,
    result: Verification,
    max_faults: int,
    report: Report | None,
    numbers: range | None,
) -> None:
    """Checks records: all, or those of a range."""
    file, store = place
    reader = AtpReader(file, snapshot, "read", False, store)
    selection = None if numbers is None else np.arange(numbers.start, numbers.stop, dtype=np.int64)
    verifier = Verifier(reader, available_threads(None), selection)
    non_finite: Counter[str] = Counter()
    for n_molecules in steps(verifier, report):
        n_faults, faults, n_bytes, fields = verifier.take()
        result.n_faults += n_faults
        room = max_faults - len(result.faults)
        result.faults += [Fault(file, molecule, text) for molecule, text in faults[:room]]
        result.n_molecules += n_molecules
        result.n_bytes += n_bytes
        for scope, key, molecules in fields:
            non_finite[(PREFIXES[scope] if scope != BUILTIN else "") + key] += molecules
    for name, molecules in sorted(non_finite.items()):
        result.warnings.append(
            f"{file}: {molecules} molecules store NaN or infinite values (field {name!r})"
        )


def _check_overlap(
    place: Place, snapshot: AtpSnapshot, result: Verification, max_faults: int, *, warns: bool
) -> bool:
    """True if the records may be read; with many that share bytes, it could take forever."""
    file, store = place
    space = AtpSpaceUse.measure(file, snapshot, store)
    if space.stored_bytes <= space.record_area:
        return True
    message = (
        f"{file}: index: records lie over one another: expected at most {space.record_area} "
        f"bytes, got {space.stored_bytes}"
    )
    if space.stored_bytes <= 2 * space.record_area:
        result.warnings += [message] if warns else []
        return True
    _add_fault(result, Fault(file, None, message), max_faults)
    return False
