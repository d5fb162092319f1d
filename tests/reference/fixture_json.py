"""The expected values next to each fixture file, turned into reference molecules."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from reference.atp_record import BadValueError, Molecule, Value

# The JSON says what a value is, not its tag; comparisons look at the data alone.
UNKNOWN_TAG = -1
ARRAY_BUILTINS = ("forces", "charges", "velocities", "cell", "stress")


@dataclass(frozen=True)
class Expected:
    """What the original reads from one file."""

    opens: bool
    molecules: list[Molecule | None]  # None: the original refuses this one
    flat: list[dict[str, Any]]


def load(path: Path) -> Expected:
    """Read ``NAME.json``."""
    content = json.loads(path.read_text())
    molecules = [molecule_of(m["value"]) if m["ok"] else None for m in content.get("molecules", [])]
    return Expected(content["open_readonly"]["ok"], molecules, content.get("flat", []))


def molecule_of(plain: dict[str, Any]) -> Molecule:
    """One molecule; errors of single values become ``BadValueError``."""
    molecule = Molecule(_array(plain["positions"]), _array(plain["atomic_numbers"]))
    builtins = molecule.builtins
    if plain["energy"] is not None:
        builtins["energy"] = Value(UNKNOWN_TAG, _float64(plain["energy"]))
    for key in ARRAY_BUILTINS:
        if plain[key] is not None:
            builtins[key] = Value(UNKNOWN_TAG, _array(plain[key]))
    if plain["pbc"] is not None:
        builtins["pbc"] = Value(UNKNOWN_TAG, np.array(plain["pbc"]))
    if plain.get("name") is not None:
        builtins["name"] = Value(UNKNOWN_TAG, plain["name"])
    for scope, name in (("atom", "atom_properties"), ("molecule", "properties")):
        for key, value in plain[name].items():
            molecule.custom(scope)[key] = _value(value)
    return molecule


def _value(plain: dict[str, Any]) -> Value | BadValueError:
    kind = plain["t"]
    if kind == "error":
        return BadValueError(plain["v"])
    data: Any = None
    if kind == "int":
        data = np.array(int(plain["v"]), "<i8")
    elif kind == "float":
        data = _float64(plain["hex"])
    elif kind == "str":
        data = plain["v"]
    elif kind == "array":
        data = _array(plain)
    return Value(UNKNOWN_TAG, data)


def _float64(hexadecimal: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(hexadecimal), "<f8").reshape(())


def _array(plain: dict[str, Any]) -> np.ndarray:
    raw = bytes.fromhex(plain["hex"])
    return np.frombuffer(raw, plain["dtype"]).reshape(plain["shape"])
