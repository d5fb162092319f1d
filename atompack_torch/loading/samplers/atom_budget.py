"""Sampler of batches with a limited number of atoms."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from atompack_torch.loading.samplers._steps import BatchShare
from atompack_torch.loading.samplers._windows import Limits, Plan, Windows
from atompack_torch.loading.samplers.elastic import (
    BatchSampler,
    ElasticSampler,
    Place,
    SamplerOptions,
)
from atompack_torch.loading.samplers.sizes import (
    atoms_of_each,
    n_molecules,
    no_other_molecules,
    numbers,
)
from atompack_torch.options import check_choice, checked_integer, checked_number, with_options
from atompack_torch.random_order import Integers, mix

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AtomBudgetBatchSampler(BatchSampler):
    """Yields batches, as lists of molecule numbers, that nearly use a budget of atoms.

        sampler = AtomBudgetBatchSampler(dataset, max_atoms=4096)
        loader = DataLoader(dataset, batch_sampler=sampler)

    All ranks get the same number of batches, and the batches of a step cost nearly the same. A
    shuffled epoch is planned in windows of about 100,000 molecules in random order; within a
    window, batches have nearly equal costs, so that all are well filled. In the stored order
    (``shuffle=False``), each batch takes the next molecules as long as they fit.

    Without ``drop_last`` and ``pad``, the last batches are split until there is one for each rank;
    no molecule occurs twice.

    Windows are independent and take about 20 ms each, so an epoch starts or resumes immediately,
    however large the dataset is. ``len`` has to plan a whole epoch (one second for ten million
    molecules) and keeps the result for that epoch.
    """

    _repr_options = ("max_atoms", "max_molecules")

    @with_options(ElasticSampler.__init__)
    def __init__(
        self,
        n_atoms: Any,
        max_atoms: float,
        *,
        max_molecules: int | None = None,
        costs: Any = None,
        oversized: Literal["alone", "error"] = "alone",
        **options: Unpack[SamplerOptions],
    ) -> None:
        """Checks the options.

        Args:
            n_atoms: atoms of each molecule, or a dataset that knows them (``n_atoms``); a count of
                molecules if ``costs`` are given.
            max_atoms: budget of a batch, in atoms or in the unit of ``costs``.
            max_molecules: maximum number of molecules in a batch.
            costs: cost of each molecule, used instead of its atoms: its number of edges, for
                example.
            oversized: treatment of molecules over the budget: ``"alone"`` puts each in a batch of
                its own, with one warning for all, ``"error"`` raises an error.
            **options: of all samplers.

        Raises:
            TypeError: the source has no numbers of atoms, or an option has the wrong type.
            ValueError: an option is invalid, costs are negative or of a different number of
                molecules, or a molecule is over the budget and ``oversized="error"``. While
                iterating: there are too few molecules to split the last batches for all ranks.
        """
        super().__init__(n_atoms, **options)
        budget = checked_number("max_atoms", max_atoms)
        if not budget:
            raise ValueError(f"max_atoms: expected a positive number, got {max_atoms}")
        if max_molecules is not None:
            max_molecules = checked_integer("max_molecules", max_molecules, 1)
        check_choice("oversized", oversized, ("alone", "error"))
        self.max_atoms = int(budget) if budget.is_integer() else budget  # not of NumPy: for states
        self.max_molecules = max_molecules
        self._has_costs = costs is not None
        self._oversized = oversized
        of_each = _costs(n_atoms, costs)
        self._report_oversized(of_each)
        self._plan_costs(of_each)

    def _plan_costs(self, costs: np.ndarray[Any, Any]) -> None:
        self._of_each, self._digest = costs, None
        self._plan_windows(costs)

    def _plan_windows(self, costs: np.ndarray[Any, Any]) -> None:
        most = len(costs) if self.max_molecules is None else self.max_molecules
        limits = Limits(float(self.max_atoms), max(most, 1))
        self._windows = Windows(costs, limits, self.shuffle)
        self._counted: tuple[int, int, int] | None = None  # seed, epoch, its number of batches

    @property
    def _depends_on_sizes(self) -> bool:
        costs = self._of_each
        return bool(len(costs) and costs.min() < costs.max())

    def _replan(self, n_atoms: np.ndarray[Any, Any]) -> None:
        if self._has_costs and not self._depends_on_sizes:
            return
        if self._has_costs:
            raise no_other_molecules("costs")
        if self._oversized == "error":
            self._report_oversized(n_atoms)
        self._plan_costs(n_atoms)

    def _plan_drawn(self, drawn: Integers) -> None:
        self._plan_windows(self._of_each[drawn])

    def _report_oversized(self, costs: np.ndarray[Any, Any]) -> None:
        if not len(costs) or costs.max() <= self.max_atoms:
            return
        count = int(np.count_nonzero(costs > self.max_atoms))
        largest = int(costs.argmax())
        what = (
            f"{count} of {len(costs)} molecules cost more than the budget of {self.max_atoms}, "
            f"the largest is molecule {largest} with {costs[largest]}"
        )
        if self._oversized == "error":
            raise ValueError(what)
        warnings.warn(f"{what}; each makes a batch by itself", stacklevel=3)

    def _start(self) -> Place:
        return {"position": 0, "offset": 0, "window": 0, "window_position": 0}

    def _share(self, seed: int, epoch: int, start: Place, ranks: range, n_ranks: int) -> BatchShare:
        plan = Plan(self._windows, mix(seed, epoch))
        return BatchShare(plan, start, ranks, n_ranks, self.drop_last, self.pad)

    def _n_batches(self) -> int:
        if self._counted is None or self._counted[:2] != (self.seed, self.epoch):
            n_batches = Plan(self._windows, mix(self.seed, self.epoch)).n_batches()
            self._counted = self.seed, self.epoch, n_batches
        return self._counted[2]

    def _plan_settings(self) -> dict[str, object]:
        return {
            "molecules": len(self._of_each),
            "costs": self._digest_of(self._of_each),
            "max_atoms": self.max_atoms,
            "max_molecules": self.max_molecules,
            "shuffle": self.shuffle,
        }


def _costs(n_atoms: Any, costs: Any) -> np.ndarray[Any, Any]:
    if costs is None:
        return atoms_of_each(n_atoms, ": give costs too")
    of_each = numbers("costs", costs)
    if len(of_each) != n_molecules(n_atoms):
        raise ValueError(
            f"costs: expected one for each of {n_molecules(n_atoms)} molecules, got {len(of_each)}"
        )
    return of_each
