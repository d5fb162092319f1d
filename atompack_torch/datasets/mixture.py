"""Several datasets as one, in fixed proportions."""

from __future__ import annotations

import copy
import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from atompack_torch._native import MixtureSource, MoleculeSource
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import Made, MoleculeDataset
from atompack_torch.datasets.epoch import SharedEpoch
from atompack_torch.datasets.selection.blocks import interleave
from atompack_torch.options import open_hint

_MAX_SHOWN = 4  # datasets, in repr
_FINEST = 10**6  # maximum denominator of weights as fractions

Numbers = NDArray[np.int64]


class MixtureDataset(MoleculeDataset):
    """Several datasets with one range of indices; a batch of all of them is one native call.

        mixture = MixtureDataset([bulk, surfaces], weights=[0.75, 0.25], epoch="max")
        loader = DataLoader(mixture, batch_sampler=AtomBudgetBatchSampler(mixture, 4096))

    Indices alternate between the sources as evenly as possible: in any range of indices, the
    number of molecules from a source deviates from its share by at most one for two sources, and
    two for up to four. Samplers that shuffle all indices keep the shares on average.

    Batches have the fields of all sources, masked for those that lack them, and ``source`` (B,)
    int64, the number of the dataset; ``index`` (B,) int64 is the number in that dataset.

    A source that is longer than its share of an epoch continues in the next epoch where it stopped,
    and a shorter one starts again, so that in the long run all molecules of a source occur equally
    often. The same indices may then denote other molecules. ``Loader`` and the samplers of this
    package that are made of the mixture (not of its ``n_atoms``) enter each epoch by themselves and
    plan it with its molecules, in worker processes too; with other samplers call ``set_epoch``.

    Args:
        datasets: datasets with the same options (``fields``, ``dtype``, ``missing``, ...);
            ``fields`` may omit what a source lacks, which is masked for its molecules.
        weights: positive weight of each source; None: their lengths, so that an epoch has every
            molecule once.
        epoch: length of an epoch: ``"min"`` ends it when the first source is exhausted, ``"max"``
            when all are, and an integer is the number of molecules.

    Raises:
        TypeError: the datasets are not a list, or not datasets of molecules of a single class; or
            the weights are not a list of numbers.
        ValueError: options differ, weights are not positive, a source is empty, or the length of
            an epoch is invalid.
    """

    _has_parts = True

    def __init__(
        self,
        datasets: Sequence[MoleculeDataset],
        weights: Sequence[float] | None = None,
        epoch: Literal["min", "max"] | int = "min",
    ) -> None:
        is_list = hasattr(datasets, "__getitem__") and hasattr(datasets, "__len__")
        if not is_list or isinstance(datasets, (Mapping, MoleculeDataset)):
            kind = type(datasets).__name__
            raise TypeError(f"datasets: expected a list of datasets, got {kind}")
        if isinstance(weights, Mapping) or not (weights is None or hasattr(weights, "__iter__")):
            raise TypeError(f"weights: expected a list of numbers, got {type(weights).__name__}")
        fields = _check_parts(datasets)
        # Not affected by refresh() and set_epoch() of the originals.
        self._parts = tuple(part._copy_for_subset() for part in datasets)
        for part in self._parts:
            if part._clock is not None:
                part._clock.is_chosen = False  # the mixture chooses their epoch
        starts = itertools.accumulate((part._size() for part in self._parts[:-1]), initial=0)
        self._starts = torch.tensor(list(starts))
        self._request = replace(self._parts[0]._request, fields=fields)
        self._path = [part._path for part in self._parts]
        self._weights = None if weights is None else tuple(weights)
        self._epoch_length: Literal["min", "max"] | int = epoch
        lengths = [len(part) for part in self._parts]
        self._counts = _counts(lengths, _weights(self._weights, lengths), epoch)
        self._clock = SharedEpoch()
        self._enter_epoch(0)  # the parts may be at others
        self._numbers: tuple[int, Tensor] | None = None  # epoch, in the concatenation of all parts
        self._chosen: Tensor | None = None  # the molecules of a subset, as _selection

    @property
    def path(self) -> tuple[Path | str, ...]:
        """Paths of all sources."""
        paths = (part.path for part in self._parts)
        return tuple(p for path in paths for p in (path if isinstance(path, tuple) else (path,)))

    def refresh(self) -> bool:
        """Refreshes the sources and recomputes their counts; a subset keeps its molecules.

        Returns:
            True if a source has changed.

        Raises:
            IndexError: molecules of a subset no longer exist; the dataset is unchanged.
            ValueError: a source is empty now.
        """
        parts = tuple(copy.copy(part) for part in self._parts)
        have_changed = [part.refresh() for part in parts]
        if not any(have_changed):
            return False
        sizes = torch.tensor([part._size() for part in parts])
        starts = torch.cumsum(sizes, 0) - sizes
        chosen = self._chosen
        if chosen is not None:
            source = torch.searchsorted(self._starts, chosen, right=True) - 1
            number = chosen - self._starts[source]
            if bool((number >= sizes[source]).any()):
                raise IndexError("subset: expected the molecules of the sources, got fewer")
            chosen = number + starts[source]
        lengths = [len(part) for part in parts]
        self._counts = _counts(lengths, _weights(self._weights, lengths), self._epoch_length)
        self._parts, self._starts, self._chosen, self._numbers = parts, starts, chosen, None
        self._digests = None
        super().close()
        return True

    def close(self) -> None:
        """Releases the mappings of all sources; the next read opens them again."""
        super().close()
        for part in self._parts:
            part.close()

    def _block_sizes(self) -> Tensor:
        return torch.cat([part._block_sizes() for part in self._parts])

    @property
    def sources(self) -> tuple[MoleculeDataset, ...]:
        """Datasets, in the order of ``source``."""
        return self._parts

    def with_sources(self, sources: Iterable[MoleculeDataset]) -> MixtureDataset:
        """Returns a mixture of other copies of its datasets, with the same molecules in them.

        Args:
            sources: the copies, in the order of ``sources``.

        Returns:
            The mixture.
        """
        part = copy.copy(self)
        part._parts, part._native = tuple(sources), None
        return part

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of molecules from each source in an epoch, or in a subset."""
        if self._chosen is None:
            return tuple(self._counts)
        sources = torch.searchsorted(self._starts, self._chosen, right=True) - 1
        return tuple(torch.bincount(sources, minlength=len(self._parts)).tolist())

    def set_epoch(self, epoch: int) -> None:
        """Selects the molecules of sources that are longer or shorter than their share.

        Applies to batches that are asked for later, in worker processes too. ``Loader`` and the
        samplers of this package choose the epoch by themselves until this is called.

        Args:
            epoch: number of the epoch, at least 0.

        Raises:
            TypeError: the number is not an integer.
            ValueError: the number is negative, or this is a subset in which nothing changes.
        """
        if self._clock is None:
            raise ValueError("set_epoch: expected the mixture itself, got a subset of it")
        super().set_epoch(epoch)

    def _enter_epoch(self, epoch: int) -> None:
        super()._enter_epoch(epoch)
        for part in self._parts:
            part.follow_epoch(epoch)

    @property
    def _samples_forces(self) -> bool:
        return any(part._samples_forces for part in self._parts)

    @property
    def _resamples(self) -> bool:
        return any(part._resamples for part in self._parts)

    @property
    def draws_change(self) -> bool:
        """True if the same number denotes another molecule in another epoch."""
        pairs = zip(self._counts, self._parts, strict=True)
        return self._chosen is None and any(count % max(len(part), 1) for count, part in pairs)

    def counts_in(self, epoch: int) -> Tensor:
        """Returns ``n_atoms`` in an epoch, without entering it.

        Args:
            epoch: number of the epoch.

        Returns:
            (len,) int64.
        """
        if not self.draws_change:
            return self.n_atoms
        return self._atom_counts()[self._numbers_in(epoch)]

    def _contents(self, n: int) -> list[object]:
        parts = [part.digest() for part in self._parts]
        chosen = None if self._chosen is None else self._chosen[:n]
        return [parts, self._counts, n if chosen is None else chosen]

    @property
    def _selection(self) -> Tensor:
        """Indices of the molecules in the concatenation of all parts."""
        return self._numbers_in(self.current_epoch) if self._chosen is None else self._chosen

    @_selection.setter
    def _selection(self, numbers: Tensor) -> None:
        self._chosen, self._numbers = numbers, None
        if not self._changes:
            self._clock = None

    def _copy_for_subset(self) -> MixtureDataset:
        part = super()._copy_for_subset()
        part._parts = tuple(each._copy_for_subset() for each in self._parts)  # epochs of its own
        return part

    def _numbers_in(self, epoch: int) -> Tensor:
        kept = self._numbers
        if kept is None or kept[0] != epoch:
            self._numbers = kept = epoch, torch.from_numpy(self._interleave(epoch))
        return kept[1]

    def _interleave(self, epoch: int) -> Numbers:
        draws = []
        for part, count, start in zip(
            self._parts, self._counts, self._starts.tolist(), strict=True
        ):
            size = max(len(part), 1)
            nth = (epoch * count % size + np.arange(count)) % size
            numbers = nth if part._selection is None else part._selection.numpy()[nth]
            draws.append(numbers + start)
        return interleave(draws)

    def __len__(self) -> int:
        return sum(self._counts) if self._chosen is None else len(self._chosen)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_numbers": None}  # large, and quick to compute

    def _size(self) -> int:
        return sum(part._size() for part in self._parts)

    def _atom_counts(self) -> Tensor:
        return torch.cat([part._atom_counts() for part in self._parts])

    def _options(self) -> dict[str, Any]:
        return {**self._parts[0]._options(), "fields": self._request.fields}

    def _identity(self) -> Any:
        return [part._identity() for part in self._parts]

    def without_mapping(self) -> MixtureDataset:
        """Returns a copy that reads files without mapping them.

        Returns:
            The copy.
        """
        return self.with_sources(each.without_mapping() for each in self._parts)

    def _open_source(self) -> MoleculeSource:
        sources = [part._source() for part in self._parts]
        processes = (part._needs_process for part in self._parts)
        self._needs_process = next((each for each in processes if each is not None), None)
        return MixtureSource(sources)

    def _to_batch(self, made: Made) -> MoleculeBatch:
        batch = super()._to_batch(made)
        batch.index.sub_(self._starts[batch.source])
        return batch

    def __repr__(self) -> str:
        drawn = zip(self.counts, self._parts, strict=True)
        shares = ", ".join(
            f"{count} of {part!r}" for count, part in itertools.islice(drawn, _MAX_SHOWN)
        )
        if (more := len(self._parts) - _MAX_SHOWN) > 0:
            shares += f", ... and {more:,} more"
        return f"MixtureDataset({len(self)} molecules: {shares})"


def _check_parts(parts: Sequence[MoleculeDataset]) -> tuple[str, ...] | None:
    """Checks the datasets; returns the fields of all of them."""
    if not parts:
        raise ValueError("datasets: expected at least one, got none")
    kinds = {type(part).__name__ for part in parts}
    alike = len(kinds) == 1 and isinstance(parts[0], MoleculeDataset)
    if not alike or isinstance(parts[0], MixtureDataset):
        names = ", ".join(sorted(kinds))
        hint = open_hint(parts[0])
        raise TypeError(f"datasets: expected datasets of molecules of one kind, got {names}{hint}")
    if any(part._on_host() is not part for part in parts):
        raise TypeError(
            "datasets: expected molecules on the CPU, got resident ones on a device: make them "
            "resident on the CPU, and use Loader(..., device=)"
        )
    if any(part._computer is not None for part in parts):
        raise ValueError("datasets: expected stored fields, got features computed for each batch")
    first = parts[0]._options()
    fields = _all_fields(parts)
    for number, part in enumerate(parts):
        for option, value in part._options().items():
            if option == "renamed" or (option == "fields" and fields is not None):
                continue
            if value != first[option]:
                raise ValueError(
                    f"datasets: expected the same {option} in all: {first[option]!r} in the first, "
                    f"got {value!r} in number {number}"
                )
    return fields


def _all_fields(parts: Sequence[MoleculeDataset]) -> tuple[str, ...] | None:
    """Merges ``fields`` of the parts; None unless each names all of the others' that it has."""
    named = [part._request.fields for part in parts]
    if len(set(named)) == 1:
        return named[0]
    if None in named:
        return None
    union = tuple(dict.fromkeys(name for fields in named for name in fields or ()))
    for part, fields in zip(parts, named, strict=True):
        if any(name in part.schema for name in set(union) - set(fields or ())):
            return None
    return union


