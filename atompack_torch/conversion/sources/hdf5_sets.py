"""Molecules from the HDF5 files of ANI-1x, ANI-2x, COMP6, SPICE and Transition1x.

Each group has molecules of the same number of atoms: ``coordinates``, ``conformations`` or
``positions`` (M, n, 3), atomic numbers (n,) or (M, n), and labels with M rows. Groups are those of

- ANI-1x: a formula, with ``wb97x_dz.energy`` and values of other methods, NaN where not computed;
- ANI-2x and COMP6: a number of atoms, with ``species``, ``energies`` and ``forces``;
- SPICE: a molecule, with ``dft_total_energy``, ``dft_total_gradient``, ``smiles`` and ``subset``;
- Transition1x: ``data/FORMULA/REACTION``, and its groups ``reactant``, ``transition_state`` and
  ``product``; the splits ``train``, ``val`` and ``test`` have the same reactions again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Columns
from atompack_torch.conversion.keys import SourceNames, field_of
from atompack_torch.conversion.sources.hdf5_files import ForeignFile, HdfRows, Listing, opened
from atompack_torch.conversion.sources.rows import HeldRows, Rows
from atompack_torch.conversion.sources.systems import Level, Member, System, joined
from atompack_torch.errors import (
    AtompackError,
    CorruptFileError,
    FieldError,
    UnsupportedFormatError,
)
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    FieldId,
    check_unique,
)
from atompack_torch.formats.conversion_report import Report, naming_damage
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import is_per_atom


class HdfSet(NamedTuple):
    """A dataset.

    Attributes:
        title: its name, for messages.
        names: name in the file → part of a molecule, or label.
        gradient: name of an array of gradients, which become forces; empty if missing.
        units: label → unit that it is published in, unless the file states another.
        subgroups: groups in a group that are groups of molecules too.
    """

    title: str
    names: Mapping[str, str]
    units: Mapping[str, str]
    gradient: str = ""
    subgroups: tuple[str, ...] = ()


_ANI_UNITS = {"positions": "Ang", "energy": "Ha", "forces": "Ha/Ang"}
ANI_1X = HdfSet(
    "ANI-1x",
    {
        "coordinates": "positions",
        "wb97x_dz.energy": "energy",
        "wb97x_dz.forces": "forces",
    },
    units=_ANI_UNITS,
)
ANI_2X = HdfSet(
    "ANI-2x or COMP6",
    {"coordinates": "positions", "species": "atomic_numbers", "energies": "energy"},
    units=_ANI_UNITS,
)
SPICE = HdfSet(
    "SPICE",
    {
        "conformations": "positions",
        "dft_total_energy": "energy",
        "dft_total_gradient": "forces",
    },
    gradient="dft_total_gradient",
    units={"positions": "Bohr", "energy": "Ha", "forces": "Ha/Bohr"},
)
TRANSITION1X = HdfSet(
    "Transition1x",
    {
        "positions": "positions",
        "atomic_numbers": "atomic_numbers",
        "wB97x_6-31G(d).energy": "energy",
        "wB97x_6-31G(d).forces": "forces",
    },
    units={"positions": "Ang", "energy": "eV", "forces": "eV/Ang"},
    subgroups=("reactant", "transition_state", "product"),
)
_SPLITS = ("data", "train", "val", "test")
_SPLIT = re.compile(f"/({'|'.join(_SPLITS)})/")
_STRUCTURE = ("positions", "atomic_numbers")
_OF_ATOMS = re.compile(r"charges|volumes|mbis_|forces|gradient")
_OF_PAIRS = re.compile(r"(wiberg|mayer).*indices")


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file."""
    known = recognize(path)
    if known is None:
        expected = ", ".join(one.title for one in (ANI_1X, ANI_2X, SPICE, TRANSITION1X))
        raise UnsupportedFormatError(
            f"{path}: expected the groups of {expected}, got other ones; --from hdf5 reads "
            "arrays of any name"
        )
    given = path, options.keys
    read_blocks = partial(read, *given)
    return Source(
        path,
        read_blocks,
        partial(count, *given),
        maps_keys=True,
        is_arrays=True,
        read_range=read_blocks,
        names=partial(_names, *given),
    )


def _names(path: str, keys: Mapping[str, str]) -> set[str]:
    """Returns the names of all fields, of some perhaps one that is omitted."""
    with _opened(path, keys, Report()) as reader:
        return {"name"}.union(*map(reader.names, _groups(reader, Report())))


def recognize(path: str) -> HdfSet | None:
    """Returns the set that an HDF5 file belongs to; None if unknown or unreadable."""
    try:
        with opened(path) as file:
            return _set_of(file)
    except (AtompackError, OSError):
        return None  # the reader chosen next reports the problem


