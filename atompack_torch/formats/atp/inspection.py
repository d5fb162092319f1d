"""Description of ``.atp`` files: molecules, labels, codec, commits, use of space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from atompack_torch.datasets.sweeping import OnProgress, available_threads, reporting, steps
from atompack_torch.errors import AtompackError, FieldError, printable
from atompack_torch.fields import RESERVED, FieldId, public_names
from atompack_torch.formats.atp.files import files_of, snapshot_of
from atompack_torch.formats.entry import (
    Compaction,
    CompactOptions,
    Description,
    Head,
    Summary,
    WrongOptionError,
)
from atompack_torch.formats.text import labels_text
from atompack_torch.remote.files import RemoteFiles

if TYPE_CHECKING:
    from atompack_torch.formats.atp.dataset import AtpDataset
    from atompack_torch.formats.verification import Verification

_SAMPLE = 10_000  # molecules whose records are read, unless all are requested
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
        molecules: label → number of examined molecules that have it.
        nan: label → number of those whose label is all NaN; labels without any are left out.
        n_looked_at: number of molecules whose records were read.
        exact: True if these are all molecules, not a sample.
    """

    molecules: dict[str, int]
    nan: dict[str, int]
    n_looked_at: int
    exact: bool


def open_dataset(path: Any, options: Mapping[str, Any]) -> AtpDataset:
    """Opens a file, a list of files or a folder of them."""
    from atompack_torch.formats.atp.dataset import AtpDataset

    return AtpDataset(path, **options)


def describe(
    paths: Sequence[str],
    full: bool = False,
    progress: bool | OnProgress = False,
    remote: RemoteFiles | None = None,
) -> Description:
    """Describes files, or folders of them, as one data set.

    Args:
        paths: files and folders.
        full: count labels in all records, however many there are.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.
        remote: access to URLs.

    Returns:
        Sums over all files, ``schema``, ``labels`` and ``files``.
    """
    access = remote or RemoteFiles()
    found = [file for path in paths for file in files_of(path, remote)]
    files = [describe_file(file, access) for file in found]
    sound = [name for name, file in zip(found, files, strict=True) if "error" not in file]
    errors = [file["error"] for file in files if "error" in file]
    schema: dict[str, Any] = {}
    labels: Labels | None = None  # None if a damaged record prevents counting
    try:
        if sound:
            source = _source(sound, access)
            schema = schema_of(source)
            labels = count_labels(source, full, progress)
    except AtompackError as error:
        errors.append(str(error))
    total = {key: _sum(file[key] for file in files if "error" not in file) for key in _SUMMED}
    plain_labels = labels and labels._asdict()
    document = {**total, "schema": schema, "labels": plain_labels, "files": files}
    return Description(document, _text(document), errors)


def head(
    paths: Sequence[str],
    n: int,
    fields: Sequence[str] | None = None,
    remote: RemoteFiles | None = None,
) -> Head:
    """Reads the first molecules.

    Args:
        paths: files and folders, as one data set.
        n: maximum number of molecules.
        fields: labels to read; None: all.
        remote: access to URLs.

    Returns:
        The molecules.

    Raises:
        WrongOptionError: a label that no file has.
    """
    return Head.of_molecules([open_files(paths, remote, fields=fields)], n)


def verify(
    paths: Sequence[str],
    max_faults: int,
    progress: bool | OnProgress,
    remote: RemoteFiles | None = None,
) -> Verification:
    """Reads every record with all checks."""
    from atompack_torch.formats.atp.verification import verify as verify_files

    files = [file for path in paths for file in files_of(path, remote)]
    return verify_files(files, max_faults=max_faults, progress=progress, remote=remote)


def statistics(
    paths: Sequence[str],
    options: Mapping[str, Any],
    progress: bool | OnProgress,
    remote: RemoteFiles | None = None,
) -> Summary:
    """Gathers statistics of every molecule.

    Args:
        paths: files and folders, as one data set.
        options: ``cutoff``, ``features``, and options of ``AtpDataset``.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.
        remote: access to URLs.

    Returns:
        ``Statistics``, with a histogram of sizes in the text.
    """
    of_dataset = {"access": "sequential", **options}
    asked = {name: of_dataset.pop(name) for name in ("cutoff", "features") if name in of_dataset}
    found = open_files(paths, remote, **of_dataset).statistics(progress, **asked)
    place = None
    if found.max_force_molecule is not None:
        place = place_of(paths, found.max_force_molecule, remote)
    return Summary.of_statistics(found, place)


