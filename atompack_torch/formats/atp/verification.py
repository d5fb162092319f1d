"""Verification of .atp files: reads everything with all checks to find damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from atompack_torch import formats
from atompack_torch._native import (
    AtpReader,
    AtpSnapshot,
    AtpSpaceUse,
    FileStore,
    describe_slots,
)
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import AtompackError
from atompack_torch.formats.atp.files import files_of
from atompack_torch.formats.paths import Place
from atompack_torch.formats.verification import Fault, Verification, check_records

_File = tuple[str, FileStore | None]  # for native readers


def verify(places: Sequence[Place], max_faults: int, progress: bool | OnProgress) -> Verification:
    """Reads every record of files, and of those in folders, with all checks.

    Headers, schema, index, every record and every value in it are checked against the format, and
    all violations are listed. ``.atp`` records carry no checksums, so an altered number that is
    still a valid number cannot be detected. Warnings concern a damaged header slot for which
    another one substitutes, bytes after the last commit, overlapping records, and NaN or infinite
    values.

    Args:
        places: files and folders.
        max_faults: list at most this many; the others are only counted.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.

    Returns:
        The faults and warnings.

    Raises:
        OSError: a file cannot be opened.
    """
    files = [
        place.remote.location(file)
        for place in places
        for file in files_of(place.path, place.remote)
    ]
    result = Verification([name for name, _ in files], Counter(molecules=0, bytes=0))
    of_files = {file: Verification([]) for file in files}
    snapshots = {file: _snapshot_of(file, of_files[file], max_faults) for file in files}
    total = sum(snapshot.n_molecules for snapshot in snapshots.values() if snapshot)
    with reporting(progress, total, "verifying") as report:
        for file, snapshot in snapshots.items():
            for fault in of_files[file].faults:
                result.add_fault(fault, max_faults)
            result.warnings += of_files[file].warnings
            if snapshot is None:
                continue
            try:
                if _check_overlap(file, snapshot, result, max_faults):
                    reader = AtpReader(file[0], snapshot, "read", False, file[1])
                    within = partial(_in_file, file[0])
                    check_records(reader, result, max_faults, report, within, f"{file[0]}: ")
            except AtompackError as error:  # concerns the whole file
                result.add_fault(Fault(file[0], None, str(error)), max_faults)
    return result


def _in_file(file: str, molecule: int) -> tuple[str, int]:
    return file, molecule


def _snapshot_of(place: _File, result: Verification, max_faults: int) -> AtpSnapshot | None:
    file, store = place
    try:
        with formats.opening(file):
            snapshot = AtpSnapshot.take(file, store)
    except AtompackError as error:
        result.add_fault(Fault(file, None, str(error)), max_faults)
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


def _check_overlap(
    place: _File, snapshot: AtpSnapshot, result: Verification, max_faults: int
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
        result.warnings.append(message)
        return True
    result.add_fault(Fault(file, None, message), max_faults)
    return False
