"""Loading of all molecules into memory, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atompack_torch._core import PrecomputedEdges, ResidentBuilder, ResidentSource, view_arena
from atompack_torch._native import BatchRequest, MoleculeSource
from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.batch.storage import Place
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.neighbors import edge_batches, rows_by_molecule
from atompack_torch.datasets.request import Request
from atompack_torch.datasets.resident.device import DeviceFields, Form, group_of
from atompack_torch.datasets.sweeping import OnProgress, runs
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN, GEOMETRY, NEIGHBOR_INFO, STRUCTURE_INFO, FieldSpec
from atompack_torch.options import redact_path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(device: torch.device) -> int | None:
    """Returns the free memory of a device in bytes; None if the system does not tell.

    On the CPU it is what the system can give without swapping, within the limit of the container.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    if device.type != "cpu":
        return None
    limits = [_system_bytes(), _container_bytes()]
    return min((limit for limit in limits if limit is not None), default=None)


def check_memory(needed: int, device: torch.device, max_bytes: int | None) -> None:
    """Checks that molecules fit into memory, before any of it is allocated.

    Args:
        needed: bytes of all tensors.
        device: where they are to be.
        max_bytes: limit of the user; None: only that of the device.

    Raises:
        MemoryError: more bytes are needed than ``max_bytes`` allows or the device has.
    """
    if max_bytes is not None and needed > max_bytes:
        raise MemoryError(
            f"resident molecules: {needed:,} bytes are needed on {device}, and max_bytes is "
            f"{max_bytes:,}"
        )
    free = available_bytes(device)
    if free is not None and needed > free:
        raise MemoryError(
            f"resident molecules: {needed:,} bytes are needed on {device}, and {free:,} are free"
        )


def _system_bytes() -> int | None:
    if not _MEMINFO.exists():
        return None
    for line in _MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _container_bytes() -> int | None:
    """Returns the bytes left under the limit of the control group (version 2), if any."""
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if not limit.exists() or not used.exists():
        return None
    text = limit.read_text().strip()
    return None if text == "max" else max(int(text) - int(used.read_text()), 0)


_AT_ONCE = 4096  # molecules that are read between two reports
_ATOMS_ON_DEVICE = 16_384  # tens of megabytes of edges
_ALIGNMENT = 64
_LARGEST_SHIFT = 127  # of int8


class EdgeCounts(NamedTuple):
    """Rows and types of the edges of n molecules.

    Attributes:
        fields: those that the neighbor search adds to a batch.
        edges: (n,) int64 edges of each molecule.
        triplets: (n,) int64 triplets of each molecule.
        shift: int8, or float32 if a shift is larger.
        floating: dtype of the vectors, that of ``positions``.
    """

    fields: tuple[str, ...]
    edges: Tensor
    triplets: Tensor
    shift: torch.dtype
    floating: torch.dtype

    def rows(self) -> dict[str, Form]:
        """Returns dtype and shape of a row of each field of ``DeviceFields``."""
        forms: dict[str, Form] = {
            "edge_index": (torch.int32, (2,)),
            "edge_shift": (self.shift, (3,)),
            "edge_vector": (self.floating, (3,)),
            "triplet_edges": (torch.int32, (2,)),
        }
        return {name: form for name, form in forms.items() if name in self.fields}

    def forms(self) -> dict[str, Form]:
        """Returns dtype and shape of each tensor, by its name for ``PrecomputedEdges``."""
        n_edges, n_triplets = int(self.edges.sum()), int(self.triplets.sum())
        forms: dict[str, Form] = {
            "edge_ptr": (torch.int64, (len(self.edges) + 1,)),
            "index": (torch.int32, (2, n_edges)),
            "shift": (self.shift, (n_edges, 3)),
        }
        if "edge_vector" in self.fields:
            forms["vector"] = (self.floating, (n_edges, 3))
        if "triplet_edges" in self.fields:
            forms["triplet_ptr"] = (torch.int64, (len(self.edges) + 1,))
            forms["triplet_edges"] = (torch.int32, (2, n_triplets))
        return forms


Edges = Iterator[tuple[slice, dict[str, Tensor]]]


def _find_edges(
    source: MoleculeSource,
    request: Request,
    path: Any,
    numbers: Tensor,
    n_atoms: Tensor,
    report: OnProgress,
) -> Edges:
    """Searches the neighbors of molecules, in batches that consist of edges only."""
    assert request.neighbors is not None
    native = request.of_edges().native(source, path)
    return edge_batches(source, native, request.neighbors.fields, numbers, n_atoms, report)


def _count_edges(found: Edges, n: int, fields: tuple[str, ...]) -> EdgeCounts:
    edges, triplets = (np.zeros(n, np.int64) for _ in range(2))
    largest, floating = 0.0, torch.float32
    for part, made in found:
        edges[part] = rows_by_molecule(made, "edge_index")
        if "triplet_index" in fields:
            triplets[part] = rows_by_molecule(made, "triplet_index")
        shift = made["edge_shift"]
        floating = shift.dtype
        if shift.numel():
            largest = max(largest, float(shift.abs().max()))
    kind = torch.int8 if largest <= _LARGEST_SHIFT else torch.float32
    return EdgeCounts(fields, torch.from_numpy(edges), torch.from_numpy(triplets), kind, floating)


