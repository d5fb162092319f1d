"""Random choice of the molecules whose forces are used for training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from atompack_torch.options import check_flags, checked_integer, checked_number


@dataclass(frozen=True)
class ForceSubset:
    """A random share of the molecules with forces; the others are masked as if they had none.

        apt.AtpDataset("train.atp", force_subset=apt.ForceSubset(0.3, resample=True))

    Derivatives of features are masked along with the forces. The share refers to the molecules
    of the dataset or subset. Without a feature cache, opening makes a pass over the labels to find
    the forces.

    Args:
        fraction: the share, from 0 to 1.
        resample: choose the molecules again for each ``set_epoch``.
        seed: seed of the choice.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option is out of range.
    """

    fraction: float
    resample: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if checked_number("fraction", self.fraction) > 1:
            raise ValueError(f"fraction: expected a number from 0 to 1, got {self.fraction!r}")
        check_flags(resample=self.resample)
        object.__setattr__(self, "seed", checked_integer("seed", self.seed, 0))


def flags_of(subset: ForceSubset, candidates: Tensor, n_molecules: int, epoch: int) -> list[int]:
    """Returns a flag per molecule: 1 for the candidates that keep their forces.

    Args:
        subset: the options.
        candidates: indices of the molecules with forces.
        n_molecules: number of molecules of the whole dataset.
        epoch: the epoch, which matters only with ``resample``.

    Returns:
        The flags.
    """
    rng = np.random.default_rng([subset.seed, epoch if subset.resample else 0])
    order = torch.from_numpy(rng.permutation(len(candidates)))
    n_chosen = int(subset.fraction * len(candidates) + 0.5)
    flags = torch.zeros(n_molecules, dtype=torch.uint8)
    flags[candidates[order[:n_chosen]]] = 1
    return flags.tolist()
