"""Sampler of batches of molecules with the same number of atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch.loading.samplers._planned import PlannedSampler
from atompack_torch.loading.samplers._windows import Batches
from atompack_torch.loading.samplers.elastic import DropOptions, ElasticSampler
from atompack_torch.loading.samplers.sizes import atoms_of_each
from atompack_torch.options import checked_integer, with_options
from atompack_torch.random_order import Integers, mix, permutation

if TYPE_CHECKING:
    from typing_extensions import Unpack


class EqualSizeBatchSampler(PlannedSampler):
    """Yields batches, as lists of molecule numbers, whose molecules have equally many atoms.

        sampler = EqualSizeBatchSampler(dataset, batch_size=32)
        loader = DataLoader(dataset, batch_sampler=sampler)

    For models that take stacked arrays (B, n, 3), such as DeePMD's. Molecules of each size are cut
    into batches; the last batch of a size may be smaller. With ``shuffle``, both the molecules of a
    size and the batches are in random order; otherwise batches are in the stored order of their
    first molecules. All ranks get the same number of batches: where the
    last ones do not suffice for all ranks, some of them are split, and no molecule occurs twice.

    Planning an epoch takes about a second for five million molecules.
    """

    _repr_options = ("batch_size",)

    @with_options(ElasticSampler.__init__, skip=("pad",))
    def __init__(
        self,
        n_atoms: Any,
        batch_size: int,
        **options: Unpack[DropOptions],
    ) -> None:
        """Checks the options.

        Args:
            n_atoms: atoms of each molecule, or a dataset that knows them (``n_atoms``).
            batch_size: maximum number of molecules in a batch.
            **options: of all samplers.

        Raises:
            TypeError: the source has no numbers of atoms, or an option has the wrong type.
            ValueError: an option is out of range. While iterating: there are too few molecules to
                split the last batches for all ranks.
        """
        super().__init__(n_atoms, pad=False, **options)
        counts = atoms_of_each(n_atoms)
        self.batch_size = checked_integer("batch_size", batch_size, 1)
        self._replan(counts)

    def _replan(self, n_atoms: np.ndarray[Any, Any]) -> None:
        self._of_each = self._sizes = n_atoms
        self._digest = None

    def _plan_drawn(self, drawn: Integers) -> None:
        self._sizes = self._of_each[drawn]

    def _plan(self, key: int) -> Batches:
        n = len(self._sizes)
        order = permutation(mix(key, 0), n) if self.shuffle else np.arange(n)
        molecules = order[np.argsort(self._sizes[order], kind="stable")]
        starts = self._cuts(self._sizes[molecules])
        return self._ordered(molecules, np.diff(np.append(starts, n)), mix(key, 1))

    def _cuts(self, sizes: np.ndarray[Any, Any]) -> Integers:
        """Returns the first positions of the batches of molecules that are sorted by size."""
        firsts = np.flatnonzero(np.diff(sizes, prepend=np.nan) != 0)
        counts = np.diff(np.append(firsts, len(sizes)))
        n_batches = -(-counts // self.batch_size)
        before = np.cumsum(n_batches) - n_batches
        number = np.arange(int(n_batches.sum())) - np.repeat(before, n_batches)
        cuts: Integers = np.repeat(firsts, n_batches) + number * self.batch_size
        return cuts

    def _n_batches(self) -> int:
        return len(self._cuts(np.sort(self._sizes)))

    def _plan_settings(self) -> dict[str, object]:
        return {
            "molecules": len(self._sizes),
            "n_atoms": self._digest_of(self._of_each),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
        }
