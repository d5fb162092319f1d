"""Metrics of NequIP for data with missing labels."""

from __future__ import annotations

import torch
from nequip.train import MeanSquaredError as _MeanSquaredError
from torch import Tensor


class MeanSquaredError(_MeanSquaredError):  # type: ignore[misc]
    """Mean squared error that is 0, in place of NaN, for a batch without any label.

    For ``MetricsManager`` with ``ignore_nan: true``.
    """

    def compute(self) -> Tensor:
        """Returns the error.

        Returns:
            The mean over the values so far, or 0 without any.
        """
        error: Tensor = super().compute()
        return torch.zeros_like(error) if self.count == 0 else error
