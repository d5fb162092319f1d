"""Builtin fields, and the mapping between names and fields."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from atompack_torch._native import BUILTIN_FIELDS, DERIVATIVE_FIELDS

if TYPE_CHECKING:
    import torch


FileLevel = Literal["molecule", "atom"]  # levels of values stored in molecules
Level = Literal[FileLevel, "edge", "triplet"]

# Scopes of field keys, numbered as in the native core.
BUILTIN, ATOM_PROPERTY, MOLECULE_PROPERTY = 0, 1, 2
PREFIXES = {ATOM_PROPERTY: "atom_properties/", MOLECULE_PROPERTY: "properties/"}


class FieldId(NamedTuple):
    """Identity of a field, independent of its name in a batch."""

    scope: int
    key: str


class FieldInfo(NamedTuple):
    """Description of a field of a batch."""

    scope: int
    key: str
    level: Level


@dataclass(frozen=True)
class FieldSpec:
    """Type of a field as guaranteed by a dataset.

    Attributes:
        dtype: dtype of the tensors in a batch; ``"string"`` for lists of ``str``, ``"none"`` for a
            property whose stored value is None.
        level: one row per ``"molecule"``, ``"atom"``, ``"edge"`` or ``"triplet"``.
        shape: shape of one row; None if it varies between molecules.
    """

    dtype: torch.dtype | Literal["string", "none"]
    level: Level
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Builtin:
    """A field that every format has by name, as the table csrc/model/fields.def describes it.

    Attributes:
        level: one row per molecule or per atom.
        dtype: of a missing field that was requested by name.
        shape: shape of a row.
        unit: the conventional one; files do not store units.
        rotation: how a row turns with its molecule: not at all, as vectors along its last axis, or
            in both axes.
        owns_key: values under its key are always this field; False: values of another type or
            shape are custom properties, as which ``.atp`` stores the label too.
        origin: ``"result"``: ASE's calculators have it under this key.
        names: keys of extended XYZ, separated by spaces, of which the first is written.
    """

    level: FileLevel
    dtype: str
    shape: tuple[int, ...]
    unit: str
    rotation: Literal["scalar", "vector", "tensor"]
    owns_key: bool
    origin: Literal["result", "other"]
    names: str


BUILTINS = {key: Builtin(*spec) for key, *spec in BUILTIN_FIELDS}
RESULTS = tuple(key for key, builtin in BUILTINS.items() if builtin.origin == "result")


def is_value_of(key: str, shape: tuple[int, ...] | None, *, is_number: bool) -> bool:
    """Returns True if a value under the key of a label is that label, not a custom property.

    Args:
        key: the key of a label.
        shape: of the value for a molecule, or of the row of an atom; None: it varies.
        is_number: True for integers and floats.

    Returns:
        True, except for labels that do not own their key.
    """
    return BUILTINS[key].owns_key or (is_number and shape == BUILTINS[key].shape)


def is_of_molecule(name: str, shape: tuple[int, ...]) -> bool:
    """Returns True if numbers under a name are a label of molecules, not rows of atoms."""
    is_such = name in BUILTINS and BUILTINS[name].level == "molecule"
    return is_such and is_value_of(name, shape, is_number=True)


def usual_unit(name: str) -> str:
    """Returns the unit that a field has by convention; files do not store it. Empty if none."""
    if name == "positions":
        return "Å"
    return BUILTINS[name].unit.partition(",")[0] if name in BUILTINS else ""


def with_usual_unit(text: str, name: str) -> str:
    """Adds the usual unit of a field to a text about its values, as what it is."""
    unit = usual_unit(name)
    return f"{text} (usually {unit})" if unit else text


# A molecule without them is not periodic: zeros and False, never NaN, and exempt from `missing`.
# Any edge shift times such a cell stays finite.
GEOMETRY = frozenset(("cell", "pbc"))

# Fields of every batch, in the order in which the native core returns them.
STRUCTURE: dict[str, Level] = {
    "positions": "atom",
    "atomic_numbers": "atom",
    "batch": "atom",
    "ptr": "molecule",
    "n_atoms": "molecule",
    "index": "molecule",
}
STRUCTURE_INFO = {name: FieldInfo(BUILTIN, name, level) for name, level in STRUCTURE.items()}

# Fields added by `neighbors=`, also in that order.
EDGES = ("edge_index", "edge_shift", "edge_vector")
TRIPLETS = ("triplet_index", "triplet_edges")
NEIGHBORS: dict[str, Level] = {
    **dict.fromkeys(EDGES, "edge"),
    **dict.fromkeys(TRIPLETS, "triplet"),
}
NEIGHBOR_INFO = {name: FieldInfo(BUILTIN, name, level) for name, level in NEIGHBORS.items()}

# They have one column, not one row, for each edge or triplet.
COLUMNS = frozenset(("edge_index", *TRIPLETS))

# Local derivatives of descriptor features, in the order of the torch cache.
DERIVATIVES: dict[str, Level] = {key: level for key, level, _ in DERIVATIVE_FIELDS}

# Their values are atom indices, in the batch or in a single molecule.
ATOM_INDICES = frozenset(
    ("edge_index", "triplet_index", *(key for key, _, is_atom in DERIVATIVE_FIELDS if is_atom))
)

DERIVED = frozenset(("features", *NEIGHBORS, "source", *DERIVATIVES))

# Fields of padded batches, by level: False for the rows of the dummy molecule. They yield to
# custom properties of the same name.
MASKS: dict[Level, str] = {"molecule": "molecule_mask", "atom": "atom_mask", "edge": "edge_mask"}

# These names always denote the field of the format, never a custom property.
CANONICAL = frozenset((*STRUCTURE, *BUILTINS, *DERIVED))

# Attributes of batches and molecules, listed as their modules cannot be imported without torch.
ATTRIBUTES = frozenset(
    (
        "clone",
        "dense",
        "from_ase",
        "from_molecules",
        "get",
        "items",
        "keys",
        "level",
        "mask",
        "padded_to",
        "pin_memory",
        "record_stream",
        "set_field",
        "share_memory_",
        "to",
        "to_ase",
        "to_dict",
        "to_dlpack",
        "to_jraph",
        "to_pyg",
        "to_torchsim",
        "values",
    )
)

# A custom property with one of these names always has its scope as a prefix.
RESERVED = CANONICAL | ATTRIBUTES

# Short names; a custom property of that name takes precedence; they are never listed.
ALIASES = {"pos": "positions", "z": "atomic_numbers", "natoms": "n_atoms"}


def level_of_derived(name: str) -> Level:
    """Returns the level of a field that datasets and descriptors make."""
    return NEIGHBORS.get(name) or DERIVATIVES.get(name, "atom")


def centers_of(name: str) -> str:
    """Returns the field with the center atom of each row of an edge or triplet field."""
    if name in EDGES:
        return "edge_index"
    if name in TRIPLETS:
        return "triplet_index"
    return "radial_center_idx" if name.startswith("radial_") else "angular_center_idx"


def public_names(ids: Iterable[FieldId], reserved: Collection[str]) -> list[str]:
    """Returns the name of each field in a batch that holds all of them.

    The name of a custom property is its key, unless that is a canonical name or an attribute of the
    batch (``reserved``), exists in both scopes, or looks like a scope itself: then its scope is
    prepended.
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


