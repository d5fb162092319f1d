"""Digest of what a dataset holds, by which a state that is resumed later recognizes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_SAMPLES = 64


def samples_of(n: int) -> list[int]:
    """Returns the items whose values are digested: at most 64, evenly spread."""
    spread = np.linspace(0, max(n - 1, 0), min(n, _SAMPLES))
    return [int(number) for number in spread.round()]


def digest_of(*parts: object) -> str:
    """Digests values in order.

    It depends on values alone: not on the machine, nor on place, codec or generation of files.

    Args:
        *parts: tensors, arrays, numbers, strings, and mappings and iterables of them.

    Returns:
        16 hexadecimal digits.
    """
    state = hashlib.blake2b(digest_size=8)
    _add(state, parts)
    return state.hexdigest()


def _add(state: Any, value: object) -> None:
    if isinstance(value, Tensor):
        state.update(f"{value.dtype} {tuple(value.shape)}".encode())
        state.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        _add(state, torch.from_numpy(np.ascontiguousarray(value)))
    elif isinstance(value, Mapping):
        _add(state, sorted(value.items(), key=repr))
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        state.update(b"[")
        for each in value:
            _add(state, each)
    elif value is None or isinstance(value, (str, bytes, int, float, complex)):
        state.update(repr(value).encode(errors="surrogatepass") + b";")
    else:  # an object that a pickle made
        state.update(type(value).__name__.encode())
