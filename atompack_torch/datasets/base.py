"""Base of the datasets of molecules: a native batcher, and batches made with it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import FieldTable, MoleculeBatcher
from atompack_torch._native import ForceSubsetSource, MoleculeSource
from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.indices import Indices, check_several, is_batch
from atompack_torch.batch.molecule_batch import Molecule, MoleculeBatch, molecule_at
from atompack_torch.datasets.augment import warn_of_fields
from atompack_torch.datasets.batches import (
    BatchDataset,
    BatchPrefetcher,
    NativePrefetcher,
    warn_of_batch,
)
from atompack_torch.datasets.collated import as_items
from atompack_torch.datasets.columns import Column, read_column, to_pandas
from atompack_torch.datasets.computed_features import FeatureComputer, plan_features
from atompack_torch.datasets.digest import samples_of
from atompack_torch.datasets.diversity import farthest_points, mean_features
from atompack_torch.datasets.duplicates import duplicate_pairs
from atompack_torch.datasets.epoch import SharedEpoch
from atompack_torch.datasets.features import Features, Stored
from atompack_torch.datasets.force_subset import ForceSubset, flags_of
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.options import MoleculeOptions
from atompack_torch.datasets.outputs import infos_of
from atompack_torch.datasets.request import (
    FORCE_DERIVATIVES,
    Request,
    declared_fields,
    place_of,
    specs_of,
)
from atompack_torch.datasets.selection.blocks import Block, molecule_blocks
from atompack_torch.datasets.statistics import Statistics, gather
from atompack_torch.datasets.sweeping import OnProgress, available_threads, reporting
from atompack_torch.datasets.transforms import transformed
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import (
    BUILTIN,
    GEOMETRY,
    NEIGHBOR_INFO,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldId,
    FieldInfo,
    FieldSpec,
    public_names,
)
from atompack_torch.options import checked_integer, epoch_number

if TYPE_CHECKING:
    import pandas

Self = TypeVar("Self", bound="MoleculeDataset")


class MoleculeDataset(BatchDataset[Molecule, MoleculeBatch]):
    """Base of datasets of molecules, whose batches the native core makes.

    Subclasses open a source and know the number of molecules. Sources and batchers are opened on
    first use in each process, and are not part of pickles.
    """

    _of_this_process: ClassVar[tuple[str, ...]] = (
        "_native",
        "_table",
        "_structures",
        "_needs_process",
    )
    _path: Any = None  # as given
    _request: Request
    _native: MoleculeBatcher | None = None
    _needs_process: int | None = None  # that opened remote files: a fork lacks their threads
    _table: FieldTable | None = None  # kept alive for the names stored in it
    _computer: FeatureComputer | None = None
    _keeps_features: bool = False  # computed features stay in memory
    _forces: ForceSubset | None = None
    _clock: SharedEpoch | None = None  # None: nothing depends on the epoch
    _native_epoch = 0  # of the augmentation and the choice of forces in _native
    _has_warned = False  # of items that missing="drop" drops
    _structures: Any = None  # a dataset of the same class: input of the computed features

    def _take_options(self, options: MoleculeOptions, features: Features, stored: Stored) -> None:
        """Sets the options on what is read.

        Args:
            options: as given by the user.
            features: those on features.
            stored: sections of the feature cache, if any.
        """
        self._forces = options.force_subset if options.samples_forces else None
        self._request, self._computer = plan_features(Request.of(options), stored, features)
        self._clock = SharedEpoch() if self._changes else None
        self._keeps_features = features.keep != "none"

    def _check_augment(self) -> None:
        """Warns of fields of batches that may not turn with their molecules."""
        augment = self._request.augment
        if augment is None or augment.rotate is False:
            return
        source = self.batcher().source
        stored = self.with_request(self._request.of_stored_values(), computes_features=False)
        stored._native = stored._batcher_over(source)
        first = contents_of(stored._make(range(min(len(self), 1))))
        warn_of_fields(augment, place_of(self), self.schema, first.fields)

    def _open_source(self) -> MoleculeSource:
        """Opens a source of all molecules of the whole dataset."""
        raise NotImplementedError

    def _batcher_over(self, source: MoleculeSource) -> MoleculeBatcher:
        """Builds a batcher with the options of this dataset over any source."""
        native = self._request.native(source, self._path, self.current_epoch)
        return MoleculeBatcher(source, native)

    def _identity(self) -> Any:
        """Returns plain data that identifies the molecules, for work that is resumed later."""
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        """Returns all options by name."""
        return vars(self._request)

    def identity(self) -> Mapping[str, object]:
        """Returns what work that is resumed later must find again: molecules and options.

        Returns:
            Plain data by name: ``source``, ``options``, ``force_subset`` and ``selection``.
        """
        forces = self._forces and [*astuple(self._forces), self.current_epoch]
        return {
            "source": self._identity(),
            "options": self._options(),
            "force_subset": forces,
            "selection": self._selection,
        }

    def _atom_counts(self) -> Tensor:
        """Returns atoms per molecule: (number of molecules in the whole dataset,) int64."""
        raise NotImplementedError

    def _force_entries(self) -> Tensor:
        """Returns the numbers, in the whole dataset, of the molecules with forces, in order."""
        raise NotImplementedError

    def without_mapping(self: Self) -> Self:
        """Returns a copy that reads files without mapping them, for passes over whole files.

        If a file is truncated in the meantime, it raises an error where a mapping would cause
        SIGBUS.

        Returns:
            The copy.
        """
        return self

    def stored_values(self: Self) -> Self:
        """Makes a copy for passes over stored values: no transform, casts, edges, features.

        Returns:
            The copy, which reads files without mapping them.
        """
        request = self._request.of_stored_values()
        return self.without_mapping().with_request(request, computes_features=False)

    def _contents(self, n: int) -> list[object]:
        derived = ("features", FORCE_DERIVATIVES)
        request = self._request.plain(None, exclude=derived, nan_is_missing=False)
        part = self.without_mapping().with_request(request, computes_features=False)
        part._forces = None
        n_atoms = part.n_atoms[:n]
        try:
            batch = part.batch(samples_of(n))
        except CorruptFileError:  # a pass reports it
            return [n_atoms]
        return [n_atoms, {name: values for name, values in batch.items() if name != "index"}]

    def _source(self) -> MoleculeSource:
        """Opens the whole dataset, with the forces of the chosen molecules."""
        source = self._open_source()
        if self._forces is None:
            return source
        candidates = self._force_entries()
        if self._selection is not None:
            candidates = candidates[torch.isin(candidates, self._selection)]
        return ForceSubsetSource(
            source, flags_of(self._forces, candidates, self._size(), self.current_epoch)
        )

    @property
    def given_path(self) -> object:
        """Path as it was given, of any type; None for molecules in memory."""
        return self._path

    @property
    def request(self) -> Request:
        """Fields, dtypes and other options of the batches."""
        return self._request

    @property
    def computes_features(self) -> bool:
        """True if features or derivatives are computed, or kept in memory."""
        return self._computer is not None

    def source(self) -> MoleculeSource:
        """Opens the native source of the whole dataset.

        Returns:
            The source that batches are made of.

        Raises:
            FieldError: there is no field of a name.
            OSError: a file cannot be opened.
        """
        return self.batcher().source

    def with_request(self: Self, request: Request, *, computes_features: bool = True) -> Self:
        """Makes a copy that reads other things.

        Args:
            request: replaces that of this dataset.
            computes_features: False for a copy without computed features.

        Returns:
            The copy, which opens the files again.
        """
        part = copy.copy(self)
        part.close()
        part._request = request
        if not computes_features:
            part._computer = None
        return part

    @property
    def current_epoch(self) -> int:
        """Number of the epoch on which the molecules or their forces depend; 0 if none does."""
        return 0 if self._clock is None else self._clock.number

    @property
    def draws_change(self) -> bool:
        """True if the same number denotes another molecule in another epoch."""
        return False

    def epoch_for(self, epoch: int) -> int:
        """Returns the epoch whose molecules a pass gets in this epoch of its sampler.

        Args:
            epoch: number of the epoch of the sampler.

        Returns:
            The number of that epoch.
        """
        clock = self._clock
        return epoch if clock is not None and not clock.is_chosen else self.current_epoch

    def follow_epoch(self, epoch: int) -> None:
        """Enters the epoch of a loader or sampler, unless the user has chosen another.

        Args:
            epoch: number of the epoch.
        """
        clock = self._clock
        if clock is not None and not clock.is_chosen and clock.number != epoch:
            self._enter_epoch(epoch)

    def _enter_epoch(self, epoch: int) -> None:
        assert self._clock is not None
        self._clock.number = epoch

    def counts_in(self, epoch: int) -> Tensor:
        """Returns ``n_atoms`` in an epoch, without entering it.

        Args:
            epoch: number of the epoch.

        Returns:
            (len,) int64.
        """
        return self.n_atoms

    @property
    def _samples_forces(self) -> bool:
        return self._forces is not None

    @property
    def _resamples(self) -> bool:
        return self._forces is not None and self._forces.resample

    @property
    def _changes(self) -> bool:
        """True if the values of molecules depend on the epoch."""
        return self._resamples or self._request.augment is not None

    def _open(self) -> MoleculeBatcher:
        return self._batcher_over(self._source())

    def declared_fields(self) -> Iterable[FieldId]:
        """Lists every field of the source, requested or not.

        Returns:
            Scope and key of each.
        """
        return declared_fields(self.batcher().source)

    def batcher(self) -> MoleculeBatcher:
        """Returns the native batcher of the whole dataset, opened on first use in a process.

        Returns:
            The batcher.
        """
        # No lock, which a fork could inherit in the locked state; opening twice is harmless.
        native, needs_process = self._native, self._needs_process
        if needs_process is not None and needs_process != os.getpid():
            self.close()
            native = None
        if native is None or (self._changes and self._native_epoch != self.current_epoch):
            self._native_epoch, self._structures = self.current_epoch, None
            if native is None or self._resamples:
                native = self._open()
            else:  # only the draws of the augmentation change
                native = self._batcher_over(native.source)
            self._native, self._table = native, native.table
        return native

    def close(self) -> None:
        """Releases the mappings of files; the next read opens them again."""
        for name in self._of_this_process:
            setattr(self, name, None)

    def __getstate__(self) -> dict[str, Any]:
        kept = self.__dict__.keys() - self._of_this_process
        return {name: value for name, value in self.__dict__.items() if name in kept}

    @property
    def n_atoms(self) -> Tensor:
        """(len,) int64: atoms of each molecule, from the index, without reading records."""
        counts = self._atom_counts()
        return counts if self._selection is None else counts[self._selection]

    @property
    def schema(self) -> dict[str, FieldSpec]:
        """Fields of a batch: name → dtype, level and shape of one row.

        The union over all files, including fields that ``fields`` and ``exclude`` omit. Every
        batch has these dtypes, whichever molecules it holds: widths that differ between files
        become float64 or int64, and ``dtype`` casts. A key that is a number in one file and a
        string in another has the dtype of the first, and no batch can hold both. A file without a
        stored schema (of release 0.2) is scanned once for it.
        """
        batcher = self.batcher()
        specs = specs_of(batcher.source, batcher.request)
        if self._request.augment is not None and self._request.augment.keep_noise:
            specs["noise"] = specs["positions"]
        if self._computer is None:
            return specs
        return specs | self._computer.specs(lambda: self._feature_input().schema)

    @overload
    def __getitem__(self, item: str) -> Tensor | list[Any]: ...
    @overload
    def __getitem__(self, item: slice | Indices) -> MoleculeBatch: ...
    @overload
    def __getitem__(self, item: int) -> Molecule: ...
    def __getitem__(self, item: int | str | slice | Indices) -> Any:
        """Returns a molecule, a batch for a slice, integers or a mask, or a column for a name.

        A damaged custom value of a single molecule raises an error when it is accessed;
        ``transform`` is only applied to batches.

        Args:
            item: a number, negative ones from the end; the name of a field, as for ``column``; or
                as for ``batch``.

        Returns:
            A ``Molecule``, the values of ``column``, or the result of ``batch``.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            TypeError: the indices are neither integers nor a mask.
            CorruptFileError: the record is damaged.
            FieldError: a value is missing and ``missing="error"``, or there is no such field.
        """
        if isinstance(item, str):
            return self.column(item).values
        if isinstance(item, slice):
            return self.batch(range(*item.indices(len(self))))
        if is_batch(item):
            return self.batch(item)
        return self._molecule(item)

    def _molecule(self, item: Any) -> Molecule:
        made = self.batcher().collate_one(item, self._selection)
        batch, faults = self._assemble(made), made[4]
        names = list(contents_of(batch).mask_rows) if faults else []
        return molecule_at(batch, 0, {names[field]: fault for field, fault in faults})

    def batch(self, indices: Indices) -> MoleculeBatch:
        """Reads molecules into one batch.

        Args:
            indices: a list, range, array or tensor of integers in any order, repeats allowed,
                negative ones from the end; or a mask of ``len(self)`` booleans.

        Returns:
            The batch; ``index`` (B,) int64 holds the numbers in the whole dataset, also for a
            subset. With ``transform``, its result instead.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            TypeError: the indices are neither integers nor a mask.
            CorruptFileError: a record or a requested value is damaged.
            FieldError: a value is missing and ``missing="error"``, or types cannot share a batch.
        """
        check_several(indices)
        return self.apply_transform(self._make(indices))

    def __getitems__(self, indices: Sequence[int]) -> list[object]:
        """Returns a list of one collated batch, for ``DataLoader``; see ``collate_identity``."""
        made = self._never_empty(indices, self._make(indices))
        return as_items(self.apply_transform(made))

    def _make(self, indices: Indices) -> MoleculeBatch:
        in_worker = get_worker_info() is not None
        batch = self._assemble(self.batcher().collate(indices, self._selection, in_worker))
        if self.drops_items and not self._has_warned:
            self._has_warned = warn_of_batch(indices, batch)
        return batch

    @property
    def drops_items(self) -> bool:
        """True if batches omit items that lack a label."""
        return self._request.missing == "drop"

    def _assemble(self, made: Made, indices: Indices | None = None) -> MoleculeBatch:
        return self._add_features(self._to_batch(made))

    def apply_transform(self, batch: MoleculeBatch) -> MoleculeBatch:
        """Applies the user's ``transform`` to a batch that is on its target device.

        Args:
            batch: the batch.

        Returns:
            Its result.
        """
        made: MoleculeBatch = transformed(self._request.transform, batch)
        return made

    def _to_batch(self, made: Made) -> MoleculeBatch:
        arena, table, values, masks, _ = made
        try:
            described: Described = table.described
        except AttributeError:  # the first batch of these fields
            described = table.described = _describe(table, self.declared_fields(), self._request)
        names, infos, rows = described
        return MoleculeBatch(dict(zip(names, values, strict=True)), infos, masks, rows, arena)

    def _add_features(self, batch: MoleculeBatch) -> MoleculeBatch:
        """Adds the computed fields to a batch on the CPU."""
        if self._computer is None:
            return batch
        return self._computer.add_to(batch, self._feature_input().batch, self._keeps_features)

    def _feature_input(self: Self) -> Self:
        """Returns the whole dataset with the fields from which features are made."""
        if self._structures is None:
            assert self._computer is not None
            whole = copy.copy(self)
            whole._request = self._computer.input_request(self._request)
            whole._computer, whole._selection = None, None
            whole._native = whole._batcher_over(self._source())  # with the same choice of forces
            whole._table = whole._native.table
            self._structures = whole
        structures: Self = self._structures
        return structures

    def set_epoch(self, epoch: int) -> None:
        """Chooses the draws of ``augment``, and of ``ForceSubset(resample=True)``.

        Applies to passes that begin later, in worker processes too. ``Loader`` and the samplers of
        this package choose the epoch by themselves until this is called. Subsets that are made
        later stay in this epoch until their own ``set_epoch`` is called.

        Args:
            epoch: number of the epoch, at least 0.

        Raises:
            TypeError: the number is not an integer.
            ValueError: the number is negative.
        """
        epoch = epoch_number(epoch)
        if self._clock is not None:
            self._clock.is_chosen = True
            self._enter_epoch(epoch)

    @property
    def cached_bytes(self) -> int:
        """Bytes of computed features that this process keeps in memory."""
        return 0 if self._computer is None else self._computer.kept.n_bytes

    def statistics(
        self,
        progress: bool | OnProgress = False,
        *,
        cutoff: float | None = None,
        features: bool = False,
    ) -> Statistics:
        """Computes counts, elements, the spread of labels and energies by element in one pass.

        Covers the molecules of a subset and the requested labels; ``missing="drop"`` drops
        molecules as in batches. Sums are float64, in an order that does not depend on the number
        of threads. ``dtype`` and ``transform`` are ignored.

        Args:
            progress: True for a progress bar, or a function that is called with the number of
                further molecules that are done.
            cutoff: radius within which neighbors are counted too, in the unit of the positions
                (Å); None: they are not counted.
            features: gather mean, standard deviation and range of every column of the stored
                features in the same pass, too.

        Returns:
            The statistics.

        Raises:
            CorruptFileError: a record or a requested value is damaged.
            FieldError: a value is missing and ``missing="error"``, the neighbor search fails, or no
                features are stored.
            ValueError: the cutoff is not finite, or below 0.001.
        """
        cutoff = None if cutoff is None else NeighborList(cutoff).as_tuple()[0]
        with reporting(progress, len(self), "statistics") as report:
            batcher = self.without_mapping().batcher()
            stored = declared_fields(batcher.source)
            is_computed = self._computer is not None and "features" in self._computer.names()
            if features and (is_computed or FieldId(BUILTIN, "features") not in stored):
                raise FieldError(
                    "features: expected stored ones, got none: build_cache stores them (field "
                    "'features')"
                )
            selection = None if self.selection is None else self.selection.numpy()
            threads = available_threads(self._request.num_threads)
            source, request = batcher.source, batcher.request
            return gather(source, request, selection, threads, report, cutoff, features=features)

    def column(self, key: str) -> Column:
        """Reads one field of all molecules, without their positions.

            energy, is_known = ds.column("energy")

        Memory holds little but the column. ``dtype`` applies; ``missing``, ``augment``,
        ``force_subset`` and ``transform`` do not.

        Args:
            key: a label or a property, with its scope (``properties/KEY``) where the key is not
                unique; ``"n_atoms"``, ``"index"``, ``"positions"``, ``"atomic_numbers"``, or
                ``"features"``.

        Returns:
            ``values`` and ``mask``, in the order of the molecules here.

        Raises:
            FieldError: there is no field of this name, or its rows are edges or triplets.
            CorruptFileError: a record or a value is damaged.
        """
        return read_column(self._on_host(), key)[0]

    def to_pandas(self, keys: Sequence[str]) -> pandas.DataFrame:
        """Makes a data frame with a row for each molecule.

            ds.to_pandas(["energy", "config_type", "n_atoms"])

        Numbers become columns of numbers; integers and booleans that some molecules lack become
        nullable ones. Strings are those of pandas, and arrays and values of atoms objects. ``isna``
        is True where there is no value.

        Args:
            keys: names of fields, as for ``column``.

        Returns:
            A ``pandas.DataFrame``.

        Raises:
            TypeError: the keys are a single string.
            ImportError: pandas is not installed.
            FieldError: there is no field of a name.
        """
        return to_pandas(self._on_host(), keys)

    def duplicates(self, tolerance: float = 0.0) -> Tensor:
        """Finds molecules that repeat the geometry of earlier ones, whatever their labels.

        With a tolerance of 0 elements, positions, cell and periodic directions are equal bit for
        bit, in the same order. With a larger one composition and periodic directions are equal, and
        for some order of the atoms of each element the proper rotation and the translation that fit
        best (least squares) bring each atom no further than the tolerance from its partner.

        Atoms of periodic molecules are wrapped, and the rotation is that of the cell vectors, in
        their order, which must agree as well as atoms do: other choices of the cell are other
        geometries. A missing vector of an open direction is a unit vector normal to the others; if
        two are missing, molecules that are turned are not found. A cell without volume is that of
        no other molecule. The cell of a molecule without periodic directions does not count.

        Args:
            tolerance: largest distance between atoms that correspond, in the unit of the positions
                (Å), small compared with the distances between neighbors; 0: equal bit for bit.

        Returns:
            (m, 2) int64: in each row a molecule that repeats none, and a later one that repeats it.
            A molecule is in the second column at most once.

        Raises:
            TypeError: the tolerance is no number.
            ValueError: it is negative or not finite.
            CorruptFileError: a record is damaged.
        """
        return duplicate_pairs(self._geometries(), tolerance)

    def deduplicate(self: Self, tolerance: float = 0.0) -> Self:
        """Returns the molecules that do not repeat earlier ones, in the same order.

        Args:
            tolerance: as for ``duplicates``, which lists those that are dropped.

        Returns:
            The subset.

        Raises:
            TypeError: the tolerance is no number.
            ValueError: it is negative or not finite.
            CorruptFileError: a record is damaged.
        """
        keep = torch.ones(len(self), dtype=torch.bool)
        keep[self.duplicates(tolerance)[:, 1]] = False
        return self.subset(keep)

    def select_diverse(self: Self, n: int, by: Any = "features") -> Self:
        """Selects molecules whose mean features are far from each other.

        Farthest-point sampling: the first molecule is the one nearest to the mean of all, and each
        further one is that which is farthest from those before it. Features are averaged over the
        atoms of a molecule, and each is scaled to unit variance. The time is that of the features
        and n products of a matrix (molecules, features) with a vector.

        Args:
            n: number of molecules.
            by: ``"features"`` for those of this dataset, stored or computed; or a
                ``ChebyshevDescriptor``, or anything whose ``compute`` adds ``features`` to a batch.

        Returns:
            The subset, in the order of the selection, so that its first molecules are the best
            smaller one.

        Raises:
            ValueError: n is negative, or more than there are.
            FieldError: there are no features, or a molecule lacks them.
            TypeError: ``by`` is neither, or n is no integer.
        """
        if not 0 <= checked_integer("n", n) <= len(self):
            raise ValueError(f"n: expected a number from 0 to {len(self)}, got {n}")
        source = self._on_host() if by == "features" else self._geometries()
        return self.subset(farthest_points(mean_features(source, by), n))

    def _geometries(self) -> MoleculeDataset:
        """Returns a copy with positions and cells as stored, and nothing else."""
        part = self._on_host()
        request = part.request.plain(sorted(GEOMETRY), optional=True)
        return part.with_request(request, computes_features=False)

    def _on_host(self) -> MoleculeDataset:
        """Returns a dataset of the same molecules whose batches are in host memory."""
        return self

    def _blocks(self, fields: Sequence[str] | None) -> Iterator[tuple[Block, int]]:
        return molecule_blocks(self, fields)

    def _start_prefetch(self, num_threads: int, max_ready: int, pinned: bool) -> BatchPrefetcher:
        part = self
        if self._clock is not None or self._has_parts:  # which may change during the pass
            self.batcher()
            part = self._copy_in_epoch()
        return NativePrefetcher(part, num_threads, max_ready, pinned)

    def _copy_in_epoch(self: Self) -> Self:
        """Returns a copy with the same open files, which stays in the present epoch."""
        part = copy.copy(self)
        part._clock = copy.copy(self._clock)  # its own, from the same epoch
        part._native, part._table = self._native, self._table
        part._needs_process = self._needs_process
        return part

    def _copy_for_subset(self: Self) -> Self:
        part = self._copy_in_epoch()
        if self._forces is not None:  # they depend on the selection
            part._native = part._table = None
        return part

    def _split(self: Self, numbers: Sequence[Any]) -> list[Self]:
        parts = super()._split(numbers)
        for part in parts[1:]:
            part._keeps_features = (
                part._keeps_features and part._computer is not None and part._computer.keeps_all
            )
        return parts


# Result of the native core: arena, table of fields with their description, values, masks, faults.
Made = tuple[Tensor, Any, list[Any], Tensor, list[tuple[int, str]]]


# Names, infos and mask rows of the fields in a batch.
Described = tuple[list[str], dict[str, FieldInfo], dict[str, int]]


def _describe(table: FieldTable, declared: Iterable[FieldId], request: Request) -> Described:
    """Names the fields of a table; names depend on all declared fields, selected or not."""
    heads = [FieldInfo(*head) for head in table.fields()]
    everything = dict.fromkeys([*declared, *(FieldId(*head[:2]) for head in heads)])
    names_of = dict(zip(everything, public_names(everything, RESERVED), strict=True))
    names = [names_of[FieldId(*head[:2])] for head in heads]
    edges = request.neighbors.fields if request.neighbors else ()
    edge_infos = {name: NEIGHBOR_INFO[name] for name in edges}
    fields = dict(zip(names, heads, strict=True))
    outputs = infos_of(request.outputs, {name: info.level for name, info in fields.items()})
    infos = STRUCTURE_INFO | edge_infos | outputs | fields
    mask_rows = {name: row for row, name in enumerate(names)}
    return [*STRUCTURE, *edges, *outputs, *names], infos, mask_rows


def samples_forces(dataset: MoleculeDataset) -> bool:
    """True if ``force_subset`` leaves some molecules of a dataset without their forces."""
    return dataset._samples_forces
