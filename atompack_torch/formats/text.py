"""Formatting of values and tables as text, and of values as plain JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from atompack_torch.errors import printable

__all__ = ["first_of", "is_tensor", "plain", "printable", "table"]

# Kinds of NumPy types whose elements Python has types for, and their largest sizes.
_MAX_ITEM_BYTES = {"b": 1, "i": 8, "u": 8, "f": 8, **dict.fromkeys("USVO", sys.maxsize)}


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
    if _is_of_numpy(value):
        return _plain_array(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _is_of_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


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
    if is_tensor(value):
        flat, n = value.flatten()[:most].tolist(), value.numel()
    else:
        flat, n = [], 0
        pending = [value]
        while pending:
            part = pending.pop()
            if isinstance(part, list):
                pending += reversed(part)
            else:
                n += 1
                flat += [part] if n <= most else []
    texts = [f"{x:.6g}" if isinstance(x, float) else repr(x) for x in flat]
    return " ".join(texts) + (" ..." if n > most else "")


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Formats rows in columns of minimal width, the last one unpadded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(indent + line.rstrip() for line in lines)
