"""Batches in the words of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.exact_values import as_array, check_unmasked, converted
from atompack_torch.batch.host_arrays import host_array
from atompack_torch.batch.joining import join
from atompack_torch.batch.molecule import Molecule
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.batch.presets import to_dict
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_INDICES, DERIVED, STRUCTURE

# What an ASE calculator computes that .atp knows by name.
_RESULTS = ("energy", "forces", "stress", "charges")
# Velocities that differ by less say the same.
_ROUNDING = 1e-9
# Kept by ase.Atoms itself.
_OWN_ARRAYS = {"positions", "numbers", "momenta"}


def to_pyg(batch: MoleculeBatch) -> Any:
    """A torch-geometric batch over the same tensors, with what it needs to be taken apart again."""
    from torch_geometric.data import Batch, Data

    fields = to_dict(batch, "pyg")
    structure = {name: fields.pop(name) for name in ("batch", "ptr")}
    data = Batch(_base_cls=Data, **fields, **structure)
    data._num_graphs = len(batch)
    data._slice_dict, data._inc_dict = {}, {}
    for name, listed in zip(fields, (n for n in batch.keys() if n not in structure), strict=True):
        data._slice_dict[name] = batch._first_rows(listed)
        none = torch.zeros(len(batch), dtype=torch.int64)
        data._inc_dict[name] = batch.ptr[:-1] if listed in ATOM_INDICES else none
    return data


def to_ase(batch: MoleculeBatch) -> list[Any]:
    """``ase.Atoms``; names of labels as ASE has them."""
    return [atoms_of(_parts_of_molecule(molecule)) for molecule in batch]


class Parts(NamedTuple):
    """One structure as plain NumPy arrays, numbers and strings; what is absent has no entry.

    Attributes:
        positions: (n, 3), floating.
        atomic_numbers: (n,), integers.
        labels: ``energy``, ``forces`` and the other builtins, in the shapes of ``fields.BUILTINS``.
        properties: custom values of the structure.
        atom_properties: custom arrays with n rows.
    """

    positions: Any
    atomic_numbers: Any
    labels: dict[str, Any]
    properties: dict[str, Any]
    atom_properties: dict[str, Any]


def _parts_of_molecule(molecule: Molecule) -> Parts:
    scopes: tuple[dict[str, Any], ...] = ({}, {}, {})
    for name in molecule.keys():
        if name not in STRUCTURE and name not in DERIVED:
            scope, key, _ = molecule._batch._infos[name]
            value = molecule[name]
            scopes[scope][key] = _array(value) if isinstance(value, Tensor) else value
    labels, atom_properties, properties = scopes
    positions, numbers = _array(molecule.positions), _array(molecule.atomic_numbers)
    return Parts(positions, numbers, labels, properties, atom_properties)


def atoms_of(parts: Parts) -> Any:
    """One ``ase.Atoms``; results go to a ``SinglePointCalculator``, properties to info, arrays."""
    import ase
    from ase.calculators.singlepoint import SinglePointCalculator

    labels = parts.labels
    atoms = ase.Atoms(
        numbers=parts.atomic_numbers,
        positions=parts.positions,
        cell=labels.get("cell"),
        pbc=labels.get("pbc"),
    )
    if "name" in labels:
        atoms.info["name"] = labels["name"]
    for key, value in parts.atom_properties.items():
        atoms.set_array(key, value)
    if "velocities" in labels:  # after the arrays: custom masses are one of them
        masses = masses_of(parts.atomic_numbers, parts.atom_properties.get("masses"))
        unknown = np.asarray(parts.atomic_numbers)[np.isnan(masses)]
        if unknown.size and "masses" not in parts.atom_properties:
            got = f"got atomic number {unknown[0]}"
            raise FieldError(f"velocities: expected elements, for their masses, {got}")
        velocities = np.asarray(labels["velocities"], dtype=np.float64)
        atoms.set_momenta(momenta_of(velocities, masses), apply_constraint=False)
    atoms.info |= parts.properties
    results = {key: labels[key] for key in _RESULTS if key in labels}
    if results:
        if "energy" in results:
            results["energy"] = float(results["energy"])
        if "stress" in results:
            results["stress"] = _voigt(results["stress"])
        atoms.calc = SinglePointCalculator(atoms, **results)
    return atoms


def masses_of(atomic_numbers: Any, own: Any = None) -> Any:
    """Masses as ``ase.Atoms.get_masses`` gives them.

    Args:
        atomic_numbers: (n,) integers.
        own: array ``masses`` of the structure, in dalton; None, or what is not (n,): those of the
            elements.

    Returns:
        (n,) float64 in dalton; NaN for numbers that are no element.
    """
    from ase.data import atomic_masses

    numbers = np.asarray(atomic_numbers)
    if own is not None and np.shape(own) == numbers.shape:
        return np.array(own, dtype=np.float64)
    known = (numbers >= 0) & (numbers < len(atomic_masses))
    return np.where(known, atomic_masses[np.where(known, numbers, 0)], np.nan)


def momenta_of(velocities: Any, masses: Any) -> Any:
    """Momenta that ASE divides by the masses to get the velocities.

    ``velocities * masses`` and its two neighbours are tried, so that the quotient is the same
    float64 wherever one of them makes it so.

    Args:
        velocities: (n, 3) float64 in ASE's unit, Å / (Å sqrt(u / eV)).
        masses: (n,) float64 in dalton.
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
    """(n,) bool, atoms whose velocities (n, 3) are equal but for rounding."""
    near = np.isclose(velocities, others, rtol=_ROUNDING, atol=1e-300, equal_nan=True)
    return near.all(axis=1)


