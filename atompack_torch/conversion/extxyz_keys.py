"""What the keys of an extended XYZ file mean, and under which keys fields are written."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, Protocol

from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    FieldId,
    FileLevel,
)

# Keys of files that mean a field of .atp. Of several the first that a file has counts, the others
# are custom properties; the first is also the one that is written.
LABELS: dict[FileLevel, dict[str, tuple[str, ...]]] = {
    "molecule": {"energy": ("energy",), "stress": ("stress",), "name": ("name",)},
    "atom": {
        "forces": ("forces", "force"),
        "charges": ("charge", "charges"),
        "velocities": ("velocities",),
    },
}
# Column of velocities times masses, which ASE reads and writes; a column ``velocities`` goes first.
MOMENTA = "momenta"
# Nine numbers under these keys are a matrix in Fortran order (as ASE has it).
TRANSPOSED = frozenset({"stress", "virial"})
SCOPES: dict[FileLevel, int] = {"molecule": MOLECULE_PROPERTY, "atom": ATOM_PROPERTY}

# Other keys that readers understand in their own way: a property of that name gets a prefix.
_TAKEN: dict[FileLevel, frozenset[str]] = {
    "molecule": frozenset({"Lattice", "pbc", "Properties"}),
    "atom": frozenset({"pos", "positions", "species", "symbols", "Z", "numbers", MOMENTA}),
}
_UNWRITABLE: dict[FileLevel, re.Pattern[str]] = {
    "molecule": re.compile(r"[\x00-\x1f\x7f]"),
    "atom": re.compile(r"[\x00-\x1f\x7f:]"),
}

# The text of the value None.
NULL = "_JSON null"

Kind = Literal["flag", "integer", "real", "text"]
Shape = tuple[int, ...]


class Report(Protocol):
    """Where it is told what does not come over."""

    def skip(self, what: str, why: str, count: int = 1) -> None:
        """``count`` values of ``what`` are left out."""

    def note(self, text: str) -> None:
        """Something worth knowing, although nothing is lost."""


class FoundKey(NamedTuple):
    """A key of a file: the widest kind of its values, their shape (None where it differs)."""

    level: FileLevel
    key: str
    kind: Kind
    shape: Shape | None


class Target(NamedTuple):
    """The field that a key means."""

    scope: int
    key: str
    from_momenta: bool = False
    # Of a custom value: text in some frame makes it text in all, and a number beside arrays is one.
    kind: Kind = "real"
    varies: bool = False


def targets_of(
    path: str, found: Iterable[FoundKey], keys: Mapping[str, str], report: Report
) -> dict[tuple[FileLevel, str], Target]:
    """The field of each key; ``keys``, the user's, go first.

    Raises:
        FieldError: two keys mean one field, or a key of the user's is not there or of the wrong
            level.
    """
    by_place = {(field.level, field.key): field for field in found}
    targets: dict[tuple[FileLevel, str], Target] = {}
    for key, name in keys.items():
        places = [(level, key) for level in SCOPES if (level, key) in by_place]
        if not places:
            raise FieldError(f"{path}: keys: no frame has {key!r}")
        targets |= {place: _asked(path, place, name) for place in places}
    targets |= _known_labels(by_place, targets)
    _add_momenta(path, by_place, targets, report)
    for place in by_place:
        targets.setdefault(place, Target(*_custom(*place)))
    _check_unique(path, targets)
    return {
        place: target._replace(kind=by_place[place].kind, varies=by_place[place].shape is None)
        for place, target in targets.items()
    }


def _asked(path: str, place: tuple[FileLevel, str], name: str) -> Target:
    level, key = place
    if name in ("cell", "pbc"):
        raise FieldError(f"{path}: {name}: expected under its own key, got {key!r}")
    if name not in BUILTINS:
        return Target(SCOPES[level], name)
    if BUILTINS[name].level != level:
        wanted = BUILTINS[name].level
        raise FieldError(
            f"{path}: {key}: expected a value per {wanted} for {name}, got per {level}"
        )
    return Target(BUILTIN, name)


def _known_labels(
    found: Mapping[tuple[FileLevel, str], FoundKey], taken: Mapping[tuple[FileLevel, str], Target]
) -> dict[tuple[FileLevel, str], Target]:
    labels: dict[tuple[FileLevel, str], Target] = {}
    given = {target.key for target in taken.values() if target.scope == BUILTIN}
    for level, names in LABELS.items():
        for name, sources in names.items():
            free = [(level, key) for key in sources if (level, key) in found.keys() - taken.keys()]
            if free and name not in given and _may_be(name, found[free[0]]):
                labels[free[0]] = Target(BUILTIN, name)
    return labels


def _may_be(name: str, field: FoundKey) -> bool:
    # A number may well be called a name; a label that is no number is an error, found later.
    return name != "name" or field.kind == "text"


def _add_momenta(
    path: str,
    found: Mapping[tuple[FileLevel, str], FoundKey],
    targets: dict[tuple[FileLevel, str], Target],
    report: Report,
) -> None:
    place: tuple[FileLevel, str] = ("atom", MOMENTA)
    if place not in found or place in targets:
        return
    if importlib.util.find_spec("ase") is None:
        report.note(f"{path}: momenta stay momenta: the masses of the elements come with ase")
        return
    targets[place] = Target(BUILTIN, "velocities", from_momenta=True)


def _custom(level: FileLevel, key: str) -> FieldId:
    scope = SCOPES[level]
    return FieldId(scope, key.removeprefix(PREFIXES[scope]))


def _check_unique(path: str, targets: Mapping[tuple[FileLevel, str], Target]) -> None:
    seen: dict[FieldId, str] = {}
    for (_, key), target in targets.items():
        field = FieldId(target.scope, target.key)
        if target.from_momenta:  # may stand beside velocities
            continue
        if field in seen:
            raise FieldError(
                f"{path}: {field.key}: expected one key for it, got {seen[field]!r} and {key!r}"
            )
        seen[field] = key


def written_key(field: FieldId, level: FileLevel, shapes: Iterable[Shape | None]) -> str | None:
    """The key under which a field is written; None where none can stand for it.

    Args:
        field: which.
        level: its own.
        shapes: those of its values, one or one for each molecule; None for text.
    """
    if field.scope == BUILTIN:
        if field.key == MOMENTA:
            return MOMENTA
        sources = LABELS[level].get(field.key)
        return None if sources is None else sources[0]
    key, prefix = field.key, PREFIXES[field.scope]
    if _UNWRITABLE[level].search(key):
        return None
    needs_prefix = not key or key in _taken(level) or key.startswith(prefix)
    return prefix + key if needs_prefix or _changes(level, key, shapes) else key


def _changes(level: FileLevel, key: str, shapes: Iterable[Shape | None]) -> bool:
    """Whether a reader makes something else of values under this key."""
    if level == "molecule" and key == "virial":
        return any(shape != (3, 3) for shape in shapes)
    return level == "molecule" and key.lower() == "uid" and any(s is not None for s in shapes)


def _taken(level: FileLevel) -> frozenset[str]:
    return _TAKEN[level].union(*LABELS[level].values())
