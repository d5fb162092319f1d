"""Names, units and signs of public datasets of crystals, as their publishers document them.

VASP prints the stress in kilobars, positive for a compressed crystal; ASE's stress is in eV/Å³ and
negative for it. What is known to be VASP's is converted; where the publisher does not state unit
and sign, or they differ within a set, values stay as they are and the report warns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array
from atompack_torch.conversion.units import factor
from atompack_torch.formats.conversion_report import Report

_KBAR = "kilobars of VASP, positive under compression"


class PublicSet(NamedTuple):
    """A dataset, or several of the same columns.

    Attributes:
        title: its name, for messages.
        columns: a file that has all of them is of the set.
        names: name in the file → part of a structure, label, or property with its scope.
        derived: names of values that follow from the structure or from other values.
        stress: ``"vasp"``: it is converted from VASP's unit and sign; ``"unknown"``: it stays.
        units: units of the labels, for the report.
    """

    title: str
    columns: frozenset[str]
    names: Mapping[str, str]
    derived: frozenset[str] = frozenset()
    stress: Literal["vasp", "unknown"] = "unknown"
    units: str = ""


_FORMULAS = {
    *("chemical_formula_anonymous", "chemical_formula_reduced", "chemical_formula_descriptive"),
    *("chemical_formula_hill", "elements", "elements_ratios", "nelements", "nsites"),
    *("nperiodic_dimensions", "species"),
}
_LEMAT = {
    "cartesian_site_positions": "positions",
    "species_at_sites": "atomic_numbers",
    "lattice_vectors": "cell",
    "dimension_types": "pbc",
    "stress_tensor": "stress",
    "immutable_id": "name",
    "magnetic_moments": "atom_properties/magnetic_moments",
    "charges": "charges",
}
_LEMAT_COLUMNS = frozenset(("cartesian_site_positions", "species_at_sites", "lattice_vectors"))

# The first set that fits the columns of a file decides.
PUBLIC_SETS = (
    PublicSet(
        "LeMat-Traj",
        _LEMAT_COLUMNS | {"relaxation_step"},
        {key: name for key, name in _LEMAT.items() if key != "immutable_id"} | {"id": "name"},
        frozenset(_FORMULAS),
        units="energies in eV, forces in eV/Å",
    ),
    PublicSet(
        "LeMat-Bulk",
        _LEMAT_COLUMNS,
        _LEMAT,
        frozenset(_FORMULAS),
        units="energies in eV, forces in eV/Å",
    ),
    PublicSet(
        "a training set of the Materials Project (MatPES, MPtrj, MP-ALOE)",
        frozenset(("cart_coords", "atomic_numbers", "cell")),
        {
            "cart_coords": "positions",
            "stress_matrix": "stress",
            "matpes_id": "name",
            "mp_aloe_id": "name",
            "magmoms": "atom_properties/magmoms",
            "bader_charges": "atom_properties/bader_charges",
            "bader_magmoms": "atom_properties/bader_magmoms",
        },
        frozenset(
            {
                *("nsites", "elements", "nelements", "composition", "composition_reduced"),
                *("formula_pretty", "formula_anonymous", "chemsys", "volume", "density"),
                *("density_atomic", "abs_forces"),
            }
        ),
        stress="vasp",
        units="energies in eV, forces in eV/Å",
    ),
    PublicSet(
        "ColabFit",
        frozenset(("atomic_numbers", "positions", "configuration_id")),
        {
            "atomic_forces": "forces",
            "cauchy_stress": "stress",
            "configuration_id": "name",
        },
        frozenset(
            {
                *(_FORMULAS - {"species"}),
                *("dimension_types", "max_force_norm", "mean_force_norm", "has_forces"),
                *("has_stress", "element_filter"),
            }
        ),
        units="energies in eV, forces in eV/Å",
    ),
)

# Datasets of JSON entries with a pymatgen structure each, by the keys of an entry.
_MP_DERIVED = PUBLIC_SETS[2].derived
ENTRY_SETS = (
    PublicSet(
        "MPtrj",
        frozenset(("structure", "corrected_total_energy")),
        {"corrected_total_energy": "energy", "force": "forces"},
        stress="vasp",
        units="energies in eV, with the corrections of MP2020, forces in eV/Å",
    ),
    PublicSet(
        "MatPES",
        frozenset(("structure", "matpes_id")),
        {"matpes_id": "name"},
        _MP_DERIVED,
        stress="vasp",
        units="energies in eV, forces in eV/Å",
    ),
    PublicSet(
        "computed entries of pymatgen (Alexandria)",
        frozenset(("structure", "entry_id", "composition")),
        {"mat_id": "name"},
        frozenset(("composition", "elements", "nsites", "formula")),
        units="energies in eV, forces in eV/Å",
    ),
    PublicSet(
        "relaxations of Alexandria",
        frozenset(("structure", "energy", "forces", "functional", "material")),
        {},
        units="energies in eV, forces in eV/Å",
    ),
    PublicSet("structures of pymatgen", frozenset(("structure",)), {}),
)

# Other files are read by common names.
COMMON_NAMES = {
    **dict.fromkeys(("positions", "pos", "coords", "coordinates", "cart_coords"), "positions"),
    **dict.fromkeys(("cartesian_site_positions",), "positions"),
    **dict.fromkeys(("atomic_numbers", "numbers", "species", "z", "Z"), "atomic_numbers"),
    **dict.fromkeys(("species_at_sites",), "atomic_numbers"),
    **dict.fromkeys(("cell", "lattice", "lattice_vectors"), "cell"),
}
COMMON_DERIVED = frozenset(("n_atoms", "natoms", "num_atoms", "nsites"))


def public_set(
    columns: Collection[str], sets: tuple[PublicSet, ...] = PUBLIC_SETS
) -> PublicSet | None:
    """Returns the set that a file with these columns belongs to; None if it belongs to none."""
    known = {*columns}
    return next((found for found in sets if found.columns <= known), None)


def stress_from_vasp(values: Array, report: Report, source: str) -> Array:
    """Converts stresses from VASP's kilobars to ASE's unit and sign, computed in float64.

    Args:
        values: the stresses.
        report: receives a note; its options may keep units.
        source: name of the stress in the source.

    Returns:
        The stresses in eV/Å³, in their dtype.
    """
    if report.options.keep_units:
        report.note(f"{source!r} stays in {_KBAR}")
        return values
    times = -factor("stress", "kbar")
    dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    converted: Array = (values.astype(np.float64) * times).astype(dtype)
    report.note(
        f"{source!r} read as stress in eV/Å³: it is in {_KBAR}, times {times!r}, unless "
        "keep_units is given"
    )
    return converted


def warn_of_stress(title: str, source: str, report: Report) -> None:
    """Warns that the unit and the sign of a stress are not certain.

    Args:
        title: name of the set.
        source: name of the stress in it.
        report: receives the warning.
    """
    report.warn(
        f"stress: {title} does not state one unit and sign for {source!r}, which stays as it was: "
        f"if it is in {_KBAR}, stress_unit='kbar' and stress_sign='flip' convert it"
    )
