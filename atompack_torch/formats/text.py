"""Molecules, examples, values and tables as text, and as plain JSON."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch.batch.elements import formula as hill_formula
from atompack_torch.batch.elements import symbol
from atompack_torch.errors import printable
from atompack_torch.fields import usual_unit, with_usual_unit

if TYPE_CHECKING:
    from torch import Tensor

    from atompack_torch.batch.molecule_batch import Molecule

# Kinds of NumPy types whose elements Python has types for, and their largest sizes.
_MAX_ITEM_BYTES = {"b": 1, "i": 8, "u": 8, "f": 8, **dict.fromkeys("USVO", sys.maxsize)}

_MOST_VALUES = 12  # of one field of a molecule in a list
_MOST_VALUES_ALONE = 18  # of one field of a molecule that is shown alone
_MAX_WIDTH = 3  # columns of a field in the table of atoms
_MOST_ITEMS = 20  # of a list in an example
_MOST_CHARACTERS = 60  # of a value in an example
_BINS = 10
_WIDTH = 40


def plain(value: Any) -> Any:
    """Converts a value to plain JSON values.

    Lists and strings represent types that JSON lacks: tensors, arrays, bytes, timestamps,
    non-finite numbers, keys that are not strings; a record of a structured array becomes an object.
    """
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if is_tensor(value):
        return plain([value.real, value.imag] if value.is_complex() else value.tolist())
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain_array(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _plain_array(value: Any) -> Any:
    """Converts a NumPy array, scalar or record, of a type that torch may lack."""
    if value.dtype.names is not None:
        if value.ndim:
            return [plain(part) for part in value]
        return {name: plain(value[name]) for name in value.dtype.names}
    if value.dtype.itemsize <= _MAX_ITEM_BYTES.get(value.dtype.kind, 0):
        return plain(value.tolist())
    return value.astype(str).tolist()


def is_tensor(value: Any) -> bool:
    """True if a value is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")  # without torch there are no tensors
    return torch is not None and isinstance(value, torch.Tensor)


def first_of(value: Any, most: int) -> str:
    """Formats the first values of a tensor, or of nested lists."""
    first = value.flatten()[: most + 1].tolist() if is_tensor(value) else _first_in(value, most + 1)
    texts = [f"{x:.6g}" if isinstance(x, float) else repr(x) for x in first[:most]]
    return " ".join(texts) + (" ..." if len(first) > most else "")


