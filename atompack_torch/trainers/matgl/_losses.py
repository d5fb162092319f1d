"""Losses of MatGL's modules that leave out missing labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

Module = TypeVar("Module")


class _OfLabels:
    """Loss of the values that have a label; 0 where none has."""

    def __init__(self, loss: Callable[..., Tensor]) -> None:
        self.loss = loss

    def __call__(self, labels: Tensor, predictions: Tensor, **options: Any) -> Tensor:
        has_label = ~labels.isnan()
        if not has_label.any():
            return 0 * predictions.sum()
        if has_label.all():
            return self.loss(labels, predictions, **options)
        return self.loss(labels[has_label], predictions[has_label], **options)


def ignore_missing_labels(module: Module) -> Module:
    """Makes a ``PotentialLightningModule`` leave out labels that are NaN.

    Its own ``allow_missing_labels=True`` does so too, but the loss is NaN if a kind of label is
    missing in a whole batch, or a charge anywhere.

    Args:
        module: of class ``PotentialLightningModule``.

    Returns:
        The same module.
    """
    changed: Any = module
    changed.allow_missing_labels = True
    changed.loss = _OfLabels(changed.loss)
    return module
