"""Sampler of batches of a few static shapes.

Molecules of a bucket are sorted and cut into as many strata as a batch has molecules. Each batch
takes one molecule of every stratum, so that the sizes of all batches differ by less than the
largest and the smallest molecule do, whichever are taken: no epoch exceeds the shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atompack_torch.loading.samplers._planned import PlannedSampler
from atompack_torch.loading.samplers._windows import Batches
from atompack_torch.loading.samplers.elastic import ElasticSampler, RankOptions
from atompack_torch.loading.samplers.sizes import (
    atoms_of_each,
    no_other_molecules,
    numbers,
)
from atompack_torch.options import checked_integer, with_options
from atompack_torch.random_order import Integers, mix, permutation

if TYPE_CHECKING:
    from typing_extensions import Unpack


N_DUMMY_ATOMS = 2  # of the padding: an edge between two atoms has a length
_SLACK = 0.01  # of the atoms, so that most strata can be in random order
_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


class BatchShape(NamedTuple):
    """Shape of a padded batch.

    Attributes:
        molecules: number of molecules, one of them the dummy molecule.
        atoms: number of atoms, at least two of them in the dummy molecule.
        edges: number of edges; None if the sampler does not know them.
    """

    molecules: int
    atoms: int
    edges: int | None


class BucketBatchSampler(PlannedSampler):
    """Yields batches, as lists of molecule numbers, that fit a few shapes closely.

        sampler = BucketBatchSampler(dataset, max_atoms=4096, edges=n_edges, max_edges=200_000)
        for batch in Loader(dataset, batch_sampler=sampler):
            padded = batch.padded_to(**sampler.shape_of(batch)._asdict())

    CUDA graphs, JAX and other compilers want static shapes: compiled once for each of ``shapes``,
    a model then runs without compilation. Molecules are divided into buckets by size; each bucket
    has a shape, and its batches have nearly equally many molecules, atoms and edges, so that
    little is padding. In every epoch, batches take other molecules of their bucket; without
    ``shuffle`` they are always the same, in the stored order of their first molecules. With
    ``weights`` or ``balance``, the shapes have room for whatever is drawn: there is more padding.

    All ranks get the same number of batches: where the last ones do not suffice for all ranks,
    some of them are split, and no molecule occurs twice. The ranks of a step may get batches of
    different shapes. Planning an epoch takes about a second for a million molecules.
    """

    _repr_options = ("max_atoms", "max_edges", "buckets")

    @with_options(ElasticSampler.__init__, skip=("drop_last", "pad"))
    def __init__(
        self,
        n_atoms: Any,
        max_atoms: int,
        *,
        buckets: int = 8,
        max_edges: int | None = None,
        edges: Any = None,
        **options: Unpack[RankOptions],
    ) -> None:
        """Checks the options.

        Args:
            n_atoms: atoms of each molecule, or a dataset that knows them (``n_atoms``).
            max_atoms: maximum number of atoms in a padded batch.
            buckets: maximum number of shapes.
            max_edges: maximum number of edges in a batch.
            edges: edges of each molecule, as ``statistics`` or a pass over the dataset counts
                them.
            **options: of all samplers.

        Raises:
            TypeError: the source has no numbers of atoms, or an option has the wrong type.
            ValueError: an option is out of range, there are not as many ``edges`` as molecules, or
                a molecule is larger than a batch. While iterating: there are too few molecules to
                split the last batches for all ranks.
        """
        super().__init__(n_atoms, drop_last=False, pad=False, **options)
        counts = atoms_of_each(n_atoms)
        self.max_atoms = checked_integer("max_atoms", max_atoms, 1)
        self.max_edges = None if max_edges is None else checked_integer("max_edges", max_edges, 1)
        self.buckets = checked_integer("buckets", buckets, 1)
        self._plan_sizes(_sizes(counts, edges))

    def _plan_sizes(self, sizes: Sizes) -> None:
        self._of_each = self._sizes = sizes
        limits = self._checked_limits()
        self._buckets = divide(sizes, limits, self.buckets)
        if self._draws is not None:
            self._buckets = [for_any(b, sizes, limits) for b in self._buckets]
        self._dealt, self._digest = self._buckets, None

    def _plan_drawn(self, drawn: Integers) -> None:
        self._sizes = self._of_each.at(drawn)
        dealt = (drawn_from(b, drawn, self._sizes) for b in self._buckets)
        self._dealt = [bucket for bucket in dealt if len(bucket.molecules)]

    def _replan(self, n_atoms: np.ndarray[Any, Any]) -> None:
        if self._sizes.edges is not None:
            raise no_other_molecules("edges")
        self._plan_sizes(_sizes(n_atoms, None))

    def _checked_limits(self) -> Limits:
        atoms, edges = self._sizes
        limit = self.max_atoms - N_DUMMY_ATOMS
        if len(atoms) and atoms.max() > limit:
            largest = int(atoms.argmax())
            raise ValueError(
                f"max_atoms: expected room for molecule {largest} with {atoms[largest]} atoms and "
                f"{N_DUMMY_ATOMS} of padding, got {self.max_atoms}"
            )
        if self.max_edges is None:
            return Limits(limit, float("inf"))
        if edges is None:
            raise ValueError("max_edges: expected edges, the number of each molecule, too")
        if len(edges) and edges.max() > self.max_edges:
            largest = int(edges.argmax())
            raise ValueError(
                f"max_edges: expected room for molecule {largest} with {edges[largest]} edges, "
                f"got {self.max_edges}"
            )
        return Limits(limit, float(self.max_edges))

    @property
    def shapes(self) -> list[BatchShape]:
        """The static shapes, at most ``buckets``, from the largest molecules to the smallest."""
        known = self._sizes.edges is not None
        return [
            BatchShape(
                bucket.per_batch + 1,
                bucket.atoms + N_DUMMY_ATOMS,
                bucket.edges if known else None,
            )
            for bucket in self._buckets
        ]

    def shape_of(self, batch: Any) -> BatchShape:
        """Returns the smallest of the shapes that a batch fits into.

        Args:
            batch: a ``MoleculeBatch``, with ``edge_index`` if the sampler knows the edges.

        Returns:
            The shape, for ``batch.padded_to``.

        Raises:
            ValueError: it fits into none of them: it is not one of this sampler's batches.
        """
        n_molecules, n_atoms = len(batch), int(batch.positions.shape[0])
        n_edges = int(batch.edge_index.shape[1]) if self._sizes.edges is not None else 0
        fitting = [
            shape
            for shape in self.shapes
            if n_molecules < shape.molecules
            and n_atoms + N_DUMMY_ATOMS <= shape.atoms
            and n_edges <= (shape.edges or 0)
        ]
        if not fitting:
            what = f"{n_molecules} molecules, {n_atoms} atoms and {n_edges} edges"
            raise ValueError(f"shape_of: a batch of {what} fits into none of {self.shapes}")
        return min(fitting, key=lambda shape: (shape.atoms, shape.edges or 0, shape.molecules))

    @property
    def padding(self) -> dict[str, float]:
        """The share of an epoch's atoms and, where they are known, edges that is padding."""
        slots = {"atoms": sum(b.n_batches * (b.atoms + N_DUMMY_ATOMS) for b in self._dealt)}
        if self._sizes.edges is not None:
            slots["edges"] = sum(b.n_batches * b.edges for b in self._dealt)
        return {
            name: 1 - float(getattr(self._sizes, name).sum()) / max(count, 1)
            for name, count in slots.items()
        }

    def _plan(self, key: int) -> Batches:
        parts = [
            batches_of(bucket, self._sizes, mix(key, k) if self.shuffle else None)
            for k, bucket in enumerate(self._dealt)
        ]
        return self._ordered(*in_order(parts), mix(key, len(parts)))

    def _n_batches(self) -> int:
        return sum(bucket.n_batches for bucket in self._dealt)

    def _plan_settings(self) -> dict[str, object]:
        sizes = [part for part in self._of_each if part is not None]
        return {
            "molecules": len(self._of_each.atoms),
            "sizes": self._digest_of(*sizes),
            "max_atoms": self.max_atoms,
            "max_edges": self.max_edges,
            "buckets": self.buckets,
            "shuffle": self.shuffle,
        }


