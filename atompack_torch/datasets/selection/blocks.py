"""Blocks of molecules, and dealing them to parts."""

from __future__ import annotations

import heapq
import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.exact_values import host_array
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.sweeping import runs
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    BUILTIN,
    BUILTINS,
    CANONICAL,
    GEOMETRY,
    STRUCTURE,
    FieldId,
    prefixed_id,
    similar_names,
)
from atompack_torch.options import short_list
from atompack_torch.random_order import seeded

if TYPE_CHECKING:
    from atompack_torch.datasets.base import MoleculeDataset

_ROUNDING = 1e-6  # of fractions that should add up to 1
_MAX_TRIES = 32
_MAX_STRATA = 100  # of real numbers
_WORTH_TRYING = 10_000  # groups, up to which several deals are compared


def sizes_of(n: int, fractions: Sequence[float]) -> list[int]:
    """Returns the sizes of parts.

    Args:
        n: number of items.
        fractions: fractions of them, which add up to 1.

    Returns:
        Sizes that add up to ``n``.

    Raises:
        TypeError: it is a single number.
        ValueError: a fraction is negative, they do not add up to 1, or a part would be empty.
    """
    if isinstance(fractions, str) or not isinstance(fractions, Iterable):
        raise TypeError(f"fractions: expected numbers that add up to 1, got {fractions!r}")
    # Not a NaN either, which compares as False.
    if not (min(fractions, default=0) >= 0 and abs(sum(fractions) - 1) <= _ROUNDING):
        raise ValueError(f"fractions: expected positive numbers that add up to 1, got {fractions}")
    sizes = [int(n * fraction) for fraction in fractions]
    parts = [part for part, fraction in enumerate(fractions) if fraction]
    for i in range(n - sum(sizes)):
        sizes[parts[i % len(parts)]] += 1
    _check_parts(sizes, fractions, f"{n} items")
    return sizes


def _check_parts(sizes: Sequence[int], fractions: Sequence[float], whole: str) -> None:
    """Raises an error if a part is empty that is to have a fraction of something."""
    for size, fraction in zip(sizes, fractions, strict=True):
        if sum(sizes) and fraction and not size:
            raise ValueError(
                f"fractions: expected at least one item in each part, got none for {fraction} of "
                f"{whole}: choose other fractions, or 0 for an empty part"
            )


def deal(groups: Array, fractions: Sequence[float], seed: int) -> list[Tensor]:
    """Deals items to parts at random, all items of a group to the same part.

    Large groups are dealt first, to parts that still have room for them, in proportion to the room;
    a group that fits nowhere goes to the part that lacks most. Of up to 10,000 groups, the best of
    several such deals is taken.

    Args:
        groups: (n,) uint64, equal for items of one group.
        fractions: sizes of the parts, which add up to 1.
        seed: the same seed gives the same parts.

    Returns:
        For each part the numbers of its items, int64, in ascending order.

    Raises:
        ValueError: a fraction is negative, they do not add up to 1, or a part would be empty.
    """
    wanted = np.array(sizes_of(len(groups), fractions))
    _, group_of, counts = np.unique(groups, return_inverse=True, return_counts=True)
    generator = seeded(seed)
    tries = _MAX_TRIES if 0 < len(counts) <= _WORTH_TRYING else 1
    best, best_error = None, -1
    for _ in range(tries):
        parts = _deal_groups(counts, wanted, generator)
        got = np.bincount(parts, weights=counts, minlength=len(wanted)).astype(np.int64)
        error = int(np.abs(got - wanted).sum())
        if best is None or error < best_error:
            best, best_error = parts, error
        if best_error == 0:
            break
    assert best is not None
    sizes = np.bincount(best, weights=counts, minlength=len(wanted)).astype(np.int64).tolist()
    _check_parts(sizes, fractions, f"{len(counts)} groups, which stay together")
    of_items = best[group_of.reshape(-1)]
    return [torch.from_numpy(np.flatnonzero(of_items == part)) for part in range(len(wanted))]


