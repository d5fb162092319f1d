"""Checks of arguments (choices, levels, limits, names, paths), and abbreviation of lists."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from atompack_torch.errors import FieldError

MAX_METADATA_BYTES = 1 << 30
_LONGEST_NAME = 60


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{option}: expected one of {', '.join(choices)}, got {value!r}")


def check_threads(num_threads: int | None) -> None:
    """Raises ValueError unless it is None or at least 1."""
    if num_threads is not None and num_threads < 1:
        raise ValueError(f"num_threads: expected a positive number or None, got {num_threads}")


def utf8(what: str, text: Any) -> str:
    """Returns a string, checked to be valid in UTF-8: without lone surrogates.

    Args:
        what: name of the argument, for the message.
        text: the string.

    Raises:
        TypeError: it is not a string.
        FieldError: it holds characters that UTF-8 cannot encode.
    """
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected a string, got {type(text).__name__}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FieldError(
                f"{what}: expected characters that UTF-8 has bytes for, got {text!r}"
            ) from None
    return text


def short_list(names: Iterable[Any], n: int, most: int = 10) -> str:
    """Formats the first names of a list and the number of others; for ``repr``.

    Args:
        names: at least the first ``most`` of them.
        n: total number of names.
        most: maximum number to show.
    """
    shown = [str(name) for name in islice(names, most)]
    shown = [x if len(x) <= _LONGEST_NAME else f"{x[: _LONGEST_NAME - 3]}..." for x in shown]
    return ", ".join(shown) + (f", ... ({n:,} in all)" if n > len(shown) else "")


def checked_path(path: Any) -> str:
    """Returns a path as a string.

    Raises:
        TypeError: it is neither a string nor a path.
        ValueError: it is not a valid file name: it holds a NUL character or a lone surrogate.
    """
    name = os.fspath(path)
    if not isinstance(name, str):
        raise TypeError(f"path: expected str or os.PathLike[str], got {type(name).__name__}")
    if "\0" in name:
        raise ValueError(f"path: expected a name without NUL characters, got {name!r}")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise ValueError(
            f"path: expected characters that a file name can hold, got {name!r}"
        ) from None
    return name


def absolute_path(path: Any) -> str:
    """Returns an absolute path as a string, valid in processes with another working directory."""
    return str(Path(checked_path(path)).absolute())


def check_level(codec: str | None, level: int) -> None:
    """Raises unless the codec supports the level; the libraries would silently clamp it.

    Args:
        codec: ``"lz4"``, ``"zstd"``; ``"none"`` and None (a file's own codec) take levels of zstd.
        level: level given by the caller.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is out of range.
    """
    from atompack_torch._native import LZ4_LEVELS, ZSTD_LEVELS

    if isinstance(level, bool) or not hasattr(level, "__index__"):
        raise TypeError(f"level: expected an int, got {level!r}")
    low, high = LZ4_LEVELS if codec == "lz4" else ZSTD_LEVELS
    if not low <= level <= high:
        known = f" for codec {codec}" if codec in ("lz4", "zstd") else ""
        raise ValueError(f"level: expected {low} to {high}{known}, got {level}")


def check_limits(max_metadata_bytes: int, max_unstored_bytes: int | None) -> None:
    """Checks limits on memory.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is negative.
    """
    limits = {"max_metadata_bytes": max_metadata_bytes, "max_unstored_bytes": max_unstored_bytes}
    for name, limit in limits.items():
        if limit is None and name == "max_unstored_bytes":
            continue
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f"{name}: expected a number of bytes, got {limit!r}")
        if limit < 0:
            raise ValueError(f"{name}: expected a number from 0, got {limit}")