def _sizes(atoms: np.ndarray[Any, Any], edges: Any) -> Sizes:
    atoms = atoms.astype(np.int64)
    if edges is None:
        return Sizes(atoms, None)
    of_each = numbers("edges", edges)
    if len(of_each) != len(atoms):
        raise ValueError(
            f"edges: expected one number for each of {len(atoms)} molecules, got {len(of_each)}"
        )
    return Sizes(atoms, of_each.astype(np.int64))


class Limits(NamedTuple):
    """The largest batch, without padding."""

    atoms: int
    edges: float


class Bucket(NamedTuple):
    """Molecules of similar size, and the batches that they make.

    Attributes:
        molecules: (n,) int64, from the largest to the smallest.
        per_batch: number M of molecules in a batch; some have one less.
        n_batches: number of batches in an epoch.
        atoms: no batch has more.
        edges: the same for edges; 0 where they are not known.
    """

    molecules: Integers
    per_batch: int
    n_batches: int
    atoms: int
    edges: int


class Sizes(NamedTuple):
    """Atoms and edges of each molecule; no edges: they are not known."""

    atoms: Integers
    edges: Integers | None

    def at(self, molecules: Integers) -> Sizes:
        """Returns the sizes of some of the molecules."""
        return Sizes(self.atoms[molecules], None if self.edges is None else self.edges[molecules])

    @property
    def sorted_by(self) -> Integers:
        """Edges, or atoms where edges are not known."""
        return self.atoms if self.edges is None else self.edges


