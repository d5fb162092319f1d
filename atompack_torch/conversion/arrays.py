"""Reader of structures from arrays in NPZ and HDF5 files."""

from __future__ import annotations

import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple

from atompack_torch._native import check_regular_file
from atompack_torch.conversion import hdf5_sets, mace_hdf5
from atompack_torch.conversion.converter import Source, SourceOptions
from atompack_torch.conversion.report import Report, described
from atompack_torch.conversion.rows import HdfRows, NpzRows, Rows
from atompack_torch.conversion.systems import Level, Member, System, said_level
from atompack_torch.errors import AtompackError, CorruptFileError, FieldError
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY, PREFIXES
from atompack_torch.writers.columns import Columns

_Path = str | os.PathLike[str]
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
    """Opens an ``.npz`` or an HDF5 file, also one that MACE wrote or of a public data set."""
    is_npz = options.format == "npz"
    if not is_npz and mace_hdf5.is_mace(path):
        return mace_hdf5.open_source(path, options)
    if not is_npz and options.padding is None and hdf5_sets.recognize(path) is not None:
        return hdf5_sets.open_source(path, options)
    keys, padding = options.keys, options.padding
    read, count = (read_npz, count_npz) if is_npz else (read_hdf5, count_hdf5)
    names = partial(_names, _npz_systems if is_npz else _hdf5_systems)
    return Source(
        path,
        lambda report: read(path, keys=keys, report=report, padding=padding),
        partial(count, path, keys=keys),
        maps_keys=True,
        takes_padding=True,
        is_arrays=True,
        names=partial(names, path, keys),
    )


def _names(systems: _Opener, path: str, keys: Mapping[str, str]) -> set[str]:
    """Returns the names of all fields, of some perhaps one that is left out."""
    names: set[str] = set()
    with systems(_Request(path, keys, None, Counter())) as found:
        for system in found:
            names |= {"name"} if system.name else set()
            names.update(*(_possible_names(member.name) for member in system.fields()))
    return names


def _possible_names(name: str) -> tuple[str, ...]:
    return (name, *(prefix + name for prefix in PREFIXES.values()))


def count_npz(path: _Path, *, keys: Mapping[str, str] | None = None) -> int:
    """Counts the structures in an ``.npz`` file."""
    return _Survey(_Request(str(path), keys or {}, None, Counter()), _npz_systems).n_structures


def count_hdf5(path: _Path, *, keys: Mapping[str, str] | None = None) -> int:
    """Counts the structures in an HDF5 file."""
    return _Survey(_Request(str(path), keys or {}, None, Counter()), _hdf5_systems).n_structures


def read_npz(
    path: _Path,
    *,
    keys: Mapping[str, str] | None = None,
    report: Report,
    padding: int | None = None,
) -> Iterator[Columns]:
    """Yields the structures of an ``.npz`` file in blocks, in order, in the types of the file.

    For the layouts see ``systems.System``. Members are read as streams, compressed or not: memory
    holds one block, and ``n_atoms`` or ``ptr`` (8 bytes per structure).

    Args:
        path: the file.
        keys: name in the file → name here: ``positions``, ``atomic_numbers``, ``n_atoms``,
            ``ptr``, a label, or the name of a custom property, with its scope
            (``atom_properties/q``) where the shape is ambiguous. Common names (``R``, ``z``,
            ``E``, ``F``, ``coords``, ...) are known.
        report: receives the interpretation of names and what was left out.
        padding: atomic number of padding rows; None: there are none.

    Returns:
        Blocks of structures.

    Raises:
        FieldError: an array is missing, or shapes are inconsistent.
        CorruptFileError: the file is damaged.
        UnsupportedFormatError: the file holds pickled objects.
    """
    return _read(_Request(str(path), keys or {}, padding, Counter()), _npz_systems, report)


def read_hdf5(
    path: _Path,
    *,
    keys: Mapping[str, str] | None = None,
    report: Report,
    padding: int | None = None,
) -> Iterator[Columns]:
    """Yields the structures of an HDF5 file in blocks, in the types of the file.

    Like ``read_npz``; every group that holds positions is a separate system, in the order of their
    names, and its path becomes the ``name`` of its structures. ``keys`` names datasets, not paths.
    """
    return _read(_Request(str(path), keys or {}, padding, Counter()), _hdf5_systems, report)


class _Request(NamedTuple):
    """File to read, with the options for its interpretation.

    Attributes:
        path: path of the file.
        keys: name in the file → name here.
        padding: atomic number of padding rows.
        stray: name of a dataset in a group without positions → its number of occurrences; filled
            while the file is traversed.
    """

    path: str
    keys: Mapping[str, str]
    padding: int | None
    stray: Counter[str]


_Opener = Callable[[_Request], AbstractContextManager[Systems]]


