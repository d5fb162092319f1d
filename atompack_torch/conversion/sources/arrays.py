"""Reader of molecules from arrays in NPZ and HDF5 files, also those of public datasets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.keys import SourceNames
from atompack_torch.conversion.sources import hdf5_sets, mace_hdf5
from atompack_torch.conversion.sources.hdf5_files import ForeignFile, HdfRows, opened
from atompack_torch.conversion.sources.hdf5_sets import HdfSet
from atompack_torch.conversion.sources.rows import HeldRows, Rows, npz_rows, opened_npz
from atompack_torch.conversion.sources.systems import Level, Member, System, joined, said_level
from atompack_torch.errors import (
    AtompackError,
    CorruptFileError,
    FieldError,
    UnsupportedFormatError,
)
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY, PREFIXES
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions

_Arrays = Mapping[str, Rows]

# Array names used by well-known collections; overridden by ``keys``.
_KNOWN = {
    "positions": ("positions", "R", "coords", "coordinates", "pos"),
    "atomic_numbers": ("atomic_numbers", "z", "Z", "nuclear_charges", "species", "numbers"),
    "energy": ("energy", "E", "energies"),
    "forces": ("forces", "F"),
    "cell": ("cell", "lattice"),
    "n_atoms": ("n_atoms", "natoms", "N"),
}
# rMD17 states its units in its paper only.
_RMD17 = frozenset(("nuclear_charges", "coords", "energies", "forces", "old_energies"))
_RMD17_UNITS = {"positions": "Ang", "energy": "kcal/mol", "forces": "kcal/mol/Ang"}
# Groups of molecules in these names are published in several units, with forces of both signs.
_UNCERTAIN = frozenset(("coordinates", "species", "energies"))
# Arrays of text that state units (sGDML), in lower case → what is in them.
_STATING = {
    **dict.fromkeys(("e_unit", "energy_unit", "energy_units"), "energy"),
    **dict.fromkeys(("r_unit", "length_unit", "length_units", "distance_unit"), "positions"),
    **dict.fromkeys(("f_unit", "force_unit", "force_units", "forces_unit"), "forces"),
}
_NAMES = {key: name for name, keys in _KNOWN.items() for key in keys}


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens an ``.npz`` or an HDF5 file, also one that MACE wrote or of a public dataset."""
    known, is_mace = None, False
    if options.format != "npz":
        with suppress(AtompackError, OSError), opened(path) as file:  # a reader reports the problem
            is_mace = mace_hdf5.is_mace(file)
            known = hdf5_sets.recognize(file)
    if options.format == "hdf5-set" and known is None:
        raise UnsupportedFormatError(
            f"{path}: expected the groups of {', '.join(one.title for one in hdf5_sets.SETS)}, "
            "got other ones; --from hdf5 reads arrays of any name"
        )
    if is_mace:
        return mace_hdf5.open_source(path, options)
    if options.padding is not None and options.format != "hdf5-set":
        known = None
    opening = partial(_Request, path, options, known)
    read_blocks = partial(_read, opening)
    return Source(
        path,
        read_blocks,
        partial(_count, opening),
        maps_keys=True,
        takes_padding=known is None,
        is_arrays=True,
        read_range=None if known is None else read_blocks,
        names=partial(_names, opening),
    )


