"""Conversion of molecules to and from ASE."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from atompack_torch.batch.exact_values import (
    as_array,
    check_unmasked,
    converted,
    host_array,
    native,
)
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTINS, DERIVED, RESULTS, STRUCTURE, is_value_of

if TYPE_CHECKING:
    from atompack_torch.batch.molecule_batch import Molecule

# Labels for which ase.Atoms itself has a place.
OF_ATOMS = frozenset(("cell", "pbc", "velocities", "name"))
# Velocities that differ by less than this relative error count as equal.
_ROUNDING = 1e-9
# Reason why velocities are lost where momenta stand for them.
NO_MASS = "atoms without a mass have no momenta"
# Arrays that every ase.Atoms has.
_OWN_ARRAYS = {"positions", "numbers", "momenta"}


class Parts(NamedTuple):
    """A molecule as NumPy arrays, numbers and strings; absent values have no entry.

    Attributes:
        positions: (n, 3), floating.
        atomic_numbers: (n,), integers.
        labels: ``energy``, ``forces`` and the other builtins, in the shapes of ``fields.BUILTINS``.
        properties: custom values of the molecule.
        atom_properties: custom arrays with n rows.
    """

    positions: Any
    atomic_numbers: Any
    labels: dict[str, Any]
    properties: dict[str, Any]
    atom_properties: dict[str, Any]


def to_parts(molecule: Molecule) -> Parts:
    """Collects the fields of a molecule as NumPy arrays, numbers and strings; floats are float64.

    Derived fields, such as edges, are omitted.
    """
    scopes: tuple[dict[str, Any], ...] = ({}, {}, {})
    for name in molecule.keys():
        if name not in STRUCTURE and name not in DERIVED:
            info, value = molecule._batch._infos[name], molecule[name]
            scopes[info.scope][info.key] = _array(value) if isinstance(value, Tensor) else value
    labels, atom_properties, properties = scopes
    positions, numbers = _array(molecule.positions), _array(molecule.atomic_numbers)
    return Parts(positions, numbers, labels, properties, atom_properties)


def atoms_of(parts: Parts) -> Any:
    """Builds an ``ase.Atoms``.

    Results go to a ``SinglePointCalculator``; properties, and labels that are neither results nor
    parts of ``ase.Atoms``, to ``info`` and ``arrays``.

    Args:
        parts: the molecule.

    Returns:
        The molecule, as ``ase.Atoms``.

    Raises:
        FieldError: ASE does not know an element.
    """
    import ase
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.data import chemical_symbols

    labels = parts.labels
    largest = int(np.max(parts.atomic_numbers, initial=0))
    if largest >= len(chemical_symbols):
        known = f"0 to {len(chemical_symbols) - 1}, the elements that ASE knows"
        raise FieldError(f"atomic_numbers: expected {known}, got {largest}")
    atoms = ase.Atoms(
        numbers=parts.atomic_numbers,
        positions=parts.positions,
        cell=labels.get("cell"),
        pbc=labels.get("pbc"),
    )
    if "name" in labels:
        atoms.info["name"] = labels["name"]
    for key, value in labels.items():
        if key not in RESULTS and key not in OF_ATOMS:
            (atoms.arrays if BUILTINS[key].level == "atom" else atoms.info)[key] = value
    for key, value in parts.atom_properties.items():
        atoms.set_array(key, value)
    if "velocities" in labels:  # after the arrays, which include custom masses
        masses = masses_of(parts.atomic_numbers, parts.atom_properties.get("masses"))
        velocities = np.asarray(labels["velocities"], dtype=np.float64)
        atoms.set_momenta(momenta_of(velocities, masses), apply_constraint=False)
    atoms.info |= parts.properties
    results = {key: labels[key] for key in RESULTS if key in labels}
    if results:
        if "energy" in results:
            results["energy"] = float(results["energy"])
        if "stress" in results:
            results["stress"] = _stress_of(results["stress"])
        atoms.calc = SinglePointCalculator(atoms, **results)
    return atoms


def masses_of(atomic_numbers: Any, own: Any = None) -> Any:
    """Returns masses as ``ase.Atoms.get_masses`` does.

    Args:
        atomic_numbers: (n,) integers.
        own: array ``masses`` (n,) of the molecule, in dalton; None, or a different shape, for the
            masses of the elements.

    Returns:
        (n,) float64 in dalton; NaN where the number is not an element.
    """
    from ase.data import atomic_masses

    numbers = np.asarray(atomic_numbers)
    if own is not None and np.shape(own) == numbers.shape:
        return np.array(own, dtype=np.float64)
    known = (numbers >= 0) & (numbers < len(atomic_masses))
    return np.where(known, atomic_masses[np.where(known, numbers, 0)], np.nan)


def has_mass(masses: Any) -> Any:
    """Returns (n,) bool: True for atoms whose momenta, divided by these masses, are velocities."""
    return np.isfinite(masses) & (masses != 0)


def momenta_of(velocities: Any, masses: Any) -> Any:
    """Returns momenta that, divided by the masses as ASE does, give the velocities.

    Tries ``velocities * masses`` and the two adjacent floats, so that the quotient is bitwise equal
    wherever that is possible.

    Args:
        velocities: (n, 3) float64 in ASE's unit, Å / (Å sqrt(u / eV)).
        masses: (n,) float64 in dalton.

    Returns:
        (n, 3) float64, velocities times dalton.
    """
    masses = masses[:, None]
    with np.errstate(all="ignore"):
        momenta = velocities * masses
        for direction in (-np.inf, np.inf):
            near = np.nextafter(momenta, direction)
            better = (momenta / masses != velocities) & (near / masses == velocities)
            momenta = np.where(better, near, momenta)
    return momenta


def are_same(velocities: Any, others: Any) -> Any:
    """Compares velocities (n, 3) up to rounding; returns (n,) bool."""
    near = np.isclose(velocities, others, rtol=_ROUNDING, atol=1e-300, equal_nan=True)
    return near.all(axis=1)


def _array(tensor: Tensor) -> Any:
    array = host_array("type", tensor)
    if array.dtype == np.float32 or array.dtype == np.float16:
        array = array.astype(np.float64)
    return array.item() if array.ndim == 0 else array.copy()


def _stress_of(stress: Any) -> Any:
    """Returns xx, yy, zz, yz, xz, xy of a (3, 3) stress, as ASE does; all of it if asymmetric."""
    if not np.array_equal(stress, stress.T, equal_nan=True):
        return stress
    return np.array([stress[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))])


def _warn_of_drop(what: str, why: str) -> None:
    """Warns of a value that has no place; a loop over molecules shows each text once."""
    warnings.warn(f"ase.Atoms: dropped {what}: {why}", stacklevel=2)


def parts_of(atoms: Any, drop: Callable[[str, str], None] = _warn_of_drop) -> Parts:
    """Collects the contents of an ``ase.Atoms``.

    Args:
        atoms: the molecule.
        drop: called with the name of each value that has no place, and the reason; warns by
            default.

    Returns:
        The molecule; absent labels have no entry.
    """
    labels: dict[str, Any] = {"pbc": np.array(atoms.pbc, dtype=bool)}
    if atoms.cell.array.any():
        labels["cell"] = np.array(atoms.cell.array, dtype=np.float64)
    if atoms.has("momenta"):
        labels["velocities"] = atoms.get_velocities()
    properties: dict[str, Any] = {}
    for key, value in atoms.info.items():
        if key == "name" and isinstance(value, str):
            labels["name"] = value
        elif (plain := plain_value(value)) is None or not isinstance(key, str):
            drop(f"info {key!r}", f"no number, string or array of numbers: {_kind_of(value)}")
        else:
            properties[key] = plain
    arrays: dict[str, Any] = {}
    for key, value in atoms.arrays.items():
        if key in _OWN_ARRAYS:
            continue
        check_unmasked(f"array {key!r}", value)
        if key == "velocities" and _are_velocities(value, labels):
            labels[key] = native(value)  # extended XYZ holds both, and momenta are rounded
            continue
        if is_numeric(value):
            arrays[key] = native(value)
        else:
            drop(f"array {key!r}", f"no numbers: {_kind_of(value)} for each atom")
    if atoms.constraints:
        drop("constraints", "no place for them")
    _take_results(atoms, labels, properties, arrays, drop)
    positions = np.array(atoms.positions, dtype=np.float64)
    return Parts(positions, np.array(atoms.numbers, dtype=np.int64), labels, properties, arrays)


def _are_velocities(array: Any, labels: dict[str, Any]) -> bool:
    """Returns True if an array of velocities agrees with the momenta."""
    given = labels.get("velocities")
    is_such = given is not None and array.dtype.kind == "f" and array.shape == given.shape
    return is_such and bool(are_same(array, given).all())


def _take_results(
    atoms: Any,
    labels: dict[str, Any],
    properties: dict[str, Any],
    arrays: dict[str, Any],
    drop: Callable[[str, str], None],
) -> None:
    """Collects results that the calculator holds for these positions; computes nothing."""
    if atoms.calc is None or not atoms.calc.results:
        return
    if changed := atoms.calc.check_state(atoms):
        drop(
            "results of a calculator",
            f"they are of another state of the atoms ({', '.join(sorted(changed))} changed): "
            f"{', '.join(sorted(atoms.calc.results))}; atoms.calc = SinglePointCalculator(atoms, "
            "**atoms.calc.results) keeps those that still hold",
        )
        return
    for key, value in atoms.calc.results.items():
        if value is None:
            continue
        if key in RESULTS and is_value_of(key, getattr(value, "shape", None), is_number=True):
            result = converted(key, as_array(key, value), np.float64)
            labels[key] = full_stress(result) if key == "stress" else result
            continue
        target = arrays if _is_per_atom(key) else properties
        plain = plain_value(value)
        if plain is None:
            drop(f"result {key!r}", f"no number or array of numbers: {_kind_of(value)}")
        elif key in target:
            drop(f"result {key!r}", "info or arrays hold another value of that name")
        else:
            target[key] = plain


def full_stress(stress: Any) -> Any:
    """Converts Voigt stress (..., 6), ordered xx, yy, zz, yz, xz, xy, to (..., 3, 3)."""
    if stress.shape[-1:] != (6,):
        return stress
    return stress[..., [[0, 5, 4], [5, 1, 3], [4, 3, 2]]]


def _is_per_atom(result: str) -> bool:
    from ase.outputs import all_outputs

    shape = getattr(all_outputs.get(result), "shapespec", ())
    return bool(shape[:1] == ("natoms",))


def plain_value(value: Any) -> Any:
    """Returns a number, a string, or a new array of numbers; None for everything else."""
    if isinstance(value, (int, np.integer)):
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, (str, float)):
        return value
    if isinstance(value, (list, tuple)) and len(value) == 0:
        return None  # it has no dtype
    if not isinstance(value, (list, tuple, np.ndarray, np.generic)):
        return None
    check_unmasked("value", value)
    try:
        array = np.asarray(value)
    except ValueError:  # a list of lists of different lengths
        return None
    if isinstance(value, (list, tuple)) and is_numeric(array):
        array = as_array("value", value)  # NumPy rounds integers next to floats
    if not is_numeric(array):
        return None
    return array[()] if array.ndim == 0 else native(array)


def is_numeric(value: Any) -> bool:
    """Returns True for NumPy arrays and scalars of booleans, integers or floats up to 64 bits."""
    dtype = getattr(value, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.itemsize <= 8


def _kind_of(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str(dtype) if dtype is not None else type(value).__name__
