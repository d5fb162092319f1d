"""One molecule of a batch, as a view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from atompack_torch.batch import collation as _collation
from atompack_torch.batch.field_mapping import FieldMapping, unknown_field
from atompack_torch.errors import CorruptFileError, UnknownFieldError
from atompack_torch.fields import ATOM_INDICES, BUILTINS, DERIVED, STRUCTURE, Level
from atompack_torch.options import short_list

if TYPE_CHECKING:
    from atompack_torch.batch.molecule_batch import MoleculeBatch


class Molecule(FieldMapping):
    """One molecule: the fields of a batch, as views of its rows.

    An absent label is None. ``atomic_numbers`` is int64, scalars are 0-d tensors, strings ``str``.
    ``edge_index`` counts the molecule's own atoms.
    """

    __slots__ = ("_batch", "_faults", "_row")

    _batch: MoleculeBatch
    _row: int
    _faults: Mapping[str, str]  # damaged values, and what is wrong with them

    def __init__(
        self,
        positions: Any,
        atomic_numbers: Any,
        *,
        properties: Mapping[str, Any] | None = None,
        atom_properties: Mapping[str, Any] | None = None,
        **labels: Any,
    ) -> None:
        """Makes a molecule by hand.

        Args:
            positions: (n, 3), floating.
            atomic_numbers: (n,), integers.
            properties: custom values of the molecule: numbers, strings, None, tensors.
            atom_properties: custom values of the atoms: tensors with n rows.
            labels: ``energy``, ``forces``, ``charges``, ``velocities``, ``cell``, ``stress``,
                ``pbc``, ``name``; None means absent.
        """
        from atompack_torch.batch.joining import batch_from_values

        self._batch = batch_from_values(
            positions, atomic_numbers, labels, properties or {}, atom_properties or {}
        )
        self._row = 0
        self._faults = {}

    @classmethod
    def _view(
        cls, batch: MoleculeBatch, row: int, faults: Mapping[str, str] | None = None
    ) -> Molecule:
        molecule = cls.__new__(cls)
        molecule._batch, molecule._row, molecule._faults = batch, row, faults or {}
        return molecule

    def __len__(self) -> int:
        """Number of atoms."""
        return int(self._batch.n_atoms[self._row])

    def keys(self) -> list[str]:
        """Names of the fields that are present."""
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
        """``"molecule"``, ``"atom"``, ``"edge"`` or ``"triplet"``."""
        return self._batch.level(name)

    def __getitem__(self, name: str) -> Any:
        """A field; None where this molecule does not have it.

        Raises:
            CorruptFileError: the stored value is damaged.
            FieldError: no such field (a KeyError as well).
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
        return rows - batch.ptr[row] if name in ATOM_INDICES else rows  # its own atoms, from 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except UnknownFieldError as error:
            raise AttributeError(str(error)) from None

    def __reduce__(self) -> tuple[Callable[..., Molecule], tuple[Any, ...]]:
        from atompack_torch.batch.joining import batch_of_one

        return Molecule._view, (batch_of_one(self), 0, dict(self._faults))

    def __repr__(self) -> str:
        labels = [name for name in self.keys() if name not in STRUCTURE and name not in DERIVED]
        return f"Molecule({len(self)} atoms, {short_list(labels, len(labels)) or 'no labels'})"


_collation.register(Molecule)