class _Request:
    """A reading of a file, with the options for its interpretation.

    Args:
        path: path of the file.
        options: the options.
        known: the public dataset that the file is of, if any.
        report: receives what is not read.
    """

    def __init__(
        self, path: str, options: SourceOptions, known: HdfSet | None, report: Report
    ) -> None:
        self.path, self.padding, self.report, self.known = path, options.padding, report, known
        self._is_npz = options.format == "npz"
        self.names = SourceNames(options.keys, report)
        self._usual: Mapping[str, str] = _NAMES if known is None else known.names
        self._here: dict[str, str | None] = {}

    @contextmanager
    def systems(self) -> Iterator[Iterator[System]]:
        """Opens the file, and its systems one after the other."""
        path = self.path
        if self._is_npz:
            with opened_npz(path) as archive:
                for name in archive.namelist():
                    if not name.endswith(".npy"):
                        self.report.skip(f"file {name!r}", "no array")
                yield iter([_system(self, npz_rows(path, archive), {}, path, "")])
            return
        with opened(path) as file:
            groups = _groups_below(self, file, "/")
            if self.known is not None:
                groups = hdf5_sets.groups(file, self.known, self.report)
            yield (_system_in(self, file, *group) for group in groups)

    def name_of(self, key: str) -> str:
        """Returns the name of an array or attribute here, by ``key_map`` first."""
        return self.names.keys.get(key, self._usual.get(key, key))

    def here(self, key: str, what: str) -> str | None:
        """Returns the name here of an array or attribute; None if it is omitted."""
        if key not in self._here:
            name = self.names.here(key, self._usual.get(key, key), what)
            is_given = key in self.names.keys
            if self.known is not None and not is_given and hdf5_sets.OF_PAIRS.search(key):
                why = "values of all pairs of atoms: key_map can name it"
                self.report.skip(f"{what} {key!r}", why)
                name = None
            self._here[key] = name
        return self._here[key]

    def is_gradient(self, key: str) -> bool:
        """True if an array holds gradients; what ``key_map`` names keeps its sign."""
        return self.known is not None and key == self.known.gradient and key not in self.names.keys


_Opening = Callable[[Report], _Request]


def _names(opening: _Opening) -> set[str]:
    """Returns the names of all fields, of some perhaps one that is omitted."""
    names: set[str] = set()
    with opening(Report()).systems() as found:
        for system in found:
            names |= {"name"} if system.name else set()
            for member in system.fields():
                names |= {prefix + member.name for prefix in ("", *PREFIXES.values())}
    return names


def _count(opening: _Opening) -> int | None:
    request = opening(Report())
    if request.known is not None:
        return hdf5_sets.count(request.path, request.known, request.names.keys)
    return _Survey(request).n_structures


class _Survey:
    """First pass over a file: counts the molecules and determines the level of each member.

    A single shape may be ambiguous: (M, 9) is nine numbers per molecule, or one for each of nine
    atoms.
    """

    def __init__(self, request: _Request) -> None:
        self.n_structures = 0
        self.seen: set[str] = set()
        self._sizes: dict[str, set[int | None]] = {}
        self._possible: dict[str, set[Level]] = {}
        self._members: dict[str, Member] = {}
        with request.systems() as found:
            for system in found:
                self._add(system)
        if not self.seen:
            raise FieldError(
                f"{request.path}: expected an array of positions, got none: name it in key_map"
            )

    def _add(self, system: System) -> None:
        self.n_structures += system.n_structures
        self.seen.update(member.key for member in system.members.values())
        for member in system.fields():
            possible = system.levels(member)
            if said_level(member.name) is None:
                self._possible[member.key] = self._possible.get(member.key, possible) & possible
                self._sizes.setdefault(member.key, set()).add(system.n_atoms)
                self._members[member.key] = member

    def levels(self, report: Report) -> dict[str, Level]:
        """Returns the levels of custom members; members that fit none are omitted and reported."""
        levels: dict[str, Level] = {}
        for key, possible in self._possible.items():
            member = self._members[key]
            if possible >= {"atom", "molecule"} and len(self._sizes[key]) == 1:
                level: Level = "molecule" if member.rows.shape[1:] == (3,) else "atom"
                what = "each atom" if level == "atom" else "the molecule"
                report.note(f"{key!r} taken as a property of {what}; key_map can say otherwise")
                levels[key] = level
            elif possible:
                levels[key] = min(possible, key=("atom", "molecule", "shared").index)
            else:
                report.skip(f"{member.what} {key!r}", "its rows are neither molecules nor atoms")
        return levels


