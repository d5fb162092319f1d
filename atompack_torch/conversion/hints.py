"""Warnings about names that suggest another quantity than the label they were mapped to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from atompack_torch.conversion.changes import Changes

_LABELS = ("energy", "forces", "stress")


def name_warnings(sources: Mapping[str, Sequence[str]], changes: Changes) -> list[str]:
    """Returns a warning for each source name that suggests another quantity, or the other sign.

    Args:
        sources: label → its names in the sources.
        changes: requested changes; one that resolves the issue suppresses its warning.

    Returns:
        The warnings.
    """
    rules = [
        ("forces", r"grad|deriv|de_?d[rx]", "a gradient, minus the force", "force_sign", "flip"),
        ("stress", r"virial", "a virial, which is -stress times volume", "stress_from", "virial"),
        ("stress", r"press", "a pressure, of the other sign", "stress_sign", "flip"),
        ("energy", r"per_?atom", "an energy per atom, not of the structure", None, None),
    ]
    lines = []
    for label, pattern, suggestion, option, choice in rules:
        if option is not None and getattr(changes, option) is not None:
            continue
        cure = f": {option}={choice!r} converts it" if option else ""
        lines += [
            f"{label}: taken from {name!r}, whose name suggests {suggestion}{cure}"
            for name in sources.get(label, ())
            if re.search(pattern, name, re.IGNORECASE)
        ]
    return lines


def no_labels_warning(
    fields: Iterable[str], skipped: Iterable[tuple[str, str]], *, is_arrays: bool
) -> str | None:
    """Returns a warning that a source has no labels, with what it has instead.

    Args:
        fields: fields of the source, properties with their scope.
        skipped: (what, why) of values left out.
        is_arrays: True for NPZ and HDF5, where labels may have any name; in other sources,
            structures without any fields are normal.

    Returns:
        The warning; None if there are labels, or nothing at all.
    """
    fields = [*fields]
    if any(label in fields for label in _LABELS):
        return None
    there = [field for field in fields if field not in ("pbc", "cell", "name")]
    there += [what for what, _ in skipped if what.startswith(("array ", "column ", "info "))]
    if not there and not is_arrays:
        return None
    found = f"found {', '.join(there)}" if there else "nothing else was found"
    return f"no energy, forces or stress was taken; {found}: name them in keys if they are there"
