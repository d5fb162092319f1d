"""Reader of molecules from arrays in NPZ and HDF5 files."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.keys import SourceNames
from atompack_torch.conversion.sources import hdf5_sets, mace_hdf5
from atompack_torch.conversion.sources.hdf5_files import NO_POSITIONS, ForeignFile, HdfRows, opened
from atompack_torch.conversion.sources.rows import HeldRows, Rows, npz_rows
from atompack_torch.conversion.sources.systems import Level, Member, System, said_level
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY, PREFIXES
from atompack_torch.formats.conversion_report import Report, described
from atompack_torch.formats.converter import Source, SourceOptions

Systems = Iterator[System]

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
    is_npz = options.format == "npz"
    if not is_npz and mace_hdf5.is_mace(path):
        return mace_hdf5.open_source(path, options)
    if not is_npz and options.padding is None and hdf5_sets.recognize(path) is not None:
        return hdf5_sets.open_source(path, options)
    systems = _npz_systems if is_npz else _hdf5_systems
    given = systems, path, options
    return Source(
        path,
        partial(_read, *given),
        lambda: _Survey(*given, Report()).n_structures,
        maps_keys=True,
        takes_padding=True,
        is_arrays=True,
        names=partial(_names, *given),
    )


class _Request:
    """A reading of a file, with the options for its interpretation.

    Args:
        path: path of the file.
        options: the options.
        report: receives what is not read.
    """

    def __init__(self, path: str, options: SourceOptions, report: Report) -> None:
        self.path, self.padding, self.report = path, options.padding, report
        self.names = SourceNames(options.keys, report)

    def name_of(self, key: str) -> str:
        """Returns the name of an array or attribute here, by ``key_map`` first."""
        return self.names.keys.get(key, _NAMES.get(key, key))


_Opener = Callable[[_Request], AbstractContextManager[Systems]]


def _names(systems: _Opener, path: str, options: SourceOptions) -> set[str]:
    """Returns the names of all fields, of some perhaps one that is omitted."""
    names: set[str] = set()
    with systems(_Request(path, options, Report())) as found:
        for system in found:
            names |= {"name"} if system.name else set()
            for member in system.fields():
                names |= {prefix + member.name for prefix in ("", *PREFIXES.values())}
    return names


class _Survey:
    """First pass over a file: counts the molecules and determines the level of each member.

    A single shape may be ambiguous: (M, 9) is nine numbers per molecule, or one for each of nine
    atoms.
    """

    def __init__(self, systems: _Opener, path: str, options: SourceOptions, report: Report) -> None:
        self.n_structures = 0
        self.seen: set[str] = set()
        self._sizes: dict[str, set[int | None]] = {}
        self._possible: dict[str, set[Level]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._what: dict[str, str] = {}
        with systems(_Request(path, options, report)) as found:
            for system in found:
                self._add(system)
        if not self.seen:
            raise FieldError(
                f"{path}: expected an array of positions, got none: name it in key_map"
            )

    def _add(self, system: System) -> None:
        self.n_structures += system.n_structures
        self.seen.update(member.key for member in system.members.values())
        for member in system.fields():
            possible = system.levels(member)
            if said_level(member.name) is None:
                self._possible[member.key] = self._possible.get(member.key, possible) & possible
                self._sizes.setdefault(member.key, set()).add(system.n_atoms)
                self._shapes[member.key] = member.rows.shape[1:]
                self._what[member.key] = member.what

    def levels(self, report: Report) -> dict[str, Level]:
        """Returns the levels of custom members; members that fit none are omitted and reported."""
        levels: dict[str, Level] = {}
        for key, possible in self._possible.items():
            if possible >= {"atom", "molecule"} and len(self._sizes[key]) == 1:
                level: Level = "molecule" if self._shapes[key] == (3,) else "atom"
                what = "each atom" if level == "atom" else "the molecule"
                report.note(f"{key!r} taken as a property of {what}; key_map can say otherwise")
                levels[key] = level
            elif possible:
                levels[key] = min(possible, key=("atom", "molecule", "shared").index)
            else:
                what = f"{self._what[key]} {key!r}"
                report.skip(what, "its rows are neither molecules nor atoms")
        return levels


def _read(systems: _Opener, path: str, options: SourceOptions, report: Report) -> Iterator[Columns]:
    """Yields the molecules of a file in blocks, in order, in the types of the file.

    For the layouts see ``systems.System``. Members of ``.npz`` files are read as streams,
    compressed or not: memory holds one block, and ``n_atoms`` or ``ptr`` (8 bytes per molecule).
    Every group of HDF5 that holds positions is a separate system, in the order of their names, and
    its path becomes the ``name`` of its molecules. Keys name arrays, not paths.
    """
    survey = _Survey(systems, path, options, report)
    for key in sorted({*options.keys} - survey.seen):
        report.miss_key(key, FieldError(f"{path}: key_map: no array {key!r}"))
    if survey.seen >= _RMD17:
        report.note("read as rMD17")
        report.units.update(_RMD17_UNITS)
    custom = survey.levels(report)
    with systems(_Request(path, options, Report())) as found:
        for system in found:
            levels = dict(custom)
            for member in system.members.values():
                if member.key != member.name:
                    report.note(f"{member.key!r} read as {member.name}")
                if member.unit:
                    report.units[member.name] = member.unit
            for member in system.fields():
                _state_units(member, report)
                if said_level(member.name) is not None:
                    (levels[member.key],) = system.levels(member)
                elif levels.get(member.key) == "shared" and not system.name:
                    del levels[member.key]
                    what = f"{member.what} {member.key!r}"
                    report.skip(what, "one value for the whole file")
            for member in system.members.values():
                if member.key != member.name:
                    report.origin(_field_name(member, levels), member.key)
            _warn_of_groups(system, report)
            if system.name and "name" not in system.members:
                report.note("name: the group of the molecule")
            yield from system.blocks(levels, report)


def _field_name(member: Member, levels: Mapping[str, Level]) -> str:
    """Returns the name of a member's field, with its scope."""
    if said_level(member.name) is not None or member.name in ("positions", "atomic_numbers"):
        return member.name
    scope = ATOM_PROPERTY if levels.get(member.key) == "atom" else MOLECULE_PROPERTY
    return PREFIXES[scope] + member.name


