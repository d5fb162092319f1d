"""Mapping between keys of extended XYZ files and fields, for reading and writing."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from atompack_torch._native import FieldMap
from atompack_torch.batch.conversions import masses_of
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    FieldId,
    FileLevel,
    check_target,
    is_value_of,
    prefixed_id,
)

if TYPE_CHECKING:
    from atompack_torch._native import Survey

# Keys that denote a field of .atp. If a file has several, the first counts and the others are
# custom properties; the first in the list is also the one that is written.
LABELS: dict[FileLevel, dict[str, tuple[str, ...]]] = {
    level: {
        key: tuple(own.names.split())
        for key, own in BUILTINS.items()
        if own.level == level and own.names
    }
    for level in ("molecule", "atom")
}
# Column of velocities times masses, ASE's convention; a column ``velocities`` takes precedence.
MOMENTA = "momenta"
SCOPES: dict[FileLevel, int] = {"molecule": MOLECULE_PROPERTY, "atom": ATOM_PROPERTY}

# Other keys that readers treat specially: a property of that name gets a prefix.
_TAKEN: dict[FileLevel, frozenset[str]] = {
    "molecule": frozenset({"lattice", "pbc", "properties"}),  # in letters of any case
    "atom": frozenset({"pos", "positions", "species", "symbols", "Z", "numbers", MOMENTA}),
}
_UNWRITABLE: dict[FileLevel, re.Pattern[str]] = {
    "molecule": re.compile(r"[\x00-\x1f\x7f]"),
    "atom": re.compile(r"[\x00-\x1f\x7f:]"),
}

# The string for the value None.
NULL = "_JSON null"

Kind = Literal["null", "flag", "integer", "real", "text"]
Shape = tuple[int, ...]


# (level, key, scope, name, kind, shape, is_narrow, from_momenta)
NativeTarget = tuple[FileLevel, str, int, str, Kind, Shape | None, bool, bool]


def field_map(
    targets: Sequence[NativeTarget],
    has_cells: bool,
    *,
    keeps_nan: bool = True,
    ignored: Sequence[tuple[FileLevel, str]] = (),
    is_exact: bool = False,
) -> FieldMap:
    """Returns the fields of a file for native readers, with the masses that momenta need."""
    has_momenta = any(from_momenta for *_, from_momenta in targets)
    masses = masses_of(np.arange(256)).tolist() if has_momenta else []
    return FieldMap(targets, has_cells, masses, keeps_nan, ignored, is_exact)


class Notices(Protocol):
    """Receiver of notices about values that are not carried over."""

    def skip(self, what: str, why: str, count: int = 1) -> None:
        """Records that ``count`` values of ``what`` are omitted."""

    def note(self, text: str) -> None:
        """Adds a note about something that loses nothing."""


class FoundKey(NamedTuple):
    """Key of a file, with the widest kind of its values and their shape (None if it varies)."""

    level: FileLevel
    key: str
    kind: Kind
    shape: Shape | None
    is_narrow: bool = False  # all values have one type of 32 bits


def found_keys(survey: Survey) -> list[FoundKey]:
    """Returns what a native survey of a file has found."""
    return [
        FoundKey(level, key, kind, None if shape is None else tuple(shape), is_narrow)
        for level, key, kind, shape, is_narrow in survey.fields
    ]


class FieldTarget(NamedTuple):
    """Field that a key denotes."""

    scope: int
    key: str
    from_momenta: bool = False


def targets_of(
    path: str,
    found: Iterable[FoundKey],
    keys: Mapping[str, str],
    report: Notices,
    missing: Callable[[str, FieldError], None] | None = None,
) -> dict[tuple[FileLevel, str], FieldTarget]:
    """Returns the field of each key; ``keys``, given by the user, take precedence.

    Args:
        path: the file, for messages.
        found: keys of the file.
        keys: key in the file → name of a field or of a custom property, as given by the user.
        report: receives notes about momenta.
        missing: receives each key of the user that is absent, and the error; None: it is raised.

    Returns:
        (level, key) → field.

    Raises:
        FieldError: two keys denote one field, or a key of the user is absent or of the wrong level.
    """
    by_place = {(field.level, field.key): field for field in found}
    targets: dict[tuple[FileLevel, str], FieldTarget] = {}
    for key, name in keys.items():
        places = [(level, key) for level in SCOPES if (level, key) in by_place]
        if not places:
            swapped = any((level, name) in by_place for level in SCOPES)
            hint = f": it maps names in the data to names here, as {{{name!r}: {key!r}}}"
            error = FieldError(f"{path}: key_map: no molecule has {key!r}{hint * swapped}")
            if missing is None:
                raise error
            missing(key, error)
        targets |= {place: _asked(path, place, name) for place in places}
    targets |= _known_labels(by_place, targets, keys.values())
    _add_momenta(path, by_place, targets, report)
    for place in by_place:
        targets.setdefault(place, FieldTarget(*_custom(*place)))
    _check_unique(path, targets)
    return targets


def native_targets(
    found: Iterable[FoundKey], targets: Mapping[tuple[FileLevel, str], FieldTarget]
) -> list[NativeTarget]:
    """Returns the fields of all keys in the form that the native core expects."""
    natives: list[NativeTarget] = []
    for field in found:
        scope, key, from_momenta = targets[field[:2]]
        natives.append((*field[:2], scope, key, *field[2:], from_momenta))
    return natives


def _asked(path: str, place: tuple[FileLevel, str], name: str) -> FieldTarget:
    level, key = place
    check_target(key, name)
    if name in ("cell", "pbc"):
        raise FieldError(f"{path}: {name}: expected under its own key, got {key!r}")
    given = prefixed_id(name)
    wanted = BUILTINS[name].level if name in BUILTINS else level
    if given is not None:
        wanted = "atom" if given.scope == ATOM_PROPERTY else "molecule"
    if wanted != level:
        raise FieldError(
            f"{path}: {key}: expected a value per {wanted} for {name}, got per {level}"
        )
    if name in BUILTINS:
        return FieldTarget(BUILTIN, name)
    return FieldTarget(*(given or FieldId(SCOPES[level], name)))


def _known_labels(
    found: Mapping[tuple[FileLevel, str], FoundKey],
    taken: Mapping[tuple[FileLevel, str], FieldTarget],
    given: Collection[str],
) -> dict[tuple[FileLevel, str], FieldTarget]:
    labels: dict[tuple[FileLevel, str], FieldTarget] = {}
    for level, names in LABELS.items():
        for name, sources in names.items():
            free = [(level, key) for key in sources if (level, key) in found.keys() - taken.keys()]
            if free and name not in given and _may_be(name, found[free[0]]):
                labels[free[0]] = FieldTarget(BUILTIN, name)
    return labels


def _may_be(name: str, field: FoundKey) -> bool:
    # A number may serve as a name; a label that is not a number is an error, detected later.
    if name == "name":
        return field.kind == "text"
    return is_value_of(name, field.shape, is_number=field.kind in ("integer", "real"))


def _add_momenta(
    path: str,
    found: Mapping[tuple[FileLevel, str], FoundKey],
    targets: dict[tuple[FileLevel, str], FieldTarget],
    report: Notices,
) -> None:
    place: tuple[FileLevel, str] = ("atom", MOMENTA)
    if place not in found or place in targets:
        return
    if importlib.util.find_spec("ase") is None:
        report.note(f"{path}: momenta stay momenta: the masses of the elements come with ase")
        return
    targets[place] = FieldTarget(BUILTIN, "velocities", from_momenta=True)


def _custom(level: FileLevel, key: str) -> FieldId:
    scope = SCOPES[level]
    return FieldId(scope, key.removeprefix(PREFIXES[scope]))


def _check_unique(path: str, targets: Mapping[tuple[FileLevel, str], FieldTarget]) -> None:
    seen: dict[FieldId, str] = {}
    for (_, key), target in targets.items():
        field = FieldId(target.scope, target.key)
        if target.from_momenta:  # may occur together with velocities
            continue
        if field in seen:
            raise FieldError(
                f"{path}: {field.key}: expected one key for it, got {seen[field]!r} and {key!r}"
            )
        seen[field] = key


def written_key(field: FieldId, level: FileLevel, shapes: Iterable[Shape | None]) -> str | None:
    """Returns the key under which a field is written; None if no key can represent it.

    Args:
        field: the field.
        level: level of the field.
        shapes: shapes of its values, one in all or one per molecule; None for strings.

    Returns:
        The key, or None.
    """
    if field.scope == BUILTIN:
        if field.key == MOMENTA:
            return MOMENTA
        return LABELS[level][field.key][0]
    key, prefix = field.key, PREFIXES[field.scope]
    if _UNWRITABLE[level].search(key):
        return None
    name = key.lower() if level == "molecule" else key
    is_taken = name in _TAKEN[level] or any(key in sources for sources in LABELS[level].values())
    needs_prefix = not key or is_taken or key.startswith(prefix)
    return prefix + key if needs_prefix or _changes(level, key, shapes) else key


def _changes(level: FileLevel, key: str, shapes: Iterable[Shape | None]) -> bool:
    """True if a reader would interpret values under this key differently."""
    if level == "molecule" and key == "virial":
        return any(shape != (3, 3) for shape in shapes)
    return level == "molecule" and key.lower() == "uid" and any(s is not None for s in shapes)
