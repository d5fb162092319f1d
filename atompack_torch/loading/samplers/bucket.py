"""Sampler of batches of a few static shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from atompack_torch.loading.samplers import _buckets
from atompack_torch.loading.samplers._buckets import Limits, Sizes
from atompack_torch.loading.samplers._planned import PlannedSampler
from atompack_torch.loading.samplers._windows import Batches
from atompack_torch.loading.samplers.elastic import ElasticSampler, RankOptions
from atompack_torch.loading.samplers.sizes import (
    atoms_of_each,
    no_other_molecules,
    numbers,
)
from atompack_torch.options import checked_integer, with_options
from atompack_torch.random_order import Integers, mix

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        self._buckets = _buckets.divide(sizes, limits, self.buckets)
        if self._draws is not None:
            self._buckets = [_buckets.for_any(b, sizes, limits) for b in self._buckets]
        self._dealt, self._digest = self._buckets, None

    def _plan_drawn(self, drawn: Integers) -> None:
        self._sizes = self._of_each.at(drawn)
        dealt = (_buckets.drawn_from(b, drawn, self._sizes) for b in self._buckets)
        self._dealt = [bucket for bucket in dealt if len(bucket.molecules)]

    def _replan(self, n_atoms: np.ndarray[Any, Any]) -> None:
        if self._sizes.edges is not None:
            raise no_other_molecules("edges")
        self._plan_sizes(_sizes(n_atoms, None))

    def _checked_limits(self) -> Limits:
        atoms, edges = self._sizes
        limit = self.max_atoms - _buckets.N_DUMMY_ATOMS
        if len(atoms) and atoms.max() > limit:
            largest = int(atoms.argmax())
            raise ValueError(
                f"max_atoms: expected room for molecule {largest} with {atoms[largest]} atoms and "
                f"{_buckets.N_DUMMY_ATOMS} of padding, got {self.max_atoms}"
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
                bucket.atoms + _buckets.N_DUMMY_ATOMS,
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
            and n_atoms + _buckets.N_DUMMY_ATOMS <= shape.atoms
            and n_edges <= (shape.edges or 0)
        ]
        if not fitting:
            what = f"{n_molecules} molecules, {n_atoms} atoms and {n_edges} edges"
            raise ValueError(f"shape_of: a batch of {what} fits into none of {self.shapes}")
        return min(fitting, key=lambda shape: (shape.atoms, shape.edges or 0, shape.molecules))

    @property
    def padding(self) -> dict[str, float]:
        """The share of an epoch's atoms and, where they are known, edges that is padding."""
        slots = {
            "atoms": sum(b.n_batches * (b.atoms + _buckets.N_DUMMY_ATOMS) for b in self._dealt)
        }
        if self._sizes.edges is not None:
            slots["edges"] = sum(b.n_batches * b.edges for b in self._dealt)
        return {
            name: 1 - float(getattr(self._sizes, name).sum()) / max(count, 1)
            for name, count in slots.items()
        }

    def _plan(self, key: int) -> Batches:
        parts = [
            _buckets.batches_of(bucket, self._sizes, mix(key, k) if self.shuffle else None)
            for k, bucket in enumerate(self._dealt)
        ]
        return self._ordered(*_buckets.in_order(parts), mix(key, len(parts)))

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
