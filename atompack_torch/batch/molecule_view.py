"""A molecule as a view of one row of collated fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import CollatedFields, Contents
from atompack_torch.batch.field_mapping import FieldMapping, unknown_field
from atompack_torch.batch.storage import Value
from atompack_torch.errors import CorruptFileError, UnknownFieldError
from atompack_torch.fields import ATOM_INDICES, BUILTINS, DERIVED, STRUCTURE, STRUCTURE_INFO, Level
from atompack_torch.options import short_list


class MoleculeView(FieldMapping[Tensor | str]):
    """Base of ``Molecule``: fields of one molecule by name."""

    __slots__ = ("_batch", "_faults", "_row")

    _batch: CollatedFields
    _row: int
    _faults: Mapping[str, str]  # damaged values, and their errors

    positions: Tensor
    atomic_numbers: Tensor

    def __len__(self) -> int:
        """Number n of atoms."""
        return int(self._batch.n_atoms[self._row])

    def keys(self) -> list[str]:
        """Returns the names of the fields that are present.

        Returns:
            Names in the order of the batch, then those of damaged values.
        """
        present = [
            name
            for name in self._batch.keys()
            if name in ("positions", "atomic_numbers")
            or (name not in STRUCTURE and bool(self._batch.mask(name)[self._row]))
        ]
        return [*present, *self._faults]

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def level(self, name: str) -> Level:
        """Returns the level of a field: ``"molecule"``, ``"atom"``, ``"edge"`` or ``"triplet"``.

        Args:
            name: any name of the field.

        Returns:
            The level.

        Raises:
            FieldError: there is no such field (a KeyError as well).
        """
        return self._batch.level(name)

    def __getitem__(self, name: str) -> Any:
        """Returns a field, or None if this molecule lacks it.

        Args:
            name: any name of the field.

        Returns:
            A view of the rows of a tensor, a string, or None.

        Raises:
            TypeError: the name is not a string.
            CorruptFileError: the stored value is damaged.
            FieldError: there is no such field (a KeyError as well).
        """
        if not isinstance(name, str):
            raise TypeError(
                f"a molecule takes names of fields, not {type(name).__name__}; where a collate "
                "function got one molecule, the loader has lost its batch sampler (Ray's "
                "prepare_data_loader replaces it, unless add_dist_sampler=False)"
            )
        found = self._batch._find(name)
        if found is None and name in self._faults:
            found = name  # the damaged value itself is not kept
        if found is None:
            if name in BUILTINS:
                return None
            raise unknown_field(name, "molecule", self.keys())
        return self._value(found)

    def _value(self, name: str) -> Any:
        if name in self._faults:
            raise CorruptFileError(self._faults[name])
        batch, row = self._batch, self._row
        info, value = batch._infos[name], batch._fields[name]
        if name not in STRUCTURE and not bool(batch.mask(name)[row]):
            return None
        if name == "ptr":
            return value[row : row + 2]
        if info.level == "molecule" or not isinstance(value, Tensor):
            return value[row]
        first, last = batch._first_rows(name)[row : row + 2].tolist()
        rows = value[:, first:last] if name == "edge_index" else value[first:last]
        return rows - batch.ptr[row] if name in ATOM_INDICES else rows

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except UnknownFieldError as error:
            raise AttributeError(str(error)) from None

    def __repr__(self) -> str:
        labels = [name for name in self.keys() if name not in STRUCTURE and name not in DERIVED]
        return f"Molecule({len(self)} atoms, {short_list(labels, len(labels)) or 'no labels'})"


def contents_of(molecule: MoleculeView) -> Contents:
    """Returns views of the present, undamaged fields of a molecule, as those of a batch."""
    batch, row = molecule._batch, molecule._row
    fields: dict[str, Value] = {name: molecule._value(name) for name in STRUCTURE}
    n_atoms = len(molecule)
    fields |= {
        "batch": torch.zeros(n_atoms, dtype=torch.int64, device=batch.ptr.device),
        "ptr": torch.tensor([0, n_atoms], device=batch.ptr.device),
        "n_atoms": batch.n_atoms[row : row + 1],
        "index": batch.index[row : row + 1],
    }
    infos = dict(STRUCTURE_INFO)
    for name in molecule.keys():
        if name in STRUCTURE or name in molecule._faults:
            continue
        value, infos[name] = molecule._value(name), batch._infos[name]
        per_molecule = infos[name].level == "molecule"
        if isinstance(value, Tensor):
            fields[name] = value.unsqueeze(0) if per_molecule else value
        else:
            fields[name] = [value]
    return Contents(fields, infos)
