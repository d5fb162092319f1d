"""Symbols of the chemical elements."""

from __future__ import annotations

from collections.abc import Mapping

from atompack_torch._native import element_symbols

# By atomic number; X is the symbol of 0, which is not an element.
SYMBOLS = tuple(element_symbols())


def symbol(number: int) -> str:
    """Returns the symbol of an atomic number; ``"Z200"`` for 200, which has none."""
    return SYMBOLS[number] if 0 <= number < len(SYMBOLS) else f"Z{number}"


def formula(counts: Mapping[str, int]) -> str:
    """Formula in Hill order: carbon, hydrogen, then by symbol; without carbon all by symbol."""
    first = ["C", "H"] if "C" in counts else []
    order = sorted(counts, key=lambda s: (first.index(s) if s in first else len(first), s))
    return "".join(s + (str(counts[s]) if counts[s] > 1 else "") for s in order)
