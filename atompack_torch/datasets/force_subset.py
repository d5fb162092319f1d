"""Random choice of the molecules whose forces are used for training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class ForceChoice(NamedTuple):
    """A seeded share of the molecules with forces, fixed or resampled in each epoch."""

    fraction: float
    resample: bool
    seed: int

    @classmethod
    def checked(
        cls, fraction: float, resample: bool, seed: int, missing: str
    ) -> ForceChoice | None:
        """Checks the options; returns None if all molecules keep their forces."""
        if isinstance(fraction, bool) or not 0 <= fraction <= 1:
            raise ValueError(f"force_fraction: expected a number from 0 to 1, got {fraction!r}")
        if seed < 0:
            raise ValueError(f"seed: expected at least 0, got {seed}")
        if fraction == 1:
            return None
        if missing != "nan":
            raise ValueError(
                "force_fraction: expected missing='nan', because molecules without forces stay, "
                f"got {missing!r}"
            )
        return cls(float(fraction), bool(resample), seed)

    def flags(self, candidates: Tensor, n_molecules: int, epoch: int) -> list[int]:
        """Returns a flag per molecule: 1 for the candidates that keep their forces."""
        rng = np.random.default_rng([self.seed, epoch if self.resample else 0])
        order = torch.from_numpy(rng.permutation(len(candidates)))
        n_chosen = int(self.fraction * len(candidates) + 0.5)
        flags = torch.zeros(n_molecules, dtype=torch.uint8)
        flags[candidates[order[:n_chosen]]] = 1
        numbers: list[int] = flags.tolist()
        return numbers
