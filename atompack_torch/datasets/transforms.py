"""Transforms of batches of molecules, and the check that edges still fit after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.batches import apply_transform
from atompack_torch.errors import FieldError


class LayoutTransform:
    """Base of transforms that put a batch into the form of a trainer, without moving an atom."""


def transformed(transform: Callable[[MoleculeBatch], Any] | None, batch: MoleculeBatch) -> Any:
    """Returns the result of a transform, or the batch itself without one.

    Args:
        transform: the user's function, a ``LayoutTransform``, or None.
        batch: its argument.

    Returns:
        The result.

    Raises:
        FieldError: the user's function moved what the edges of the batch were made of.
        TypeError: the result is None.
    """
    is_layout = isinstance(transform, LayoutTransform)
    if transform is None or is_layout or "edge_index" not in contents_of(batch).fields:
        return apply_transform(transform, batch)
    fields = contents_of(batch).fields
    searched = fields["edge_index"]
    names = ("positions", "cell", "pbc")
    before = {name: value for name in names if torch.is_tensor(value := fields.get(name))}
    versions = {name: _version_of(value) for name, value in before.items()}
    made = apply_transform(transform, batch)
    edges = _found(made, "edge_index")
    if edges is not None and edges is not searched:
        return made  # padded, joined, or searched again
    for name, tensor in before.items():
        now = _found(made, name)
        if now is None or now is tensor:
            has_changed = _version_of(tensor) != versions[name]
        else:
            has_changed = not torch.equal(tensor.to(now.device, now.dtype), now)  # not a cast
        if has_changed:
            raise FieldError(
                f"transform: expected {name} as they were when the edges were searched, got "
                "others: open the dataset without neighbors=, and add the edges at the end of "
                f"the transform by apt.neighbor_list (field {name!r})"
            )
    return made


def _found(made: object, name: str) -> Tensor | None:
    """Returns a tensor of a batch, a dict, or a batch of torch-geometric; None without it."""
    fields: Any = contents_of(made).fields if isinstance(made, MoleculeBatch) else made
    get = fields.get if isinstance(fields, Mapping) else partial(getattr, fields)
    names = ("positions", "pos") if name == "positions" else (name,)
    found = (get(each, None) for each in names)
    return next((value for value in found if isinstance(value, Tensor)), None)


def _version_of(tensor: Tensor) -> int:
    """Returns the number of writes to a tensor; tensors of inference mode do not count them."""
    return 0 if tensor.is_inference() else tensor._version
