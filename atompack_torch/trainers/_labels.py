"""Structures that have all labels, for trainers whose losses know no missing ones."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import TypeVar

import torch

from atompack_torch.datasets._base import MoleculeDataset
from atompack_torch.errors import FieldError

Dataset = TypeVar("Dataset", bound=MoleculeDataset)

_AT_ONCE = 4096  # structures of a batch


def with_labels(dataset: Dataset, names: Sequence[str]) -> Dataset:
    """Returns the structures that have all labels; a warning tells how many are left out.

    Takes a pass over the labels.

    Args:
        dataset: the structures.
        names: fields of the labels.

    Returns:
        The data set, or a subset of it.

    Raises:
        FieldError: no structure has all labels.
    """
    plain = copy.copy(dataset)
    plain.close()
    request = plain._request._replace(fields=tuple(names), optional=True, missing="nan")
    plain._request = request._replace(neighbors=None, transform=None, outputs=())
    plain._computer = None
    present = []
    for first in range(0, len(plain), _AT_ONCE):
        batch = plain[first : first + _AT_ONCE]
        present.append(torch.stack([batch.mask(name) for name in names]).all(dim=0))
    is_complete = torch.cat(present) if present else torch.zeros(0, dtype=torch.bool)
    n_missing = len(dataset) - int(is_complete.sum())
    if n_missing == 0:
        return dataset
    wanted = ", ".join(names)
    if n_missing == len(dataset):
        raise FieldError(f"expected structures with {wanted}, got none of {n_missing}")
    warnings.warn(
        f"{n_missing} of {len(dataset)} structures lack {wanted}: they are left out", stacklevel=3
    )
    return dataset.subset(torch.nonzero(is_complete).flatten())
