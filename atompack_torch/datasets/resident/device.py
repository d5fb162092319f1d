"""Gathering of batches on a device, with edges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from atompack_torch._core import MoleculeBatcher
from atompack_torch._native import BatchRequest, MoleculeSource
from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.request import Request
from atompack_torch.datasets.sweeping import OnProgress, runs
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_INDICES,
    GEOMETRY,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldInfo,
    Level,
)

_ATOMS_AT_ONCE = 16_384  # tens of megabytes of edges
_MOLECULES_AT_ONCE = 4096
_LARGEST_SHIFT = 127  # of int8

# dtype and shape of a tensor.
Form = tuple[torch.dtype, tuple[int, ...]]


def parts_of(n_atoms: Tensor) -> Iterator[slice]:
    """Splits molecules into consecutive parts that take tens of megabytes with their edges.

    Args:
        n_atoms: (n,) int64 atoms of each molecule.

    Yields:
        The molecules of each part.
    """
    for part in runs(n_atoms.numpy(), _ATOMS_AT_ONCE, _MOLECULES_AT_ONCE):
        yield slice(part.start, part.stop)


class EdgeCounts(NamedTuple):
    """Rows and types of the edges of n molecules.

    Attributes:
        edges: (n,) int64 edges of each molecule.
        triplets: (n,) int64 triplets of each molecule.
        shift: int8, or float32 if a shift is larger.
        floating: dtype of the vectors, that of ``positions``.
    """

    edges: Tensor
    triplets: Tensor
    shift: torch.dtype
    floating: torch.dtype

    def forms(self, neighbors: NeighborList) -> dict[str, Form]:
        """Returns dtype and shape of each tensor, as ``PrecomputedEdges`` accepts them.

        Args:
            neighbors: options of the search.

        Returns:
            Name → dtype and shape.
        """
        n_edges, n_triplets = int(self.edges.sum()), int(self.triplets.sum())
        forms: dict[str, Form] = {
            "edge_ptr": (torch.int64, (len(self.edges) + 1,)),
            "index": (torch.int32, (2, n_edges)),
            "shift": (self.shift, (n_edges, 3)),
        }
        if neighbors.vectors:
            forms["vector"] = (self.floating, (n_edges, 3))
        if neighbors.triplets is not False:
            forms["triplet_ptr"] = (torch.int64, (len(self.edges) + 1,))
            forms["triplet_edges"] = (torch.int32, (2, n_triplets))
        return forms


class EdgeReader:
    """Batches that consist of molecules and edges only.

    Args:
        source: the molecules.
        request: options of the dataset, with neighbors.
        path: path of the dataset, for errors.
        numbers: of the molecules in the source.
        n_atoms: (n,) atoms of each of them.
    """

    def __init__(
        self, source: MoleculeSource, request: Request, path: Any, numbers: Tensor, n_atoms: Tensor
    ) -> None:
        assert request.neighbors is not None
        self.neighbors = request.neighbors
        self.request: BatchRequest = request.of_edges().native(source, path)
        self._batcher = MoleculeBatcher(source, self.request)
        self._numbers, self._n_atoms = numbers, n_atoms

    def _read(self, report: OnProgress | None) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """Yields consecutive molecules and the tensors of their batch."""
        for part in parts_of(self._n_atoms):
            values = self._batcher.collate(self._numbers[part], None, False)[2]
            names = (*STRUCTURE, *self.neighbors.fields)
            yield part, dict(zip(names, values, strict=True))
            if report is not None:
                report(part.stop - part.start)

    def count(self, report: OnProgress | None) -> EdgeCounts:
        """Searches the neighbors of all molecules and counts them.

        Args:
            report: called with the number of further molecules that are done.

        Returns:
            The counts.

        Raises:
            FieldError: the search fails for a molecule.
        """
        edges, triplets = (np.zeros(len(self._numbers), np.int64) for _ in range(2))
        largest, floating = 0.0, torch.float32
        for part, made in self._read(report):
            edges[part] = _rows_of(made, "edge_index")
            if self.neighbors.triplets is not False:
                triplets[part] = _rows_of(made, "triplet_index")
            shift = made["edge_shift"]
            floating = shift.dtype
            if shift.numel():
                largest = max(largest, float(shift.abs().max()))
        kind = torch.int8 if largest <= _LARGEST_SHIFT else torch.float32
        return EdgeCounts(torch.from_numpy(edges), torch.from_numpy(triplets), kind, floating)

    def fill(self, counts: EdgeCounts, into: dict[str, Tensor], report: OnProgress | None) -> None:
        """Searches again, and stores what is found.

        Args:
            counts: result of ``count``.
            into: tensors of the forms that the counts give.
            report: called with the number of further molecules that are done.

        Raises:
            FieldError: the molecules have changed since they were counted.
        """
        for name, rows in (("edge_ptr", counts.edges), ("triplet_ptr", counts.triplets)):
            if name in into:
                into[name][0] = 0
                torch.cumsum(rows, 0, out=into[name][1:])
        starts = into["edge_ptr"].numpy()
        for part, made in self._read(report):
            first, last = int(starts[part.start]), int(starts[part.stop])
            atoms = np.repeat(made["ptr"].numpy()[:-1], counts.edges.numpy()[part])
            into["index"].numpy()[:, first:last] = made["edge_index"].numpy() - atoms
            into["shift"][first:last] = made["edge_shift"]
            if "vector" in into:
                into["vector"][first:last] = made["edge_vector"]
            if "triplet_edges" in into:
                begin, end = into["triplet_ptr"][[part.start, part.stop]].tolist()
                own = np.repeat(starts[part] - first, counts.triplets.numpy()[part])
                into["triplet_edges"].numpy()[:, begin:end] = made["triplet_edges"].numpy() - own


def _rows_of(made: dict[str, Tensor], name: str) -> NDArray[np.int64]:
    """Returns the number of edges or triplets of each molecule, whose centers ascend."""
    # NumPy, because torch's parallel regions would hang in a forked child.
    return np.diff(np.searchsorted(made[name][0].numpy(), made["ptr"].numpy()))


class Rows(NamedTuple):
    """Number of rows of each of n molecules, on the host and on the device.

    Attributes:
        counts: (n,) int64 on the host, so that sizes of batches are known without waiting.
        on_device: the same on the device.
        starts: (n,) int64 on the device, first row of each molecule.
    """

    counts: Tensor
    on_device: Tensor
    starts: Tensor

    @classmethod
    def of(cls, counts: Tensor, device: torch.device) -> Rows:
        """Copies counts to a device."""
        starts = torch.cumsum(counts, 0) - counts
        return cls(counts, counts.to(device), starts.to(device))

    @property
    def n_bytes(self) -> int:
        """Bytes on the device."""
        return self.on_device.nbytes + self.starts.nbytes

    def select(self, molecules: Tensor, on_device: Tensor) -> Selected:
        """Finds the rows of molecules, without waiting for the device.

        Args:
            molecules: (B,) int64 on the host.
            on_device: the same on the device.

        Returns:
            The rows.
        """
        device = self.starts.device
        total = int(self.counts[molecules].sum())
        counts = self.on_device.index_select(0, on_device)
        ptr = torch.zeros(len(molecules) + 1, dtype=torch.int64, device=device)
        torch.cumsum(counts, 0, out=ptr[1:])
        owners = torch.repeat_interleave(
            torch.arange(len(molecules), device=device), counts, output_size=total
        )
        firsts = self.starts.index_select(0, on_device) - ptr[:-1]
        rows = torch.arange(total, device=device) + firsts.index_select(0, owners)
        return Selected(rows, owners, ptr, counts)


class Selected(NamedTuple):
    """Rows of a batch: their numbers in the set, their molecules, and where molecules begin."""

    rows: Tensor
    owners: Tensor
    ptr: Tensor
    counts: Tensor


class DeviceEdges(NamedTuple):
    """Edges on a device, numbered within each molecule.

    Attributes:
        tensors: ``index``, ``shift`` and so on, as in ``EdgeCounts.forms``.
        rows: edges of each molecule.
        triplets: triplets of each molecule, or None.
    """

    tensors: dict[str, Tensor]
    rows: Rows
    triplets: Rows | None

    @classmethod
    def allocate(
        cls, counts: EdgeCounts, forms: dict[str, Form], device: torch.device
    ) -> DeviceEdges:
        """Allocates the tensors, without their values."""
        tensors = {
            name: torch.empty(shape, dtype=dtype, device=device)
            for name, (dtype, shape) in forms.items()
            if not name.endswith("_ptr")  # Rows has them
        }
        triplets = Rows.of(counts.triplets, device) if "triplet_ptr" in forms else None
        return cls(tensors, Rows.of(counts.edges, device), triplets)

    @property
    def n_bytes(self) -> int:
        """Bytes on the device."""
        rows = [self.rows.n_bytes, 0 if self.triplets is None else self.triplets.n_bytes]
        return sum(tensor.nbytes for tensor in self.tensors.values()) + sum(rows)

    def append(self, part: slice, batch: MoleculeBatch) -> None:
        """Stores the edges of consecutive molecules."""
        counts = self.rows.counts[part]
        first = int(self.rows.counts[: part.start].sum())
        rows = slice(first, first + int(counts.sum()))
        own = batch.edge_index - torch.repeat_interleave(batch.ptr[:-1], counts)
        self.tensors["index"][:, rows].copy_(own)
        self.tensors["shift"][rows].copy_(batch.edge_shift)
        if "vector" in self.tensors:
            self.tensors["vector"][rows].copy_(batch.edge_vector)
        if self.triplets is not None:
            n = self.triplets.counts[part]
            begin = int(self.triplets.counts[: part.start].sum())
            ends = torch.repeat_interleave(torch.cumsum(counts, 0) - counts, n)
            own = batch.triplet_edges - ends
            self.tensors["triplet_edges"][:, begin : begin + int(n.sum())].copy_(own)


class DeviceFields:
    """Fields of fixed row shape on a device, as batches have them, and edges.

    Args:
        order: names of all fields of a batch, including those on the host.
        infos: name → description, of all fields.
        forms: name of each field on the device → dtype and shape of a row.
        rows: level → rows of each molecule.
        edges: edges of all molecules, or None.
        numbers: (n,) int64 indices of the molecules in the dataset.
        device: of the tensors.
    """

    def __init__(
        self,
        order: list[str],
        infos: dict[str, FieldInfo],
        forms: dict[str, Form],
        rows: dict[Level, Rows],
        edges: DeviceEdges | None,
        numbers: Tensor,
        device: torch.device,
    ) -> None:
        self.order, self.infos, self.device = order, infos, device
        self._rows, self._edges = rows, edges
        self._numbers = numbers.to(device)
        n = len(numbers)
        self._fields = {
            name: torch.empty((self._n_rows(infos[name].level), *shape), dtype=dtype, device=device)
            for name, (dtype, shape) in forms.items()
        }
        self.mask_names = [name for name in forms if name not in STRUCTURE_INFO]
        self._masks = torch.zeros((len(self.mask_names), n), dtype=torch.bool, device=device)
        self.complete = torch.ones(n, dtype=torch.bool)  # on the host
        self.first_missing: tuple[int, str] | None = None

    def _n_rows(self, level: Level) -> int:
        return len(self._numbers) if level == "molecule" else int(self._rows[level].counts.sum())

    @property
    def n_bytes(self) -> int:
        """Bytes on the device."""
        tensors = [*self._fields.values(), self._masks, self._numbers]
        edges = 0 if self._edges is None else self._edges.n_bytes
        rows = sum(each.n_bytes for each in self._rows.values())
        return sum(tensor.nbytes for tensor in tensors) + rows + edges

    def append(self, first: int, batch: MoleculeBatch) -> None:
        """Stores consecutive molecules.

        Args:
            first: number of the first one.
            batch: on the CPU, with all fields.

        Raises:
            FieldError: a value does not have the shape that the schema promises.
        """
        part = slice(first, first + len(batch))
        for name, stored in self._fields.items():
            value = batch[name]
            level = self.infos[name].level
            if not isinstance(value, Tensor) or value.shape[1:] != stored.shape[1:]:
                raise FieldError(
                    "expected the row shape of the schema in all molecules, got another one: keep "
                    f"these molecules on the CPU (field {name!r})"
                )
            begin = first if level == "molecule" else int(self._rows[level].counts[:first].sum())
            if name in ATOM_INDICES:
                counts = self._rows[level].counts[part]
                value = value - torch.repeat_interleave(batch.ptr[:-1], counts)
            stored[begin : begin + len(value)].copy_(value)
        for row, name in enumerate(self.mask_names):
            self._masks[row, part].copy_(batch.mask(name))
        if self._edges is not None:
            self._edges.append(part, batch)
        self._note_missing(part, batch)

    def _note_missing(self, part: slice, batch: MoleculeBatch) -> None:
        for name in contents_of(batch).mask_rows:
            mask = batch.mask(name)
            if name in GEOMETRY or name not in self.infos or bool(mask.all()):
                continue
            self.complete[part] &= mask
            if self.first_missing is None:
                self.first_missing = int(batch.index[~mask][0]), name

    def gather(self, molecules: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Gathers the fields of a batch on the current stream.

        Args:
            molecules: (B,) int64 on the host.

        Returns:
            Name → tensor, positions and elements first, then edges; and the masks (fields, B).
        """
        on_device = self._to_device(molecules)
        selected: dict[Level, Selected] = {
            level: rows.select(molecules, on_device) for level, rows in self._rows.items()
        }
        atoms = selected["atom"]
        made: dict[str, Tensor] = {}
        for name, stored in self._fields.items():
            level = self.infos[name].level
            at = on_device if level == "molecule" else selected[level].rows
            made[name] = stored.index_select(0, at)
            if name in ATOM_INDICES:
                made[name] += atoms.ptr.index_select(0, selected[level].owners)
        structure = {
            "positions": made.pop("positions"),
            "atomic_numbers": made.pop("atomic_numbers"),
            "batch": atoms.owners,
            "ptr": atoms.ptr,
            "n_atoms": atoms.counts,
            "index": self._numbers.index_select(0, on_device),
        }
        edges = self._gather_edges(molecules, on_device, structure)
        return structure | edges | made, self._masks.index_select(1, on_device)

    def _to_device(self, molecules: Tensor) -> Tensor:
        if self.device.type != "cuda":
            return molecules.to(self.device)
        return molecules.pin_memory().to(self.device, non_blocking=True)

    def _gather_edges(
        self, molecules: Tensor, on_device: Tensor, structure: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        if self._edges is None:
            return {}
        stored, of_edges, of_triplets = self._edges
        edges = of_edges.select(molecules, on_device)
        firsts = structure["ptr"].index_select(0, edges.owners)
        index = stored["index"].index_select(1, edges.rows) + firsts
        floating = structure["positions"].dtype
        made = {
            "edge_index": index,
            "edge_shift": stored["shift"].index_select(0, edges.rows).to(floating),
        }
        if "vector" in stored:
            made["edge_vector"] = stored["vector"].index_select(0, edges.rows)
        if of_triplets is not None:
            triplets = of_triplets.select(molecules, on_device)
            sides = stored["triplet_edges"].index_select(1, triplets.rows)
            sides = sides + edges.ptr.index_select(0, triplets.owners)
            j, k = sides
            ends = [index[0].index_select(0, j), index[1].index_select(0, j)]
            made["triplet_index"] = torch.stack([*ends, index[1].index_select(0, k)])
            made["triplet_edges"] = sides
        return made


def bytes_needed(
    forms: dict[str, Form],
    infos: dict[str, FieldInfo],
    n_rows: dict[Level, int],
    edges: dict[str, Form],
) -> int:
    """Returns the bytes of ``DeviceFields``, before they are allocated.

    Args:
        forms: name of each field → dtype and shape of a row.
        infos: name → description.
        n_rows: level → number of rows in the set.
        edges: name → dtype and shape of the edges.

    Returns:
        The number of bytes.
    """
    n = n_rows["molecule"]
    n_counted = len(n_rows) - 1 + ("edge_ptr" in edges) + ("triplet_ptr" in edges)
    n_masks = sum(name not in STRUCTURE_INFO for name in forms)
    total = n * (n_masks + 8 + 16 * n_counted)  # masks, numbers, counts and starts
    for name, (dtype, shape) in forms.items():
        total += n_rows[infos[name].level] * math.prod(shape) * dtype.itemsize
    for name, (dtype, shape) in edges.items():
        total += 0 if name.endswith("_ptr") else math.prod(shape) * dtype.itemsize
    return total