def _state_units(member: Member, report: Report) -> None:
    """Records units that a file states in an array of text of their own, as sGDML does."""
    rows, units = member.rows, report.units
    if rows.dtype.kind not in "SU" or rows.shape not in ((), (1,)):
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
    request: _Request,
    arrays: Mapping[str, Rows],
    where: str,
    name: str = "",
    attributes: Mapping[str, Rows] = MappingProxyType({}),
) -> System:
    """Builds a system from arrays and attributes, renamed to their names here."""
    members: dict[str, Member] = {}
    for key, rows in (*arrays.items(), *attributes.items()):
        what = "array" if key in arrays else "attribute"
        here = request.names.here(key, _NAMES.get(key, key), what)
        if here in members:
            both = f"{members[here].key!r} and {key!r}"
            raise FieldError(f"{where}: {both} could both be {here}: say which in key_map")
        if here is not None:
            unit = rows.unit() if isinstance(rows, HdfRows) else ""
            members[here] = Member(key, here, rows, unit, what)
    return System(where, members, request.padding, name)


@contextmanager
def _npz_systems(request: _Request) -> Iterator[Systems]:
    path = request.path
    check_regular_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except OSError:
        raise
    except Exception as error:  # damaged tables can fail in many ways
        raise CorruptFileError(f"{path}: not an .npz file: {described(error)}") from error
    with archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        if len({*names}) < len(names):
            raise CorruptFileError(f"{path}: expected each array once, got one twice")
        others = [name for name in archive.namelist() if not name.endswith(".npy")]
        for name in others:
            request.report.skip(f"file {name!r}", "no array")
        yield iter([_system(request, npz_rows(path, archive), path)])


@contextmanager
def _hdf5_systems(request: _Request) -> Iterator[Systems]:
    with opened(request.path) as file:
        yield _systems_below(request, file, "/")


def _systems_below(request: _Request, file: ForeignFile, name: str) -> Systems:
    """Yields the systems of a group and its subgroups, depth first."""
    group, where = file.listing(name), f"{request.path}: {name}"
    lost, datasets = group.unread(), group.readable()
    if "positions" in map(request.name_of, datasets):
        arrays: dict[str, Rows] = {
            key: HdfRows(file, f"{name.rstrip('/')}/{key}", stored)
            for key, stored in datasets.items()
        }
        attributes = _attributes(request, group.attrs, arrays, lost)
        system = _system(request, arrays, where, name.strip("/"), attributes)
        for member in system.fields():
            if member.what == "attribute":
                try:
                    system.levels(member)
                except FieldError:
                    lost[f"attribute {member.key!r}"] = "its shape is not that of its name"
                    del system.members[member.name]
        yield system
    else:
        lost |= {f"array {key!r}": NO_POSITIONS for key in datasets}
        lost |= {f"attribute {key!r}": NO_POSITIONS for key in group.attrs}
    for what, why in lost.items():
        request.report.skip(what, why)
    for key in group.groups:
        yield from _systems_below(request, file, f"{name.rstrip('/')}/{key}")


def _attributes(
    request: _Request, attrs: Mapping[str, Any], arrays: Mapping[str, Rows], lost: dict[str, str]
) -> dict[str, Rows]:
    """Returns the attributes of a group that may be values of its structures."""
    here = {key: request.name_of(key) for key in (*arrays, *attrs)}
    given = {here[key] for key in arrays}
    places = next(arrays[key] for key in arrays if here[key] == "positions")
    is_one = len(places.shape) == 3 and places.shape[0] == 1
    found: dict[str, Rows] = {}
    for key, value in attrs.items():
        rows = HeldRows(np.asarray(value))
        is_text = rows.dtype.kind in "SUO"
        if here[key] in ("n_atoms", "ptr", "positions"):
            why = "expected as an array"
        elif key in arrays or (here[key] in given and key not in request.names.keys):
            why = "an array has its name"
        elif value is None or (
            is_text
            and here[key] not in ("name", "atomic_numbers")
            and (said_level(here[key]) is not None)
        ):
            why = "expected numbers"
        else:
            if is_one and rows.shape[:1] != (1,):
                rows = HeldRows(np.asarray(value)[None])
            found[key] = rows
            continue
        lost[f"attribute {key!r}"] = why
    return found