def _fill_edges(counts: EdgeCounts, into: dict[str, Tensor], found: Edges) -> None:
    """Stores edges that are found again in tensors of the forms of the counts."""
    for name, rows in (("edge_ptr", counts.edges), ("triplet_ptr", counts.triplets)):
        if name in into:
            into[name][0] = 0
            torch.cumsum(rows, 0, out=into[name][1:])
    starts = into["edge_ptr"].numpy()
    for part, made in found:
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


class ResidentBlock(NamedTuple):
    """Molecules in memory. Between processes, the block travels as shared memory.

    Attributes:
        memory: (bytes,) uint8, everything.
        n_molecules: number of molecules.
        tables: fields and types of the records.
        edges: name → place in the memory, for ``PrecomputedEdges``.
    """

    memory: Tensor
    n_molecules: int
    tables: tuple[Any, ...]
    edges: dict[str, Place]

    def source(self) -> ResidentSource:
        """Opens the molecules."""
        return ResidentSource(self.tables, self.memory, self.n_molecules)

    def edge_tensors(self) -> dict[str, Tensor]:
        """Returns views of the edges, by name."""
        views = view_arena(self.memory, list(self.edges.values()))
        return dict(zip(self.edges, views, strict=True))

    def kept_edges(self, request: BatchRequest) -> PrecomputedEdges:
        """Returns the edges for batches, of which there are some.

        Args:
            request: with the options of the search that found them.

        Returns:
            The edges.
        """
        edges: dict[str, Any] = dict.fromkeys(("vector", "triplet_ptr", "triplet_edges"))
        return PrecomputedEdges(request=request, **edges | self.edge_tensors())


def load_block(
    source: MoleculeSource,
    numbers: Tensor,
    n_atoms: Tensor,
    request: Request,
    requests: Sequence[BatchRequest],
    path: Any,
    max_bytes: int | None,
    report: OnProgress,
) -> ResidentBlock:
    """Reads molecules into one block of memory.

    All are read twice: first to find the size of the block, which is checked before it is
    allocated.

    Args:
        source: the molecules.
        numbers: (n,) int64, of those to read.
        n_atoms: (n,) int64, atoms of each of them.
        request: options of the dataset; with neighbors, edges are found and kept too.
        requests: fields to keep: those that one of these selects, the cell and ``pbc``.
        path: path of the dataset, for errors.
        max_bytes: limit of the block; None: the free memory.
        report: called with the number of molecules done, in each of two passes over them (four
            with edges).

    Returns:
        The block.

    Raises:
        MemoryError: the block is larger than the limit or the free memory.
        CorruptFileError: a record is damaged.
        FieldError: the neighbor search fails for a molecule.
    """
    geometry = BatchRequest(fields={(BUILTIN, key) for key in GEOMETRY})
    place = redact_path(path)
    builder = ResidentBuilder(source, numbers.tolist(), [*requests, geometry], place)
    n = len(numbers)
    parts = [(first, min(first + _AT_ONCE, n)) for first in range(0, n, _AT_ONCE)]
    for first, last in parts:
        builder.measure(first, last)
        report(last - first)
    counts = None
    if request.neighbors is not None:
        found = _find_edges(source, request, path, numbers, n_atoms, report)
        counts = _count_edges(found, n, request.neighbors.fields)
    places, n_bytes = _place_edges(builder.bytes(), counts)
    check_memory(n_bytes, torch.device("cpu"), max_bytes)
    memory = torch.empty(n_bytes, dtype=torch.uint8)
    for first, last in parts or [(0, 0)]:
        builder.copy(first, last, memory)
        report(last - first)
    held = builder.source(memory)
    block = ResidentBlock(memory, n, held.tables(), places)
    if counts is not None:
        found = _find_edges(held, request, path, torch.arange(n), n_atoms, report)
        _fill_edges(counts, block.edge_tensors(), found)
    return block


def _place_edges(n_bytes: int, counts: EdgeCounts | None) -> tuple[dict[str, Place], int]:
    """Returns the offsets of the edges after ``n_bytes`` of records, and the size of the block."""
    places: dict[str, Place] = {}
    size = _aligned(n_bytes)
    for name, (dtype, shape) in ({} if counts is None else counts.forms()).items():
        places[name] = (dtype, size, shape)
        size = _aligned(size + dtype.itemsize * math.prod(shape))
    return places, size


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT


_IN_STRUCTURE = ("batch", "ptr", "n_atoms", "index")  # made for each batch
_GROUPS = ("atom", "radial_center_idx", "angular_center_idx")  # columns of the numbers of rows


class HostFields(MoleculeDataset):
    """Fields that stay on the host when the molecules are on a device.

    Args:
        block: the molecules, with these fields only.
        request: selects these fields.
        path: path of the dataset, for errors.
    """

    def __init__(self, block: ResidentBlock, request: Request, path: Any) -> None:
        self._block, self._request, self._path = block, request, path

    def _open_source(self) -> MoleculeSource:
        return self._block.source()

    def _size(self) -> int:
        return self._block.n_molecules


