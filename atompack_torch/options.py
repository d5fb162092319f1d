"""Options that have a few values."""

from __future__ import annotations


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{option}: expected one of {', '.join(choices)}, got {value!r}")