def _set_of(file: ForeignFile) -> HdfSet | None:
    root = file.listing()
    splits = [name for name in _SPLITS if name in root.groups]
    if splits:
        formulas = file.listing(f"/{splits[0]}")
        reactions = _first(file, f"/{splits[0]}", formulas)
        reaction = reactions and _first(file, *reactions)
        return TRANSITION1X if reaction and _holds(reaction[1], TRANSITION1X.names) else None
    found = _first(file, "/", root)
    if found is None:
        return None
    first = found[1]
    if _holds(first, ("coordinates", "atomic_numbers", "wb97x_dz.energy")):
        return ANI_1X
    if _holds(first, ("conformations", "atomic_numbers", "dft_total_energy")):
        return SPICE
    is_counted = all(re.fullmatch(r"\d+", name) for name in (*root.groups, *root.datasets))
    return ANI_2X if is_counted and _holds(first, ("coordinates", "species", "energies")) else None


def _holds(group: Listing, names: Iterable[str]) -> bool:
    return all(name in group.datasets for name in names)


def _first(file: ForeignFile, name: str, group: Listing) -> tuple[str, Listing] | None:
    """Returns path and content of the first group in a group; None if missing."""
    for found in _below(name, group):
        return found, file.listing(found)
    return None


def _below(name: str, group: Listing) -> Iterator[str]:
    """Yields the paths of the groups in a group."""
    for key in group.groups:
        yield f"{name.rstrip('/')}/{key}"


def count(path: str, keys: Mapping[str, str]) -> int:
    """Counts the molecules.

    Args:
        path: the file.
        keys: name in the file → name here.

    Returns:
        The number of molecules.

    Raises:
        CorruptFileError: the file is damaged.
    """
    with _opened(path, keys, Report()) as reader:
        return reader.total([*_groups(reader, Report())])


def read(
    path: str, keys: Mapping[str, str], report: Report, first: int = 0, last: int | None = None
) -> Iterator[Columns]:
    """Yields the molecules in blocks, in the order of the names of groups, in the file's types.

    Args:
        path: the file.
        keys: name of an array → name here: ``positions``, ``atomic_numbers``, a label, or a
            property, with its scope (``atom_properties/q``) where that matters.
        report: receives the interpretation of names, and what was dropped.
        first: number of the first molecule.
        last: one past the last molecule; None: all.

    Yields:
        Blocks of molecules, of several groups.

    Raises:
        CorruptFileError: the file is damaged.
        FieldError: an array that a key names is in no group.
    """
    with _opened(path, keys, report) as reader:
        groups = _groups(reader, report if first == 0 else Report())
        yield from joined(_blocks(reader, groups, first, last))
        if last is None and first == 0:
            reader.given.check_all_found(path, "no array")


def _blocks(
    reader: GroupReader, groups: Iterator[str], first: int, last: int | None
) -> Iterator[Columns]:
    start = 0
    for group in groups:
        n = reader.count(group)
        low, high = max(first - start, 0), n if last is None else min(last - start, n)
        if low < high:
            split = _SPLIT.match(group) if reader.known is TRANSITION1X else None
            name = group[split.end() :] if split else group.strip("/")
            yield from reader.read(group, name, low, high)
        start += n
        if last is not None and start >= last:
            return


@contextmanager
def _opened(path: str, keys: Mapping[str, str], report: Report) -> Iterator[GroupReader]:
    with opened(path) as file:
        known = _set_of(file)
        if known is None:
            raise CorruptFileError(f"{path}: expected the groups that it had when it was opened")
        yield GroupReader(file, known, keys, report)


def _groups(reader: GroupReader, report: Report) -> Iterator[str]:
    """Yields the groups of molecules; the report receives what other groups hold."""
    file, root = reader.file, reader.file.listing()
    if reader.known is not TRANSITION1X:
        root.list_unused(report, root.groups)
        yield from _below("/", root)
        return
    root.list_unused(report, _SPLITS)  # data has what is in the others
    splits = ["data"] if "data" in root.groups else [n for n in _SPLITS if n in root.groups]
    for split in splits:
        formulas = file.listing(f"/{split}")
        formulas.list_unused(report, formulas.groups)
        for formula in _below(f"/{split}", formulas):
            reactions = file.listing(formula)
            reactions.list_unused(report, reactions.groups)
            for reaction in _below(formula, reactions):
                yield reaction
                points = file.listing(reaction).groups
                yield from (f"{reaction}/{p}" for p in TRANSITION1X.subgroups if p in points)


class _GroupRows(HdfRows):
    """An array whose rows may get the shape of those of a field.

    Attributes:
        is_gradient: True if the field has the other sign.
    """

    is_gradient = False

    def read(self, first: int, last: int) -> Array:
        """See ``Rows``."""
        values = super().read(first, last)
        if self.shape:
            values = values.reshape(last - first, *self.shape[1:])
        return -values if self.is_gradient else values