def _weights(weights: Sequence[float] | None, lengths: Sequence[int]) -> list[Fraction]:
    """Returns the shares of the sources, which add up to 1."""
    if weights is None:
        return [Fraction(length, max(sum(lengths), 1)) for length in lengths]
    if len(weights) != len(lengths):
        raise ValueError(f"weights: expected {len(lengths)}, one per source, got {len(weights)}")
    for number, (weight, length) in enumerate(zip(weights, lengths, strict=True)):
        if not hasattr(weight, "__float__"):
            raise TypeError(f"weights: expected numbers, got {weight!r}")
        if not 0 < weight < math.inf:
            raise ValueError(f"weights: expected positive numbers, got {weight}")
        if length == 0:
            raise ValueError(f"datasets: expected molecules, got none in number {number}")
    numbers = [float(weight) for weight in weights]
    total = math.fsum(numbers)
    shares = [Fraction(number / total).limit_denominator(_FINEST) for number in numbers]
    if min(shares) == 0:
        raise ValueError(f"weights: expected shares of at least 1 in {_FINEST}, got {min(weights)}")
    return [share / sum(shares) for share in shares]


def _counts(
    lengths: Sequence[int], shares: Sequence[Fraction], epoch: Literal["min", "max"] | int
) -> list[int]:
    """Returns the number of molecules from each source in an epoch."""
    pairs = [(length, share) for length, share in zip(lengths, shares, strict=True) if share]
    if epoch == "min":
        n = min((math.floor(length / share) for length, share in pairs), default=0)
    elif epoch == "max":
        n = max((math.ceil(length / share) for length, share in pairs), default=0)
    elif not isinstance(epoch, (bool, str)) and hasattr(epoch, "__index__") and epoch >= 0:
        n = operator.index(epoch) if pairs else 0
    else:
        raise ValueError(f"epoch: expected 'min', 'max' or a number of molecules, got {epoch!r}")
    counts = [math.floor(n * share) for share in shares]
    left_over = [n * share - count for share, count in zip(shares, counts, strict=True)]
    largest = sorted(range(len(counts)), key=left_over.__getitem__, reverse=True)
    for source in largest[: n - sum(counts)]:
        counts[source] += 1
    return counts
