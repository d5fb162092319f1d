"""Messages about items that ``missing="drop"`` drops from batches."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch.batch.indices import Indices
from atompack_torch.batch.molecule_batch import MoleculeBatch

_HINT = "filter('has(LABEL)') selects those that have a label beforehand"


def n_dropped(indices: Indices, batch: Any) -> int:
    """Returns the number of items that were asked for and are not in a batch.

    Args:
        indices: indices of the items, or a mask.
        batch: the batch, before any ``transform``.

    Returns:
        The number; 0 if the batch is not one of molecules.
    """
    if not isinstance(batch, MoleculeBatch):
        return 0
    numbers = np.asarray(indices.cpu() if isinstance(indices, Tensor) else indices)
    n = int(numbers.sum()) if numbers.dtype == bool else numbers.size
    return n - len(batch)


def warn_of_batch(indices: Indices, batch: Any) -> bool:
    """Warns of items that a single batch lacks, in one worker of a ``DataLoader`` at most.

    Args:
        indices: indices of the items, or a mask.
        batch: the batch, before any ``transform``.

    Returns:
        True if any was omitted; later batches need no warning.
    """
    n = n_dropped(indices, batch)
    worker = get_worker_info()
    if n and (worker is None or worker.id == 0):
        warnings.warn(
            f"missing='drop': dropped {n:,} of {n + len(batch):,} molecules of a batch, which "
            f"lack a label; later batches may drop more without a warning; {_HINT}",
            stacklevel=5,
        )
    return n > 0


def warn_of_pass(n: int) -> None:
    """Warns of the items that a whole pass of a ``Loader`` dropped.

    Args:
        n: number of items omitted.
    """
    warnings.warn(
        f"missing='drop': dropped {n:,} molecules in this pass, which lack a label; {_HINT}",
        stacklevel=4,
    )