class GroupReader:
    """Reads the groups of one file.

    Args:
        file: the file.
        known: its set.
        keys: name in the file → name here.
        report: receives the interpretation of names, and what was dropped.
    """

    def __init__(
        self, file: ForeignFile, known: HdfSet, keys: Mapping[str, str], report: Report
    ) -> None:
        self.file, self.known = file, known
        self._path, self._report = file.path, report
        check_unique(keys)
        self.given = SourceNames(keys, report)
        self._listed: tuple[str, Listing] | None = None
        taken = {*keys.values()}
        names = {**{k: n for k, n in known.names.items() if n not in taken}, **keys}
        self._places = next(key for key, name in names.items() if name == "positions")
        self._targets: dict[str, FieldId | None] = {}
        report.note(f"read as {known.title}")
        report.units.update(known.units)

    def count(self, group: str) -> int:
        """Counts the molecules of a group.

        Args:
            group: path of the group in the file.

        Returns:
            Their number.

        Raises:
            CorruptFileError: there are no positions.
        """
        stored = self._listing(group).datasets.get(self._places)
        return self._count(group, None if stored is None else stored.shape)

    def total(self, groups: list[str]) -> int:
        """Counts the molecules of groups.

        Args:
            groups: their paths.

        Returns:
            The sum of their numbers.

        Raises:
            CorruptFileError: there are no positions.
        """
        shapes = self.file.shapes([f"{group}/{self._places}" for group in groups])
        return sum(self._count(*one) for one in zip(groups, shapes, strict=True))

    def _count(self, group: str, shape: tuple[int, ...] | AtompackError | None) -> int:
        if shape is None or isinstance(shape, CorruptFileError):
            got = "none" if shape is None else str(shape).removeprefix(f"{self._path}: ")
            fault = f"expected an array {self._places!r}, got {got}"
            raise CorruptFileError(f"{self._path}: {group}: {fault}")
        if isinstance(shape, AtompackError):
            raise shape
        if len(shape) != 3 or shape[2] != 3 or 0 in shape[1:]:
            raise self._wrong_shape(group, self._places, "(M, n, 3)", shape)
        return shape[0]

    def _listing(self, group: str) -> Listing:
        if self._listed is None or self._listed[0] != group:
            self._listed = group, self.file.listing(group)
        return self._listed[1]

    def names(self, group: str) -> set[str]:
        """Returns the names of the fields that a group may have.

        Args:
            group: path of the group in the file.

        Returns:
            Labels, and properties with their scope.
        """
        found = self._listing(group)
        names = (*found.datasets, *found.attrs)
        return {_name_of(target) for name in names if (target := self._target(name)) is not None}

    def read(self, group: str, name: str, first: int, last: int) -> Iterator[Columns]:
        """Yields molecules of a group in blocks.

        Args:
            group: path of the group in the file.
            name: name of its molecules.
            first: number of the first of them.
            last: one past the last.

        Yields:
            Blocks of molecules.

        Raises:
            CorruptFileError: the group is damaged.
        """
        levels: dict[str, Level] = {}
        with naming_damage(f"{self._path}: {group}"):
            members = self._members(group, levels)
            try:
                system = System(f"{self._path}: {group}", members, None, name)
            except FieldError as error:
                raise CorruptFileError(str(error)) from None
            yield from system.blocks(levels, self._report, first, last)

    def _members(self, group: str, levels: dict[str, Level]) -> dict[str, Member]:
        """Returns the arrays and attributes of a group that are read, by their names here.

        Args:
            group: path of the group in the file.
            levels: receives the levels of fields, by key.
        """
        report, found = self._report, self._listing(group)
        for what, why in found.unread().items():
            report.skip(what, why)
        for key in found.groups:
            if key not in self.known.subgroups:
                report.skip(f"group {key!r}", "a group in a group of molecules")
        members: dict[str, Member] = {}
        shape = found.datasets[self._places].shape[:2]
        for key, stored in found.readable().items():
            is_new, target = key not in self._targets, self._target(key)
            if target is None:
                continue
            rows = _GroupRows(self.file, f"{group}/{key}", stored)
            # Those of properties are for the report alone: one group is enough.
            if (is_new or target.scope == BUILTIN) and (unit := rows.unit()):
                report.units[target.key] = unit
            value: Rows | None = rows
            if not _is_part(target):
                value = self._value(group, key, target, rows, shape, levels)
            if value is not None:
                members[_name_of(target)] = Member(key, _name_of(target), value)
        given = {self._target(key) for key in found.readable()}
        for key, attribute in found.attrs.items():
            target = None if key in found.readable() else self._target(key)
            held = None
            if target is not None and target not in given:
                held = _attribute_rows(target, attribute, shape)
            if held is None:
                report.skip(f"attribute {key!r}", "it is no value of these molecules")
            elif target is not None:
                if not _is_part(target):
                    per_row: Level = "atom" if is_per_atom(target) else "molecule"
                    levels[key] = "shared" if held.dtype.kind == "O" else per_row
                members[_name_of(target)] = Member(key, _name_of(target), held)
        return members

    def _target(self, name: str) -> FieldId | None:
        """Returns the field of an array; None if it is omitted."""
        if name not in self._targets:
            self._targets[name] = self._new_target(name)
        return self._targets[name]

    def _new_target(self, name: str) -> FieldId | None:
        report, is_given = self._report, name in self.given.keys
        own = self.given.here(name, self.known.names.get(name, name), "array")
        if own is None:
            return None
        if not is_given and _OF_PAIRS.search(name):
            report.skip(f"array {name!r}", "values of all pairs of atoms: key_map can name it")
            return None
        if own in _STRUCTURE:
            return FieldId(BUILTIN, own)
        is_of_atoms = _OF_ATOMS.search(name) or _OF_PAIRS.search(name)
        target = field_of(own, ATOM_PROPERTY if is_of_atoms else MOLECULE_PROPERTY)
        if self._is_gradient(name):
            report.note(f"{name!r} read as forces, times -1")
        elif target.scope == BUILTIN and target.key != name:
            report.origin(target.key, name)
        return target

    def _is_gradient(self, name: str) -> bool:
        return name == self.known.gradient and name not in self.given.keys

    def _value(
        self,
        group: str,
        key: str,
        target: FieldId,
        rows: _GroupRows,
        shape: tuple[int, ...],
        levels: dict[str, Level],
    ) -> Rows | None:
        """Returns the rows of a field; None if they fit neither molecules nor atoms."""
        is_label, is_of_atoms = target.scope == BUILTIN, is_per_atom(target)
        n_axes = 1 + is_of_atoms
        axes = shape[:n_axes]
        if rows.dtype.kind in "SUO":
            if math.prod(rows.shape) == 1 and not is_of_atoms:
                levels[key] = "shared"
                return HeldRows(np.asarray(rows.read(0, 1)).reshape(-1))
            self._report.skip(f"array {key!r}", "strings, but not one for the group")
            return None
        if rows.shape[:n_axes] != axes:
            if is_label:
                raise self._wrong_shape(group, key, f"{axes} rows", rows.shape)
            what = "its rows are not those of the molecules" + " and atoms" * is_of_atoms
            self._report.skip(f"array {key!r}", what)
            return None
        row = rows.shape[n_axes:]
        if is_label:
            expected = BUILTINS[target.key].shape
            if math.prod(row) != math.prod(expected):
                raise self._wrong_shape(group, key, (*axes, *expected), rows.shape)
            row = expected
        levels[key] = "atom" if is_of_atoms else "molecule"
        rows.is_gradient = self._is_gradient(key)
        rows.shape = (*axes, *(() if row == (1,) else row))
        return rows

    def _wrong_shape(self, group: str, key: str, expected: object, got: object) -> CorruptFileError:
        return CorruptFileError(f"{self._path}: {group}: {key}: expected {expected}, got {got}")