def _read(
    opening: _Opening, report: Report, first: int = 0, last: int | None = None
) -> Iterator[Columns]:
    """Yields the molecules of a file in blocks, in order, in the types of the file.

    For the layouts see ``systems.System``. Members of ``.npz`` files are read as streams,
    compressed or not: memory holds one block, and ``n_atoms`` or ``ptr`` (8 bytes per molecule).
    Every group of HDF5 that holds positions is a separate system, in the order of their names, and
    its path becomes the ``name`` of its molecules. Keys name arrays, not paths. In public datasets,
    the levels of custom arrays follow from their names, so that no first pass is needed.
    """
    request = opening(Report() if first else report)
    known = request.known
    if known is not None:
        report.note(f"read as {known.title}")
        report.units.update(known.units)
        with request.systems() as found:
            yield from joined(_blocks(found, None, report, first, last))
        if last is None and first == 0:
            request.names.check_all_found(request.path, "no array")
        return
    survey = _Survey(request)
    request.names.check_all_found(request.path, "no array")
    if survey.seen >= _RMD17:
        report.note("read as rMD17")
        report.units.update(_RMD17_UNITS)
    levels = survey.levels(report)
    with opening(Report()).systems() as found:
        yield from _blocks(found, levels, report, first, last)


def _blocks(
    systems: Iterator[System],
    custom: Mapping[str, Level] | None,
    report: Report,
    first: int,
    last: int | None,
) -> Iterator[Columns]:
    """Yields the molecules of a range; ``custom`` as for ``_levels``."""
    start = 0
    for system in systems:
        n = system.n_structures
        low, high = max(first - start, 0), n if last is None else min(last - start, n)
        if low < high:
            levels = _levels(system, custom, report)
            _describe(system, levels, report)
            yield from system.blocks(levels, report, low, high)
        start += n
        if last is not None and start >= last:
            return


def _levels(system: System, custom: Mapping[str, Level] | None, report: Report) -> dict[str, Level]:
    """Returns the levels of the members to read; reports those that are omitted.

    Args:
        system: the system.
        custom: levels of custom members by key; None: by the names of a public dataset.
        report: receives what is omitted.
    """
    levels: dict[str, Level] = {}
    for member in system.fields():
        possible = system.levels(member)
        what = f"{member.what} {member.key!r}"
        level: Level | None
        if said_level(member.name) is not None:
            (levels[member.key],) = possible
            continue
        if custom is not None:
            level = custom.get(member.key)
        elif (level := hdf5_sets.level_of(member.key, possible)) is None:
            report.skip(what, "its rows are not those of the molecules or atoms")
        if level == "shared" and not system.name:
            report.skip(what, "one value for the whole file")
        elif level is not None:
            levels[member.key] = level
    return levels


def _describe(system: System, levels: Mapping[str, Level], report: Report) -> None:
    """Reports the interpretation of a system, and what of its group is not read."""
    for what, why in system.lost.items():
        report.skip(what, why)
    for member in system.members.values():
        if member.key != member.name:
            sign = ", times -1" * member.is_gradient
            report.note(f"{member.key!r} read as {member.name}{sign}")
            if not member.is_gradient:  # a source of that name would warn of its sign
                report.origin(_field_name(member, levels), member.key)
        if member.unit:
            report.units[member.name] = member.unit
        _state_units(member, report)
    if system.name and "name" not in system.members:
        report.note("name: the group of the molecule")
    _warn_of_groups(system, report)


def _field_name(member: Member, levels: Mapping[str, Level]) -> str:
    """Returns the name of a member's field, with its scope."""
    if said_level(member.name) is not None or member.name in ("positions", "atomic_numbers"):
        return member.name
    scope = ATOM_PROPERTY if levels.get(member.key) == "atom" else MOLECULE_PROPERTY
    return PREFIXES[scope] + member.name


def _state_units(member: Member, report: Report) -> None:
    """Records units that a file states in an array of text of their own, as sGDML does."""
    rows, units = member.rows, report.units
    if rows.dtype.kind not in "SUO" or rows.shape not in ((), (1,)):
        return
    label = _STATING.get(member.key.lower())
    if label is None and not re.search(r"units?$", member.key, re.IGNORECASE):
        return
    value = rows.read(0, 1).reshape(-1)[0]
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    if label is None:
        report.warn(f"{member.key!r} says {text!r}: units are those of the source")
        return
    units[label] = text
    if label != "forces" and {"energy", "positions"} <= units.keys():
        units.setdefault("forces", f"{units['energy']}/{units['positions']}")


