"""Verification of .atp files: reads everything with all checks to find damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from os import PathLike

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
from atompack_torch.formats.verification import Fault, Verification, check_records
from atompack_torch.remote.files import RemoteFiles

Place = tuple[str, FileStore | None]  # for native readers


def verify(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    max_faults: int = 100_000,
    progress: bool | OnProgress = False,
    remote: RemoteFiles | None = None,
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

    Returns:
        The faults and warnings.

    Raises:
        OSError: a file cannot be opened.
    """
    access = remote or RemoteFiles()
    places = [access.location(file) for file in files_of(path, remote)]
    result = Verification([name for name, _ in places], Counter(molecules=0, bytes=0))
    of_files = {place: Verification([]) for place in places}
    snapshots = {place: _snapshot_of(place, of_files[place], max_faults) for place in places}
    total = sum(snapshot.n_molecules for snapshot in snapshots.values() if snapshot)
    with reporting(progress, total, "verifying") as report:
        for place, snapshot in snapshots.items():
            for fault in of_files[place].faults:
                result.add_fault(fault, max_faults)
            result.warnings += of_files[place].warnings
            if snapshot is None:
                continue
            try:
                if _check_overlap(place, snapshot, result, max_faults):
                    reader = AtpReader(place[0], snapshot, "read", False, place[1])
                    where = partial(_in_file, place[0])
                    found = check_records(reader, result, max_faults, report, where)
                    result.warnings += [
                        f"{place[0]}: {n} molecules store NaN or infinite values (field {name!r})"
                        for name, n in sorted(found.items())
                    ]
            except AtompackError as error:  # concerns the whole file
                result.add_fault(Fault(place[0], None, str(error)), max_faults)
    return result


def _in_file(file: str, molecule: int) -> tuple[str, int]:
    return file, molecule


def _snapshot_of(place: Place, result: Verification, max_faults: int) -> AtpSnapshot | None:
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
    place: Place, snapshot: AtpSnapshot, result: Verification, max_faults: int
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
