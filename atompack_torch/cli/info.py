"""Tells what is in a file: molecules, labels, codec, commits, and where its bytes go.

  atompack-torch info alloys.atp
  atompack-torch info --json shards/ | jq .n_molecules

No record is read (files of release 0.2 excepted, which do not store their labels). Dead space is
what older commits left behind: `atompack-torch compact` gets rid of it. A tail are bytes behind the
last commit.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._output import (
    add_json,
    add_paths,
    files_at,
    print_json,
    printable,
    table,
)

if TYPE_CHECKING:
    from atompack_torch import FieldSpec

NAME = "info"
HELP = "molecules, labels, codec, commits, use of space"

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
    try:
        if sound:
            schema = AtpDataset([file["path"] for file in sound]).schema
    except AtompackError as error:
        errors.append(str(error))
    total = {key: _sum(file[key] for file in sound) for key in _SUMMED}
    if options.json:
        print_json({**total, "schema": _plain_schema(schema), "files": files})
    else:
        _print_text(files, total, schema)
    for message in errors:
        print(f"atompack-torch info: {printable(message)}", file=sys.stderr)
    return 1 if errors else 0


def describe(path: str) -> dict[str, Any]:
    """What is known of one file; ``error`` in place of all but the slots if it cannot be read."""
    from atompack_torch._core import AtpSpaceUse, describe_slots
    from atompack_torch.datasets.atp import snapshot_of
    from atompack_torch.errors import AtompackError

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
    files: list[dict[str, Any]], total: dict[str, Any], schema: dict[str, FieldSpec]
) -> None:
    for file in files:
        print(_file_text(file))
    if len(files) > 1:
        print(
            f"{len(files)} files: {total['n_molecules']:,} molecules, {total['n_atoms']:,} atoms\n"
            f"  {_space_text(total)}"
        )
    rows = [("field", "level", "dtype", "shape of a row")]
    for name, spec in schema.items():
        dtype = str(spec.dtype).removeprefix("torch.")
        shape = "differs" if spec.shape is None else str(spec.shape)
        rows.append((printable(name), spec.level, dtype, shape))
    if schema:
        print(table(rows))


def _file_text(file: dict[str, Any]) -> str:
    path = printable(file["path"])
    slots = "; ".join(f"slot {name}: {_slot_text(slot)}" for name, slot in file["slots"].items())
    if "error" in file:
        return f"{path}: cannot be read\n  {slots}"
    level = f" (level {file['level']})" if file["codec"] == "zstd" else ""
    return (
        f"{path}: {file['n_molecules']:,} molecules, {file['n_atoms']:,} atoms\n"
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
