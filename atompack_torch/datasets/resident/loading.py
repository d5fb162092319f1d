"""Loading of molecules onto a device."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from atompack_torch._native import MoleculeSource
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.computed_features import FeatureComputer
from atompack_torch.datasets.request import Request, shown_place
from atompack_torch.datasets.resident.block import ResidentBlock, load_block
from atompack_torch.datasets.resident.device import (
    DeviceEdges,
    DeviceFields,
    Rows,
    bytes_needed,
)
from atompack_torch.datasets.resident.edges import EdgeReader, Form, parts_of
from atompack_torch.datasets.resident.memory import check_memory
from atompack_torch.datasets.sweeping import Report
from atompack_torch.errors import FieldError
from atompack_torch.fields import GEOMETRY, NEIGHBOR_INFO, STRUCTURE_INFO, FieldSpec, Level

_IN_STRUCTURE = ("batch", "ptr", "n_atoms", "index")  # made for each batch
_LEVELS: tuple[Level, ...] = ("atom", "edge", "triplet")  # columns of the numbers of rows


class HostFields(MoleculeDataset):
    """Fields of molecules on a device that stay on the host.

    Args:
        block: the molecules, with these fields only.
        request: selects these fields.
        path: path of the data set, for errors.
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
    report: Report | None,
) -> tuple[DeviceFields, HostFields | None]:
    """Loads molecules onto a device.

    Args:
        origin: the data set.
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
        ValueError: derivatives are computed, or forces are chosen anew in each epoch.
        FieldError: a value is missing and ``missing="error"``.
        CorruptFileError: a record is damaged.
    """
    _check_options(origin, device)
    whole = copy.copy(origin)
    whole._request = request = origin._request._replace(transform=None, missing="nan", outputs=())
    whole._selection, whole._native, whole._table = None, None, None
    empty = whole.batch([])
    forms = _fixed_forms(empty, whole.schema)
    edges: dict[str, Form] = {}
    counts = None
    if request.neighbors is not None:
        reader = EdgeReader(source, request, origin._path, numbers, rows[:, 0].contiguous())
        counts = reader.count(report)
        edges = counts.forms(request.neighbors)
    infos = {name: empty._infos[name] for name in empty.keys()}
    n_rows: dict[Level, int] = {"molecule": len(numbers)}
    used = {"atom", *(infos[name].level for name in forms)}
    levels = [level for level in _LEVELS if level in used]
    counted = {level: rows[:, _LEVELS.index(level)].contiguous() for level in levels}
    n_rows |= {level: int(each.sum()) for level, each in counted.items()}
    check_memory(bytes_needed(forms, infos, n_rows, edges), device, max_bytes)
    rest = _load_rest(source, numbers, rows, request, list(forms), empty, origin._path, report)
    on_device = DeviceFields(
        list(empty.keys()),
        infos,
        forms,
        {level: Rows.of(each, device) for level, each in counted.items()},
        None if counts is None else DeviceEdges.allocate(counts, edges, device),
        numbers,
        device,
    )
    for part in parts_of(rows[:, 0]):
        on_device.append(part.start, whole.batch(numbers[part]))
        if report is not None and request.neighbors is not None:
            report(part.stop - part.start)
    if origin._request.missing == "error" and on_device.first_missing is not None:
        number, name = on_device.first_missing
        way_out = 'missing="nan" gives NaN, missing="drop" drops the molecule'
        if request.fields is None:
            way_out = "name those that it must have by fields="
        raise FieldError(
            f"{shown_place(origin._path)}: the molecule has no such value: {way_out} "
            f"(molecule {number}, field {name!r})"
        )
    return on_device, rest


def _check_options(origin: MoleculeDataset, device: torch.device) -> None:
    computer = origin._computer
    if isinstance(computer, FeatureComputer) and computer.derivatives:
        raise ValueError(
            f"dataset: expected stored derivatives for {device}, got computed ones, whose number "
            "is not known beforehand: build_cache stores them"
        )
    if origin._forces is not None and origin._forces.resample:
        raise ValueError(
            f"dataset: expected resample_forces=False for {device}, got True: the molecules with "
            "forces are chosen while they are loaded"
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
    rows: Tensor,
    request: Request,
    on_device: list[str],
    empty: MoleculeBatch,
    path: Any,
    report: Report | None,
) -> HostFields | None:
    """Loads the fields that stay on the host; returns None if there are none."""
    own = tuple(name for name in on_device if name not in STRUCTURE_INFO)
    rest = request._replace(neighbors=None, exclude=(*request.exclude, *own))
    n_atoms = rows[:, 0].contiguous()
    native = rest.native(source, path)
    block = load_block(source, numbers, n_atoms, rest, [native], path, None, report)
    kept = {field[:2] for _, _, field in block.tables[1]}
    others = {(0, key.encode()) for key in GEOMETRY}
    return HostFields(block, rest, path) if kept - others else None
