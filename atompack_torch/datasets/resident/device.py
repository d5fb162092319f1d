"""Gathering of batches on a device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import contents_of, first_targets
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_INDICES,
    COLUMNS,
    GEOMETRY,
    NEIGHBORS,
    STRUCTURE_INFO,
    FieldInfo,
    Level,
    centers_of,
)

# dtype and shape of a tensor.
Form = tuple[torch.dtype, tuple[int, ...]]


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


def group_of(name: str, level: Level) -> str:
    """Returns what a field has a row of: ``"molecule"``, ``"atom"``, or its field of centers."""
    return level if level in ("molecule", "atom") else centers_of(name)


class DeviceFields:
    """Fields of fixed row shape on a device, as batches have them, and edges.

    Indices of atoms and edges are numbered within each molecule.

    Args:
        order: names of all fields of a batch, including those on the host.
        infos: name → description, of all fields.
        forms: name of each field on the device → dtype and shape of a row.
        counts: group of fields → (n,) int64, rows of each molecule.
        numbers: (n,) int64 indices of the molecules in the dataset.
        device: of the tensors.
    """

    def __init__(
        self,
        order: list[str],
        infos: dict[str, FieldInfo],
        forms: dict[str, Form],
        counts: dict[str, Tensor],
        numbers: Tensor,
        device: torch.device,
    ) -> None:
        self.order, self.infos, self.device = order, infos, device
        self._rows = {group: Rows.of(each, device) for group, each in counts.items()}
        self._numbers = numbers.to(device)
        n = len(numbers)
        self._fields: dict[str, Tensor] = {}
        for name, (dtype, shape) in forms.items():
            rows = self._rows.get(self._group_of(name))
            n_rows = n if rows is None else int(rows.counts.sum())
            whole = (*shape, n_rows) if name in COLUMNS else (n_rows, *shape)
            self._fields[name] = torch.empty(whole, dtype=dtype, device=device)
        unmasked = (*STRUCTURE_INFO, *NEIGHBORS)
        self.mask_names = [name for name in forms if name not in unmasked]
        self._masks = torch.zeros((len(self.mask_names), n), dtype=torch.bool, device=device)
        self.complete = torch.ones(n, dtype=torch.bool)  # on the host
        self.first_missing: tuple[int, str] | None = None

    def _group_of(self, name: str) -> str:
        return group_of(name, self.infos[name].level)

    @property
    def n_bytes(self) -> int:
        """Bytes on the device."""
        tensors = [*self._fields.values(), self._masks, self._numbers]
        rows = sum(each.n_bytes for each in self._rows.values())
        return sum(tensor.nbytes for tensor in tensors) + rows

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
            axis = 1 if name in COLUMNS else 0
            if not isinstance(value, Tensor) or (not axis and value.shape[1:] != stored.shape[1:]):
                raise FieldError(
                    "expected the row shape of the schema in all molecules, got another one: keep "
                    f"these molecules on the CPU (field {name!r})"
                )
            begin = first
            if (rows := self._rows.get(self._group_of(name))) is not None:
                begin = int(rows.counts[:first].sum())
                if (targets := first_targets(batch, name)) is not None:
                    value = value - torch.repeat_interleave(targets, rows.counts[part])
            stored.narrow(axis, begin, value.shape[axis]).copy_(value)
        for row, name in enumerate(self.mask_names):
            self._masks[row, part].copy_(batch.mask(name))
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
            Name → tensor; and the masks (fields, B).
        """
        is_cuda = self.device.type == "cuda"
        on_host = molecules.pin_memory() if is_cuda else molecules
        on_device = on_host.to(self.device, non_blocking=is_cuda)
        selected = {group: rows.select(molecules, on_device) for group, rows in self._rows.items()}
        atoms = selected["atom"]
        made = {
            "batch": atoms.owners,
            "ptr": atoms.ptr,
            "n_atoms": atoms.counts,
            "index": self._numbers.index_select(0, on_device),
        }
        for name, stored in self._fields.items():
            own = selected.get(self._group_of(name))
            axis = 1 if name in COLUMNS else 0
            value = stored.index_select(axis, on_device if own is None else own.rows)
            targets = atoms if name in ATOM_INDICES else None
            if name == "triplet_edges":
                targets = selected["edge_index"]
            if targets is not None and own is not None:
                value = value + targets.ptr.index_select(0, own.owners)
            made[name] = value
        if "edge_shift" in made:
            made["edge_shift"] = made["edge_shift"].to(made["positions"].dtype)
        if "triplet_edges" in made:
            j, k = made["triplet_edges"]
            i, neighbors = made["edge_index"]
            ends = i.index_select(0, j), neighbors.index_select(0, j), neighbors.index_select(0, k)
            made["triplet_index"] = torch.stack(ends)
        return made, self._masks.index_select(1, on_device)
