"""Writes and reads .atp files with atompack-db on request.

A process of its own, because atompack-db hangs in forked children once the parent has used it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import atompack
from pipe import serve

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


def to_plain(molecule: Any) -> dict[str, Any]:
    """A dict of arrays from an atompack molecule; the other way round than ``to_molecule``."""
    plain = {key: getattr(molecule, key) for key in BUILTINS if key != "name"}
    plain["name"] = name_of(molecule)
    plain["positions"], plain["atomic_numbers"] = molecule.positions, molecule.atomic_numbers
    for name, scope in (("properties", "molecule"), ("atom_properties", "atom")):
        keys = molecule.property_keys(scope=scope)
        plain[name] = {key: molecule.get_property(key) for key in keys}
    return plain


def name_of(molecule: Any) -> str | None:
    """A molecule has no getter for its name, but its pickle starts with it."""
    raw = molecule.__reduce__()[1][0]
    if raw[0] == 0:
        return None
    length = int.from_bytes(raw[1:9], "little")
    return bytes(raw[9 : 9 + length]).decode()


def read(path: str) -> list[dict[str, Any]]:
    """All molecules, one by one."""
    database = atompack.Database.open(path)
    return [to_plain(database[i]) for i in range(len(database))]


ACTIONS: dict[str, Callable[..., Any]] = {
    "write": write,
    "append": append,
    "read": read,
}


if __name__ == "__main__":
    serve(ACTIONS)