def compact(paths: Sequence[str], target: str, options: CompactOptions) -> Compaction:
    """Copies the molecules of files, and of those in folders, to one new file."""
    from atompack_torch.formats.atp.compaction import compact as compact_files
    from atompack_torch.formats.atp.dataset import AtpDataset

    files = [file for path in paths for file in files_of(path)]
    before = sum(Path(file).stat().st_size for file in files if Path(file).is_file())
    codec, level, order, progress, num_threads, _ = options
    compact_files(
        files, target, codec, order, level=level, num_threads=num_threads, progress=progress
    )
    return Compaction(len(AtpDataset(target)), "molecules", before, Path(target).stat().st_size)


def open_files(
    paths: Sequence[str], remote: RemoteFiles | None = None, **options: Any
) -> AtpDataset:
    """Opens files, and those in folders, as one data set.

    Args:
        paths: files and folders.
        remote: access to URLs.
        **options: options of ``AtpDataset``.

    Returns:
        The data set.

    Raises:
        WrongOptionError: no file has a label named in an option.
    """
    from atompack_torch.formats.atp.dataset import AtpDataset

    files = [file for path in paths for file in files_of(path, remote)]
    if remote is not None:
        options["storage_options"] = remote
    try:
        return AtpDataset(files[0] if len(files) == 1 else files, **options)
    except FieldError as error:
        raise WrongOptionError(str(error)) from None


def describe_file(file: str, remote: RemoteFiles) -> dict[str, Any]:
    """Describes one file; if it cannot be read, gives only the slots and ``error``."""
    path, store = remote.location(file)
    slots = [
        {"generation": generation, "n_molecules": n_molecules, "problem": problem}
        for generation, n_molecules, problem in describe_slots(path, store)
    ]
    try:
        snapshot = snapshot_of(file, remote)
        space = AtpSpaceUse.measure(path, snapshot, store)
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
        "dead_bytes": space.dead_bytes,  # None: records overlap
        "tail_bytes": snapshot.file_bytes - snapshot.committed_bytes,
    }


def count_labels(source: MoleculeSource, full: bool, progress: bool | OnProgress) -> Labels:
    """Counts labels in all records, or in a sample of a large data set.

    Args:
        source: the molecules.
        full: read all records, however many there are.
        progress: show a bar, or a function called with the number of records done since the last
            call.

    Returns:
        The counts.

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


def _coverage(source: MoleculeSource, sample: Any, report: OnProgress | None) -> dict[str, int]:
    no_references = [0.0] * 256
    threads = available_threads(None)
    counting = StatisticsPass(source, BatchRequest(), sample, no_references, None, threads)
    for _ in steps(counting, report):
        pass
    fields = counting.found()["coverage"]
    names = public_names([FieldId(scope, key) for scope, key, *_ in fields], RESERVED)
    return {name: field[3] for name, field in zip(names, fields, strict=True)}


def _sample(n: int) -> Any:
    """Samples one molecule from each of equal parts of ``n``, deterministically."""
    edges = np.arange(_SAMPLE + 1, dtype=np.int64) * n // _SAMPLE
    share = np.random.default_rng(0).random(_SAMPLE)
    return edges[:-1] + (share * np.diff(edges)).astype(np.int64)


def _source(files: list[str], remote: RemoteFiles) -> MoleculeSource:
    readers = []
    for file in files:
        path, store = remote.location(file)
        readers.append(AtpReader(path, snapshot_of(file, remote), "read", False, store))
    return readers[0] if len(readers) == 1 else ConcatSource(readers)


def schema_of(source: MoleculeSource) -> dict[str, Any]:
    """Describes the fields of a batch: name → dtype, level and shape of one row."""
    request = BatchRequest()
    outputs = request.output_fields(source)
    names = public_names([FieldId(scope, key) for scope, key, *_ in outputs], RESERVED)
    schema: dict[str, Any] = {
        "positions": {"dtype": request.positions(source), "level": "atom", "shape": (3,)},
        "atomic_numbers": {"dtype": "int64", "level": "atom", "shape": ()},
    }
    for name, (_, _, level, dtype, shape) in zip(names, outputs, strict=True):
        schema[name] = {"dtype": dtype, "level": level, "shape": shape}
    return schema


def _sum(values: Any) -> int | None:
    numbers = list(values)
    return None if None in numbers else sum(numbers)


def place_of(paths: Sequence[str], number: int, remote: RemoteFiles | None) -> str:
    """Describes a molecule, given its global index, by file and index in that file."""
    access = remote or RemoteFiles()
    for file in (file for path in paths for file in files_of(path, remote)):
        n_molecules = snapshot_of(file, access).n_molecules
        if number < n_molecules:
            return f"{access.shown(file)}: molecule {number}"
        number -= n_molecules
    raise AssertionError("the statistics name a molecule that no file has")


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
