"""Symbols of the chemical elements."""

from atompack_torch._native import element_symbols

# By atomic number; X is the symbol of 0, which is not an element.
SYMBOLS = tuple(element_symbols())


def symbol(number: int) -> str:
    """Returns the symbol of an atomic number; ``"Z200"`` for 200, which has none."""
    return SYMBOLS[number] if 0 <= number < len(SYMBOLS) else f"Z{number}"
