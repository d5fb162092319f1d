"""Registration of our classes with the default collate function of ``DataLoader``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.data._utils.collate import default_collate_fn_map


def register(item_type: type) -> None:
    """Makes ``default_collate`` join items of this type into one ``MoleculeBatch``.

    The modules that define the types call this, so that it also holds in a worker process that
    imports nothing but what its pickles name.
    """
    default_collate_fn_map[item_type] = _collate


def _collate(items: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    from atompack_torch.batch.joining import (
        collate,  # it imports the types that are registered here
    )

    return collate(items)