def deal_strata(
    strata: Array, fractions: Sequence[float], seed: int, *, are_ordered: bool
) -> list[Tensor]:
    """Deals items to parts at random, so that each part gets its share of every stratum.

    Args:
        strata: (n,) uint64, equal for items of one stratum.
        fractions: sizes of the parts, which add up to 1.
        seed: the same seed gives the same parts.
        are_ordered: neighbors may share a stratum where there are too many.

    Returns:
        For each part the numbers of its items, int64, in ascending order.

    Raises:
        ValueError: a fraction is negative, they do not add up to 1, or a part would be empty.
    """
    sizes = sizes_of(len(strata), fractions)
    generator = seeded(seed)
    shuffled = torch.randperm(len(strata), generator=generator).numpy()
    _, stratum = np.unique(strata[shuffled], return_inverse=True)
    n_strata = int(stratum.max(initial=-1)) + 1
    most = min([_MAX_STRATA, *(size for size in sizes if size)])
    if are_ordered and n_strata > most:
        rank = np.empty_like(stratum)
        rank[np.argsort(stratum, kind="stable")] = np.arange(len(stratum))
        stratum, n_strata = rank * most // len(stratum), most
    places = torch.randperm(n_strata, generator=generator).numpy()
    order = shuffled[np.argsort(places[stratum], kind="stable")]
    parts = interleave([np.full(size, part) for part, size in enumerate(sizes)])
    return [torch.from_numpy(np.sort(order[parts == part])) for part in range(len(sizes))]


