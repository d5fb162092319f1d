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

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from atompack_torch.conversion.sources.hdf5_files import ForeignFile, Listing, opened
from atompack_torch.conversion.sources.systems import Level
from atompack_torch.formats.conversion_report import Report


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
SETS = (ANI_1X, ANI_2X, SPICE, TRANSITION1X)
_SPLITS = ("data", "train", "val", "test")
_OF_ATOMS = re.compile(r"charges|volumes|mbis_|forces|gradient")
OF_PAIRS = re.compile(r"(wiberg|mayer).*indices")


def recognize(file: ForeignFile) -> HdfSet | None:
    """Returns the set that an HDF5 file belongs to; None if unknown."""
    root, names = file.listing(), file.groups("/")
    splits = [name for name in _SPLITS if name in root.groups]
    if splits:
        formulas = file.groups(f"/{splits[0]}")
        names = file.groups(formulas[0]) if formulas else []
    if not names:
        return None
    first = file.listing(names[0])
    if splits:
        return TRANSITION1X if _holds(first, TRANSITION1X.names) else None
    if _holds(first, ("coordinates", "atomic_numbers", "wb97x_dz.energy")):
        return ANI_1X
    if _holds(first, ("conformations", "atomic_numbers", "dft_total_energy")):
        return SPICE
    is_counted = all(re.fullmatch(r"\d+", name) for name in (*root.groups, *root.datasets))
    return ANI_2X if is_counted and _holds(first, ("coordinates", "species", "energies")) else None


def _holds(group: Listing, names: Iterable[str]) -> bool:
    return all(name in group.datasets for name in names)


def count(path: str, known: HdfSet, keys: Mapping[str, str]) -> int | None:
    """Counts the molecules.

    Args:
        path: the file.
        known: its set.
        keys: name in the file → name here.

    Returns:
        The number of molecules; None if a group has no positions, which reading it will report.
    """
    named = (*keys.items(), *known.names.items())
    places = next(key for key, name in named if name == "positions")
    with opened(path) as file:
        names = [f"{group}/{places}" for group, _ in groups(file, known, Report())]
        shapes = [*file.shapes(names)]
    stacks = [shape for shape in shapes if isinstance(shape, tuple) and len(shape) == 3]
    return sum(shape[0] for shape in stacks) if len(stacks) == len(shapes) else None


def groups(file: ForeignFile, known: HdfSet, report: Report) -> Iterator[tuple[str, str]]:
    """Yields the groups of molecules.

    Args:
        file: the file.
        known: its set.
        report: receives what other groups hold.

    Yields:
        Path of the group, and name of its molecules.
    """
    root = file.listing()
    if known is not TRANSITION1X:
        root.list_unused(report, root.groups)
        yield from ((f"/{name}", name) for name in root.groups)
        return
    root.list_unused(report, _SPLITS)  # data has what is in the others
    splits = ["data"] if "data" in root.groups else [n for n in _SPLITS if n in root.groups]
    for split in splits:
        formulas = file.listing(f"/{split}")
        formulas.list_unused(report, formulas.groups)
        for formula in file.groups(f"/{split}"):
            reactions = file.listing(formula)
            reactions.list_unused(report, reactions.groups)
            for reaction in file.groups(formula):
                points = file.listing(reaction).groups
                name = reaction.removeprefix(f"/{split}/")
                yield reaction, name
                for point in TRANSITION1X.subgroups:
                    if point in points:
                        yield f"{reaction}/{point}", f"{name}/{point}"


def level_of(key: str, possible: Collection[Level]) -> Level | None:
    """Determines the level of a custom array or attribute of a set.

    Args:
        key: its name in the file.
        possible: the levels that its shape allows.

    Returns:
        The level; None if its shape does not fit its name.
    """
    is_of_atoms = _OF_ATOMS.search(key) or OF_PAIRS.search(key)
    levels: tuple[Level, Level] = ("atom" if is_of_atoms else "molecule", "shared")
    return next((level for level in levels if level in possible), None)
