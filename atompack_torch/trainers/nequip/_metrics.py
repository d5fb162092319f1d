"""Metrics of NequIP for data with missing labels."""

from __future__ import annotations

import torch
from nequip.train import MeanSquaredError as _MeanSquaredError
from torch import Tensor


class MeanSquaredError(_MeanSquaredError):  # type: ignore[misc]
    """Mean squared error that is 0, in place of NaN, for a batch without any label.

    For ``MetricsManager`` with ``ignore_nan: true``.
    """

    sum: Tensor
    count: Tensor

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds the labels of a batch.

        Args:
            preds: predictions, of any shape.
            target: labels of the same shape, without NaN.
        """
        if preds.numel():
            super().update(preds, target)
        else:
            self.sum = self.sum + preds.sum()  # 0, with a gradient of 0 for the step

    def compute(self) -> Tensor:
        """Returns the error.

        Returns:
            The mean over the values so far, or 0 without any.
        """
        if self.count == 0:
            return torch.as_tensor(self.sum, dtype=torch.get_default_dtype())
        error: Tensor = super().compute()
        return error
