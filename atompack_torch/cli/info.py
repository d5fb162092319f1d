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
import sys
from typing import Any

from atompack_torch.cli._output import (
    add_json,
    add_paths,
    are_all,
    print_json,
    printable,
    shows_progress,
    table,
)

NAME = "info"
HELP = "molecules, labels, codec, commits, use of space"

_STRATEGIES = ("bare", "zstd", "zstd, shared dictionary", "zstd, own dictionary")
_MOST_SHARDS = 20  # of a data set, in text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    parser.add_argument(
        "--full", action="store_true", help="count labels in all records, however many there are"
    )


def needs_torch(options: argparse.Namespace) -> bool:
    """Never, so that it answers at once."""
    return False


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.formats import is_shards, is_store

    if are_all(options.path, is_store, "ATLAS stores"):
        return _run_on_stores(options)
    if are_all(options.path, is_shards, "data sets of Atlas shards"):
        return _run_on_shards(options)
    from atompack_torch.inspection.atp import describe

    described, errors = describe(options.path, full=options.full, progress=shows_progress(options))
    if options.json:
        print_json(described)
    else:
        _print_molecules(described)
    for message in errors:
        print(f"atompack-torch info: {printable(message)}", file=sys.stderr)
    return 1 if errors else 0


def _run_on_stores(options: argparse.Namespace) -> int:
    from atompack_torch.inspection.stores import describe

    stores = [describe(path) for path in options.path]
    if options.json:
        print_json(stores)
        return 0
    for store in stores:
        path = printable(store["path"])
        print(f"{path}: {store['n_datasets']:,} datasets, {store['file_bytes']:,} bytes")
        rows = [("array", "datasets", "dtype", "shape")]
        for array in store["arrays"]:
            shape = str(array["shape"]) if array["shape"] is not None else "differs"
            dtype = array["dtype"] or "differs"
            rows.append((printable(array["name"]), f"{array['n_datasets']:,}", dtype, shape))
        print(table(rows, "  "))
    return 0


def _run_on_shards(options: argparse.Namespace) -> int:
    from atompack_torch.inspection.shards import describe

    sets = [describe(path) for path in options.path]
    if options.json:
        print_json({"n_examples": sum(s["n_examples"] for s in sets), "data_sets": sets})
        return 0
    for described in sets:
        print(
            f"{printable(described['path'])}: {described['n_examples']:,} examples in "
            f"{len(described['shards']):,} shards, {described['file_bytes']:,} bytes"
        )
        rows = [("shard", "examples", "in a block", "stored")]
        for shard in described["shards"][:_MOST_SHARDS]:
            numbers = f"{shard['n_examples']:,}", f"{shard['block_size']:,}"
            stored = _STRATEGIES[shard["strategy"]]
            level = f" (level {shard['level']})" if shard["strategy"] else ""
            rows.append((printable(shard["name"]), *numbers, stored + level))
        print(table(rows, "  "))
        if len(described["shards"]) > _MOST_SHARDS:
            print(f"  ... and {len(described['shards']) - _MOST_SHARDS:,} more")
        if described["warning"] is not None:
            print(f"  warning: {printable(described['warning'])}")
    return 0


def _print_molecules(described: dict[str, Any]) -> None:
    files, labels = described["files"], described["labels"]
    name = f"{len(files)} files" if len(files) > 1 else printable(files[0]["path"])
    if len(files) > 1 or "error" not in files[0]:
        print(f"{name}: {described['n_molecules']:,} molecules, {described['n_atoms']:,} atoms")
    if described["schema"]:
        print(_labels_text(described["schema"], labels))
    for line in _nan_lines(labels):
        print(line)
    if len(files) > 1:
        print(f"  {_space_text(described)}")
    for file in files:
        print(_file_text(file, with_counts=len(files) > 1))


def _labels_text(schema: dict[str, Any], labels: dict[str, Any] | None) -> str:
    rows = [("field", "level", "dtype", "shape of a row", "molecules that have it")]
    for name, spec in schema.items():
        shape = "differs" if spec["shape"] is None else str(spec["shape"])
        count = _count_text(name, labels)
        rows.append((printable(name), spec["level"], spec["dtype"], shape, count))
    found = () if labels is None else labels["molecules"]
    for name in (name for name in found if name not in schema):  # in records alone
        rows.append((printable(name), "", "", "", _count_text(name, labels)))
    return table(rows, "  ")


def _count_text(name: str, labels: dict[str, Any] | None) -> str:
    """The count of one field; positions and atomic numbers are no labels and always there."""
    if labels is None:
        return "not counted"
    n = labels["n_looked_at"]
    count = labels["molecules"].get(name, n)
    if n == 0:
        return "none"
    if labels["exact"]:
        return "all" if count == n else f"{count:,} of {n:,}"
    return f"about {count / n:.1%} ({count:,} of {n:,} sampled)"


def _nan_lines(labels: dict[str, Any] | None) -> list[str]:
    """A note for each label that some molecules hold as NaN."""
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
