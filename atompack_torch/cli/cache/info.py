"""Tells what is in a feature cache: entries, rows, the descriptor, what the file says of itself.

  atompack-torch cache info water.h5
  atompack-torch cache info --json water.h5 | jq .files[0].n_entries

No row is read; indexes are.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from atompack_torch.cli._output import add_json, print_json, printable, table

NAME = "info"
HELP = "entries, rows, descriptor, attributes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("path", nargs="+", metavar="PATH", help="a cache file (HDF5)")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.errors import AtompackError
    from atompack_torch.inspection.caches import describe

    files, errors = [], []
    for path in options.path:
        try:
            files.append(describe(path))
        except AtompackError as error:
            files.append({"path": path, "error": str(error)})
            errors.append(str(error))
    if options.json:
        print_json({"files": files})
    else:
        for file in files:
            print(_text(file))
    for message in errors:
        print(f"atompack-torch cache info: {printable(message)}", file=sys.stderr)
    return 1 if errors else 0


def _text(file: dict[str, Any]) -> str:
    path = printable(file["path"])
    if "error" in file:
        return f"{path}: cannot be read"
    lines = [
        f"{path}: {file['n_entries']:,} entries, {file['n_atoms']:,} atoms, "
        f"{file['file_bytes']:,} bytes",
        f"  {file['n_with_energy']:,} with energy, {file['n_with_forces']:,} with forces",
        f"  {_sections_text(file)}",
    ]
    settings = file["descriptor"]
    if settings is not None:
        words = ", ".join(f"{key} {json.dumps(value)}" for key, value in settings.items())
        lines.append(f"  descriptor: {printable(words)}")
    rows = [
        (printable(f"{group}{name}"), printable(json.dumps(value)))
        for group, name, value in _attributes(file["attributes"])
    ]
    return "\n".join([*lines, *([table(rows, indent="  ")] if rows else [])])


def _sections_text(file: dict[str, Any]) -> str:
    found = []
    if file["features"]:
        found.append(f"features: {file['features']['n_features']:,} an atom")
    if rows := file["force_derivatives"]:
        found.append(
            f"force derivatives: {rows['n_rows']:,} entries, {rows['n_edges']:,} edges "
            f"({rows['n_radial']} functions), {rows['n_triplets']:,} triplets "
            f"({rows['n_angular']} functions)"
        )
    version = "no cache" if file["version"] is None else f"version {file['version']}"
    return "; ".join([version, *found, *([file["storage_dtype"]] if found else [])])


def _attributes(attributes: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Those of the cache first, then what its groups say besides; settings have their own line."""
    groups = {group: values for group, values in attributes.items() if isinstance(values, dict)}
    own = {name: value for name, value in attributes.items() if name not in groups}
    found = [("", name, value) for name, value in own.items()]
    for group, values in groups.items():
        found += [(f"{group}/", *item) for item in values.items() if item not in own.items()]
    return [item for item in found if not item[1].endswith(("compat_json", "config_json"))]
