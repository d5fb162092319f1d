"""Checks of options that several classes share."""

from __future__ import annotations

from atompack_torch._core import LZ4_LEVELS, ZSTD_LEVELS


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{option}: expected one of {', '.join(choices)}, got {value!r}")


def check_level(codec: str | None, level: int) -> None:
    """Raises unless the codec takes the level; the libraries would clamp it and say nothing.

    Args:
        codec: ``"lz4"``, ``"zstd"``; ``"none"`` and None (a file's own codec) take what zstd does.
        level: as given by the caller.

    Raises:
        TypeError: it is no integer.
        ValueError: it is out of range.
    """
    if isinstance(level, bool) or not hasattr(level, "__index__"):
        raise TypeError(f"level: expected an int, got {level!r}")
    low, high = LZ4_LEVELS if codec == "lz4" else ZSTD_LEVELS
    if not low <= level <= high:
        known = f" for codec {codec}" if codec in ("lz4", "zstd") else ""
        raise ValueError(f"level: expected {low} to {high}{known}, got {level}")
