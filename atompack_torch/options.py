"""Checks of options: choices and limits."""

from __future__ import annotations

MAX_METADATA_BYTES = 1 << 30


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{option}: expected one of {', '.join(choices)}, got {value!r}")


def check_limits(max_metadata_bytes: int, max_unstored_bytes: int | None) -> None:
    """Checks limits on memory.

    Raises:
        TypeError: one is no whole number.
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