def _array(tensor: Tensor) -> Any:
    array = host_array("type", tensor)
    if array.dtype == np.float32 or array.dtype == np.float16:
        array = array.astype(np.float64)
    return array.item() if array.ndim == 0 else array.copy()


def _voigt(stress: Any) -> Any:
    """xx, yy, zz, yz, xz, xy, as ASE orders them."""
    return np.array([stress[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))])


def _drop_silently(what: str, why: str) -> None:
    """For those who do not ask."""


def from_ase(images: Sequence[Any]) -> MoleculeBatch:
    """See ``MoleculeBatch.from_ase``."""
    return join([_molecule(parts_of(atoms)) for atoms in images])


def _molecule(parts: Parts) -> Molecule:
    return Molecule(
        parts.positions,
        parts.atomic_numbers,
        properties=parts.properties,
        atom_properties=parts.atom_properties,
        **parts.labels,
    )


def parts_of(atoms: Any, drop: Callable[[str, str], None] = _drop_silently) -> Parts:
    """What an ``ase.Atoms`` holds, in our words.

    Args:
        atoms: the structure.
        drop: called with what could not be taken, and why.
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
            labels[key] = native(value)  # the momenta were rounded, as extended XYZ holds both
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
    """True if an array of velocities agrees with the momenta."""
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
    """What the calculator holds for these very positions; nothing is computed."""
    if atoms.calc is None or not atoms.calc.results:
        return
    if atoms.calc.check_state(atoms):
        drop("results of a calculator", "they are of another state of the atoms")
        return
    for key, value in atoms.calc.results.items():
        if value is None:
            continue
        if key in _RESULTS:
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
    """(..., 3, 3) of Voigt's six, in the order of ASE: xx, yy, zz, yz, xz, xy."""
    if stress.shape[-1:] != (6,):
        return stress
    return stress[..., [[0, 5, 4], [5, 1, 3], [4, 3, 2]]]


def _is_per_atom(result: str) -> bool:
    from ase.outputs import all_outputs

    shape = getattr(all_outputs.get(result), "shapespec", ())
    return bool(shape[:1] == ("natoms",))


def plain_value(value: Any) -> Any:
    """A number, a string, or a fresh array of numbers; None for everything else."""
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, (str, float)):
        return value
    if isinstance(value, (list, tuple)) and len(value) == 0:
        return None  # of no type
    if not isinstance(value, (list, tuple, np.ndarray, np.generic)):
        return None
    check_unmasked("value", value)
    try:
        array = np.asarray(value)
    except ValueError:  # a list of lists of different lengths
        return None
    if isinstance(value, (list, tuple)) and is_numeric(array):
        array = as_array("value", value)  # NumPy rounds integers beside floats
    if not is_numeric(array):
        return None
    return array[()] if array.ndim == 0 else native(array)


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy in the byte order of this machine and in C order."""
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def is_numeric(value: Any) -> bool:
    """Whether this is an array (or scalar of NumPy) of booleans, integers or usual floats."""
    dtype = getattr(value, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.itemsize <= 8


def _kind_of(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str(dtype) if dtype is not None else type(value).__name__