def _warn_of_groups(system: System, report: Report) -> None:
    """Warns of a layout that is published in several units, unless the file states them."""
    keys = {member.key for member in system.members.values()}
    if not system.name or not keys >= _UNCERTAIN or {"energy", "forces"} & report.units.keys():
        return
    forces = ", forces in Hartree/Å of either sign" if "forces" in system.members else ""
    report.warn(
        f"energy: sets of groups with {', '.join(sorted(_UNCERTAIN))} do not state one unit and "
        f"sign, and values stay as they are: energies are usually in Hartree{forces}; "
        "energy_unit='Ha', force_unit='Ha/Ang' and force_sign='flip' convert them"
    )


def _system(
    request: _Request, arrays: _Arrays, attributes: _Arrays, where: str, name: str
) -> System:
    """Builds a system from arrays and attributes, renamed to their names here."""
    members: dict[str, Member] = {}
    for key, rows in (*arrays.items(), *attributes.items()):
        what = "array" if key in arrays else "attribute"
        here = request.here(key, what)
        if here in members:
            both = f"{members[here].key!r} and {key!r}"
            raise FieldError(f"{where}: {both} could both be {here}: say which in key_map")
        if here is not None:
            unit = rows.unit() if isinstance(rows, HdfRows) else ""
            is_gradient = request.is_gradient(key) and here == "forces"
            members[here] = Member(key, here, rows, unit, what, is_gradient)
    return System(where, members, request.padding, name, request.known is not None)


def _groups_below(request: _Request, file: ForeignFile, path: str) -> Iterator[tuple[str, str]]:
    """Yields path and name of the groups with positions among a group and those in it."""
    group = file.listing(path)
    if "positions" in map(request.name_of, group.readable()):
        yield path, path.strip("/")
    else:
        group.list_unused(request.report, group.groups)
    for below in file.groups(path):
        yield from _groups_below(request, file, below)


def _system_in(request: _Request, file: ForeignFile, group: str, name: str) -> System:
    """Returns the system of a group that holds positions."""
    listing, where = file.listing(group), f"{request.path}: {group}"
    lost, known = listing.unread(), request.known
    arrays: dict[str, Rows] = {
        key: HdfRows(file, f"{group.rstrip('/')}/{key}", stored)
        for key, stored in listing.readable().items()
        if request.here(key, "array") is not None
    }
    attributes = _attributes(request, listing.attrs, arrays, lost)
    system = _system(request, arrays, attributes, where, name)
    for member in system.fields():
        if member.what == "attribute":
            try:
                system.levels(member)
            except (FieldError, CorruptFileError):
                lost[f"attribute {member.key!r}"] = "its shape is not that of its name"
                del system.members[member.name]
    if known is not None:
        lost |= {
            f"group {key!r}": "a group in a group of molecules"
            for key in listing.groups
            if key not in known.subgroups
        }
    system.lost = lost
    return system


def _attributes(
    request: _Request, attrs: Mapping[str, Any], arrays: Mapping[str, Rows], lost: dict[str, str]
) -> dict[str, Rows]:
    """Returns the attributes of a group that may be values of its structures."""
    here = {key: request.name_of(key) for key in (*arrays, *attrs)}
    given = {here[key]: rows.shape for key, rows in arrays.items()}
    is_one = given.get("positions", ())[:1] == (1,) and len(given["positions"]) == 3
    found: dict[str, Rows] = {}
    for key, value in attrs.items():
        name, values = here[key], np.asarray(value)
        may_be_text = name in ("name", "atomic_numbers") or said_level(name) is None
        if name in ("n_atoms", "ptr", "positions"):
            lost[f"attribute {key!r}"] = "expected as an array"
        elif key in arrays or (name in given and key not in request.names.keys):
            lost[f"attribute {key!r}"] = "an array has its name"
        elif value is None or (values.dtype.kind in "SUO" and not may_be_text):
            lost[f"attribute {key!r}"] = "expected numbers"
        else:
            found[key] = HeldRows(values[None] if is_one and values.shape[:1] != (1,) else values)
    return found
