"""Neighbor lists as an option of data sets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from atompack_torch.fields import EDGES

_LEAST_CUTOFF = 1e-3  # no two atoms are that near: a smaller one is in another unit


@dataclass(frozen=True)
class NeighborList:
    """Edges between all atoms closer than a cutoff, periodic images included.

        ds = AtpDataset("data.atp", neighbors=NeighborList(5.0))
        i, j = ds.batch([0, 1]).edge_index

    They are those that vesin finds, in float64, made on the threads of the batch, which then holds
    ``edge_index`` (2, E) int64, rows i and j counted in the batch, sorted by i (and so grouped by
    molecule; j in no particular order); ``edge_shift`` (E, 3), whole cell counts S, and with
    ``vectors`` ``edge_vector`` (E, 3) = r_j - r_i + S cell, both in the dtype of ``positions``.
    A molecule without cell, or without ``pbc``, is open.

    Positions or a repeated cell vector that are not finite, a singular cell, atoms more than four
    million cells from the origin, and neighbors out of all proportion to the number of atoms (more
    than 1,048,576 + 64 N images within the cutoff of N atoms, or 1,048,576 + 8192 N pairs to look
    at) are a ``FieldError``.

    Args:
        cutoff: in the unit of the positions (Å); pairs at exactly this distance are no neighbors.
        full: each pair as (i, j, S) and as (j, i, -S); else one of them: that with i < j, and of an
            atom and its own images those with S on one side of the origin, which vesin chooses too.
        vectors: ``edge_vector`` too.
        self_interaction: each atom with itself too, once, with S = 0. Other images of an atom are
            its neighbors always.

    Raises:
        ValueError: the cutoff is not finite, or below 0.001.
    """

    cutoff: float
    full: bool = True
    vectors: bool = False
    self_interaction: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.cutoff, bool) or not hasattr(self.cutoff, "__float__"):
            raise TypeError(f"cutoff: expected a number, got {type(self.cutoff).__name__}")
        if not math.isfinite(self.cutoff) or self.cutoff < _LEAST_CUTOFF:
            raise ValueError(
                f"cutoff: expected a finite number, at least {_LEAST_CUTOFF}, got {self.cutoff}"
            )
        for name in ("full", "vectors", "self_interaction"):
            if not isinstance(getattr(self, name), bool):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"{name}: expected True or False, got {kind}")

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of what a batch holds besides, in order."""
        return EDGES if self.vectors else EDGES[:2]

    def as_tuple(self) -> tuple[float, bool, bool, bool]:
        """As the native core takes it."""
        return float(self.cutoff), self.full, self.vectors, self.self_interaction
