"""Access to fields by name, as in a dict: the common base of batches and molecules."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar, overload

from atompack_torch.errors import UnknownFieldError
from atompack_torch.fields import NEIGHBORS, TRIPLETS, similar_names

_MAX_SHOWN = 20

Entry = TypeVar("Entry", covariant=True)
Default = TypeVar("Default")


def unknown_field(name: str, where: str, known: Collection[str]) -> UnknownFieldError:
    """Builds the error for a name that a batch or molecule lacks.

    Args:
        name: the unknown name.
        where: ``"batch"`` or ``"molecule"``.
        known: names of all fields.

    Returns:
        The error, with similar names as a hint.
    """
    similar = " or ".join(map(repr, similar_names(name, known)))
    hint = f": did you mean {similar}?" if similar else ""
    if name in NEIGHBORS:
        options = {"edge_vector": ", vectors=True"} | dict.fromkeys(TRIPLETS, ", triplets=True")
        hint = f": give the dataset neighbors=NeighborList(cutoff{options.get(name, '')})"
    shown = ", ".join(map(repr, [*known][:_MAX_SHOWN]))
    shown += ", ..." if len(known) > _MAX_SHOWN else ""
    return UnknownFieldError(f"no field {name!r} in this {where}{hint}; it has {shown}")


class FieldMapping(Generic[Entry]):
    """Base of classes that hold fields by name; subclasses define ``keys()`` and ``[name]``."""

    __slots__ = ()

    @overload
    def get(self, name: str) -> Entry | None: ...
    @overload
    def get(self, name: str, default: Default) -> Entry | Default: ...
    def get(self, name: str, default: object = None) -> object:
        """Returns a field, or ``default`` if there is no such field or it is absent.

        Args:
            name: any name of the field.
            default: returned in its place.

        Returns:
            The field or ``default``.
        """
        try:
            value = self[name]  # type: ignore[index]
        except UnknownFieldError:
            return default
        return default if value is None else value

    def items(self) -> list[tuple[str, Entry]]:
        """Returns (name, value) of all fields.

        Returns:
            Pairs in the order of ``keys()``.
        """
        return [(name, self[name]) for name in self.keys()]  # type: ignore[attr-defined, index]

    def values(self) -> list[Entry]:
        """Returns the values of all fields.

        Returns:
            Values in the order of ``keys()``.
        """
        return [self[name] for name in self.keys()]  # type: ignore[attr-defined, index]

    def __dir__(self) -> list[str]:
        fields = [name for name in self.keys() if name.isidentifier()]  # type: ignore[attr-defined]
        return sorted({*super().__dir__(), *fields})

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.keys())  # type: ignore[attr-defined]
