"""Shows what is in a file: molecules, labels, codec, commits, and where its bytes go.

  atompack-torch info alloys.atp
  atompack-torch info --full alloys.atp
  atompack-torch info --json shards/ | jq .n_molecules

Which labels there are is known from the schema; how many molecules have them, and how many of these
are NaN throughout, is counted in all records of a data set of up to 10,000 molecules, and in 10,000
records from all over a larger one, unless --full is given. Dead space is what older commits left
behind: `atompack-torch compact` removes it. A tail are bytes after the last commit.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from atompack_torch.cli._output import (
    add_json,
    add_paths,
    files_at,
    print_json,
    printable,
    shows_progress,
    table,
)

if TYPE_CHECKING:
    from atompack_torch import AtpDataset, FieldSpec

NAME = "info"
HELP = "molecules, labels, codec, commits, use of space"

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    parser.add_argument(
        "--full", action="store_true", help="count labels in all records, however many there are"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.cli import _atlas, _shards

    if _atlas.are_stores(options.path):
        return _atlas.info(options.path, options.json)
    if _shards.are_shards(options.path):
        return _shards.info(options.path, options.json)
    from atompack_torch import AtompackError, AtpDataset

    files = [describe(file) for file in files_at(options.path)]
    sound = [file for file in files if "error" not in file]
    errors = [file["error"] for file in files if "error" in file]
    schema: dict[str, FieldSpec] = {}
    labels: Labels | None = None  # a damaged record hinders counting
    try:
        if sound:
            paths = [file["path"] for file in sound]
            schema = AtpDataset(paths).schema
            labels = count_labels(paths, options.full, shows_progress(options))
    except AtompackError as error:
        errors.append(str(error))
    total = {key: _sum(file[key] for file in sound) for key in _SUMMED}
    if options.json:
        print_json(
            {
                **total,
                "schema": _plain_schema(schema),
                "labels": labels and labels._asdict(),
                "files": files,
            }
        )
    else:
        _print_text(files, total, schema, labels)
    for message in errors:
        print(f"atompack-torch info: {printable(message)}", file=sys.stderr)
    return 1 if errors else 0


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


def count_labels(paths: list[str], full: bool, progress: bool) -> Labels:
    """Counts labels in all records, or in a sample of a large data set.

    Raises:
        CorruptFileError: a record is damaged.
    """
    from atompack_torch import AtpDataset

    stored, judged = (_sample(AtpDataset(paths, nan_is_missing=nan), full) for nan in (False, True))
    molecules = stored.statistics(progress and full).coverage
    present = judged.statistics(progress and full).coverage
    nan = {name: n - present.get(name, 0) for name, n in molecules.items()}
    exact = len(stored) == len(AtpDataset(paths))
    return Labels(molecules, {name: n for name, n in nan.items() if n}, len(stored), exact)


def _sample(dataset: AtpDataset, full: bool) -> AtpDataset:
    """The whole data set, or one molecule from each of equal stretches: the same ones each time."""
    import torch

    n = len(dataset)
    if full or n <= _SAMPLE:
        return dataset
    edges = torch.arange(_SAMPLE + 1, dtype=torch.int64) * n // _SAMPLE
    share = torch.rand(_SAMPLE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return dataset.subset(edges[:-1] + (share * edges.diff()).long())


def describe(path: str) -> dict[str, Any]:
    """What is known of one file; ``error`` in place of all but the slots if it cannot be read."""
    from atompack_torch._core import AtpSpaceUse, describe_slots
    from atompack_torch.errors import AtompackError
    from atompack_torch.passes.atp_files import snapshot_of

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


def _sum(values: Any) -> int | None:
    numbers = list(values)
    return None if None in numbers else sum(numbers)


def _plain_schema(schema: dict[str, FieldSpec]) -> dict[str, Any]:
    plain = {}
    for name, spec in schema.items():
        values = dataclasses.asdict(spec)
        plain[name] = values | {"dtype": str(spec.dtype).removeprefix("torch.")}
    return plain


def _print_text(
    files: list[dict[str, Any]],
    total: dict[str, Any],
    schema: dict[str, FieldSpec],
    labels: Labels | None,
) -> None:
    name = f"{len(files)} files" if len(files) > 1 else printable(files[0]["path"])
    if len(files) > 1 or "error" not in files[0]:
        print(f"{name}: {total['n_molecules']:,} molecules, {total['n_atoms']:,} atoms")
    if schema:
        print(_labels_text(schema, labels))
    for line in _nan_lines(labels):
        print(line)
    if len(files) > 1:
        print(f"  {_space_text(total)}")
    for file in files:
        print(_file_text(file, with_counts=len(files) > 1))


def _labels_text(schema: dict[str, FieldSpec], labels: Labels | None) -> str:
    rows = [("field", "level", "dtype", "shape of a row", "molecules that have it")]
    for name, spec in schema.items():
        dtype = str(spec.dtype).removeprefix("torch.")
        shape = "differs" if spec.shape is None else str(spec.shape)
        rows.append((printable(name), spec.level, dtype, shape, _count_text(name, labels)))
    found = () if labels is None else labels.molecules
    for name in (name for name in found if name not in schema):  # in records alone
        rows.append((printable(name), "", "", "", _count_text(name, labels)))
    return table(rows, "  ")


def _count_text(name: str, labels: Labels | None) -> str:
    """The count of one field; positions and atomic numbers are no labels and always there."""
    if labels is None:
        return "not counted"
    count, n = labels.molecules.get(name, labels.n_looked_at), labels.n_looked_at
    if n == 0:
        return "none"
    if labels.exact:
        return "all" if count == n else f"{count:,} of {n:,}"
    return f"about {count / n:.1%} ({count:,} of {n:,} sampled)"


def _nan_lines(labels: Labels | None) -> list[str]:
    """A note for each label that some molecules hold as NaN."""
    if labels is None:
        return []
    of = f"{labels.n_looked_at:,} {'molecules' if labels.exact else 'sampled'}"
    return [
        f"  {printable(name)}: NaN throughout in {n:,} of {of}: "
        "AtpDataset(nan_is_missing=True) takes these as absent"
        for name, n in labels.nan.items()
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
