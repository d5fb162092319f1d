"""Batches in the words of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atompack_torch._storage import Value
from atompack_torch.batch import MoleculeBatch
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY
from atompack_torch.joining import join
from atompack_torch.molecule import Molecule

# Our name -> theirs, where they differ.
PRESETS: dict[str, dict[str, str]] = {
    # torch-geometric's own data sets and models
    "pyg": {"positions": "pos", "atomic_numbers": "z"},
    # fairchem.core.datasets.atomic_data.AtomicData
    "fairchem": {"positions": "pos", "n_atoms": "natoms", "edge_shift": "cell_offsets"},
    # nvalchemi.data.Batch
    "nvalchemi": {"n_atoms": "num_nodes_per_graph", "edge_shift": "neighbor_list_shifts"},
}

# What an ASE calculator computes that .atp knows by name.
_RESULTS = ("energy", "forces", "stress", "charges")
# Kept by ase.Atoms itself.
_OWN_ARRAYS = {"positions", "numbers", "momenta"}


def to_dict(batch: MoleculeBatch, preset: str | None) -> dict[str, Value]:
    """The fields under another library's names; the tensors themselves."""
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"preset: expected one of {', '.join(PRESETS)} or None, got {preset!r}")
    renamed = PRESETS[preset] if preset else {}
    return {renamed.get(name, name): batch[name] for name in batch.keys()}


def to_pyg(batch: MoleculeBatch) -> Any:
    """A torch-geometric batch over the same tensors, with what it needs to be taken apart again."""
    from torch_geometric.data import Batch, Data

    fields = to_dict(batch, "pyg")
    structure = {name: fields.pop(name) for name in ("batch", "ptr")}
    data = Batch(_base_cls=Data, **fields, **structure)
    ptr = batch.ptr
    data._num_graphs = len(batch)
    data._slice_dict, data._inc_dict = {}, {}
    for name, ours in zip(fields, (n for n in batch.keys() if n not in structure), strict=True):
        rows = ptr if batch.level(ours) == "atom" else torch.arange(len(batch) + 1)
        data._slice_dict[name] = rows
        data._inc_dict[name] = torch.zeros(len(batch), dtype=torch.int64)
    return data


def to_ase(batch: MoleculeBatch) -> list[Any]:
    """``ase.Atoms``; names of labels as ASE has them."""
    return [_atoms(molecule) for molecule in batch]


def _atoms(molecule: Molecule) -> Any:
    import ase
    from ase.calculators.singlepoint import SinglePointCalculator

    atoms = ase.Atoms(
        numbers=_array(molecule.atomic_numbers),
        positions=_array(molecule.positions),
        cell=None if molecule.cell is None else _array(molecule.cell),
        pbc=None if molecule.pbc is None else _array(molecule.pbc),
    )
    if molecule.velocities is not None:
        atoms.set_velocities(_array(molecule.velocities))
    if molecule.name is not None:
        atoms.info["name"] = molecule.name
    results = {key: _array(molecule[key]) for key in _RESULTS if molecule[key] is not None}
    for name in molecule.keys():
        scope, key, _ = molecule._batch._infos[name]
        if scope == ATOM_PROPERTY:
            atoms.set_array(key, _array(molecule[name]))
        elif scope == MOLECULE_PROPERTY:
            value = molecule[name]
            atoms.info[key] = _array(value) if isinstance(value, Tensor) else value
    if results:
        if "energy" in results:
            results["energy"] = float(results["energy"])
        if "stress" in results:
            results["stress"] = _voigt(results["stress"])
        atoms.calc = SinglePointCalculator(atoms, **results)
    return atoms


def _array(tensor: Tensor) -> Any:
    array = tensor.detach().cpu().numpy()
    if array.dtype == np.float32 or array.dtype == np.float16:
        array = array.astype(np.float64)
    return array.item() if array.ndim == 0 else array.copy()


def _voigt(stress: Any) -> Any:
    """xx, yy, zz, yz, xz, xy, as ASE orders them."""
    return np.array([stress[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))])


def from_ase(images: Sequence[Any]) -> MoleculeBatch:
    """See ``MoleculeBatch.from_ase``."""
    return join([_molecule(atoms) for atoms in images])


def _molecule(atoms: Any) -> Molecule:
    labels: dict[str, Any] = {"pbc": np.array(atoms.pbc, dtype=bool)}
    if atoms.cell.array.any():
        labels["cell"] = np.array(atoms.cell.array, dtype=np.float64)
    if atoms.has("momenta"):
        labels["velocities"] = atoms.get_velocities()
    labels |= _results(atoms)
    info = {key: value for key, value in atoms.info.items() if _is_scalar(value)}
    if isinstance(info.get("name"), str):
        labels["name"] = info.pop("name")
    arrays = {k: np.array(v) for k, v in atoms.arrays.items() if k not in _OWN_ARRAYS}
    return Molecule(
        np.array(atoms.positions, dtype=np.float64),
        np.array(atoms.numbers, dtype=np.int64),
        properties=info,
        atom_properties=arrays,
        **labels,
    )


def _results(atoms: Any) -> dict[str, Any]:
    """What the calculator holds for these very positions; nothing is computed."""
    if atoms.calc is None or atoms.calc.check_state(atoms):
        return {}
    found = {key: atoms.calc.results[key] for key in _RESULTS if key in atoms.calc.results}
    if "stress" in found and np.shape(found["stress"]) == (6,):
        xx, yy, zz, yz, xz, xy = found["stress"]
        found["stress"] = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return {key: np.asarray(value, dtype=np.float64) for key, value in found.items()}


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float, np.number, np.bool_))
