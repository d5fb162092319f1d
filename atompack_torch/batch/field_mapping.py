"""Names as keys: what batches and molecules share with a dict."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from atompack_torch.errors import UnknownFieldError
from atompack_torch.fields import similar_names

_MAX_SHOWN = 20


def unknown_field(name: str, where: str, known: Collection[str]) -> UnknownFieldError:
    """The error for a name that a batch or molecule does not have."""
    similar = " or ".join(map(repr, similar_names(name, known)))
    hint = f": did you mean {similar}?" if similar else ""
    shown = ", ".join(map(repr, [*known][:_MAX_SHOWN]))
    shown += ", ..." if len(known) > _MAX_SHOWN else ""
    return UnknownFieldError(f"no field {name!r} in this {where}{hint}; it has {shown}")


class FieldMapping:
    """Base of what holds fields by name; a subclass has ``keys()`` and ``[name]``."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or ``default`` where there is none of this name or it is absent."""
        try:
            value = self[name]  # type: ignore[index]
        except UnknownFieldError:
            return default
        return default if value is None else value

    def items(self) -> list[tuple[str, Any]]:
        """(name, value) of all fields, in the order of ``keys()``."""
        return [(name, self[name]) for name in self.keys()]  # type: ignore[attr-defined, index]

    def values(self) -> list[Any]:
        """Values of all fields, in the order of ``keys()``."""
        return [self[name] for name in self.keys()]  # type: ignore[attr-defined, index]

    def __dir__(self) -> list[str]:
        fields = [name for name in self.keys() if name.isidentifier()]  # type: ignore[attr-defined]
        return sorted({*super().__dir__(), *fields})

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.keys())  # type: ignore[attr-defined]