class _Survey:
    """First pass over a file: counts the structures and determines the level of each member.

    A single shape may be ambiguous: (M, 9) is nine numbers per structure, or one for each of nine
    atoms.
    """

    def __init__(self, request: _Request, systems: _Opener) -> None:
        self.n_structures = 0
        self.seen: set[str] = set()
        self._sizes: set[int | None] = set()
        self._possible: dict[str, set[Level]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        with systems(request) as found:
            for system in found:
                self._add(system)
        if not self._sizes:
            raise FieldError(
                f"{request.path}: expected an array of positions, got none: name it in key_map"
            )

    def _add(self, system: System) -> None:
        self.n_structures += system.n_structures
        self._sizes.add(system.n_atoms)
        self.seen.update(member.key for member in system.members.values())
        for member in system.fields():
            possible = system.levels(member)
            if said_level(member.name) is None:
                self._possible[member.key] = self._possible.get(member.key, possible) & possible
                self._shapes[member.key] = member.rows.shape[1:]

    def levels(self, report: Report) -> dict[str, Level]:
        """Returns the levels of custom members; members that fit none are left out and reported."""
        levels: dict[str, Level] = {}
        for key, possible in self._possible.items():
            if possible >= {"atom", "molecule"} and len(self._sizes) == 1:
                level: Level = "molecule" if self._shapes[key] == (3,) else "atom"
                what = "each atom" if level == "atom" else "the structure"
                report.note(f"{key!r} taken as a property of {what}; key_map can say otherwise")
                levels[key] = level
            elif possible:
                levels[key] = min(possible, key=("atom", "molecule", "shared").index)
            else:
                report.skip(f"array {key!r}", "its rows are neither structures nor atoms")
        return levels


def _read(request: _Request, systems: _Opener, report: Report) -> Iterator[Columns]:
    survey = _Survey(request, systems)
    for key in sorted({*request.keys} - survey.seen):
        report.miss_key(key, FieldError(f"{request.path}: key_map: no array {key!r}"))
    if survey.seen >= _RMD17:
        report.note("read as rMD17")
        report.units.update(_RMD17_UNITS)
    custom = survey.levels(report)
    for name, n in request.stray.items():
        report.skip(f"array {name!r}", "there are no positions in its group", n)
    with systems(request) as found:
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
                    report.skip(f"array {member.key!r}", "one value for the whole file")
            for member in system.members.values():
                if member.key != member.name:
                    report.origin(_field_name(member, levels), member.key)
            _warn_of_groups(system, report)
            for key in system.left_out:
                report.skip(f"array {key!r}", "key_map gives its name to another")
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
    request: _Request, arrays: Iterable[tuple[str, Rows]], where: str, name: str = ""
) -> System:
    """Builds a system from arrays, renamed to their names here."""
    members: dict[str, Member] = {}
    left_out = []
    mapped = {*request.keys.values()}
    for key, rows in arrays:
        known = _NAMES.get(key, key)
        here = request.keys.get(key, key if known in mapped else known)
        if here in mapped and key not in request.keys:
            left_out.append(key)
        elif here in members:
            both = f"{members[here].key!r} and {key!r}"
            raise FieldError(f"{where}: {both} could both be {here}: say which in key_map")
        else:
            unit = rows.unit() if isinstance(rows, HdfRows) else ""
            members[here] = Member(key, here, rows, unit)
    return System(where, members, request.padding, name, left_out)


@contextmanager
def _npz_systems(request: _Request) -> Iterator[Systems]:
    path = request.path
    check_regular_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except OSError:
        raise
    except Exception as error:  # damaged tables can fail in many ways
        raise CorruptFileError(f"{path}: no .npz file: {described(error)}") from error
    with archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        arrays = [(name.removesuffix(".npy"), NpzRows(path, archive, name)) for name in names]
        yield iter([_system(request, arrays, path)])


@contextmanager
def _hdf5_systems(request: _Request) -> Iterator[Systems]:
    import h5py

    check_regular_file(request.path)
    try:
        file = h5py.File(request.path, "r")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptFileError(f"{request.path}: no HDF5 file: {described(error)}") from error
    with file:
        yield _guarded(request.path, _systems_below(request, file, frozenset()))


def _guarded(path: str, systems: Systems) -> Systems:
    """Converts errors while traversing a damaged file, which vary, to ``CorruptFileError``."""
    try:
        yield from systems
    except AtompackError:
        raise
    except Exception as error:
        raise CorruptFileError(f"{path}: {described(error)}") from error


def _systems_below(request: _Request, group: Any, above: frozenset[Any]) -> Systems:
    """Yields the systems of a group and its subgroups, depth first, along hard links only."""
    import h5py

    here, where = h5py.h5o.get_info(group.id).addr, f"{request.path}: {group.name}"
    if here in above:
        raise CorruptFileError(f"{where}: expected a tree of groups, got a circle")
    own = [name for name in group if group.get(name, getlink=True, getclass=True) is h5py.HardLink]
    kinds = {name: group.get(name, getclass=True) for name in own}
    datasets = [name for name, kind in kinds.items() if kind is h5py.Dataset]
    datasets = [name for name in datasets if group[name].shape is not None]  # skips empty datasets
    keys = request.keys
    if any(keys.get(name, _NAMES.get(name)) == "positions" for name in datasets):
        arrays = [(name, HdfRows(request.path, group[name])) for name in datasets]
        yield _system(request, arrays, where, group.name.strip("/"))
    else:
        request.stray.update(datasets)
    for name, kind in kinds.items():
        if kind is h5py.Group:
            yield from _systems_below(request, group[name], above | {here})
