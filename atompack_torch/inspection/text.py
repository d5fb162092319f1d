"""Values and tables as text, and values as plain JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any


def plain(value: Any) -> Any:
    """What JSON can hold of a value.

    Lists and texts stand for what it does not have: tensors, arrays, bytes, moments, numbers that
    are not finite, keys that are no texts.
    """
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if is_tensor(value):
        return plain([value.real, value.imag] if value.is_complex() else value.tolist())
    if _is_array(value):
        return plain((value if value.dtype.kind in "US" else value.astype(str)).tolist())
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_tensor(value: Any) -> bool:
    """Tells a tensor of torch, without importing it."""
    torch = sys.modules.get("torch")  # without it there are none
    return torch is not None and isinstance(value, torch.Tensor)


def first_of(value: Any, most: int) -> str:
    """The first values of a tensor, or of lists in lists."""
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


def printable(text: str) -> str:
    """One line without control characters: keys in files may hold what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns as wide as they need to be, the last one unpadded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(indent + line.rstrip() for line in lines)
