"""Conversion of xarray attributes to store attributes, following atlas-python's conventions.

Attributes of a variable become attributes ``VARIABLE.ATTRIBUTE`` of the dataset. A value that is
not a plain one, or would not survive a round trip, is stored as ``json:`` followed by its JSON.
``_pyatlas_coords`` lists the coordinates. ``_FillValue`` is not stored as an attribute: it is the
fill value of the array.
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
    """Splits stored attributes into those of the variables and those of the dataset."""
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
        return value  # a string that happens to have this prefix


def flattened(dataset: xarray.Dataset, variables: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yields the attributes of the dataset and of these variables in the form of a store."""
    for variable in variables:
        for key, value in dataset.variables[variable].attrs.items():
            if key != FILL:
                yield f"{variable}.{key}", _encoded(f"{variable}.{key}", value)
    for key, value in dataset.attrs.items():
        yield str(key), _encoded(str(key), value)
    yield COORDS, json.dumps([str(key) for key in dataset.coords])


def _encoded(key: str, value: Any) -> Any:
    """Returns a value unchanged if it survives a round trip, else its JSON."""
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
    """True if a string begins like a date and a time, and so might be read as a timestamp."""
    return len(text) >= 20 and text[:4].isdigit() and text[4] == "-" and text[10] in "Tt "


def _listed(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"expected a value that JSON has, got {type(value).__name__}")
