"""How values are shown: as JSON, or a few of them in a line."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """What JSON can hold of a value.

    Lists and texts stand for what it does not have: tensors, arrays, bytes, moments, numbers that
    are not finite, keys that are no texts.
    """
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if _is_tensor(value):
        return plain([value.real, value.imag] if value.is_complex() else value.tolist())
    if isinstance(value, np.ndarray):
        return plain((value if value.dtype.kind in "US" else value.astype(str)).tolist())
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # without it there are none
    return torch is not None and isinstance(value, torch.Tensor)


def first_of(value: Any, most: int) -> str:
    """The first values of a tensor, or of lists in lists."""
    if _is_tensor(value):
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
