"""Names of labels and properties in fairchem, and reference energies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from atompack_torch.datasets.outputs import by_atomic_number
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY, Level
from atompack_torch.trainers._labels import property_name

LABELS: Final[dict[str, Level]] = {"energy": "molecule", "forces": "atom", "stress": "molecule"}

# Integers that every AtomicData has -> scope of the custom property that holds them.
INTEGERS: Final = {
    "charge": MOLECULE_PROPERTY,
    "spin": MOLECULE_PROPERTY,
    "fixed": ATOM_PROPERTY,
    "tags": ATOM_PROPERTY,
}
STRINGS = {"sid": MOLECULE_PROPERTY, "dataset": MOLECULE_PROPERTY}

Names = Mapping[str, str | Sequence[str]]
References = Mapping[int, float] | Mapping[str, Mapping[int, float]]


def properties_of(contents: Any) -> tuple[tuple[str, str], ...]:
    """Returns the custom properties that a batch of fairchem has a place for.

    Args:
        contents: a batch, or the schema of a dataset.

    Returns:
        Pairs of charge, spin, fixed, tags, sid or dataset, and the name of the property.
    """
    scopes = (INTEGERS | STRINGS).items()
    found = ((key, property_name(contents, key, scope)) for key, scope in scopes)
    return tuple((key, name) for key, name in found if name is not None)


def pairs_of(labels: Names | None, having: Iterable[str] = LABELS) -> tuple[tuple[str, str], ...]:
    """Returns pairs of the name of a label in the batch, and the label.

    Args:
        labels: energy, forces or stress → name or names in the batch; None: as they are.
        having: the labels that there are.

    Returns:
        The pairs; labels that are not named keep their names.

    Raises:
        ValueError: there is no such label.
    """
    labels = labels or {}
    if unknown := sorted(labels.keys() - LABELS.keys()):
        raise ValueError(f"labels: expected energy, forces or stress, got {unknown[0]!r}")
    pairs = []
    for label in LABELS:
        if label not in having:
            continue
        names = labels.get(label, label)
        pairs += [(name, label) for name in ([names] if isinstance(names, str) else names)]
    return tuple(pairs)


def tables_of(
    references: References | None, energies: Sequence[str]
) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Returns energies of elements by atomic number.

    Args:
        references: atomic number → energy, or such a mapping for each name of an energy.
        energies: names of the energies.

    Returns:
        Pairs of a name and the energies; NaN for an element without.
    """
    if not references:
        return ()
    is_nested = all(isinstance(value, Mapping) for value in references.values())
    tables: Mapping[Any, Any] = references if is_nested else dict.fromkeys(energies, references)
    plain = {name: {int(z): float(e) for z, e in table.items()} for name, table in tables.items()}
    return tuple((name, by_atomic_number(table, math.nan)) for name, table in plain.items())
