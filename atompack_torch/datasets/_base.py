"""What the data sets of molecules share: a native batcher, and batches made with it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, overload

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import FieldTable, MoleculeBatcher
from atompack_torch._native import ForceSubsetSource, MoleculeSource
from atompack_torch.batch.indices import Indices, is_batch
from atompack_torch.batch.molecule import Molecule
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets._batches import BatchDataset, transformed
from atompack_torch.datasets._computed import Computing, structure_request
from atompack_torch.datasets._forces import ForceChoice
from atompack_torch.datasets._request import Request, declared_by, specs_of
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.fields import (
    EDGE_INFO,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldId,
    FieldInfo,
    FieldSpec,
    public_names,
)
from atompack_torch.passes.statistics import Statistics, gather
from atompack_torch.passes.sweeping import Report, available_threads, reporting

Self = TypeVar("Self", bound="MoleculeDataset")


class MoleculeDataset(BatchDataset[Molecule]):
    """Molecules by number, in batches made by the native core.

    Subclasses say how to open a source and a batcher, and how many molecules there are; these are
    opened on first use in each process and are no part of a pickle.
    """

    _path: Any = None  # as it was given
    _request: Request
    _native: MoleculeBatcher | None = None
    _table: FieldTable | None = None  # kept alive for the names that are noted on it
    _computing: Computing | None = None
    _keeps: bool = False  # computed features of these molecules
    _forces: ForceChoice | None = None
    _epoch: int = 0
    _structures: MoleculeDataset | None = None  # what is computed from

    def _open_source(self) -> MoleculeSource:
        """Opens the molecules of the whole data set."""
        raise NotImplementedError

    def _batcher_over(self, source: MoleculeSource) -> MoleculeBatcher:
        """A batcher that makes what this data set was asked for, of any molecules."""
        return self._request.batcher(source, self._path)

    def _identity(self) -> Any:
        """What these molecules are, for work that goes on later: plain data."""
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        """All that was asked for, by the names of the options."""
        return self._request._asdict()

    def _atom_counts(self) -> Tensor:
        """(number of molecules in the whole data set,) int64."""
        raise NotImplementedError

    def _force_entries(self) -> Tensor:
        """Numbers in the whole data set of the molecules with forces, in order."""
        raise NotImplementedError

    def _by_reading(self: Self) -> Self:
        """A copy that reads files without mapping them, for passes over whole files.

        Where a mapping would end the process because a file is cut meanwhile, it raises.
        """
        return self

    def _source(self) -> MoleculeSource:
        """The molecules of the whole data set, with the forces of those that keep them."""
        source = self._open_source()
        if self._forces is None:
            return source
        candidates = self._force_entries()
        if self._selection is not None:
            candidates = candidates[torch.isin(candidates, self._selection)]
        return ForceSubsetSource(source, self._forces.flags(candidates, self._size(), self._epoch))

    def _open(self) -> MoleculeBatcher:
        return self._batcher_over(self._source())

    def _declared(self) -> Iterable[FieldId]:
        """Every field of the source, whether it was asked for or not."""
        return declared_by(self._batcher().source)

    def _batcher(self) -> MoleculeBatcher:
        # Without a lock (a fork could inherit it locked): opening twice does no harm.
        native = self._native
        if native is None:
            native = self._open()
            self._native, self._table = native, native.table
        return native

    def __getstate__(self) -> dict[str, Any]:
        of_this_process = ("_native", "_table", "_structures")
        return {key: value for key, value in self.__dict__.items() if key not in of_this_process}

    @property
    def n_atoms(self) -> Tensor:
        """(len,) int64: atoms of each molecule, from the index; no record is read."""
        counts = self._atom_counts()
        return counts if self._selection is None else counts[self._selection]

    @property
    def schema(self) -> dict[str, FieldSpec]:
        """What a batch holds: name → dtype, level and shape of one row.

        The union over all files, and also what ``fields`` and ``exclude`` leave out. Every batch
        has these dtypes, whichever molecules it holds: a width that differs between files is
        float64 (or int64), and ``dtype`` casts. A key that is a number in one file and a string in
        another has the dtype of the first, and no batch can hold both. A file without a stored
        schema (written by release 0.2) is looked through once for it.
        """
        batcher = self._batcher()
        specs = specs_of(batcher.source, batcher.request)
        return specs if self._computing is None else specs | self._computing.specs()

    @overload
    def __getitem__(self, item: slice | Indices) -> MoleculeBatch: ...
    @overload
    def __getitem__(self, item: int) -> Molecule: ...
    def __getitem__(self, item: int | slice | Indices) -> Any:
        """One molecule by number (negative too), or a batch by slice, numbers or mask.

        A damaged custom value of the one molecule is reported when it is read; ``transform`` is
        for batches and does not see it.

        Raises:
            IndexError: out of range, or a mask of another length.
            TypeError: something else than integers or a mask.
            CorruptFileError: the record is damaged.
            FieldError: a value is missing and ``missing="error"``.
        """
        if isinstance(item, slice):
            return self.batch(range(*item.indices(len(self))))
        if is_batch(item):
            return self.batch(item)
        made = self._batcher().collate_one(item, self._selection)
        batch, faults = self._assembled(made), made[4]
        names = list(batch._mask_rows) if faults else []
        return Molecule._view(batch, 0, {names[field]: fault for field, fault in faults})

    def batch(self, indices: Indices) -> Any:
        """Decodes molecules into one batch.

        Args:
            indices: molecule numbers, any order, repeats allowed, negative ones from the end: a
                list, range, array or tensor of integers of any width. Or a mask: as many bools as
                there are molecules.

        Returns:
            A ``MoleculeBatch`` (or what ``transform`` makes of it); ``index`` holds the numbers in
            the whole data set, also for a subset.

        Raises:
            IndexError: an index is out of range, or a mask has another length.
            TypeError: something else than integers or a mask.
            CorruptFileError: a record, or a value that was asked for, is damaged.
            FieldError: a value is missing and ``missing="error"``; types that cannot share a batch.
        """
        in_worker = get_worker_info() is not None
        made = self._batcher().collate(indices, self._selection, in_worker)
        return self._finished(self._assembled(made))

    def _assembled(self, made: Made) -> MoleculeBatch:
        return self._completed(self._wrapped(made))

    def _finished(self, batch: MoleculeBatch) -> Any:
        return transformed(self._request.transform, batch)

    def _wrapped(self, made: Made) -> MoleculeBatch:
        arena, table, values, masks, _ = made
        try:
            described: Described = table.described
        except AttributeError:  # the first batch of these fields
            neighbors = self._request.neighbors
            described = table.described = _describe(
                table, self._declared(), neighbors.fields if neighbors else ()
            )
        names, infos, rows = described
        return MoleculeBatch(dict(zip(names, values, strict=True)), infos, masks, rows, arena)

    def _completed(self, batch: MoleculeBatch) -> MoleculeBatch:
        """With what is computed for each batch; on the CPU."""
        if self._computing is None:
            return batch
        if self._structures is None:
            whole = copy.copy(self)
            whole._request = structure_request(self._request)
            whole._computing, whole._selection = None, None
            whole._native = whole._batcher_over(self._source())  # forces as they were chosen here
            whole._table = whole._native.table
            self._structures = whole
        return self._computing.add_to(batch, self._structures.batch, self._keeps)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the molecules that keep their forces, with ``resample_forces``.

        For the passes that begin after it. Workers of a DataLoader see it when they start, that is
        not if they are persistent.
        """
        if epoch < 0:
            raise ValueError(f"epoch: expected at least 0, got {epoch}")
        if epoch != self._epoch:
            self._epoch = epoch
            if self._forces is not None and self._forces.resample:
                self._native, self._structures = None, None

    @property
    def cached_bytes(self) -> int:
        """Of the computed features that are kept in memory, in this process."""
        return 0 if self._computing is None else self._computing.kept.n_bytes

    def statistics(
        self, progress: bool | Report = False, *, cutoff: float | None = None
    ) -> Statistics:
        """Looks at every molecule: counts, elements, spread of labels, energies by element.

        Molecules of a subset, labels that were asked for; ``missing="drop"`` leaves molecules out
        here as it does from batches. Sums are made in float64 in an order that does not depend on
        the number of threads. ``dtype`` and ``transform`` have no part in it.

        Args:
            progress: show a bar, or a function that is told how many more molecules are done.
            cutoff: counts the neighbors within it too (in the unit of the positions, Å).

        Raises:
            CorruptFileError: a record, or a value that was asked for, is damaged.
            FieldError: a value is missing and ``missing="error"``; the neighbors of a molecule
                cannot be found.
            ValueError: the cutoff is not finite, or below 0.001.
        """
        cutoff = None if cutoff is None else NeighborList(cutoff).as_tuple()[0]
        with reporting(progress, len(self), "statistics") as report:
            batcher = self._by_reading()._batcher()
            selection = None if self._selection is None else self._selection.numpy()
            threads = available_threads(self._request.num_threads)
            return gather(batcher.source, batcher.request, selection, threads, report, cutoff)

    def _copied(self: Self) -> Self:
        part = copy.copy(self)
        if self._forces is None:  # else they depend on the selection
            part._native, part._table = self._native, self._table
        return part

    def _parted(self: Self, numbers: Sequence[Any]) -> list[Self]:
        parts = super()._parted(numbers)
        for part in parts[1:]:
            part._keeps = part._keeps and part._computing is not None and part._computing.keeps_all
        return parts


# (arena, table, values, masks, faults), as the native core hands it over
Made = tuple[Tensor, FieldTable, list[Any], Tensor, list[tuple[int, str]]]


# Names, infos and mask rows of the fields in a batch
Described = tuple[list[str], dict[str, FieldInfo], dict[str, int]]


def _describe(table: FieldTable, declared: Iterable[FieldId], edges: Sequence[str]) -> Described:
    """Names do not depend on which fields were selected: all that are declared have their say."""
    heads = [FieldInfo(*head) for head in table.fields()]
    everything = dict.fromkeys([*declared, *(FieldId(*head[:2]) for head in heads)])
    names_of = dict(zip(everything, public_names(everything, RESERVED), strict=True))
    names = [names_of[FieldId(*head[:2])] for head in heads]
    edge_infos = {name: EDGE_INFO[name] for name in edges}
    infos = STRUCTURE_INFO | edge_infos | dict(zip(names, heads, strict=True))
    return [*STRUCTURE, *edges, *names], infos, {name: row for row, name in enumerate(names)}
