"""Columns: the values of one field for all molecules of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.exact_values import host_array
from atompack_torch.datasets.sweeping import runs
from atompack_torch.errors import FieldError
from atompack_torch.fields import STRUCTURE, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from atompack_torch.batch.molecule_batch import MoleculeBatch
    from atompack_torch.datasets.base import MoleculeDataset

# A block is complete when it reaches either limit, so that little but the column is in memory.
_BLOCK_MOLECULES = 1 << 16
_BLOCK_ATOMS = 1 << 20

Array = np.ndarray[Any, np.dtype[Any]]


class Column(NamedTuple):
    """Values of one field, in the order of the molecules.

    Attributes:
        values: (N, ...) for N molecules; (number of atoms, ...) for a field of atoms; or a list of
            N strings or tensors, None where there is none, if their shapes differ.
        mask: (N,) bool, True for molecules that have the field.
    """

    values: Tensor | list[Any]
    mask: Tensor


def read_column(dataset: MoleculeDataset, key: str) -> tuple[Column, Level]:
    """Reads one field of all molecules; see ``MoleculeDataset.column``.

    Args:
        dataset: the dataset.
        key: name of the field.

    Returns:
        The column, and whether its rows are those of molecules or atoms.

    Raises:
        FieldError: there is no field of this name, or its rows are edges or triplets.
    """
    if key == "n_atoms":
        return Column(dataset.n_atoms, torch.ones(len(dataset), dtype=torch.bool)), "molecule"
    values: list[Any] = []
    masks, counts = [], []
    level: Level = "molecule"
    for batch, name in column_blocks(dataset, key):
        level = batch.level(name)
        if level not in ("atom", "molecule"):
            raise FieldError(f"{key}: expected one row per atom or molecule, got one per {level}")
        has_mask = name in contents_of(batch).mask_rows
        values.append(batch[name])
        masks.append(batch.mask(name) if has_mask else torch.ones(len(batch), dtype=torch.bool))
        counts.append(batch.n_atoms)
    mask = torch.cat(masks)
    shapes = {value.shape[1:] if isinstance(value, Tensor) else None for value in values}
    if None not in shapes and len(shapes) == 1:
        return Column(torch.cat(values), mask), level
    listed: list[Any] = []
    for value, n_atoms in zip(values, counts, strict=True):
        is_split = isinstance(value, Tensor) and level == "atom"
        listed += torch.split(value, n_atoms.tolist()) if is_split else value
    listed = [value if has else None for value, has in zip(listed, mask.tolist(), strict=True)]
    return Column(listed, mask), level


def column_blocks(dataset: MoleculeDataset, key: str) -> Iterator[tuple[MoleculeBatch, str]]:
    """Yields batches of all molecules, in order, that hold little but one field.

    Args:
        dataset: the dataset.
        key: name of the field.

    Yields:
        A batch, and the name of the field in it. There is at least one.

    Raises:
        FieldError: there is no field of this name.
    """
    computer = dataset._computer
    is_computed = computer is not None and key in computer.names()
    request = dataset.request.plain(
        () if is_computed or key in STRUCTURE else (key,),
        dtype=dataset.request.dtype,
        structure=is_computed or key in ("positions", "atomic_numbers"),
    )
    part = dataset.with_request(request, computes_features=is_computed)
    part._forces = None
    if key in ("batch", "ptr"):
        raise FieldError(f"{key}: expected a field of molecules or atoms, got one of batches")
    try:
        parts = [*runs(dataset.n_atoms.numpy(), _BLOCK_ATOMS, _BLOCK_MOLECULES)]
        for numbers in parts or [range(0)]:
            batch = part.batch(numbers)
            yield batch, _name_in(batch, key)
    finally:
        part.close()


def _name_in(batch: MoleculeBatch, key: str) -> str:
    if key in contents_of(batch).infos:
        return key
    names = [name for name in contents_of(batch).mask_rows if name != "source"]
    if len(names) != 1:
        raise FieldError(f"{key}: expected one field, got {', '.join(names) or 'none'}")
    return names[0]


def to_pandas(dataset: MoleculeDataset, keys: Sequence[str]) -> Any:
    """Makes a data frame of columns; see ``MoleculeDataset.to_pandas``.

    Args:
        dataset: the dataset.
        keys: names of fields.

    Returns:
        The data frame.

    Raises:
        TypeError: the keys are a single string.
        ImportError: pandas is not installed.
        FieldError: there is no field of a name.
    """
    if isinstance(keys, str):
        raise TypeError(f"keys: expected a list of names, got the string {keys!r}")
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install pandas") from error
    made = {}
    for key in keys:
        (values, mask), level = read_column(dataset, key)
        is_plain = isinstance(values, Tensor) and values.dim() == 1 and level == "molecule"
        made[key] = (
            _plain(pandas, host_array(key, values), ~mask.numpy())  # type: ignore[arg-type]
            if is_plain
            else _objects(key, values, mask, dataset.n_atoms if level == "atom" else None)
        )
    return pandas.DataFrame(made, index=pandas.RangeIndex(len(dataset)))


def _plain(pandas: Any, array: Array, is_missing: Array) -> Any:
    """Returns numbers in the form in which pandas knows missing ones: floats are NaN there."""
    if array.dtype.kind == "f" or not is_missing.any():
        return array
    arrays = pandas.arrays
    kind = arrays.BooleanArray if array.dtype.kind == "b" else arrays.IntegerArray
    return kind(array.copy(), is_missing)


def _objects(key: str, values: Any, mask: Tensor, n_atoms: Tensor | None) -> Array:
    """Returns the value of each molecule as an object, None where there is none."""
    if isinstance(values, Tensor):
        values = values.unbind() if n_atoms is None else torch.split(values, n_atoms.tolist())
    objects = np.empty(len(mask), object)
    for number, (value, has) in enumerate(zip(values, mask.tolist(), strict=True)):
        if has:
            objects[number] = host_array(key, value) if isinstance(value, Tensor) else value
    return objects
