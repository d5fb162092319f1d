"""Writes the stored files of this folder anew.

    python tests/golden/make_golden.py

They hold what users see at the commit that wrote them. Run this only where something of it is to
change, and add what changed, and why, to CHANGES.md of this folder.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden import forms, mistakes, reading, signatures, stored_objects
from golden.description import FIXTURES, GOLDEN, Found, Lines, attempt


def _write(name: str, found: dict[str, Found]) -> None:
    """Stores descriptions, each once: a table of all, and their keys by case and name."""
    table: dict[str, Lines] = {}
    cases: dict[str, dict[str, str]] = {}
    for case, descriptions in found.items():
        cases[case] = {}
        for label, lines in descriptions.items():
            key = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
            table[key] = lines
            cases[case][label] = key
    stored: dict[str, Any] = {"cases": cases, "descriptions": dict(sorted(table.items()))}
    text = json.dumps(stored, indent=0, ensure_ascii=True)
    (GOLDEN / f"{name}.json").write_text(text + "\n")


def read_stored(name: str) -> dict[str, Found]:
    """The descriptions of a stored file, by case and name."""
    stored = json.loads((GOLDEN / f"{name}.json").read_text())
    table = stored["descriptions"]
    return {
        case: {label: table[key] for label, key in keys.items()}
        for case, keys in stored["cases"].items()
    }


def main() -> None:
    """Writes all of them."""
    for kind, (read, fixtures) in reading.KINDS.items():
        _write(kind, {name: read(FIXTURES / name) for name in fixtures})
    _write("forms", {name: forms.read_forms(name) for name in forms.BATCHES})
    _write("commands", {name: forms.read_commands(name) for name in forms.FILES})
    stored_objects.write_all()
    objects = {name: stored_objects.read_object(name) for name in stored_objects.names()}
    _write("objects", objects)
    _write("orders", {"orders": stored_objects.read_orders()})
    with tempfile.TemporaryDirectory() as folder:
        calls = mistakes.mistakes(Path(folder))
        _write("mistakes", {n: {n: attempt(call, Path(folder))} for n, call in calls.items()})
    (GOLDEN / "signatures.txt").write_text("\n".join(signatures.public_signatures()) + "\n")


if __name__ == "__main__":
    main()
