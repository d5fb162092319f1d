"""Datasets of stores as xarray datasets, and back."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch.errors import FieldError
from atompack_torch.formats.atlas_store.array_schema import ArraySchema
from atompack_torch.options import redact_path

if TYPE_CHECKING:
    import xarray

    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore


COORDS = "_pyatlas_coords"
FILL = "_FillValue"
_JSON = "json:"
_DURATION = "_pyatlas_timedelta"  # attribute of arrays of durations


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
                yield f"{variable}.{key}", encoded(f"{variable}.{key}", value)
    for key, value in dataset.attrs.items():
        yield str(key), encoded(str(key), value)
    yield COORDS, json.dumps([str(key) for key in dataset.coords])


def encoded(key: str, value: Any) -> Any:
    """Returns an attribute unchanged if it survives a round trip, else its JSON.

    Args:
        key: its key, for messages.
        value: its value.

    Returns:
        What a store can hold.

    Raises:
        FieldError: it is no value that JSON has.
    """
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


_NOT_A_TIME = np.iinfo(np.int64).min
_NUMBERS = {np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)}
_NUMBERS |= {np.dtype("f4"), np.dtype("f8")}


def read(store: AtlasStore, dataset: str, arrays: Sequence[str] | None) -> xarray.Dataset:
    """Reads a dataset of a store; see ``AtlasStore.to_xarray``."""
    import xarray

    names = store.arrays_of(dataset) if arrays is None else list(arrays)
    is_apart = store._has_array_attributes()
    owners = () if is_apart else store.arrays_of(dataset)
    of_variables, attributes = parted(store.attrs(dataset), owners)
    if is_apart:
        of_variables = {name: parted(store.array_attrs(dataset, name), ())[1] for name in names}
    coords = attributes.pop(COORDS, "[]")
    variables = {
        name: _variable(store, dataset, name, of_variables.get(name, {})) for name in names
    }
    try:
        made = xarray.Dataset(variables, attrs=attributes)
    except ValueError as error:
        raise FieldError(
            f"{redact_path(store.path)}: dataset {dataset!r} as xarray: {error}"
        ) from error
    listed = json.loads(coords) if isinstance(coords, str) else coords
    found = [name for name in listed if name in variables]
    return made.set_coords(found) if found else made


def _variable(
    store: AtlasStore, dataset: str, name: str, attributes: dict[str, Any]
) -> xarray.Variable:
    from atompack_torch.formats.atlas_store.xarray_lazy import StoredArray

    schema = store.schema(name, dataset)
    if attributes.get(_DURATION) == "ns" and schema.dtype == "int64":
        schema = schema._replace(dtype="duration_ns")
        attributes = {key: value for key, value in attributes.items() if key != _DURATION}
    dims = _dimensions(schema.dimension_names, len(schema.shape))
    chunks = dict(zip(dims, schema.chunk_shape, strict=True))
    return _lazy(StoredArray(store, dataset, name, schema), schema, dims, attributes, chunks)


def _lazy(
    data: Any,
    schema: ArraySchema,
    dims: Sequence[str],
    attributes: dict[str, Any],
    chunks: dict[str, int],
) -> xarray.Variable:
    import xarray
    from xarray.core.indexing import LazilyIndexedArray

    if schema.fill_value is not None and not _is_usual(schema.dtype, schema.fill_value):
        attributes = attributes | {FILL: schema.fill_value}
    encoding = {"preferred_chunks": {dim: max(n, 1) for dim, n in chunks.items()}}
    return xarray.Variable(dims, LazilyIndexedArray(data), attributes, encoding)


def read_stacked(
    store: AtlasStore, datasets: Sequence[str], arrays: Sequence[str] | None, dim: str
) -> xarray.Dataset:
    """Reads several datasets as one; see ``AtlasStore.to_xarray``."""
    import xarray

    from atompack_torch.formats.atlas_store.xarray_lazy import StoredArray

    place = redact_path(store.path)
    if not datasets:
        raise FieldError(f"{place}: datasets: expected at least one name, got none")
    first = read(store, datasets[0], arrays)
    if dim in first.dims or dim in first.variables:
        raise FieldError(f"{place}: concat_dim: the datasets have {dim!r} already")
    variables: dict[Any, Any] = {}
    for key, variable in first.data_vars.items():
        name = str(key)
        schemas = store.schema(name)
        schema = schemas[datasets[0]]
        for dataset in datasets:
            found = schemas.get(dataset)
            if found is None or (found.dtype, found.shape) != (schema.dtype, schema.shape):
                got = "none" if found is None else f"{found.dtype} {found.shape}"
                raise FieldError(
                    f"{place}: array {name!r}: expected {schema.dtype} {schema.shape} in all "
                    f"datasets, got {got} in {dataset!r}"
                )
        dims = [dim, *map(str, variable.dims)]
        chunks = dict(zip(dims, (1, *schema.chunk_shape), strict=True))
        attributes = {str(k): v for k, v in variable.attrs.items()}
        data = StoredArray(store, list(datasets), name, schema)
        variables[key] = _lazy(data, schema, dims, attributes, chunks)
    coords = {**first.coords, dim: list(datasets)}
    return xarray.Dataset(variables, coords, first.attrs)


def _dimensions(names: Sequence[str], rank: int) -> list[str]:
    """Returns the given names if there is one per axis and they are distinct."""
    if len(names) == rank and len(set(names)) == rank and all(names):
        return list(names)
    return [f"dim{axis}" for axis in range(rank)]


def _is_usual(dtype: str, fill: Any) -> bool:
    no_time = [(kind, _NOT_A_TIME) for kind in ("timestamp_ns", "duration_ns")]
    return bool(fill != fill) or (dtype, fill) in (*no_time, ("string", ""))


def _usual_fill(dtype: str) -> Any:
    """Default fill value of a dtype; None if it has none."""
    if dtype.startswith("float"):
        return math.nan
    return {"timestamp_ns": _NOT_A_TIME, "string": ""}.get(dtype)


def add(
    store: AtlasStore,
    name: str,
    dataset: xarray.Dataset,
    chunks: Mapping[str, Sequence[int]] | None,
    fill_value: Any,
) -> None:
    """Adds a dataset to a store; see ``AtlasStore.from_xarray``."""
    if missing := set(chunks or {}) - set(map(str, dataset.variables)):
        raise FieldError(f"chunks: the dataset has no variable {', '.join(sorted(missing))}")
    plans = [_plan(str(key), dataset.variables[key], fill_value) for key in _ordered(dataset)]
    attributes = list(flattened(dataset, _ordered(dataset)))
    store.create_dataset(name)
    for key, value in attributes:
        store.set_attr(name, key, value)
    for variable, dtype, fill in plans:
        _write(store, name, dataset, variable, dtype, fill, (chunks or {}).get(variable))


def _ordered(dataset: xarray.Dataset) -> list[Any]:
    return [*dataset.coords, *dataset.data_vars]


def _plan(name: str, variable: xarray.Variable, fill_value: Any) -> tuple[str, str, Any]:
    """Name, dtype and fill value of the array."""
    dtype = _dtype_of(name, variable.dtype)
    if isinstance(fill_value, Mapping) and name in fill_value:
        return name, dtype, fill_value[name]
    if fill_value is not None and not isinstance(fill_value, Mapping) and dtype != "string":
        return name, dtype, fill_value
    own = variable.attrs.get(FILL)
    if isinstance(own, (np.generic, np.ndarray)):
        own = own.item()
    return name, dtype, _usual_fill(dtype) if own is None else own


def _dtype_of(name: str, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "M":
        return "timestamp_ns"
    if dtype.kind in "OSUT":
        return "string"
    if dtype.newbyteorder("=") not in _NUMBERS:
        raise FieldError(f"variable {name!r}: arrays cannot store the dtype {dtype}")
    return dtype.newbyteorder("=").name


def _write(
    store: AtlasStore,
    name: str,
    dataset: xarray.Dataset,
    key: str,
    dtype: str,
    fill: Any,
    chunk_shape: Sequence[int] | None,
) -> None:
    variable = dataset.variables[key]
    dims = [str(dim) for dim in variable.dims]
    shape = chunk_shape or _chunk_shape(variable)
    store.define_array(name, key, dtype, variable.shape, dims, shape, fill)
    for start, part in _parts(variable):
        values = _texts(key, part, fill) if dtype == "string" else part
        if values.size:
            store.write(name, key, values, start)


def _chunk_shape(variable: xarray.Variable) -> list[int] | None:
    """Chunk shape from dask, else from the source file; None: the whole array."""
    if variable.chunks is not None:
        return [max(max(sizes), 1) for sizes in variable.chunks]
    sizes = variable.encoding.get("preferred_chunks", {})
    if not sizes or 0 in variable.shape:
        return None
    return [
        min(int(sizes.get(dim, extent)), extent)
        for dim, extent in zip(variable.dims, variable.shape, strict=True)
    ]


def _parts(variable: xarray.Variable) -> Iterator[tuple[list[int], np.ndarray[Any, Any]]]:
    """Yields dask chunks one by one, so that only one is in memory at a time."""
    if variable.chunks is None:
        yield [0] * variable.ndim, variable.values
        return
    starts = [[0, *itertools.accumulate(sizes)] for sizes in variable.chunks]
    for bounds in itertools.product(*(itertools.pairwise(axis) for axis in starts)):
        box = tuple(slice(first, last) for first, last in bounds)
        yield [first for first, _ in bounds], variable[box].values


def _texts(name: str, values: np.ndarray[Any, Any], fill: Any) -> np.ndarray[Any, Any]:
    """Replaces missing strings by the fill value, the only representation they have."""
    texts = [_text(name, value) for value in values.astype(object).reshape(-1)]
    if None in texts:
        warnings.warn(f"variable {name!r}: missing strings are stored as {fill!r}", stacklevel=5)
        texts = [str(fill or "") if text is None else text for text in texts]
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(values.shape)


def _text(name: str, value: Any) -> str | None:
    if value is None or (isinstance(value, (float, np.floating)) and value != value):
        return None
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise FieldError(f"variable {name!r}: bytes are no UTF-8: {error.reason}") from None
    if not isinstance(value, str):
        got = type(value).__name__
        raise FieldError(f"variable {name!r}: expected strings, got {got}: convert it to them")
    return value
