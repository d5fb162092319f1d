"""Blocks of structures, as expressions and groups read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence, Set
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from atompack_torch.batch.host_arrays import host_array
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    BUILTIN,
    BUILTINS,
    CANONICAL,
    GEOMETRY,
    FieldId,
    prefixed_id,
    similar_names,
)

Array = np.ndarray[Any, Any]


class UnknownFieldError(FieldError):
    """No structure has a field of a name."""


class Field(NamedTuple):
    """Values of one field in a block.

    Attributes:
        values: one array, (N, ...) per atom or (B, ...) per structure; or a list with one entry per
            structure: an array, a ``str`` or None.
        is_per_atom: True if there is one row per atom.
        mask: (B,) bool, True for structures that have the field; None: all of them.
    """

    values: Array | Sequence[Array | str | None]
    is_per_atom: bool
    mask: Array | None = None


class Block(Protocol):
    """B structures with N atoms in all."""

    @property
    def ptr(self) -> Array:
        """(B + 1,) int64, index of the first atom of each structure."""

    @property
    def atomic_numbers(self) -> Array:
        """(N,) integers."""

    @property
    def names(self) -> Set[str]:
        """Names of the fields of the block."""

    def find(self, name: str) -> Field | None:
        """Finds a field.

        Args:
            name: its name, also with its scope (``"properties/energy"``).

        Returns:
            The field, or None if no structure of the block has it.

        Raises:
            FieldError: the name stands for several fields.
        """


class CountsBlock:
    """Structures of which only the numbers of atoms are known.

    Args:
        n_atoms: (B,) int64.
    """

    def __init__(self, n_atoms: Array) -> None:
        self.ptr = np.concatenate([[0], np.cumsum(n_atoms)])

    @property
    def atomic_numbers(self) -> Array:
        """Not known: nothing that was asked for depends on them."""
        raise NotImplementedError

    @property
    def names(self) -> Set[str]:
        """No names: there are no fields."""
        return frozenset()

    def find(self, name: str) -> Field | None:
        """Returns None: there are no fields."""
        return None


class BatchBlock:
    """The structures of a batch.

    Args:
        batch: the batch, on any device.
    """

    def __init__(self, batch: MoleculeBatch) -> None:
        self._batch = batch
        self.ptr = host_array("ptr", batch.ptr)

    @property
    def atomic_numbers(self) -> Array:
        """(N,) int64."""
        return host_array("atomic_numbers", self._batch.atomic_numbers)

    @property
    def names(self) -> Set[str]:
        """Names of the fields of the batch."""
        return self._batch._infos.keys()

    def find(self, name: str) -> Field | None:
        """Returns a field by its name, None if the batch lacks it."""
        batch = self._batch
        infos = {key: FieldId(*info[:2]) for key, info in batch._infos.items()}
        found = name if name in infos else one_of(name, infos.values(), infos)
        if found is None:
            return None
        value = batch[found]
        values = host_array(name, value) if isinstance(value, Tensor) else [*map(_host, value)]
        mask = host_array(name, batch.mask(found)) if found in batch._mask_rows else None
        return Field(values, infos_level(batch, found), mask)


def infos_level(batch: MoleculeBatch, name: str) -> bool:
    """True if a field of a batch has one row per atom.

    Args:
        batch: the batch.
        name: name of the field.

    Returns:
        True for atoms, False for structures.

    Raises:
        FieldError: its rows are edges or triplets.
    """
    level = batch._infos[name].level
    if level not in ("atom", "molecule"):
        raise FieldError(f"{name}: expected one row per atom or structure, got one per {level}")
    return level == "atom"


def _host(value: Any) -> Any:
    return host_array("value", value) if isinstance(value, Tensor) else value


def one_of(name: str, ids: Iterable[FieldId], names: Iterable[str]) -> str | None:
    """Returns the entry of ``names`` whose field a name denotes.

    A name with a scope (``properties/energy``) denotes that property, a canonical name the field of
    the format, any other name the property with that key.

    Args:
        name: the name.
        ids: the known fields.
        names: their names, in the same order.

    Returns:
        Its name; None if there is no such field.

    Raises:
        FieldError: atoms and structures both have a property of that key.
    """
    wanted = FieldId(BUILTIN, name) if name in CANONICAL else prefixed_id(name)
    by_key = wanted is None
    pairs = [*zip(names, ids, strict=True)]
    found = [known for known, field in pairs if field == wanted or (by_key and field.key == name)]
    if by_key and not found:
        found = [known for known, field in pairs if normal(field.key) == name]
    if len(found) > 1:
        raise FieldError(
            f"{name!r}: expected one field, got several: name properties/{name} or "
            f"atom_properties/{name}"
        )
    return found[0] if found else None


def normal(name: str) -> str:
    """Returns the form to which Python's parser converts identifiers."""
    return unicodedata.normalize("NFKC", name)


def check_known(name: str, known: Iterable[str], where: str, others: Iterable[str] = ()) -> None:
    """Raises an error if a data set has no field of a name.

    Args:
        name: the name.
        known: names of the fields that the data set has.
        where: start of the message.
        others: further names that may be meant.

    Raises:
        UnknownFieldError: there is no such field.
    """
    names = [*known]
    scoped = prefixed_id(name)
    if (
        name in names
        or name in GEOMETRY
        or (scoped is not None and scoped.key in names and scoped.key not in BUILTINS)
    ):
        return
    similar = [repr(other) for other in similar_names(name, [*names, *others])]
    hint = f": did you mean {' or '.join(similar)}?" if similar else ""
    what = "no structure has the label" if name in BUILTINS else "unknown name"
    raise UnknownFieldError(f"{where}{what} {name!r}{hint}")
