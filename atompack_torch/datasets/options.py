"""Options that all data sets have in common, and their checks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import torch

from atompack_torch.fields import BUILTINS
from atompack_torch.options import check_choice, check_threads

DTypes = torch.dtype | Mapping[str, torch.dtype]
Missing = Literal["nan", "error", "drop"]

_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """Options of every data set, checked when they are made.

    Attributes:
        dtype: dtype of floating fields, or a dict from names to dtypes; None: as stored.
        missing: what becomes of items that lack a field: ``"nan"``, ``"error"`` or ``"drop"``.
        transform: called with every batch; None: batches stay as they are.
        num_threads: maximum number of threads for a batch; None: as many as torch uses.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option does not have one of its values.
    """

    dtype: DTypes | None = None
    missing: Missing = "nan"
    transform: Callable[[Any], Any] | None = None
    num_threads: int | None = None

    def __post_init__(self) -> None:
        check_choice("missing", self.missing, ("nan", "error", "drop"))
        check_threads(self.num_threads)
        if self.transform is not None and not callable(self.transform):
            kind = type(self.transform).__name__
            raise TypeError(f"transform: expected a callable, got {kind}")
        if self.dtype is not None:
            _check_dtype(self.dtype)


def _check_dtype(dtype: DTypes) -> None:
    named = dtype if isinstance(dtype, Mapping) else {"every field": dtype}
    for name, wanted in named.items():
        if not isinstance(name, str):
            raise TypeError(f"dtype: expected names (str), got {name!r}")
        if not isinstance(wanted, torch.dtype):
            raise TypeError(f"dtype: expected torch dtypes, got {wanted!r} for {name}")
        is_label = BUILTINS[name].dtype.startswith("float") if name in BUILTINS else False
        if wanted not in _FLOATING and (is_label or not isinstance(dtype, Mapping)):
            raise ValueError(f"dtype: expected a floating dtype for {name}, got {wanted}")


def accept_former_name(former: str, name: str) -> Callable[[F], F]:
    """Makes a method take its first argument by a former name too.

    Args:
        former: the former name of the argument.
        name: its name now.

    Returns:
        The decorator.
    """

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def call(self: object, *args: Any, **kwargs: Any) -> Any:
            if former in kwargs:
                if args or name in kwargs:
                    raise TypeError(f"{former}: expected either {name} or {former}, got both")
                kwargs[name] = kwargs.pop(former)
            return method(self, *args, **kwargs)

        return cast(F, call)

    return decorate