def load_on_device(
    origin: MoleculeDataset,
    source: MoleculeSource,
    numbers: Tensor,
    rows: Tensor,
    device: torch.device,
    max_bytes: int | None,
    report: OnProgress,
) -> tuple[DeviceFields, HostFields | None]:
    """Loads molecules onto a device.

    Args:
        origin: the dataset.
        source: its molecules.
        numbers: (n,) int64, of those to load.
        rows: (n, 3) int64 atoms, stored edges and stored triplets of each.
        device: where to.
        max_bytes: limit; None: the free memory.
        report: called with the number of further molecules that are done.

    Returns:
        The fields on the device, and those that stay on the host, if any.

    Raises:
        MemoryError: there is too little memory.
        ValueError: derivatives are computed, forces are chosen again in each epoch, or molecules
            are augmented.
        FieldError: a value is missing and ``missing="error"``.
        CorruptFileError: a record is damaged.
    """
    _check_options(origin, device)
    request = replace(origin._request, transform=None, missing="nan", outputs=())
    whole = origin.with_request(request)
    whole._selection = None
    whole._native = whole._batcher_over(source)  # with the forces of the molecules to load
    empty = whole.batch([])
    forms = _fixed_forms(empty, whole.schema)
    infos = dict(contents_of(empty).infos)
    counted = {name: each.contiguous() for name, each in zip(_GROUPS, rows.T, strict=True)}
    used = {"atom", *(group_of(name, infos[name].level) for name in forms)}
    counted = {name: each for name, each in counted.items() if name in used}
    labels = list(forms)
    if request.neighbors is not None:
        found = _find_edges(source, request, origin._path, numbers, counted["atom"], report)
        edges = _count_edges(found, len(numbers), request.neighbors.fields)
        forms |= edges.rows()
        counted["edge_index"] = edges.edges
        if "triplet_edges" in forms:
            counted["triplet_index"] = edges.triplets

    def fields_on(place: torch.device) -> DeviceFields:
        return DeviceFields(list(empty.keys()), infos, forms, counted, numbers, place)

    check_memory(fields_on(torch.device("meta")).n_bytes, device, max_bytes)
    rest = _load_rest(source, numbers, counted["atom"], request, labels, origin._path, report)
    on_device = fields_on(device)
    for part in runs(rows[:, 0].numpy(), _ATOMS_ON_DEVICE, _AT_ONCE):
        on_device.append(part.start, whole.batch(numbers[part.start : part.stop]))
        if request.neighbors is not None:
            report(len(part))
    if origin._request.missing == "error" and on_device.first_missing is not None:
        number, name = on_device.first_missing
        way_out = 'missing="nan" gives NaN, missing="drop" drops the molecule'
        if request.fields is None:
            way_out = "name those that it must have by fields="
        raise FieldError(
            f"{redact_path(origin._path)}: the molecule has no such value: {way_out} "
            f"(molecule {number}, field {name!r})"
        )
    return on_device, rest


def _check_options(origin: MoleculeDataset, device: torch.device) -> None:
    if origin._request.augment is not None:
        raise ValueError(
            f"dataset: expected one without augment for {device}, got one with: use "
            "ResidentDataset(dataset) and Loader(..., device=)"
        )
    if origin._computer is not None and origin._computer.derivatives:
        raise ValueError(
            f"dataset: expected stored derivatives for {device}, got computed ones, whose number "
            "is not known beforehand: build_cache stores them"
        )
    if origin._forces is not None and origin._forces.resample:
        raise ValueError(
            f"dataset: expected ForceSubset(resample=False) for {device}, got True: the molecules "
            "with forces are chosen while they are loaded"
        )


def _fixed_forms(empty: MoleculeBatch, schema: dict[str, FieldSpec]) -> dict[str, Form]:
    """Returns dtype and row shape of the fields that one tensor can hold for all molecules."""
    forms: dict[str, Form] = {}
    for name, value in empty.items():
        if name in NEIGHBOR_INFO or name in _IN_STRUCTURE:
            continue
        spec = schema.get(name)
        shape = tuple(value.shape[1:]) if spec is None and isinstance(value, Tensor) else None
        if spec is not None and isinstance(spec.dtype, torch.dtype):
            shape = spec.shape
        if shape is not None and isinstance(value, Tensor):
            forms[name] = value.dtype, shape
    return forms


def _load_rest(
    source: MoleculeSource,
    numbers: Tensor,
    n_atoms: Tensor,
    request: Request,
    on_device: list[str],
    path: Any,
    report: OnProgress,
) -> HostFields | None:
    """Loads the fields that stay on the host; returns None if there are none."""
    own = tuple(name for name in on_device if name not in STRUCTURE_INFO)
    rest = replace(request, neighbors=None, exclude=(*request.exclude, *own))
    native = rest.native(source, path)
    block = load_block(source, numbers, n_atoms, rest, [native], path, None, report)
    kept = {(scope, key) for _, scope, key, *_ in block.tables[1]}
    others = {(0, key) for key in GEOMETRY}
    return HostFields(block, rest, path) if kept - others else None
