"""Warnings about names that suggest a meaning other than the one they were given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from atompack_torch.options import ChangeOptions


def name_warnings(
    sources: Mapping[str, Sequence[str]], changes: ChangeOptions, where: str = ""
) -> list[str]:
    """Returns a warning for each source name that suggests another quantity, or the other sign.

    Args:
        sources: label → its names in the sources.
        changes: requested changes; one that resolves the issue suppresses its warning.
        where: words after an option that resolves it.

    Returns:
        The warnings.
    """
    rules = [
        ("forces", r"grad|deriv|de_?d[rx]", "a gradient, minus the force", "force_sign", "flip"),
        ("stress", r"virial", "a virial, which is -stress times volume", "stress_from", "virial"),
        ("stress", r"press", "a pressure, of the other sign", "stress_sign", "flip"),
        ("energy", r"per_?atom", "an energy per atom, not of the molecule", None, None),
    ]
    lines = []
    for label, pattern, suggestion, option, choice in rules:
        if option is not None and getattr(changes, option) is not None:
            continue
        cure = f": {option}={choice!r}{where} converts it" if option else ""
        lines += [
            f"{label}: taken from {name!r}, whose name suggests {suggestion}{cure}"
            for name in sources.get(label, ())
            if re.search(pattern, name, re.IGNORECASE)
        ]
    return lines