def divide(sizes: Sizes, limits: Limits, n_buckets: int) -> list[Bucket]:
    """Divides molecules so that little of the batches is padding."""
    order = np.argsort(-sizes.sorted_by, kind="stable")
    if not len(order):
        return []
    ways = [
        [_bucket(sizes, part, limits) for part in way] for way in _ways(sizes, order, n_buckets)
    ]
    best = min(ways, key=lambda buckets: sum(b.n_batches * b.atoms for b in buckets))
    return best if sizes.edges is None else [_tightened(sizes, bucket) for bucket in best]


def _ways(sizes: Sizes, order: Integers, n_buckets: int) -> Iterator[list[Integers]]:
    """Yields divisions of sorted molecules: each bucket has the same sum of a power of sizes."""
    n_buckets = min(n_buckets, len(order))
    of_each = np.maximum(sizes.sorted_by[order], 1).astype(np.float64)
    for exponent in _EXPONENTS:
        total = np.cumsum(of_each**exponent)
        wanted = total[-1] * np.arange(1, n_buckets) / n_buckets
        yield [part for part in np.split(order, np.searchsorted(total, wanted)) if len(part)]


def _bucket(sizes: Sizes, molecules: Integers, limits: Limits) -> Bucket:
    n = len(molecules)
    means = [max(float(sizes.atoms[molecules].mean()), 1.0)]
    per_batch = limits.atoms / means[0]
    if sizes.edges is not None:
        means.append(max(float(sizes.edges[molecules].mean()), 1.0))
        per_batch = min(per_batch, limits.edges / means[1])
    wanted = max(1, min(n, int(per_batch)))
    while True:
        n_batches = -(-n // wanted)
        atoms, edges = _bounds(sizes, molecules, n_batches)
        excess = max(atoms / max(limits.atoms, 1), edges / limits.edges)
        bucket = Bucket(molecules, -(-n // n_batches), n_batches, atoms, edges)
        if excess <= 1 or bucket.per_batch == 1:
            return bucket
        wanted = min(bucket.per_batch - 1, int(bucket.per_batch / excess) + 1)


def _tightened(sizes: Sizes, bucket: Bucket) -> Bucket:
    """Lowers the limit of atoms to a little above what evening out all strata needs."""
    atoms = _strata(sizes.atoms[bucket.molecules], bucket.n_batches)
    sums = np.zeros(bucket.n_batches, np.int64)
    for row in atoms[np.argsort(-np.ptp(atoms, axis=1), kind="stable")]:
        sums[np.argsort(sums, kind="stable")] += np.sort(row)[::-1]
    enough = int(sums.max()) + int(_SLACK * sums.mean())
    return bucket._replace(atoms=min(bucket.atoms, enough))


def for_any(bucket: Bucket, sizes: Sizes, limits: Limits) -> Bucket:
    """Returns the bucket with a shape that has room for its largest molecule in every place."""
    atoms, edges = sizes.at(bucket.molecules)
    most_atoms, most_edges = int(atoms.max()), 0 if edges is None else int(edges.max())
    fitting = min(limits.atoms // max(most_atoms, 1), limits.edges // max(most_edges, 1))
    n = int(max(1, min(bucket.per_batch, fitting)))
    return bucket._replace(per_batch=n, atoms=n * most_atoms, edges=n * most_edges)


def drawn_from(bucket: Bucket, drawn: Integers, sizes: Sizes) -> Bucket:
    """Returns a bucket of the same shape with the places of its molecules among those drawn."""
    places = np.flatnonzero(np.isin(drawn, bucket.molecules))
    places = places[np.argsort(-sizes.sorted_by[places], kind="stable")]
    n_batches = -(-len(places) // bucket.per_batch)
    per_batch = -(-len(places) // max(n_batches, 1))
    return bucket._replace(molecules=places, per_batch=per_batch, n_batches=n_batches)


def _strata(values: Integers, n_batches: int) -> Integers:
    """Cuts values, from the largest to the smallest, into rows of one for each batch."""
    n_rows = -(-len(values) // n_batches)
    return np.pad(values, (0, n_rows * n_batches - len(values))).reshape(n_rows, n_batches)


def _bounds(sizes: Sizes, molecules: Integers, n_batches: int) -> tuple[int, int]:
    """Returns the atoms and the edges that no batch exceeds."""
    atoms = _strata(sizes.atoms[molecules], n_batches)
    most = int(atoms.max(1).sum())
    if sizes.edges is None:
        return most, 0
    # Batches that are evened out differ by no more than one molecule from the mean.
    spread = int((atoms.max(1) - atoms.min(1)).max())
    even = int(atoms.sum() // n_batches) + spread
    return min(most, even), int(_strata(sizes.edges[molecules], n_batches).max(1).sum())


def batches_of(bucket: Bucket, sizes: Sizes, key: int | None) -> Integers:
    """Deals the molecules of a bucket: (number of batches, M), -1 where a batch has one less.

    Args:
        bucket: the bucket.
        sizes: sizes of all molecules.
        key: determines the order; None: always the same.

    Returns:
        Indices of molecules.
    """
    n_slots, n_batches = bucket.per_batch * bucket.n_batches, bucket.n_batches
    slots = permutation(mix(key, 0), n_slots) if key is not None else np.arange(n_slots)
    slots = slots[np.argsort(slots // n_batches, kind="stable")].reshape(-1, n_batches)
    members = np.append(bucket.molecules, np.full(n_slots - len(bucket.molecules), -1))
    if sizes.edges is not None:
        slots = _evened_out(slots, np.where(members < 0, 0, sizes.atoms[members]), bucket.atoms)
    dealt: Integers = members[slots].T
    return dealt


def _evened_out(slots: Integers, atoms: Integers, most: int) -> Integers:
    """Reorders as few of the strata as suffice for batches of at most ``most`` atoms."""
    n_rows = len(slots)
    spread = np.ptp(atoms[slots], axis=1)
    n_even = min(n_rows, 2 + int(n_rows**0.5))
    while True:
        rows = np.unique(np.linspace(0, n_rows - 1, n_even).astype(np.int64))
        made = slots.copy()
        sums = np.delete(atoms[slots], rows, axis=0).sum(0, dtype=np.int64)
        for row in rows[np.argsort(-spread[rows], kind="stable")]:
            largest_first = slots[row][np.argsort(-atoms[slots[row]], kind="stable")]
            made[row][np.argsort(sums, kind="stable")] = largest_first
            sums = sums + atoms[made[row]]
        if sums.max() <= most:
            return made
        assert n_even < n_rows, (int(sums.max()), most)
        n_even = min(n_rows, 2 * n_even)


def in_order(parts: list[NDArray[Any]]) -> tuple[Integers, Integers]:
    """Joins batches of several buckets; returns the molecules and the length of each batch."""
    none = np.zeros(0, np.int64)
    lengths = np.concatenate([none, *((part >= 0).sum(1) for part in parts)])
    molecules = np.concatenate([none, *(part[part >= 0] for part in parts)])
    return molecules, lengths