def _first_in(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    return list(islice(chain.from_iterable(_first_in(part, most) for part in value), most))


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Formats rows in columns of minimal width, the last one unpadded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(indent + line.rstrip() for line in lines)


def formula(atomic_numbers: list[int]) -> str:
    """Formula in Hill order of the atoms."""
    return hill_formula(Counter(map(symbol, atomic_numbers)))


def molecule_text(number: int, molecule: Molecule) -> str:
    """Formats a molecule as one line, followed by one per field."""
    numbers = molecule["atomic_numbers"].tolist()
    rows = []
    for name in molecule.keys():
        value = molecule[name]
        if value is None or isinstance(value, str):
            kind, shape, shown = "string" if value is not None else "none", "", repr(value)
        else:
            kind = str(value.dtype).removeprefix("torch.")
            shape, shown = str(tuple(value.shape)), first_of(value, _MOST_VALUES)
        unit = usual_unit(name)
        rows.append((printable(name), kind, shape, unit and f"usually {unit}", printable(shown)))
    return f"molecule {number}: {formula(numbers)}, {len(numbers)} atoms\n{table(rows, '  ')}"


def molecule_document(number: int, molecule: Molecule) -> dict[str, Any]:
    """Converts a molecule to plain JSON values."""
    fields: dict[str, Any] = {}
    for name in molecule.keys():
        value = molecule[name]
        if value is None or isinstance(value, str):
            fields[name] = {"dtype": "none" if value is None else "string", "values": value}
            continue
        fields[name] = {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "values": plain(value),
        }
    return {"molecule": number, "n_atoms": len(molecule), "fields": fields}


def histogram(sizes: dict[int, int]) -> list[str]:
    """Draws bars for the number of molecules by number of atoms."""
    if not sizes:
        return []
    low, high = min(sizes), max(sizes)
    step = (high - low) // _BINS + 1
    counts = [0] * ((high - low) // step + 1)
    for n_atoms, molecules in sizes.items():
        counts[(n_atoms - low) // step] += molecules
    lines = ["atoms a molecule:"]
    for i, count in enumerate(counts):
        first, last = low + i * step, min(low + (i + 1) * step - 1, high)
        name = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        bar = "#" * -(-count * _WIDTH // max(counts))
        lines.append(f"{name:>16} {count:>12,} {bar}".rstrip())
    return lines


def structure_text(number: int, molecule: Molecule, max_atoms: int) -> str:
    """Formats a molecule: its labels with usual units, then a table of atoms.

    Args:
        number: number of the molecule.
        molecule: the molecule.
        max_atoms: show at most this many atoms.

    Returns:
        Several lines.
    """
    numbers = molecule["atomic_numbers"].tolist()
    n = len(numbers)
    lines = [f"molecule {number}: {formula(numbers)}, {n:,} atoms"]
    columns = [["", *map(str, range(min(n, max_atoms)))], ["", *map(symbol, numbers[:max_atoms])]]
    rows: list[tuple[str, str, str]] = []
    for name in molecule.keys():
        value = molecule[name]
        if name == "atomic_numbers":
            continue
        if value is None or isinstance(value, str):
            rows.append((printable(name), "" if value is None else printable(repr(value)), ""))
        elif _is_column(value, n) and molecule.level(name) == "atom":
            columns += _columns_of(name, value[:max_atoms])
        else:
            unit = usual_unit(name)
            rows.append((printable(name), printable(_values_of(value)), unit and f"usually {unit}"))
    if rows:
        lines.append(table(rows, "  "))
    lines.append(table([*zip(*columns, strict=True)], "  "))
    if n > max_atoms:
        lines.append(f"  ... and {n - max_atoms:,} more atoms")
    return "\n".join(lines)


def _is_column(value: Tensor, n_atoms: int) -> bool:
    is_narrow = value.ndim == 1 or (value.ndim == 2 and value.shape[1] <= _MAX_WIDTH)
    return len(value) == n_atoms if value.ndim and is_narrow else False


def _columns_of(name: str, values: Tensor) -> list[list[str]]:
    """Returns the columns of a table of atoms, each with its heading."""
    head = with_usual_unit(printable(name), name)
    if values.ndim == 1:
        return [[head, *map(_number, values.tolist())]]
    columns = values.T.tolist()
    heads = [head, *[""] * (len(columns) - 1)]
    return [[text, *map(_number, column)] for text, column in zip(heads, columns, strict=True)]


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _values_of(value: Tensor) -> str:
    """Formats the values of a field, rows of matrices separated by semicolons."""
    if value.ndim == 0:
        return f"{value.item():.10g}" if value.is_floating_point() else str(value.item())
    if value.ndim == 2 and value.numel() <= _MOST_VALUES_ALONE:
        return "; ".join(" ".join(map(_number, row)) for row in value.tolist())
    return f"{tuple(value.shape)} {first_of(value, _MOST_VALUES_ALONE)}"


def example_text(number: int, value: object) -> str:
    """Formats an example as one line, followed by one per value."""
    rows = [(printable(key), kind, shown) for key, kind, shown in _rows("", value)]
    return f"example {number}: {_kind(value)}\n{table(rows, '  ')}"


def example_document(number: int, value: object) -> dict[str, Any]:
    """Converts an example to plain JSON values."""
    return {"example": number, "value": plain(value)}


def _kind(value: Any) -> str:
    if is_tensor(value):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, (dict, list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def _rows(name: str, value: Any) -> list[tuple[str, str, str]]:
    """Lists name, kind and beginning of each value; nested values follow their container."""
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, (list, tuple)) and len(value) <= _MOST_ITEMS:
        parts = list(enumerate(value))
    if not parts:
        return [(name, _kind(value), _shown(value))]
    return [
        row for key, part in parts for row in _rows(f"{name}.{key}" if name else str(key), part)
    ]


def _shown(value: Any) -> str:
    text = " ".join(repr(value.tolist() if is_tensor(value) else value).split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 4] + " ..."


def labels_text(schema: dict[str, Any], labels: dict[str, Any] | None) -> str:
    """Formats a table of the fields: usual units, and numbers of molecules that have each."""
    rows = [("field", "level", "dtype", "shape of a row", "usual unit", "molecules that have it")]
    for name, spec in schema.items():
        shape = "differs" if spec["shape"] is None else str(spec["shape"])
        count = _count_text(name, labels)
        rows.append((printable(name), spec["level"], spec["dtype"], shape, usual_unit(name), count))
    found = () if labels is None else labels["molecules"]
    for name in (name for name in found if name not in schema):  # only in records
        rows.append((printable(name), "", "", "", usual_unit(name), _count_text(name, labels)))
    return table(rows, "  ")


def _count_text(name: str, labels: dict[str, Any] | None) -> str:
    """Formats the count of one field; positions and atomic numbers are in every molecule."""
    if labels is None:
        return "not counted"
    n = labels["n_looked_at"]
    count = labels["molecules"].get(name, n)
    if n == 0:
        return "none"
    if labels["exact"]:
        return "all" if count == n else f"{count:,} of {n:,}"
    return f"about {count / n:.1%} ({count:,} of {n:,} sampled)"