def _is_part(target: FieldId) -> bool:
    return target.scope == BUILTIN and target.key in _STRUCTURE


def _name_of(target: FieldId) -> str:
    return PREFIXES.get(target.scope, "") + target.key


def _attribute_rows(target: FieldId, value: Any, shape: tuple[int, ...]) -> Rows | None:
    """Returns an attribute of a group as rows of its molecules; None if it has no place there.

    Args:
        target: the field that it has the name of.
        value: its value.
        shape: numbers of molecules and atoms.
    """
    if isinstance(value, str):
        is_text = target.scope != BUILTIN or target.key == "name"
        return HeldRows(np.array([value], object)) if is_text else None
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        return None
    if _is_part(target):
        return HeldRows(array) if array.shape in (shape[1:], shape) else None
    axes = shape if is_per_atom(target) else shape[:1]
    if target.scope == BUILTIN:
        row = BUILTINS[target.key].shape
        if array.shape == row != ():
            array = np.broadcast_to(array, (*axes, *row))
        if target.key == "name" or array.size != math.prod((*axes, *row)):
            return None
        return HeldRows(array.reshape(*axes, *row))
    if array.shape[: len(axes)] == axes:
        return HeldRows(array)
    return None if len(axes) > 1 else HeldRows(np.broadcast_to(array, (*axes, *array.shape)))
