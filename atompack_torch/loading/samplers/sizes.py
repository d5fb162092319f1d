"""Conversion and checks of the arguments of samplers: counts, arrays and datasets."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_CHUNK = 1 << 16  # numbers per step


def is_array(source: Any) -> bool:
    """Returns True for tensors and arrays of at least one dimension, lists and tuples."""
    if isinstance(source, (torch.Tensor, np.ndarray)):
        return source.ndim > 0
    return isinstance(source, (list, tuple))


def n_molecules(source: Any) -> int:
    """Returns the number of molecules of a count, an array with one entry each, or a dataset."""
    if is_array(source):
        return len(source)
    if isinstance(source, bool) or not hasattr(source, "__index__"):
        if not _has_molecules(source):
            hint = "; give the dataset of the loader" if _is_loader(source) else ""
            raise TypeError(
                "expected a count, numbers of atoms, or a dataset, "
                f"got {type(source).__name__}{hint}"
            )
        return len(source if hasattr(source, "__len__") else source.n_atoms)
    count = source.__index__()
    if count < 0:
        raise ValueError(f"expected a count of at least 0, got {count}")
    return int(count)


def _has_molecules(source: Any) -> bool:
    if isinstance(source, (str, bytes, dict, set)) or _is_loader(source):
        return False
    return hasattr(source, "__len__") or hasattr(source, "n_atoms")


def _is_loader(source: Any) -> bool:
    """Returns True for loaders, whose length counts batches."""
    return hasattr(source, "dataset") and hasattr(source, "batch_sampler")


def atoms_of_each(source: Any, hint: str = " of each molecule") -> NDArray[Any]:
    """Returns the atoms of each molecule.

    Args:
        source: numbers of atoms, or a dataset that knows them.
        hint: end of the message on a count.

    Returns:
        (n,) array.

    Raises:
        TypeError: the source has no numbers of atoms: it is a path, a loader, or torch's Subset of
            a dataset, for example.
        ValueError: the numbers are invalid.
    """
    counts = getattr(source, "n_atoms", source)
    given = None
    if counts is source and hasattr(source, "dataset"):
        hint = "its dataset" if _is_loader(source) else "dataset.subset(indices), which knows them"
        given = f"{type(source).__name__}; give {hint}"
    elif isinstance(source, (str, bytes, os.PathLike)):
        given = f"a path; give AtpDataset({str(source)!r})"
    if given is not None:
        raise TypeError(
            f"n_atoms: expected numbers of atoms or a dataset that knows them, got {given}"
        )
    if hasattr(counts, "__index__") and not getattr(counts, "ndim", 0):
        raise TypeError(f"n_atoms: a count alone does not tell the atoms{hint}")
    return numbers("n_atoms", counts)


def numbers(what: str, source: Any) -> NDArray[Any]:
    """Converts to an array of finite numbers of at least 0, without a copy where possible.

    Args:
        what: name of the argument.
        source: one number per molecule.

    Returns:
        (n,) array.

    Raises:
        TypeError: the source does not consist of numbers.
        ValueError: it is not one-dimensional, or holds negative numbers, infinity or NaN.
    """
    if isinstance(source, torch.Tensor):
        is_dense = not source.is_nested and source.layout == torch.strided
        if not is_dense or source.is_meta or source.is_quantized:
            raise TypeError(f"{what}: expected a dense tensor with values, got another")
        tensor = source.detach().cpu().resolve_neg()
        source = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    array = np.asarray(source)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{what}: expected numbers, got {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{what}: expected one number a molecule, got the shape {array.shape}")
    if array.size and not (array.min() >= 0 and array.max() < np.inf):
        raise ValueError(f"{what}: expected finite numbers of at least 0, got others")
    return array


def no_other_molecules(option: str) -> ValueError:
    """Returns the error for sizes that are only known in one epoch.

    Args:
        option: name of the argument that has them.

    Returns:
        The error.
    """
    return ValueError(
        f"{option}: expected none for a dataset that has other molecules in each epoch, such as a "
        "mixture with weights: choose one epoch with its set_epoch"
    )


def digest(array: NDArray[Any]) -> str:
    """Returns a digest of numbers and their order that does not depend on their dtype."""
    state = hashlib.blake2b(digest_size=8)
    for first in range(0, len(array), _CHUNK):
        state.update(array[first : first + _CHUNK].astype("<f8").tobytes())
    return state.hexdigest()
