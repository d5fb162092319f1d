"""Attributes of xarray's datasets as those of stores, by the conventions of atlas-python.

Attributes of a variable are attributes ``VARIABLE.ATTRIBUTE`` of the dataset. What is no plain
value, or would not come back as it is, is stored as ``json:`` and its JSON. ``_pyatlas_coords``
lists the coordinates. ``_FillValue`` is no attribute but the fill value of the array.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch.errors import FieldError

if TYPE_CHECKING:
    import xarray

COORDS = "_pyatlas_coords"
FILL = "_FillValue"
_JSON = "json:"


def parted(
    stored: Mapping[str, Any], variables: Sequence[str]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Attributes of the variables, and of the dataset."""
    of_variables: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    for key, value in stored.items():
        owners = [name for name in variables if key.startswith(f"{name}.")]
        if owners:
            owner = max(owners, key=len)
            of_variables.setdefault(owner, {})[key[len(owner) + 1 :]] = _decoded(value)
        else:
            own[key] = value if key == COORDS else _decoded(value)
    return of_variables, own


def _decoded(value: Any) -> Any:
    if not (isinstance(value, str) and value.startswith(_JSON)):
        return value
    try:
        return json.loads(value[len(_JSON) :])
    except ValueError:
        return value  # a text that happens to begin so


def flattened(dataset: xarray.Dataset, variables: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Attributes of the dataset and of these variables, as a store has them."""
    for variable in variables:
        for key, value in dataset.variables[variable].attrs.items():
            if key != FILL:
                yield f"{variable}.{key}", _encoded(f"{variable}.{key}", value)
    for key, value in dataset.attrs.items():
        yield str(key), _encoded(str(key), value)
    yield COORDS, json.dumps([str(key) for key in dataset.coords])


def _encoded(key: str, value: Any) -> Any:
    """As it is where it comes back so, else as JSON."""
    if isinstance(value, np.ndarray):
        value = value.item() if value.ndim == 0 else value.tolist()
    elif isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise FieldError(f"attribute {key!r}: bytes are no UTF-8: {error.reason}") from None
    if isinstance(value, (bool, np.datetime64)) or _is_plain(value):
        return value
    try:
        return _JSON + json.dumps(value, ensure_ascii=False, default=_listed)
    except (TypeError, ValueError) as error:
        raise FieldError(f"attribute {key!r}: {error}") from error


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return not value.startswith(_JSON) and not _reads_as_moment(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _reads_as_moment(text: str) -> bool:
    """Perhaps: texts that begin like a date and a time are not stored as they are."""
    return len(text) >= 20 and text[:4].isdigit() and text[4] == "-" and text[10] in "Tt "


def _listed(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"expected a value that JSON has, got {type(value).__name__}")
