"""A molecule as a view of one row of collated fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import (
    CollatedFields,
    Contents,
    FieldMapping,
    first_rows,
    unknown_field,
)
from atompack_torch.batch.field_setting import check_name
from atompack_torch.batch.molecule_fields import checked_value
from atompack_torch.batch.storage import Value
from atompack_torch.errors import CorruptFileError, FieldError, UnknownFieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    CANONICAL,
    COLUMNS,
    DERIVED,
    MOLECULE_PROPERTY,
    PREFIXES,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldInfo,
    Level,
    prefixed_id,
)
from atompack_torch.options import check_choice, short_list


class MoleculeView(FieldMapping[Tensor | str]):
    """Base of ``Molecule``: fields of one molecule by name.

    Setting or removing one does not change the batch of which the molecule is a row.
    """

    __slots__ = ("_batch", "_faults", "_row")

    _batch: CollatedFields
    _row: int
    _faults: Mapping[str, str]  # damaged values, and their errors

    positions: Tensor
    atomic_numbers: Tensor
    # None where the molecule lacks the label.
    energy: Tensor | None
    forces: Tensor | None
    charges: Tensor | None
    velocities: Tensor | None
    cell: Tensor | None
    stress: Tensor | None
    pbc: Tensor | None
    name: str | None

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
        return self._batch.level(self._find(name) or name)

    def _find(self, name: str) -> str | None:
        """Returns the listed name of a field; its scope may be omitted if it is the only one here.

        Other molecules of the batch may have the key in the other scope.
        """
        found = self._batch._find(name)
        if found is None and name not in CANONICAL:
            scoped = {prefix + name for prefix in PREFIXES.values()} & {*self.keys()}
            found = scoped.pop() if len(scoped) == 1 else None
        return found

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
        found = self._find(name)
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
        first, last = first_rows(batch, name)[row : row + 2].tolist()
        rows = value[:, first:last] if name in COLUMNS else value[first:last]
        first_targets = batch._first_targets(name)
        return rows if first_targets is None else rows - first_targets[row]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets a field of this molecule alone: the batch that it comes from does not change.

        Args:
            name: a field of the molecule, a label, or a new key, which becomes a property of the
                molecule (``set_property`` also makes properties of its atoms).
            value: as in the constructor; None removes a label or property.

        Raises:
            TypeError: the name is not a string.
            FieldError: a value of this shape or type cannot be stored, a new key could be a
                property of the atoms too, or datasets make the field.
        """
        check_name(name)
        found = self._find(name)
        if found is not None:
            return self._set(found, self._batch._infos[found], value)
        if name in BUILTINS:
            return self._set(name, FieldInfo(BUILTIN, name, BUILTINS[name].level), value)
        named = prefixed_id(name)
        if named is None and np.shape(value)[:1] == (len(self),):
            raise FieldError(f"field {name!r}: one row an atom? use set_property(level=)")
        is_atomic = named is not None and named.scope == ATOM_PROPERTY
        level: Literal["molecule", "atom"] = "atom" if is_atomic else "molecule"
        self.set_property(name if named is None else named.key, value, level)

    def set_property(
        self, key: str, value: Any, level: Literal["molecule", "atom"] = "molecule"
    ) -> None:
        """Sets a custom property of this molecule alone.

        Args:
            key: its key, which may be that of a label.
            value: a number, string, array or tensor; with n rows for level ``"atom"``; None removes
                the property.
            level: ``"molecule"``: a property of the molecule; ``"atom"``: of its atoms.

        Raises:
            TypeError: the key is not a string.
            ValueError: there is no such level.
            FieldError: a value of this shape or type cannot be stored.
        """
        check_name(key)
        check_choice("level", level, ("molecule", "atom"))
        scope = ATOM_PROPERTY if level == "atom" else MOLECULE_PROPERTY
        with_scope = PREFIXES[scope] + key
        is_taken = key in RESERVED or key in self._batch.keys()
        name = self._batch._find(with_scope) or (with_scope if is_taken else key)
        self._set(name, FieldInfo(scope, key, level), value)

    def delete_property(self, key: str) -> None:
        """Removes a custom property from this molecule alone.

        Args:
            key: its key, with its scope (``properties/KEY``, ``atom_properties/KEY``) if both the
                molecule and its atoms have one of that key.

        Raises:
            TypeError: the key is not a string.
            FieldError: the molecule has no such property (a KeyError as well).
        """
        check_name(key)
        prefixes = [""] if prefixed_id(key) else PREFIXES.values()
        names = {self._batch._find(prefix + key) for prefix in prefixes} & {*self.keys()}
        if not names:
            raise unknown_field(key, "molecule", self.keys())
        if len(names) > 1:
            raise FieldError(f"field {key!r}: expected one of {short_list(sorted(names), 2)}")  # type: ignore[type-var]
        name = names.pop()
        self._set(name, self._batch._infos[name], None)  # type: ignore[index,arg-type]

    def _set(self, name: str, info: FieldInfo, value: Any) -> None:
        if name in STRUCTURE and name not in ("positions", "atomic_numbers"):
            raise FieldError(f"field {name!r}: the name belongs to the molecule itself")
        if info.level in ("edge", "triplet"):
            raise FieldError(f"field {name!r}: edges and triplets are made by datasets, not set")
        contents = contents_of_molecule(self)
        if value is not None or name in STRUCTURE:
            contents.fields[name] = checked_value(name, info, value, len(self))
            contents.infos[name] = info
        elif name in contents.fields:
            del contents.fields[name], contents.infos[name]
        faults = {other: fault for other, fault in self._faults.items() if other != name}
        set_row(self, type(self._batch)(*contents), 0, faults)

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


_set_batch, _set_faults, _set_row = (
    getattr(MoleculeView, slot).__set__ for slot in MoleculeView.__slots__
)


def set_row(
    molecule: MoleculeView, batch: CollatedFields, row: int, faults: Mapping[str, str]
) -> None:
    """Makes a molecule a view of a row of a batch.

    Args:
        molecule: the molecule, maybe a new one.
        batch: the batch.
        row: number in it.
        faults: damaged values of the molecule, and their errors.
    """
    # The slots directly: __setattr__ sets fields.
    _set_batch(molecule, batch)
    _set_row(molecule, row)
    _set_faults(molecule, faults)


def contents_of_molecule(molecule: MoleculeView) -> Contents:
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
    return Contents(fields, infos, None, {})
