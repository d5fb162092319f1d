"""Description and verification of ``.atp`` files: molecules, labels, commits, use of space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from atompack_torch import formats
from atompack_torch._native import (
    AtpReader,
    AtpSnapshot,
    ConcatSource,
    FileStore,
    MoleculeSource,
    describe_slots,
    measure_space,
)
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import AtompackError, FieldError, printable
from atompack_torch.formats.atp.files import files_of, snapshot_of
from atompack_torch.formats.entry import (
    Compaction,
    CompactOptions,
    Description,
    Head,
    Summary,
    WrongOptionError,
)
from atompack_torch.formats.molecule_inspection import describe_molecules
from atompack_torch.formats.paths import Place
from atompack_torch.formats.text import labels_text
from atompack_torch.formats.verification import Fault, Verification, check_records
from atompack_torch.options import is_url
from atompack_torch.remote.files import RemoteFiles

if TYPE_CHECKING:
    from atompack_torch.formats.atp.dataset import AtpDataset


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


def open_dataset(path: Any, options: Mapping[str, Any]) -> AtpDataset:
    """Opens a file, a list of files or a folder of them."""
    from atompack_torch.formats.atp.dataset import AtpDataset

    return AtpDataset(path, **options)


def describe(places: Sequence[Place], full: bool, progress: bool | OnProgress) -> Description:
    """Describes files, or folders of them, as one dataset."""
    remote, found = places[0].remote, _files(places)
    files = [_describe_file(file, remote) for file in found]
    sound = [name for name, file in zip(found, files, strict=True) if "error" not in file]
    source = partial(_source, sound, remote) if sound else None
    document, errors = describe_molecules(files, _SUMMED, source, full, progress)
    return Description(document, _text(document), errors)


def head(places: Sequence[Place], n: int, fields: Sequence[str] | None) -> Head:
    """Reads the first molecules."""
    return Head.of_items([_open(places, fields=fields)], n)


def statistics(
    places: Sequence[Place], options: Mapping[str, Any], progress: bool | OnProgress
) -> Summary:
    """Gathers statistics of every molecule."""
    options = {"access": "sequential", **options}
    return Summary.of_molecules(partial(_open, places), options, progress)


def compact(places: Sequence[Place], target: Place, options: CompactOptions) -> Compaction:
    """Copies the molecules of files, and of those in folders, to one new file."""
    from atompack_torch.formats.atp.compaction import compact as compact_files
    from atompack_torch.formats.atp.dataset import AtpDataset

    remote, files = target.remote, _files(places)
    is_source = target.path in [place.path for place in places]
    if is_url(target.path) and is_source and target.path not in files:
        raise ValueError(f"{target.shown}: expected a new file, got a folder of .atp files")
    before = sum(Place(file, remote).stored_bytes() for file in files)
    compact_files(files, target.path, remote, options)
    access: Any = remote  # taken like the options of a store
    with AtpDataset(target.path, storage_options=access) as dataset:
        return Compaction(len(dataset), "molecules", before, target.stored_bytes())


def _files(places: Sequence[Place]) -> list[str]:
    return [file for place in places for file in files_of(place.path, place.remote)]


def _open(places: Sequence[Place], **options: Any) -> AtpDataset:
    """Opens files, and those in folders, as one dataset."""
    from atompack_torch.formats.atp.dataset import AtpDataset

    files = _files(places)
    options["storage_options"] = places[0].remote
    try:
        return AtpDataset(files[0] if len(files) == 1 else files, **options)
    except FieldError as error:
        raise WrongOptionError(str(error)) from None


def _describe_file(file: str, remote: RemoteFiles) -> dict[str, Any]:
    """Describes one file; if it cannot be read, gives only the slots and ``error``."""
    location = path, _ = remote.location(file)
    slots = [
        {"generation": generation, "n_molecules": n_molecules, "problem": problem}
        for generation, n_molecules, problem in describe_slots(location)
    ]
    try:
        snapshot = snapshot_of(file, remote)
        space = measure_space(location, snapshot)
    except AtompackError as error:
        return {"path": path, "slots": dict(zip("AB", slots, strict=True)), "error": str(error)}
    in_use = [slot["generation"] == snapshot.generation for slot in slots].index(True)
    for i, slot in enumerate(slots):
        slot["in_use"] = i == in_use
    return {
        "path": path,
        "n_molecules": snapshot.n_molecules,
        "n_atoms": space["n_atoms"],
        "codec": snapshot.codec,
        "level": snapshot.level,
        "record_format": snapshot.record_format,
        "generation": snapshot.generation,
        "slots": dict(zip("AB", slots, strict=True)),
        "file_bytes": snapshot.file_bytes,
        "record_bytes": space["stored_bytes"],
        "uncompressed_bytes": space["decoded_bytes"],
        "schema_bytes": space["schema_bytes"],
        "index_bytes": space["index_bytes"],
        "dead_bytes": space["dead_bytes"],  # None: records overlap
        "tail_bytes": snapshot.file_bytes - snapshot.committed_bytes,
    }


def _text(described: dict[str, Any]) -> str:
    files, labels = described["files"], described["labels"]
    name = f"{len(files)} files" if len(files) > 1 else printable(files[0]["path"])
    lines = []
    if len(files) > 1 or "error" not in files[0]:
        counts = f"{described['n_molecules']:,} molecules, {described['n_atoms']:,} atoms"
        lines.append(f"{name}: {counts}")
    if described["schema"]:
        lines.append(labels_text(described["schema"], labels))
    lines += _nan_lines(labels)
    if len(files) > 1:
        lines.append(f"  {_space_text(described)}")
    lines += [_file_text(file, with_counts=len(files) > 1) for file in files]
    return "\n".join(lines)


def _source(files: list[str], remote: RemoteFiles) -> MoleculeSource:
    readers = []
    for file in files:
        location = remote.location(file)
        readers.append(AtpReader(location, snapshot_of(file, remote), "read", False))
    return readers[0] if len(readers) == 1 else ConcatSource(readers)


def _nan_lines(labels: dict[str, Any] | None) -> list[str]:
    """Formats a note for each label that is NaN in some molecules."""
    if labels is None:
        return []
    of = f"{labels['n_looked_at']:,} {'molecules' if labels['exact'] else 'sampled'}"
    return [
        f"  {printable(name)}: NaN throughout in {n:,} of {of}: "
        "AtpDataset(nan_is_missing=True) takes these as absent"
        for name, n in labels["nan"].items()
    ]


def _file_text(file: dict[str, Any], with_counts: bool) -> str:
    path = printable(file["path"])
    slots = "; ".join(f"slot {name}: {_slot_text(slot)}" for name, slot in file["slots"].items())
    if "error" in file:
        return f"{path}: cannot be read\n  {slots}"
    level = f" (level {file['level']})" if file["codec"] == "zstd" else ""
    counts = f"{path}: {file['n_molecules']:,} molecules, {file['n_atoms']:,} atoms\n"
    return (
        f"{counts if with_counts else ''}"
        f"  codec {file['codec']}{level}, record format {file['record_format']}, "
        f"generation {file['generation']}\n"
        f"  {slots}\n"
        f"  {_space_text(file)}"
    )


def _slot_text(slot: dict[str, Any]) -> str:
    if slot["problem"] is not None:
        return f"damaged: {printable(slot['problem'])}"
    in_use = ", in use" if slot.get("in_use") else ""
    return f"generation {slot['generation']}, {slot['n_molecules']:,} molecules{in_use}"


def _space_text(space: dict[str, Any]) -> str:
    dead = "not known (records lie over one another)"
    if space["dead_bytes"] is not None:
        share = space["dead_bytes"] / space["file_bytes"] if space["file_bytes"] else 0.0
        dead = f"{space['dead_bytes']:,} ({share:.1%})"
    return (
        f"{space['file_bytes']:,} bytes: records {space['record_bytes']:,} "
        f"(uncompressed {space['uncompressed_bytes']:,}), schema {space['schema_bytes']:,}, "
        f"index {space['index_bytes']:,}, dead {dead}, tail {space['tail_bytes']:,}"
    )


_File = tuple[str, FileStore | None]  # for native readers


def verify(places: Sequence[Place], max_faults: int, progress: bool | OnProgress) -> Verification:
    """Reads every record of files, and of those in folders, with all checks.

    Headers, schema, index, every record and every value in it are checked against the format, and
    all violations are listed. ``.atp`` records carry no checksums, so an altered number that is
    still a valid number cannot be detected. Warnings concern a damaged header slot for which
    another substitutes, bytes after the last commit, overlapping records, and NaN or infinite
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
    files = [places[0].remote.location(file) for file in _files(places)]
    result = Verification([name for name, _ in files], Counter(molecules=0, bytes=0))
    snapshots = [(file, _snapshot_of(file, result, max_faults)) for file in files]
    total = sum(snapshot.n_molecules for _, snapshot in snapshots if snapshot)
    with reporting(progress, total, "verifying") as report:
        for file, snapshot in snapshots:
            if snapshot is None:
                continue
            try:
                if _check_overlap(file, snapshot, result, max_faults):
                    reader = AtpReader(file, snapshot, "read", False)
                    within = partial(_in_file, file[0])
                    check_records(reader, result, max_faults, report, within, f"{file[0]}: ")
            except AtompackError as error:  # concerns the whole file
                result.add_fault(Fault(file[0], None, str(error)), max_faults)
    return result


def _in_file(file: str, molecule: int) -> tuple[str, int]:
    return file, molecule


def _snapshot_of(place: _File, result: Verification, max_faults: int) -> AtpSnapshot | None:
    file = place[0]
    try:
        with formats.opening(file):
            snapshot = AtpSnapshot.take(place)
    except AtompackError as error:
        result.add_fault(Fault(file, None, str(error)), max_faults)
        return None
    for slot, (_, _, problem) in zip("AB", describe_slots(place), strict=True):
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
    file = place[0]
    space = measure_space(place, snapshot)
    stored_bytes, record_area = space["stored_bytes"], space["record_area"]
    if stored_bytes <= record_area:
        return True
    message = (
        f"{file}: index: records lie over one another: expected at most {record_area} "
        f"bytes, got {stored_bytes}"
    )
    if stored_bytes <= 2 * record_area:
        result.warnings.append(message)
        return True
    result.add_fault(Fault(file, None, message), max_faults)
    return False
