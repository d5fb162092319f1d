"""Structures instead of MACE's lists of configurations: numbers in datasets, read when needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from mace.data import Configuration
from numpy.typing import NDArray

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.errors import FieldError
from atompack_torch.trainers._layout import selected_schema
from atompack_torch.trainers.mace._layout import TYPE, WEIGHT, MaceLayout, make_layout

_AT_ONCE = 4096  # molecules of a batch

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """A dataset and the names of its labels.

    Attributes:
        dataset: the molecules.
        keys: label → field.
        type_weights: ``config_type`` → weight.
        head: name of the head.
    """

    dataset: MoleculeDataset
    keys: Mapping[str, str]
    type_weights: Mapping[str, float]
    head: str

    def layout(self, numbers: Sequence[int], cutoff: float, heads: Sequence[str]) -> MaceLayout:
        """Returns the layout of the batches, in torch's default dtype.

        Args:
            numbers: atomic numbers of the model.
            cutoff: of the model, in Å.
            heads: names of all heads; the last one stands for those that are not among them.

        Returns:
            The layout.
        """
        return make_layout(
            selected_schema(self.dataset),
            numbers,
            cutoff,
            dtype=torch.get_default_dtype(),
            keys=self.keys,
            type_weights=self.type_weights,
            head=heads.index(self.head) if self.head in heads else len(heads) - 1,
        )


class Row(NamedTuple):
    """One molecule, as MACE looks at it before training."""

    structures: Structures
    place: int
    atomic_numbers: NDArray[np.int64]

    @property
    def head(self) -> str:
        """Name of the head."""
        return self.structures.part_of(self.place).head

    def configuration(self) -> Configuration:
        """Returns the configuration with all values in memory, as MACE makes it."""
        part = self.structures.part_of(self.place)
        batch = part.dataset.batch([int(self.structures.numbers[self.place])])
        properties, weights = {}, {}
        for label, key in part.keys.items():
            is_there = key in batch and bool(batch.mask(key)[0])
            properties[label] = _value(batch, key) if is_there else None
            weights[label] = _scalar(batch, f"config_{label}_weight", 1.0) if is_there else 0.0
        type_ = _type_of(batch)
        return Configuration(
            atomic_numbers=batch.atomic_numbers.numpy(),
            positions=batch.positions.double().numpy(),
            properties=properties,
            property_weights=weights,
            cell=batch.cell[0].double().numpy() if "cell" in batch else None,
            pbc=tuple(batch.pbc[0].tolist()) if "pbc" in batch else None,
            weight=_scalar(batch, WEIGHT, 1.0) * part.type_weights.get(type_, 1.0),
            config_type=type_,
            head=part.head,
        )


class Structures(Sequence[Row]):
    """Molecules of several datasets, in any order, some of them several times.

    Args:
        parts: the datasets.
        part_numbers: (n,) the dataset of each molecule.
        numbers: (n,) its number in that dataset.
    """

    def __init__(self, parts: Sequence[Part], part_numbers: Numbers, numbers: Numbers) -> None:
        self.parts = tuple(parts)
        self.part_numbers, self.numbers = part_numbers, numbers

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Structures:
        """Returns all molecules of datasets, in order."""
        lengths = [len(part.dataset) for part in parts]
        numbers = [np.arange(length) for length in lengths]
        return cls(
            parts,
            np.repeat(np.arange(len(parts)), lengths),
            np.concatenate([np.zeros(0, np.int64), *numbers]),
        )

    def part_of(self, place: int) -> Part:
        """Returns the dataset of a structure."""
        return self.parts[int(self.part_numbers[place])]

    def take(self, places: Any) -> Structures:
        """Returns some of the structures."""
        return Structures(self.parts, self.part_numbers[places], self.numbers[places])

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Structures: ...
    def __getitem__(self, place: int | slice) -> Row | Structures:
        """Returns one molecule, or some of them."""
        if isinstance(place, slice):
            return self.take(place)
        place = range(len(self))[place]
        batch = self.part_of(place).dataset.batch([int(self.numbers[place])])
        return Row(self, place, batch.atomic_numbers.numpy())

    def __iter__(self) -> Iterator[Row]:
        for places, batch in self.batches():
            elements = np.split(batch.atomic_numbers.numpy(), batch.ptr[1:-1].numpy())
            for place, numbers in zip(places.tolist(), elements, strict=True):
                yield Row(self, place, numbers)

    def batches(self) -> Iterator[tuple[Numbers, MoleculeBatch]]:
        """Yields the places and the batch of molecules that are next to each other."""
        borders = np.flatnonzero(np.diff(self.part_numbers)) + 1
        for run in np.split(np.arange(len(self)), borders):
            for first in range(0, len(run), _AT_ONCE):
                places = run[first : first + _AT_ONCE]
                yield places, self.part_of(places[0]).dataset.batch(self.numbers[places])

    def __add__(self, other: Structures) -> Structures:
        """Joins the molecules of two; MACE repeats those to be fine-tuned on in this way."""
        if not isinstance(other, Structures):
            return NotImplemented
        return Structures(
            (*self.parts, *other.parts),
            np.concatenate([self.part_numbers, other.part_numbers + len(self.parts)]),
            np.concatenate([self.numbers, other.numbers]),
        )

    def __mul__(self, times: int) -> Structures:
        """Repeats the structures."""
        return self.take(np.tile(np.arange(len(self)), times))


def isolated_atoms(structures: Structures) -> tuple[dict[int, float], Structures]:
    """Separates the isolated atoms, whose energies are the reference energies of their elements.

    Args:
        structures: all molecules.

    Returns:
        Atomic number → energy of single atoms with ``config_type=IsolatedAtom``, and the others.

    Raises:
        FieldError: such an atom has no energy.
    """
    energies: dict[int, float] = {}
    is_isolated = np.zeros(len(structures), bool)
    for places, batch in structures.batches():
        if TYPE not in batch or not bool((batch.n_atoms == 1).any()):
            continue
        for row, type_ in enumerate(batch[TYPE]):
            if type_ != "IsolatedAtom" or int(batch.n_atoms[row]) != 1:
                continue
            key = structures.part_of(places[row]).keys.get("energy")
            if key is None or not bool(batch.mask(key)[row]):
                number = int(batch.index[row])
                raise FieldError(f"IsolatedAtom: expected an energy (molecule {number})")
            is_isolated[places[row]] = True
            energies[int(batch.atomic_numbers[batch.ptr[row]])] = float(batch[key][row])
    return energies, structures.take(~is_isolated) if is_isolated.any() else structures


def by_type(structures: Structures) -> list[tuple[str, Structures]]:
    """Divides molecules as MACE divides tests: by their type and head.

    Args:
        structures: all molecules.

    Returns:
        Name and molecules of each kind, in the order in which they first occur.
    """
    found: dict[str, list[int]] = {}
    for places, batch in structures.batches():
        types = batch[TYPE] if TYPE in batch else [None] * len(batch)
        for place, type_ in zip(places.tolist(), types, strict=True):
            name = f"{type_ or 'Default'}_{structures.part_of(place).head}"
            found.setdefault(name, []).append(place)
    return [(name, structures.take(np.array(places))) for name, places in found.items()]


def average_energies(structures: Structures, numbers: Sequence[int]) -> dict[int, float]:
    """Fits one energy an element to the total energies by least squares, of least norm.

    Args:
        structures: those without an energy are omitted.
        numbers: atomic numbers of the elements.

    Returns:
        Atomic number → energy.

    Raises:
        FieldError: no molecule has an energy.
    """
    columns = {z: column for column, z in enumerate(numbers)}
    lookup = np.array([columns.get(z, len(numbers)) for z in range(256)])
    # Triangle of all rows so far: counts and energies.
    reduced: NDArray[np.float64] = np.zeros((0, len(numbers) + 1))
    for places, batch in structures.batches():
        key = structures.part_of(places[0]).keys.get("energy")
        if key is None or key not in batch:
            continue
        width = len(numbers) + 1
        cells = batch.batch.numpy() * width + lookup[batch.atomic_numbers.numpy()]
        counts = np.bincount(cells, minlength=len(batch) * width).reshape(len(batch), width)
        energies = batch[key].double().numpy()
        rows = np.column_stack([counts[:, :-1], energies])
        rows = rows[np.isfinite(energies) & batch.mask(key).numpy()]
        reduced = np.asarray(np.linalg.qr(np.concatenate([reduced, rows]), mode="r"))
    if not len(reduced):
        raise FieldError("E0s: expected structures with an energy, got none")
    fitted = np.linalg.lstsq(reduced[:, :-1], reduced[:, -1], rcond=None)[0]
    return {z: float(energy) for z, energy in zip(numbers, fitted, strict=True)}


def _type_of(batch: MoleculeBatch) -> str:
    return str(batch[TYPE][0] or "Default") if TYPE in batch else "Default"


def _value(batch: MoleculeBatch, key: str) -> Any:
    value: Any = batch[key]
    rows = value if batch.level(key) == "atom" else value[0]
    return rows.item() if rows.dim() == 0 else rows.numpy()


def _scalar(batch: MoleculeBatch, key: str, default: float) -> float:
    if key not in batch or not bool(batch.mask(key)[0]):
        return default
    return float(batch[key][0])
