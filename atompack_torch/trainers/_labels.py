"""Labels that a loss wants: those that no molecule has, and molecules that lack one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset, samples_forces
from atompack_torch.datasets.request import place_of
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTINS,
    CANONICAL,
    GEOMETRY,
    PREFIXES,
    STRUCTURE,
    similar_names,
)
from atompack_torch.trainers._layout import ANY_EDGES, requested_schema

Dataset = TypeVar("Dataset", bound=MoleculeDataset)
Wanted = Sequence[Sequence[str]]

_FIRST = 64  # molecules, in which most labels occur
_AT_ONCE = 4096  # molecules of a later block
_MOST_KEYS = 12  # listed in a message
_OTHER_VALUES = ("per_atom", "weight", "std", "error", "uncertainty")  # parts of their names

# Inputs of models: name -> names in files, of which the first that exists is read.
STATES = {"charge": ("charge", "total_charge"), "spin": ("spin", "total_spin")}


def require_labels(dataset: MoleculeDataset, wanted: Wanted, *, trains: bool = True) -> None:
    """Checks that labels of a loss occur at all; it would train on nothing without.

    Reads molecules until each label was seen, mostly a few.

    Args:
        dataset: the molecules; a ``transform`` is applied.
        wanted: groups of fields; one field of each group must occur.
        trains: raise an error; otherwise warn, as predictions need no labels.

    Raises:
        FieldError: no molecule has a field of a group.
    """
    if not len(dataset) or not wanted:
        return
    lacking = list(wanted)
    for batch in _blocks(dataset, [name for group in wanted for name in group]):
        if not isinstance(batch, MoleculeBatch):
            return  # a transform made batches of its own
        seen = {name for group in lacking for name in group if name in batch}
        seen = {name for name in seen if bool(batch.mask(name).any())}
        lacking = [group for group in lacking if not seen.intersection(group)]
        if not lacking:
            return
    message = absent_labels(dataset, lacking)
    schema = dataset.schema
    unknown = [name for group in lacking for name in group if name not in schema]
    if maps := similar_keys(dataset, unknown):
        message += f": give key_map={maps}"
    if trains:
        raise FieldError(message)
    warnings.warn(message, stacklevel=4)


def absent_labels(dataset: MoleculeDataset, lacking: Wanted) -> str:
    """Says that no molecule has some labels, and which names the data has.

    Args:
        dataset: the molecules.
        lacking: groups of fields; one of each would do.

    Returns:
        The message, without a way out.
    """
    place = place_of(dataset)
    names = [name for group in lacking for name in group]
    wanted = ", ".join(" or ".join(map(repr, group)) for group in lacking)
    schema = dataset.schema
    if dropped := [name for name in names if name in schema.keys() - requested_schema(dataset)]:
        return f"{place}: fields= or exclude= of the dataset drop {', '.join(map(repr, dropped))}"
    known = (*STRUCTURE, *GEOMETRY, *names)
    others = {name: spec for name, spec in schema.items() if name not in known}
    shown = ", ".join(map(repr, list(others)[:_MOST_KEYS])) or "no other labels"
    shown += f" and {len(others) - _MOST_KEYS} more" if len(others) > _MOST_KEYS else ""
    return f"{place}: no molecule has {wanted}; the file has {shown}"


def similar_keys(dataset: MoleculeDataset, labels: Sequence[str]) -> dict[str, str]:
    """Finds fields that may hold labels under names of their own.

    Args:
        dataset: the molecules.
        labels: names here.

    Returns:
        Name in the data → name here: the most likely numeric field of the same level.
    """
    maps: dict[str, str] = {}
    for label in labels:
        level = BUILTINS[label].level if label in BUILTINS else None
        fitting = [
            name
            for name, spec in dataset.schema.items()
            if isinstance(spec.dtype, torch.dtype)
            and name not in CANONICAL
            and level in (None, spec.level)
            and not any(part in name.lower() for part in _OTHER_VALUES)
        ]
        maps |= dict.fromkeys(similar_names(label.removesuffix("s"), fitting)[:1], label)
    return maps


def molecules_without(batch: MoleculeBatch, values: Tensor, *, of_atoms: bool) -> list[int]:
    """Finds the molecules that lack a label.

    Args:
        batch: the batch.
        values: of the label, NaN where it is missing; a row for each molecule or atom.
        of_atoms: they are values of atoms.

    Returns:
        Numbers of molecules.
    """
    is_nan = values.isnan()
    if not is_nan.any():
        return []
    rows = is_nan.reshape(len(is_nan), -1).any(1)
    numbers: list[int] = batch.index[torch.unique(batch.batch[rows]) if of_atoms else rows].tolist()
    return numbers


def property_name(contents: Any, key: str, scope: int) -> str | None:
    """Finds a custom property; ``charge`` and ``spin`` also as ``total_charge`` and ``total_spin``.

    Args:
        contents: a batch, or the schema of a dataset.
        key: name of the property in a trainer.
        scope: of the property.

    Returns:
        Its name in the batch or schema; None if it is not there.
    """
    level = "atom" if scope == ATOM_PROPERTY else "molecule"
    schema = {} if isinstance(contents, MoleculeBatch) else contents
    for name in STATES.get(key, (key,)):
        prefixed = PREFIXES[scope] + name
        if prefixed in contents:
            return prefixed
        if name in schema and schema[name].level == level:
            return name
    return None


def count_labels(dataset: MoleculeDataset, names: Sequence[str]) -> dict[str, int]:
    """Counts the molecules that have each label, in one pass.

    Args:
        dataset: the molecules.
        names: fields.

    Returns:
        Name → number.
    """
    counts = dict.fromkeys(names, 0)
    for batch in _blocks(dataset, names):
        for name in names:
            counts[name] += int(batch.mask(name).sum()) if name in batch else 0
    return counts


def _blocks(dataset: Dataset, names: Sequence[str]) -> Iterator[MoleculeBatch]:
    """Yields batches in order with these labels, as far as there are any; a NaN is missing."""
    request = replace(dataset.request, missing="nan", nan_is_missing=True, outputs=())
    is_plain = request.transform is None
    if is_plain:
        if not (there := tuple(requested_schema(dataset).keys() & names)):
            return
        request = replace(request, fields=there, exclude=(), optional=True, neighbors=None)
    elif request.neighbors is None:
        request = replace(request, neighbors=ANY_EDGES)  # the layout will replace them
    part = dataset.with_request(request, computes_features=not is_plain)
    first, size = 0, _FIRST
    while first < len(part):
        yield part.batch(range(first, min(first + size, len(part))))
        first, size = first + size, _AT_ONCE


def with_labels(dataset: Dataset, names: Sequence[str]) -> Dataset:
    """Returns the molecules that have all labels, with a warning about others.

    Takes a pass over the labels.

    Args:
        dataset: the molecules.
        names: fields of the labels.

    Returns:
        The dataset, or a subset of it.

    Raises:
        FieldError: no molecule has all labels, or ``force_subset`` omits forces.
    """
    if not names:
        return dataset
    if "forces" in names and samples_forces(dataset):  # again among the molecules that are left
        raise FieldError(
            f"{place_of(dataset)}: force_subset: the losses of this trainer need the forces of all "
            "molecules: leave it out"
        )
    require_labels(dataset, [[name] for name in names])
    request = replace(dataset.request, fields=tuple(names), optional=True, missing="nan")
    request = replace(request, neighbors=None, transform=None, outputs=())
    plain = dataset.with_request(request, computes_features=False)
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
        raise FieldError(f"expected molecules with {wanted}, got none of {n_missing}")
    warnings.warn(
        f"dropped {n_missing} of {len(dataset)} molecules that lack {wanted}", stacklevel=3
    )
    return dataset.subset(torch.nonzero(is_complete).flatten())
