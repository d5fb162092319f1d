"""Whole stores side by side: ours, what atlas-python reads, what a plan says."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from reference.atlas_plans import Plan
from reference.compare import assert_same

import atompack_torch as apt

DTYPES = {"timestamp_nanoseconds": "timestamp_ns"}


def assert_as_original(store: apt.AtlasStore, original: dict[str, Any]) -> None:
    """A store reads the same here as in atlas-python: values, schemas, attributes, statistics."""
    assert store.datasets == list(original)
    for name, dataset in original.items():
        assert plain_attributes(store.attrs(name)) == dataset["attributes"]
        assert list(store.attrs(name)) == list(dataset["attributes"])
        assert store.arrays_of(name) == list(dataset["arrays"])
        for array, want in dataset["arrays"].items():
            _assert_array(store, name, array, want)


def _assert_array(store: apt.AtlasStore, dataset: str, array: str, want: dict[str, Any]) -> None:
    schema = store.schema(array, dataset)
    assert schema.dtype == DTYPES.get(want["dtype"], want["dtype"])
    for part in ("shape", "chunk_shape", "dimension_names"):
        assert getattr(schema, part) == want[part], part
    assert same(schema.fill_value, want["fill_value"])
    assert_same(store.read(dataset, array), as_read(want["values"]), f"{array} of {dataset}")
    found = store.stats(array).get(dataset)
    assert (found is None) == (want["stats"] is None)
    if found is not None:
        for part, value in found._asdict().items():
            stored = want["stats"].get(part)
            assert same(value, bytes(stored) if isinstance(stored, list) else stored), part


def assert_as_planned(store: apt.AtlasStore, plan: Plan) -> None:
    """A store holds what the operations of a plan leave."""
    assert sorted(store.datasets) == sorted(plan.arrays)
    for dataset, arrays in plan.arrays.items():
        assert plain_attributes(store.attrs(dataset)) == plan.attributes[dataset]
        assert sorted(store.arrays_of(dataset)) == sorted(arrays)
        for name, array in arrays.items():
            schema = store.schema(name, dataset)
            assert schema.dtype == array.dtype
            assert schema.chunk_shape == array.chunk_shape
            assert schema.dimension_names == array.dimension_names
            assert same(schema.fill_value, array.fill_value)
            assert_same(store.read(dataset, name), as_read(array.values), f"{name} of {dataset}")


def as_read(values: np.ndarray[Any, Any]) -> Any:
    """NumPy's values as ``AtlasStore.read`` gives them."""
    if values.dtype.kind in "OU":
        return values.tolist()
    return torch.from_numpy(np.ascontiguousarray(values)).reshape(values.shape)


def plain_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Timestamps as integers, as atlas-python gives them."""
    return {
        key: int(value.view("i8")) if isinstance(value, np.datetime64) else value
        for key, value in attributes.items()
    }


def same(got: Any, want: Any) -> bool:
    """Equal; NaN equals NaN."""
    return bool(got == want or (got != got and want != want))
