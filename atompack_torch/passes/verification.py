"""Reading everything in .atp files with all checks, to find what is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

from atompack_torch._native import AtpReader, AtpSnapshot, AtpSpaceUse, Verifier, describe_slots
from atompack_torch.errors import AtompackError
from atompack_torch.fields import BUILTIN, PREFIXES
from atompack_torch.passes.atp_files import files_of, snapshot_of
from atompack_torch.passes.check_report import CheckReport
from atompack_torch.passes.sweeping import Report, available_threads, reporting, steps


@dataclass(frozen=True)
class Fault:
    """Bytes that contradict the format.

    Attributes:
        path: the file.
        molecule: its number in that file; None where the fault concerns the whole file.
        message: what is wrong, and where; it names file and molecule too.
    """

    path: str
    molecule: int | None
    message: str


@dataclass
class Verification:
    """What ``verify`` found.

    Attributes:
        files: that were looked at.
        n_molecules: whose records were read.
        n_bytes: of sound records, uncompressed.
        n_faults: all of them.
        faults: the first ones: at most ``max_faults`` in all, and a hundred of one molecule.
        warnings: what a reader gets over, but somebody should know.
    """

    files: list[str]
    n_molecules: int = 0
    n_bytes: int = 0
    n_faults: int = 0
    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """No faults; warnings do not count."""
        return self.n_faults == 0

    def __repr__(self) -> str:
        return (
            f"Verification({len(self.files):,} files, {self.n_molecules:,} molecules: "
            f"{self.n_faults:,} faults, {len(self.warnings):,} warnings)"
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        return {"ok": self.ok, **asdict(self)}

    def report(self) -> CheckReport:
        """All of it for people."""
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
) -> Verification:
    """Reads every record of a file, a list of files, or a folder of shards, with all checks.

    Headers, schema, index, every record and every value in it are held against the format; all
    that does not fit is listed. ``.atp`` records carry no checksums, so a changed number that is
    still a number cannot be found. Warnings are about a damaged header slot that another one
    replaces, bytes behind the last commit, records that overlap, and NaN or infinite values.

    Args:
        path: as for ``AtpDataset``.
        max_faults: list at most this many; the others are only counted.
        progress: show a bar, or a function that is told how many more molecules are done.

    Raises:
        OSError: a file cannot be opened.
    """
    files = files_of(path)
    result = Verification(files)
    snapshots = {file: _snapshot_of(file, result, max_faults) for file in files}
    total = sum(snapshot.n_molecules for snapshot in snapshots.values() if snapshot)
    with reporting(progress, total, "verifying") as report:
        for file, snapshot in snapshots.items():
            if snapshot is None:
                continue
            try:
                _verify_records(file, snapshot, result, max_faults, report)
            except AtompackError as error:  # about the file as a whole
                _add_fault(result, Fault(file, None, str(error)), max_faults)
    return result


def _add_fault(result: Verification, fault: Fault, max_faults: int) -> None:
    result.n_faults += 1
    if len(result.faults) < max_faults:
        result.faults.append(fault)


def _snapshot_of(file: str, result: Verification, max_faults: int) -> AtpSnapshot | None:
    try:
        snapshot = snapshot_of(file)
    except AtompackError as error:
        _add_fault(result, Fault(file, None, str(error)), max_faults)
        return None
    for slot, (_, _, problem) in zip("AB", describe_slots(file), strict=True):
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
    file: str,
    snapshot: AtpSnapshot,
    result: Verification,
    max_faults: int,
    report: Report | None,
) -> None:
    if not _check_overlap(file, snapshot, result, max_faults):
        return
    verifier = Verifier(AtpReader(file, snapshot, "read", False), available_threads(None))
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


def _check_overlap(file: str, snapshot: AtpSnapshot, result: Verification, max_faults: int) -> bool:
    """Whether the records may be read: of many that share bytes, that could take for ever."""
    space = AtpSpaceUse.measure(file, snapshot)
    if space.stored_bytes <= space.record_area:
        return True
    message = (
        f"{file}: index: records lie over one another: expected at most {space.record_area} "
        f"bytes, got {space.stored_bytes}"
    )
    if space.stored_bytes <= 2 * space.record_area:
        result.warnings.append(message)
        return True
    _add_fault(result, Fault(file, None, message), max_faults)
    return False
