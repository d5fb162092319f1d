"""The fields that this package knows by name, and how names and fields belong together."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from atompack_torch._native import BUILTIN_FIELDS, DERIVATIVE_FIELDS

if TYPE_CHECKING:
    import torch


FileLevel = Literal["molecule", "atom"]  # of molecules' own values
Level = Literal[FileLevel, "edge", "triplet"]

# Where a field's key lives, with the numbers of the native core.
BUILTIN, ATOM_PROPERTY, MOLECULE_PROPERTY = 0, 1, 2
PREFIXES = {ATOM_PROPERTY: "atom_properties/", MOLECULE_PROPERTY: "properties/"}


class FieldId(NamedTuple):
    """What a field is, whatever it is called in a batch."""

    scope: int
    key: str


class FieldInfo(NamedTuple):
    """What a batch knows of one of its fields."""

    scope: int
    key: str
    level: Level


@dataclass(frozen=True)
class FieldSpec:
    """What a data set promises of a field.

    Attributes:
        dtype: of the tensors in a batch; ``"string"`` for lists of ``str``, ``"none"`` for a
            property whose stored value is None.
        level: one row a ``"molecule"``, an ``"atom"``, an ``"edge"`` or a ``"triplet"``.
        shape: of one row; None where it differs from molecule to molecule.
    """

    dtype: torch.dtype | Literal["string", "none"]
    level: Level
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Builtin:
    """A field of the format itself. ``unit`` is its writers' usual one; files store none."""

    level: FileLevel
    dtype: str  # of a missing one that was asked for by name
    shape: tuple[int, ...]
    unit: str


# Labels and state that every format knows by name; the table is csrc/model/fields.def.
BUILTINS = {
    key: Builtin(level, dtype, shape, unit) for key, level, dtype, shape, unit in BUILTIN_FIELDS
}

# A structure without them is open: zeros and False there, never NaN, and `missing` does not judge
# them. Any edge shift times such a cell stays finite.
GEOMETRY = frozenset(("cell", "pbc"))

# What every batch has, in the order in which the native core hands it over.
STRUCTURE: dict[str, Level] = {
    "positions": "atom",
    "atomic_numbers": "atom",
    "batch": "atom",
    "ptr": "molecule",
    "n_atoms": "molecule",
    "index": "molecule",
}
STRUCTURE_INFO = {name: FieldInfo(BUILTIN, name, level) for name, level in STRUCTURE.items()}

# What `neighbors=` adds, in that order too.
EDGES = ("edge_index", "edge_shift", "edge_vector")
EDGE_INFO = {name: FieldInfo(BUILTIN, name, "edge") for name in EDGES}

# Local derivatives of descriptor features, in the order of the torch cache.
DERIVATIVES: dict[str, Level] = {key: level for key, level, _ in DERIVATIVE_FIELDS}

# Their values are atoms: numbers in the batch, or in the molecule that stands alone.
ATOM_INDICES = frozenset(("edge_index", *(key for key, _, is_atom in DERIVATIVE_FIELDS if is_atom)))

DERIVED = frozenset(("features", *EDGES, "source", *DERIVATIVES))

# Always means the field of the format, never a custom property of that name.
CANONICAL = frozenset((*STRUCTURE, *BUILTINS, *DERIVED))

# Attributes of batches and molecules, whose modules cannot be imported without torch.
ATTRIBUTES = frozenset(
    (
        "clone",
        "from_ase",
        "from_molecules",
        "get",
        "items",
        "keys",
        "level",
        "mask",
        "pin_memory",
        "record_stream",
        "set_field",
        "share_memory_",
        "to",
        "to_ase",
        "to_dict",
        "to_pyg",
        "values",
    )
)

# No custom property goes by one of these names without its scope in front.
RESERVED = CANONICAL | ATTRIBUTES

# Short names; they yield to a custom property of that name and are never listed.
ALIASES = {"pos": "positions", "z": "atomic_numbers", "natoms": "n_atoms"}


def centers_of(name: str) -> str:
    """For a field of edges or triplets: the one that tells the atom to which each row belongs."""
    if name in EDGES:
        return "edge_index"
    return "radial_center_idx" if name.startswith("radial_") else "angular_center_idx"


def public_names(ids: Iterable[FieldId], reserved: Collection[str]) -> list[str]:
    """The name of each field in a batch that holds all of them.

    A custom property goes by its own key, unless that is a canonical name or an attribute of the
    batch (``reserved``), exists in both scopes, or looks like a scope itself: then its scope stands
    in front.
    """
    ids = list(ids)
    n_scopes = Counter(key for scope, key in ids if scope != BUILTIN)

    def name(field: FieldId) -> str:
        if field.scope == BUILTIN:
            return field.key
        looks_scoped = field.key.startswith(tuple(PREFIXES.values()))
        if field.key in reserved or n_scopes[field.key] > 1 or looks_scoped:
            return PREFIXES[field.scope] + field.key
        return field.key

    return [name(field) for field in ids]


_SHORTEST_PART = 3  # of a name that counts as a part of another


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Known names that ``name`` may be meant for, at most five, the likeliest first.

    Those that hold it or are held by it (``REF_forces`` for ``forces``), whatever their case, then
    those that are spelled almost alike.
    """
    by_lower = {other.lower(): other for other in known}
    plain = name.lower()
    related = [
        other
        for lower, other in by_lower.items()
        if plain in lower or (len(lower) >= _SHORTEST_PART and lower in plain)
    ]
    alike = [by_lower[lower] for lower in difflib.get_close_matches(plain, by_lower, 3, 0.7)]
    return list(dict.fromkeys([*related, *alike]))[:5]


def squeeze_hint(expected: tuple[int, ...], got: tuple[int, ...]) -> str:
    """A hint for a shape with surplus axes of length 1; else an empty string."""
    if len(got) > len(expected) and [n for n in got if n != 1] == [n for n in expected if n != 1]:
        return ": drop the axis of length 1 (`.squeeze(-1)`)"
    return ""


def prefixed_id(name: str) -> FieldId | None:
    """The field behind ``properties/KEY`` or ``atom_properties/KEY``."""
    for scope, prefix in PREFIXES.items():
        if name.startswith(prefix):
            return FieldId(scope, name[len(prefix) :])
    return None