_SHORTEST_PART = 3  # minimum length of a name that counts as a part of another


def not_a_label(key: str) -> str:
    """Returns the message about a builtin field that does not exist."""
    similar = " or ".join(map(repr, similar_names(key, BUILTINS)))
    hint = f": did you mean {similar}?" if similar else ""
    return f"{key!r} is no label{hint}; custom values go into properties= or atom_properties="


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Returns up to five known names that ``name`` may be a misspelling of, most likely first.

    First those that contain it or are contained in it (``REF_forces`` for ``forces``), ignoring
    case, then those of similar spelling.
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
    """Returns a hint for a shape with surplus axes of length 1; else an empty string."""
    if len(got) > len(expected) and [n for n in got if n != 1] == [n for n in expected if n != 1]:
        return ": drop the axis of length 1 (`.squeeze(-1)`)"
    return ""


def prefixed_id(name: str) -> FieldId | None:
    """Returns the field named by ``properties/KEY`` or ``atom_properties/KEY``; else None."""
    for scope, prefix in PREFIXES.items():
        if name.startswith(prefix):
            return FieldId(scope, name[len(prefix) :])
    return None


def checked_names(key_map: Mapping[str, str] | None) -> dict[str, str]:
    """Returns an option ``key_map`` as a dict.

    Args:
        key_map: value given by the caller.

    Returns:
        Name in the data → name here.

    Raises:
        TypeError: it is not a mapping of strings.
    """
    given: object = {} if key_map is None else key_map
    if not isinstance(given, Mapping):
        raise TypeError(f"key_map: expected a mapping of names, got {type(given).__name__}")
    for name in (*given, *given.values()):
        if not isinstance(name, str):
            raise TypeError(f"key_map: expected names (str), got {name!r}")
    return dict(given)


def check_target(key: str, name: str) -> None:
    """Checks that a key of a source with named fields can become a field.

    Args:
        key: name in the source.
        name: name that ``key_map`` gives it.

    Raises:
        ValueError: the name is that of a part of every molecule, such as ``positions``.
    """
    if name in STRUCTURE:
        raise ValueError(
            f"key_map: {key!r}: expected a label or a property, got {name!r}, which every "
            "molecule has already"
        )


def check_targets(key_map: Mapping[str, str]) -> None:
    """Checks that keys of a source with named fields can become fields.

    Args:
        key_map: name in the source → name of a field.

    Raises:
        ValueError: a name is that of a part of every molecule, or two keys have one name.
    """
    for key, name in key_map.items():
        check_target(key, name)
    if len({*key_map.values()}) < len(key_map):
        raise ValueError("key_map: expected each name once, got one twice")


def check_key_map(options: Collection[str]) -> None:
    """Checks that names of keys are given as ``key_map``.

    Args:
        options: names of the options given.

    Raises:
        TypeError: there is an option ``keys``.
    """
    if "keys" in options:
        raise TypeError("keys: expected key_map={name in the data: name here}, got keys")
