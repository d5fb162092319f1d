"""The symbols of the chemical elements."""

from atompack_torch._native import element_symbols

# By atomic number; X stands for what is no element.
SYMBOLS = tuple(element_symbols())


def symbol(number: int) -> str:
    """The symbol of an atomic number; ``Z200`` for one that no element has."""
    return SYMBOLS[number] if 0 <= number < len(SYMBOLS) else f"Z{number}"