def interleave(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Merges rows of numbers two at a time, the shortest first, so that each is spread evenly."""
    waiting = [(len(row), number, row) for number, row in enumerate(rows)]
    heapq.heapify(waiting)
    while len(waiting) > 1:
        (n_a, _, a), (n_b, _, b) = heapq.heappop(waiting), heapq.heappop(waiting)
        n = n_a + n_b
        # The first t items contain t * n_a / n items of a, rounded.
        of_a = np.diff((np.arange(n + 1) * n_a + n // 2) // max(n, 1)) == 1
        both = np.empty(n, np.int64)
        both[of_a], both[~of_a] = a, b
        heapq.heappush(waiting, (n, len(rows) + len(waiting), both))
    return waiting[0][2]


def _deal_groups(counts: Array, wanted: Array, generator: torch.Generator) -> Array:
    """Returns the part of each group, given the sizes of groups and parts."""
    room = wanted.copy()
    parts = np.empty(len(counts), np.int64)
    by_size = np.argsort(-counts, kind="stable")
    bounds = np.flatnonzero(np.diff(counts[by_size])) + 1
    for alike in np.split(by_size, bounds) if len(by_size) else ():
        size = int(counts[alike[0]])
        seats = np.repeat(np.arange(len(room)), np.maximum(room, 0) // size)
        order = torch.randperm(len(seats), generator=generator).numpy()[: len(alike)]
        seated = alike[torch.randperm(len(alike), generator=generator).numpy()]
        parts[seated[: len(order)]] = seats[order]
        room -= size * np.bincount(seats[order], minlength=len(room))
        for group in seated[len(order) :]:
            part = int(np.argmax(room))
            parts[group] = part
            room[part] -= size
    return parts


Array = np.ndarray[Any, Any]


class UnknownFieldError(FieldError):
    """No molecule has a field of a name."""


class Field(NamedTuple):
    """Values of one field in a block.

    Attributes:
        values: one array, (N, ...) per atom or (B, ...) per molecule; or a list with one entry per
            molecule: an array, a ``str`` or None.
        is_per_atom: True if there is one row per atom.
        mask: (B,) bool, True for molecules that have the field; None: all of them.
    """

    values: Array | Sequence[Array | str | None]
    is_per_atom: bool
    mask: Array | None = None

    def present(self, n: int) -> Array:
        """Returns (n,) bool, True for the molecules of the block that have the field."""
        return np.ones(n, bool) if self.mask is None else np.asarray(self.mask, bool)


class Block(Protocol):
    """B molecules with N atoms in all."""

    @property
    def ptr(self) -> Array:
        """(B + 1,) int64, index of the first atom of each structure."""

    @property
    def atomic_numbers(self) -> Array:
        """(N,) integers."""

    @property
    def names(self) -> Set[str]:
        """Names of the fields of the block."""

    def find(self, name: str) -> Field | None:
        """Finds a field.

        Args:
            name: its name, possibly with its scope (``"properties/energy"``).

        Returns:
            The field, or None if no molecule of the block has it.

        Raises:
            FieldError: the name stands for several fields.
        """


class CountsBlock:
    """Molecules of which only the numbers of atoms are known.

    Args:
        n_atoms: (B,) int64.
    """

    def __init__(self, n_atoms: Array) -> None:
        self.ptr = np.concatenate([[0], np.cumsum(n_atoms)])

    @property
    def atomic_numbers(self) -> Array:
        """Not known: nothing that was asked for depends on them."""
        raise NotImplementedError

    @property
    def names(self) -> Set[str]:
        """No names: there are no fields."""
        return frozenset()

    def find(self, name: str) -> Field | None:
        """Returns None: there are no fields."""
        return None


class BatchBlock:
    """The molecules of a batch.

    Args:
        batch: the batch, on any device.
    """

    def __init__(self, batch: MoleculeBatch) -> None:
        self._batch = batch
        self.ptr = host_array("ptr", batch.ptr)

    @property
    def atomic_numbers(self) -> Array:
        """(N,) int64."""
        return host_array("atomic_numbers", self._batch.atomic_numbers)

    @property
    def names(self) -> Set[str]:
        """Names of the fields of the batch."""
        return self._batch.keys()

    def find(self, name: str) -> Field | None:
        """Returns a field by its name, None if the batch lacks it."""
        batch = self._batch
        contents = contents_of(batch)
        infos = {key: FieldId(*info[:2]) for key, info in contents.infos.items()}
        found = name if name in infos else one_of(name, infos.values(), infos)
        if found is None:
            return None
        level = batch.level(found)
        if level not in ("atom", "molecule"):
            raise FieldError(f"{found}: expected one row per atom or molecule, got one per {level}")
        value = batch[found]
        values: Any = (
            host_array(name, value)
            if isinstance(value, Tensor)
            else [host_array(name, one) if isinstance(one, Tensor) else one for one in value]
        )
        mask = host_array(name, batch.mask(found)) if found in contents.mask_rows else None
        return Field(values, level == "atom", mask)


def one_of(name: str, ids: Iterable[FieldId], names: Iterable[str]) -> str | None:
    """Returns the entry of ``names`` whose field a name denotes.

    A name with a scope (``properties/energy``) denotes that property, a canonical name the field of
    the format, any other name the property with that key.

    Args:
        name: the name.
        ids: the known fields.
        names: their names, in the same order.

    Returns:
        Its name; None if there is no such field.

    Raises:
        FieldError: atoms and molecules both have a property of that key.
    """
    wanted = FieldId(BUILTIN, name) if name in CANONICAL else prefixed_id(name)
    by_key = wanted is None
    pairs = [*zip(names, ids, strict=True)]
    found = [known for known, field in pairs if field == wanted or (by_key and field.key == name)]
    if by_key and not found:
        found = [known for known, field in pairs if normal(field.key) == name]
    if len(found) > 1:
        raise FieldError(
            f"{name!r}: expected one field, got several: name properties/{name} or "
            f"atom_properties/{name}"
        )
    return found[0] if found else None


def normal(name: str) -> str:
    """Returns the form to which Python's parser converts identifiers."""
    return unicodedata.normalize("NFKC", name)


def check_known(name: str, known: Iterable[str], where: str, others: Iterable[str] = ()) -> None:
    """Raises an error if a dataset has no field of a name.

    Args:
        name: the name.
        known: names of the fields that the dataset has.
        where: start of the message.
        others: further names that may be meant.

    Raises:
        UnknownFieldError: there is no such field.
    """
    names = [*known]
    scoped = prefixed_id(name)
    if (
        name in names
        or name in GEOMETRY
        or (scoped is not None and scoped.key in names and scoped.key not in BUILTINS)
    ):
        return
    similar = [repr(x) for x in similar_names(name, [*names, *others]) if x != name]
    hint = f": expected one of {short_list(sorted(names), len(names)) or 'none'}"
    if similar:
        hint = f": did you mean {' or '.join(similar)}?"
    what = "no molecule has the label" if name in BUILTINS else "unknown name"
    raise UnknownFieldError(f"{where}{what} {name!r}{hint}")


# A block is complete when it reaches either limit.
_BLOCK_MOLECULES = 4096
_BLOCK_ATOMS = 1 << 18


def molecule_blocks(
    dataset: MoleculeDataset, fields: Sequence[str] | None
) -> Iterator[tuple[Block, int]]:
    """Yields the molecules of a dataset in blocks of bounded size, in order, values as stored.

    Args:
        dataset: the dataset.
        fields: names of the fields to read; None: only the numbers of atoms, without any record.

    Yields:
        A block, and the number of its first molecule.

    Raises:
        CorruptFileError: a record is damaged.
    """
    n_atoms = dataset.n_atoms.numpy()
    if fields is None:
        yield CountsBlock(n_atoms), 0
        return
    names = [name for name in fields if name not in STRUCTURE]
    request = dataset.request.plain(names, optional=True)
    plain = dataset.with_request(request, computes_features=False)
    plain._forces = None
    try:
        for part in runs(n_atoms, _BLOCK_ATOMS, _BLOCK_MOLECULES):
            yield BatchBlock(plain.batch(part)), part.start
    finally:
        plain.close()
