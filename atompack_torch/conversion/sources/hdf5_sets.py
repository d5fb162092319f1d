"""Structures from the HDF5 files of ANI-1x, ANI-2x, COMP6, SPICE and Transition1x.

Each group has structures of the same number of atoms: ``coordinates``, ``conformations`` or
``positions`` (M, n, 3), atomic numbers (n,) or (M, n), and labels with M rows. Groups are those of

- ANI-1x: a formula, with ``wb97x_dz.energy`` and values of other methods, NaN where not computed;
- ANI-2x and COMP6: a number of atoms, with ``species``, ``energies`` and ``forces``;
- SPICE: a molecule, with ``dft_total_energy``, ``dft_total_gradient``, ``smiles`` and ``subset``;
- Transition1x: ``data/FORMULA/REACTION``, and its groups ``reactant``, ``transition_state`` and
  ``product``; the splits ``train``, ``val`` and ``test`` have the same reactions again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.sources.hdf5_files import ForeignFile, Listing, opened
from atompack_torch.conversion.sources.hdf5_groups import GroupReader, HdfSet
from atompack_torch.conversion.sources.systems import joined
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions

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


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file."""
    known = recognize(path)
    if known is None:
        expected = ", ".join(one.title for one in (ANI_1X, ANI_2X, SPICE, TRANSITION1X))
        raise UnsupportedFormatError(
            f"{path}: expected the groups of {expected}, got others: --from hdf5 reads arrays of "
            "any names"
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
    """Returns the names of all fields, of some perhaps one that is left out."""
    with _opened(path, keys, Report()) as reader:
        return {"name"}.union(*map(reader.names, _groups(reader, Report())))


def recognize(path: str) -> HdfSet | None:
    """Returns the set that an HDF5 file belongs to; None if it is none, or cannot be read."""
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
    """Returns path and content of the first group in a group; None if there is none."""
    for found in _below(name, group):
        return found, file.listing(found)
    return None


def _below(name: str, group: Listing) -> Iterator[str]:
    """Yields the paths of the groups in a group."""
    for key in group.groups:
        yield f"{name.rstrip('/')}/{key}"


def count(path: str, keys: Mapping[str, str]) -> int:
    """Counts the structures.

    Args:
        path: the file.
        keys: name in the file → name here.

    Returns:
        The number of structures.

    Raises:
        CorruptFileError: the file is damaged.
    """
    with _opened(path, keys, Report()) as reader:
        return reader.total([*_groups(reader, Report())])


def read(
    path: str, keys: Mapping[str, str], report: Report, first: int = 0, last: int | None = None
) -> Iterator[Columns]:
    """Yields the structures in blocks, in the order of the names of groups, in the file's types.

    Args:
        path: the file.
        keys: name of an array → name here: ``positions``, ``atomic_numbers``, a label, or a
            property, with its scope (``atom_properties/q``) where that matters.
        report: receives the interpretation of names, and what was dropped.
        first: number of the first structure.
        last: one past the last structure; None: all.

    Yields:
        Blocks of structures, of several groups.

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
    """Yields the groups of structures; the report receives what other groups hold."""
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
