"""Groups of molecules in a report: spreads of their values, errors of predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError

Array = np.ndarray[Any, np.dtype[Any]]

USUAL = "config_type"  # the column of groups, where the data have it
NO_VALUE = "(no value)"
OTHERS = "(other groups)"
_MOST = 1000  # groups; molecules of further ones are counted together
_MOST_ISOLATED = 120


@dataclass
class SpreadSums:
    """Sums of finite values, from which means and errors follow."""

    n: int = 0
    total: float = 0.0
    absolute: float = 0.0
    squares: float = 0.0
    low: float = np.inf
    high: float = -np.inf

    def add(self, values: Array) -> None:
        """Adds values (n,); those that are not finite are ignored."""
        values = values[np.isfinite(values)].astype(np.float64)
        if not len(values):
            return
        self.n += len(values)
        self.total += float(values.sum())
        self.absolute += float(np.abs(values).sum())
        self.squares += float(values @ values)
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))

    @property
    def mean(self) -> float | None:
        """Arithmetic mean; None without values."""
        return self.total / self.n if self.n else None

    @property
    def mae(self) -> float | None:
        """Mean of the absolute values; None without values."""
        return self.absolute / self.n if self.n else None

    @property
    def rms(self) -> float | None:
        """Square root of the mean square; None without values."""
        return float(np.sqrt(self.squares / self.n)) if self.n else None

    @property
    def largest(self) -> float | None:
        """Largest absolute value; None without values."""
        return max(abs(self.low), abs(self.high)) if self.n else None


@dataclass
class Group:
    """Molecules with one value in the column of groups.

    Attributes:
        n_structures: number of molecules.
        n_atoms: number of their atoms.
        energy: energies per atom.
        force: lengths of forces.
        volume: volumes of cells per atom.
        errors: name of a prediction → prediction less label: energies per atom, components.
    """

    n_structures: int = 0
    n_atoms: int = 0
    energy: SpreadSums = field(default_factory=SpreadSums)
    force: SpreadSums = field(default_factory=SpreadSums)
    volume: SpreadSums = field(default_factory=SpreadSums)
    errors: dict[str, SpreadSums] = field(default_factory=dict)


class Groups:
    """Sums up batches by group, and errors by element.

    Args:
        by: text or integer property of the molecules; None: ``config_type``, if there is any.
        predicted: name of a prediction → label.

    Attributes:
        by: the column.
        predicted: name of a prediction → label.
        groups: value of the column → molecules, in order of appearance.
        element_errors: name of a prediction of atoms → atomic number → prediction less label.
        isolated: number, atomic number and energy (NaN without one) of molecules of a single atom
            that is not periodic, at most 120.
        n_isolated: number of all of them.
    """

    def __init__(self, by: str | None, predicted: Mapping[str, str]) -> None:
        self.by, self.predicted = by or USUAL, dict(predicted)
        self._wanted = {*self.predicted, *self.predicted.values()}
        self._wanted |= set() if by is None else {by}
        self._seen: set[str] = set()
        self._n_before = 0
        self.groups: dict[str, Group] = {}
        self.element_errors: dict[str, dict[int, SpreadSums]] = {}
        self.isolated: list[tuple[int, int, float]] = []
        self.n_isolated = 0

    def add(self, batch: MoleculeBatch, energy: Array, volume: Array) -> None:
        """Adds the molecules of a batch.

        Args:
            batch: the next molecules.
            energy: (B,) their energies, NaN without one.
            volume: (B,) volumes per atom, NaN without one.

        Raises:
            FieldError: a prediction has not the shape of its label, or the column of groups holds
                neither text nor integers.
        """
        n_atoms, numbers = batch.n_atoms.numpy(), batch.atomic_numbers.numpy()
        self._add_isolated(batch, energy)
        self._seen |= {name for name in self._wanted if name in batch}
        self._n_before += len(batch)
        errors = {
            name: found
            for name, label in self.predicted.items()
            if (found := _errors(batch, name, label)) is not None
        }
        for name, (values, is_atom) in errors.items():
            if is_atom:
                of_elements = self.element_errors.setdefault(name, {})
                for z in np.unique(numbers).tolist():
                    of_elements.setdefault(z, SpreadSums()).add(values[numbers == z].ravel())
        names, codes = np.unique(self._names(batch), return_inverse=True)
        owner = batch.batch.numpy()
        per_atom = energy / np.maximum(n_atoms, 1)
        forces = batch.get("forces")
        norms = (
            np.linalg.norm(forces.double().numpy(), axis=1) if isinstance(forces, Tensor) else None
        )
        for code, name in enumerate(names.tolist()):
            rows = codes == code
            group = self._group(name)
            group.n_structures += int(rows.sum())
            group.n_atoms += int(n_atoms[rows].sum())
            group.energy.add(per_atom[rows])
            group.volume.add(volume[rows])
            if norms is not None:
                group.force.add(norms[rows[owner]])
            for key, (values, is_atom) in errors.items():
                chosen = values[rows[owner] if is_atom else rows]
                group.errors.setdefault(key, SpreadSums()).add(chosen.ravel())

    def check(self, name: str) -> None:
        """Checks after the last batch that the columns exist.

        Args:
            name: name of the dataset.

        Raises:
            FieldError: a column that was asked for is in no batch.
        """
        if self._n_before and (missing := sorted(self._wanted - self._seen)):
            raise FieldError(f"{name}: no molecule has {', '.join(map(repr, missing))}")

    def _names(self, batch: MoleculeBatch) -> Array:
        """Returns the value of each molecule as text (B,)."""
        value: Any = batch.get(self.by)
        if value is None:
            return np.full(len(batch), NO_VALUE, object)
        if isinstance(value, Tensor):
            if value.is_floating_point() or value.dim() != 1 or batch.level(self.by) != "molecule":
                raise FieldError(f"by: expected text or integers of molecules (field {self.by!r})")
            there = zip(value.tolist(), batch.mask(self.by).tolist(), strict=True)
            value = [one if is_there else None for one, is_there in there]
        elif any(isinstance(one, Tensor) for one in value):
            raise FieldError(f"by: expected text or integers of molecules (field {self.by!r})")
        return np.array([NO_VALUE if one is None else str(one) for one in value], object)

    def _group(self, name: str) -> Group:
        if name not in self.groups and len(self.groups) >= _MOST:
            name = OTHERS
        return self.groups.setdefault(name, Group())

    def _add_isolated(self, batch: MoleculeBatch, energy: Array) -> None:
        alone = batch.n_atoms.numpy() == 1
        pbc = batch.get("pbc")
        if isinstance(pbc, Tensor):
            alone &= ~pbc.numpy().any(1)
        rows = np.flatnonzero(alone)
        self.n_isolated += len(rows)
        for row in rows[: _MOST_ISOLATED - len(self.isolated)].tolist():
            number = int(batch.atomic_numbers[batch.ptr[row]])
            self.isolated.append((self._n_before + row, number, float(energy[row])))


def _errors(batch: MoleculeBatch, name: str, label: str) -> tuple[Array, bool] | None:
    """Returns prediction less label, and True for atoms; NaN where a molecule lacks one."""
    if name not in batch or label not in batch:
        return None
    found, wanted = batch[name], batch[label]
    if not (isinstance(found, Tensor) and isinstance(wanted, Tensor)) or (
        found.shape != wanted.shape or batch.level(name) != batch.level(label)
    ):
        raise FieldError(f"predicted: expected the shape of {label!r} (field {name!r})")
    is_atom = batch.level(label) == "atom"
    there = (batch.mask(name) & batch.mask(label)).numpy()
    there = there[batch.batch.numpy()] if is_atom else there
    values = found.double().numpy() - wanted.double().numpy()
    values[~there] = np.nan
    if label == "energy":
        values = values / np.maximum(batch.n_atoms.numpy(), 1)
    return values.reshape(len(values), -1), is_atom
