"""``AtomicData`` of fairchem with the tensors of a batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from ase.cell import Cell
from fairchem.core.datasets.atomic_data import AtomicData
from torch import Tensor

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.outputs import Output
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_PROPERTY, Level
from atompack_torch.trainers._layout import Layout, float_dtype
from atompack_torch.trainers.fairchem.naming import (
    INTEGERS,
    LABELS,
    STRINGS,
    Names,
    References,
    pairs_of,
    properties_of,
    tables_of,
)

_N_ELEMENTS = 256  # atomic numbers are bytes


@dataclass(frozen=True)
class Part:
    """One of the datasets that a batch is made of.

    Attributes:
        task: name of the dataset to the model, such as ``"omol"``; None: from property
            ``dataset``, if there is one.
        name: the same with its split, as ``"omol.train"``; None: none.
        labels: pairs of the name of a label in the batch, and energy, forces or stress.
        vacuum: Å around a molecule without periodic direction, which is put in a box; 0: no boxes.
        is_periodic: boxes are periodic.
        integers: those of charge, spin, fixed and tags that are read; others are 0.
    """

    task: str | None
    name: str | None
    labels: tuple[tuple[str, str], ...]
    vacuum: float = 0.0
    is_periodic: bool = False
    integers: tuple[str, ...] = tuple(INTEGERS)


class _Label(NamedTuple):
    """A label of a batch: its field, and the parts that have it."""

    name: str
    kind: str
    parts: list[int]


@dataclass(frozen=True)
class FairchemLayout(Layout):
    """Tensors of ``AtomicData``.

    Attributes:
        parts: datasets, in the order of ``batch.source``.
        properties: pairs of charge, spin, fixed, tags, sid or dataset, and the name of the custom
            property; those that there are.
        edges: neighbor list; None: no edges, because the model makes them.
        dtype: of positions, cells and labels.
        flat_stress: make stresses (B, 9).
        references: pairs of the name of an energy and the energies of elements by atomic number.
        absent: name, level and shape of a row of labels that no part has: infinity.
    """

    parts: tuple[Part, ...]
    properties: tuple[tuple[str, str], ...]
    edges: NeighborList | None
    dtype: torch.dtype
    flat_stress: bool
    references: tuple[tuple[str, tuple[float, ...]], ...]
    absent: tuple[tuple[str, str, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        _ = self.outputs  # raises errors about labels and references

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors that are made natively."""
        return tuple(self._list_outputs())

    @property
    def neighbors(self) -> NeighborList | None:
        """Edges, unless the model makes them."""
        return self.edges

    @property
    def fields(self) -> tuple[str, ...]:
        """Properties that are strings."""
        return tuple(name for key, name in self.properties if key in STRINGS)

    def _list_outputs(self) -> Iterable[Output]:
        if any(part.vacuum for part in self.parts):
            yield Output("positions", "value", torch.float64, "positions")
        yield Output("pos", "wrapped_positions", self.dtype)
        yield Output("atomic_numbers", "value", torch.int64, "atomic_numbers")
        yield Output("cell", "cell", self.dtype)
        yield Output("pbc", "value", torch.bool, "pbc", fill=0)
        properties = dict(self.properties)
        for key in INTEGERS:
            if key in properties and self._parts_with(key):
                yield Output(key, "value", torch.int64, properties[key], fill=0)
            else:
                yield Output(key, "constant", torch.int64, fill=0, level=_level_of(key))
        if self.edges is not None:
            yield Output("edge_index", "edge_reversed", torch.int64)
            yield Output("cell_offsets", "wrapped_shift", self.dtype)
            yield Output("nedges", "edge_count", torch.int64)
        references = dict(self.references)
        for label in self._labels:
            table = references.pop(label.name, ()) if label.kind == "energy" else ()
            if table and len(label.parts) < len(self.parts):  # `_check_elements` checks its parts
                known = (0.0 if math.isnan(value) else value for value in table)
                table = (*known, *[0.0] * (_N_ELEMENTS - len(table)))
            name = _output_name(label)
            yield Output(name, "value", self.dtype, label.kind, fill=math.inf, references=table)
        if references:
            raise ValueError(f"references: no energy has the name {next(iter(references))!r}")

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> AtomicData:
        """Builds the object of fairchem.

        Args:
            batch: the batch.
            made: name of each output → tensor.

        Returns:
            The batch of fairchem, whose tensors are views.
        """
        pos, cell, pbc = made["pos"], _complete_cells(made["cell"]), made["pbc"]
        if "positions" in made:
            pos, cell, pbc = self._put_in_boxes(batch, made["positions"], pos, cell, pbc)
        n_molecules = len(batch.n_atoms)
        labels = {label.name: self._values_of(label, batch, made) for label in self._labels}
        for name, level, shape in self.absent:
            n_rows = len(batch.batch) if level == "atom" else n_molecules
            labels[name] = torch.full((n_rows, *shape), math.inf, dtype=self.dtype)
        sources = batch.source.tolist() if len(self.parts) > 1 else [0] * n_molecules
        edges = _no_edges(n_molecules, self.dtype) if self.edges is None else made
        fields: dict[str, Any] = {
            "pos": pos,
            "atomic_numbers": made["atomic_numbers"],
            "cell": cell,
            "pbc": pbc,
            "natoms": batch.n_atoms,
            **{name: edges[name] for name in ("edge_index", "cell_offsets", "nedges")},
            **{key: self._integers(key, batch, made) for key in INTEGERS},
            **labels,
            "batch": batch.batch,
            "sid": self._strings(batch, "sid") or list(map(str, batch.index.tolist())),
            "molecule_number": batch.index,
        }
        if (tasks := self._tasks(batch, sources)) is not None:
            fields["dataset"] = tasks
        if all(part.name is not None for part in self.parts):
            fields["dataset_name"] = [self.parts[source].name for source in sources]
        return self._data_of(fields, batch)

    def _data_of(self, fields: dict[str, Any], batch: MoleculeBatch) -> AtomicData:
        """Returns an object with these attributes, and where its molecules begin in them.

        Its own constructor checks what is so by construction here, with as much time as the rest.
        """
        data = AtomicData.__new__(AtomicData)
        vars(data).update(fields, __keys__=set(fields))
        atoms, counts = batch.ptr.tolist(), batch.n_atoms.tolist()
        numbers, none = list(range(len(atoms))), [0] * len(atoms)
        edges = list(accumulate(fields["nedges"].tolist(), initial=0))
        slices = dict.fromkeys(fields, numbers)
        slices |= dict.fromkeys(self._keys_of_atoms, atoms)
        slices |= dict.fromkeys(("edge_index", "cell_offsets"), edges)
        offsets = dict.fromkeys(fields, none) | {"edge_index": atoms}
        axes = dict.fromkeys(fields, 0) | {"edge_index": -1}
        data.assign_batch_stats(slices, offsets, axes, counts)
        return data

    @cached_property
    def _labels(self) -> list[_Label]:
        labels: dict[str, _Label] = {}
        for number, part in enumerate(self.parts):
            for name, kind in part.labels:
                label = labels.setdefault(name, _Label(name, kind, []))
                if label.kind != kind:
                    raise ValueError(
                        f"labels: {name!r}: expected one field, got {kind} and {label.kind}"
                    )
                label.parts.append(number)
        return [*labels.values()]

    @cached_property
    def _keys_of_atoms(self) -> tuple[str, ...]:
        labels = [label.name for label in self._labels if LABELS[label.kind] == "atom"]
        absent = [name for name, level, _ in self.absent if level == "atom"]
        return ("pos", "atomic_numbers", "fixed", "tags", "batch", *labels, *absent)

    def _parts_with(self, key: str) -> list[int]:
        """Returns the parts of which an integer is read."""
        return [number for number, part in enumerate(self.parts) if key in part.integers]

    def _tasks(self, batch: MoleculeBatch, sources: list[int]) -> list[str] | None:
        """Returns the name of the dataset of each molecule to the model."""
        names = [part.task for part in self.parts]
        if None in names:
            return self._strings(batch, "dataset")
        return [str(names[source]) for source in sources]

    def _strings(self, batch: MoleculeBatch, key: str) -> list[str] | None:
        for found, name in self.properties:
            if found == key and name in batch:
                values: Any = batch[name]
                entries = values.tolist() if isinstance(values, Tensor) else values
                return ["" if entry is None else str(entry) for entry in entries]
        return None

    def _integers(self, key: str, batch: MoleculeBatch, made: dict[str, Tensor]) -> Tensor:
        reading = self._parts_with(key)
        if len(reading) in (0, len(self.parts)):
            return made[key]
        return made[key] * self._rows_of(reading, batch, _level_of(key))

    def _rows_of(self, parts: Sequence[int], batch: MoleculeBatch, level: Level) -> Tensor:
        """Returns True for the rows of molecules or atoms in some of the parts."""
        molecules = torch.isin(batch.source, torch.tensor(parts))
        return molecules[batch.batch] if level == "atom" else molecules

    def _values_of(self, label: _Label, batch: MoleculeBatch, made: dict[str, Tensor]) -> Tensor:
        value = made[_output_name(label)]
        if label.kind == "stress" and self.flat_stress:
            value = value.view(-1, 9)
        if len(label.parts) == len(self.parts):
            return value
        if label.name in dict(self.references):
            self._check_elements(label, batch, made["atomic_numbers"])
        rows = self._rows_of(label.parts, batch, LABELS[label.kind])
        return torch.where(rows.view(-1, *[1] * (value.dim() - 1)), value, math.inf)

    def _check_elements(self, label: _Label, batch: MoleculeBatch, numbers: Tensor) -> None:
        """Raises an error if an element of the parts of a label has no reference energy."""
        table = torch.tensor(dict(self.references)[label.name])
        is_known = torch.zeros(_N_ELEMENTS, dtype=torch.bool)
        is_known[: len(table)] = ~table.isnan()
        unknown = self._rows_of(label.parts, batch, "atom") & ~is_known[numbers]
        for atom in unknown.nonzero().flatten().tolist():
            row = int(batch.batch[atom])
            part = self.parts[int(batch.source[row])].task
            raise FieldError(
                f"references: {label.name!r} has none for element {int(numbers[atom])} "
                f"({part}, molecule {int(batch.index[row])}, field 'atomic_numbers')"
            )

    def _put_in_boxes(
        self, batch: MoleculeBatch, exact: Tensor, pos: Tensor, cell: Tensor, pbc: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Centers molecules in boxes, in float64; returns positions, cells and periodicity."""
        sources = batch.source if len(self.parts) > 1 else torch.zeros_like(batch.index)
        vacuum = torch.tensor([part.vacuum for part in self.parts], dtype=exact.dtype)[sources]
        is_boxed = (vacuum > 0) & ~pbc.any(1)
        low = torch.segment_reduce(exact, "min", lengths=batch.n_atoms, axis=0)
        high = torch.segment_reduce(exact, "max", lengths=batch.n_atoms, axis=0)
        moved = exact + (vacuum[:, None] - low)[batch.batch]
        boxes = torch.diag_embed(high - low + 2 * vacuum[:, None])
        closed = torch.tensor([part.is_periodic for part in self.parts])[sources] & is_boxed
        return (
            torch.where(is_boxed[batch.batch, None], moved.to(pos.dtype), pos),
            torch.where(is_boxed[:, None, None], boxes.to(cell.dtype), cell),
            pbc | closed[:, None],
        )


def _level_of(key: str) -> Level:
    """Returns the level of an integer."""
    return "atom" if INTEGERS[key] == ATOM_PROPERTY else "molecule"


def _output_name(label: _Label) -> str:
    return "label/" + label.name


def _no_edges(n_molecules: int, dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        "edge_index": torch.empty((2, 0), dtype=torch.int64),
        "cell_offsets": torch.empty((0, 3), dtype=dtype),
        "nedges": torch.zeros(n_molecules, dtype=torch.int64),
    }


def _complete_cells(cells: Tensor) -> Tensor:
    """Replaces vectors of length zero, as ASE does: a model divides by the volume."""
    if cells.numpy().any(2).all():  # NumPy takes half as long as torch for so few numbers
        return cells
    is_missing = ~cells.any(2)
    cells = cells.clone()
    cells[is_missing.all(1)] = torch.eye(3, dtype=cells.dtype)
    for row in (is_missing.any(1) & ~is_missing.all(1)).nonzero().flatten().tolist():
        cells[row] = torch.from_numpy(Cell(cells[row].double().numpy()).complete().array)
    return cells


def batch(
    molecules: MoleculeBatch,
    *,
    task: str | None = None,
    labels: Names | None = None,
    references: References | None = None,
    vacuum: float = 0.0,
    flat_stress: bool = False,
    dtype: torch.dtype = torch.float32,
) -> AtomicData:
    """Converts a batch to the ``AtomicData`` of fairchem.

    For B molecules, N atoms and E edges: ``pos`` (N, 3), inside of the cell along periodic
    directions; ``atomic_numbers`` (N,); ``cell`` (B, 3, 3), with unit vectors instead of missing
    ones; ``pbc`` (B, 3); ``natoms`` (B,); ``batch`` (N,); ``charge`` and ``spin`` (B,), ``fixed``
    and ``tags`` (N,) int64 from the custom properties of these names, else 0; ``sid``, a list of
    strings from that property, else of the numbers in the dataset; ``dataset``, a list of strings;
    ``energy`` (B,), ``forces`` (N, 3), ``stress`` (B, 3, 3), infinite where absent, which fairchem
    masks; ``molecule_number`` (B,) int64. With the edges of the batch: ``edge_index`` (2, E), rows
    neighbor and center, ``cell_offsets`` (E, 3), ``nedges`` (B,); without, they are empty.

    Args:
        molecules: a batch on the CPU.
        task: name of the dataset to the model, ``dataset`` of all molecules; None: from the custom
            property ``dataset``, if there is one.
        labels: energy, forces or stress → their name or names in fairchem, such as
            ``"omol_energy"``.
        references: atomic number → energy in eV, subtracted for each atom in float64; or such a
            mapping for each name of an energy.
        vacuum: Å around molecules without periodic direction, which are centered in boxes;
            0: no boxes.
        flat_stress: make stresses (B, 9).
        dtype: of positions, cells and labels.

    Returns:
        The batch of fairchem, on the CPU.

    Raises:
        FieldError: an element has no reference energy, or a charge, spin, tag or fixed atom is not
            a whole number.
        ValueError: there is no such label, or a dtype other than float32 and float64.
    """
    pairs = pairs_of(labels, [label for label in LABELS if label in molecules])
    made = FairchemLayout(
        parts=(Part(task, None, pairs, vacuum),),
        properties=properties_of(molecules),
        edges=NeighborList(1.0) if "edge_index" in molecules else None,
        dtype=float_dtype(dtype),
        flat_stress=flat_stress,
        references=tables_of(references, [name for name, kind in pairs if kind == "energy"]),
    )
    return made.batch(molecules)
