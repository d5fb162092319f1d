"""Writes and reads .atp files with atompack-db on request.

Requests and answers are pickles of plain values on stdin and stdout; see ``client.py``. A process
of its own, because atompack-db hangs in forked children once the parent has used it.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import atompack

BUILTINS = ("energy", "forces", "charges", "velocities", "cell", "stress", "pbc", "name")


def to_molecule(plain: dict[str, Any]) -> Any:
    """An atompack molecule from a dict of arrays."""
    builtins = {key: plain[key] for key in BUILTINS if plain.get(key) is not None}
    molecule = atompack.Molecule.from_arrays(
        plain["positions"], plain["atomic_numbers"], **builtins
    )
    for key, value in plain.get("properties", {}).items():
        molecule.set_property(key, value, scope="molecule")
    for key, value in plain.get("atom_properties", {}).items():
        molecule.set_property(key, value, scope="atom")
    return molecule


def write(path: str, commits: list[list[dict[str, Any]]], codec: str, level: int) -> int:
    """Create a file with one commit per list of molecules; returns its length."""
    database = atompack.Database(path, compression=codec, level=level, overwrite=True)
    for molecules in commits:
        if molecules:
            database.add_molecules([to_molecule(m) for m in molecules])
        database.flush()
    return len(database)


def append(path: str, molecules: list[dict[str, Any]]) -> int:
    """Append one commit to an existing file; returns its length."""
    database = atompack.Database.open(path, mmap=False)
    database.add_molecules([to_molecule(m) for m in molecules])
    database.flush()
    return len(database)


def write_stacked(path: str, codec: str, positions: Any, numbers: Any, kwargs: Any) -> int:
    """Create a file by one stacked write."""
    database = atompack.Database(path, compression=codec, overwrite=True)
    database.add_arrays_batch(positions, numbers, **kwargs)
    database.flush()
    return len(database)


def flat(path: str, indices: list[int]) -> dict[str, Any]:
    """What the original's flat read gives."""
    return dict(atompack.Database.open(path).get_molecules_flat(indices))


ACTIONS: dict[str, Callable[..., Any]] = {
    "write": write,
    "append": append,
    "write_stacked": write_stacked,
    "flat": flat,
}


def main() -> None:
    """Answer requests until stdin ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            action, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = (True, ACTIONS[action](**arguments))
        except Exception as error:  # the client raises it again
            answer = (False, f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
