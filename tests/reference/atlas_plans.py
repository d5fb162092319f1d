"""Random lives of a store: operations that any writer can carry out, and what must come of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*INTEGERS, "float32", "float64", "timestamp_ns", "string")
ARRAYS = ("t", "salinity", "a longer name of an array")
WORDS = ("", "a", "Zürich", "日本語", "x" * 40, "nul\0inside")

Operation = tuple[Any, ...]


def item_type(dtype: str) -> np.dtype[Any]:
    """Of the values that are handed to a writer."""
    return np.dtype({"string": "O", "timestamp_ns": "i8"}.get(dtype, dtype))


@dataclass
class Array:
    """One array of one dataset."""

    dtype: str
    chunk_shape: tuple[int, ...]
    dimension_names: tuple[str, ...]
    fill_value: Any
    values: np.ndarray[Any, Any]


@dataclass
class Plan:
    """Draws operations and keeps what a store should hold after them."""

    rng: np.random.Generator
    arrays: dict[str, dict[str, Array]] = field(default_factory=dict)
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: set[tuple[str, str]] = field(default_factory=set)

    def operations(self, n: int) -> list[Operation]:
        """The next ones."""
        return [operation for _ in range(n) for operation in self._draw()]

    def _draw(self) -> list[Operation]:
        if len(self.arrays) < 2:
            return self._create_dataset()
        steps = {
            self._create_dataset: 2,
            self._define: 6,
            self._write: 8,
            self._set_attr: 3,
            self._delete_array: 1,
            self._delete_dataset: 0.4,
            self._flush: 1.5,
        }
        weights = np.array(list(steps.values()))
        chosen = self.rng.choice(len(steps), p=weights / weights.sum())
        return list(steps)[chosen]()

    def _pick(self, names: Any) -> str:
        return list(names)[self.rng.integers(len(names))]

    def _create_dataset(self) -> list[Operation]:
        words = ("jan", "Zürich", "a much longer name")
        name = f"{self._pick(words)} {self.rng.integers(100)}"
        if name in self.arrays:
            return []
        self.arrays[name], self.attributes[name] = {}, {}
        return [("create_dataset", name)]

    def _define(self) -> list[Operation]:
        dataset, name = self._pick(self.arrays), self._pick(ARRAYS)
        # Until a compaction, chunks from before a deletion show through what comes after it.
        if name in self.arrays[dataset] or (dataset, name) in self.deleted:
            return []
        dtype, rank = self._pick(DTYPES), int(self.rng.integers(4))
        shape = tuple(self.rng.integers(1, 7, rank).tolist())
        chunk_shape = tuple(self.rng.integers(1, 5, rank).tolist())
        chunked = rank > 0 and self.rng.random() < 0.6
        fill = self._fill(dtype)
        values = np.full(shape, _unwritten(dtype, fill), item_type(dtype))
        names = tuple("zyx"[-rank:]) if rank else ()
        array = Array(dtype, chunk_shape if chunked else shape, names, fill, values)
        self.arrays[dataset][name] = array
        given = chunk_shape if chunked else None
        return [("define_array", dataset, name, dtype, shape, names, given, fill)]

    def _fill(self, dtype: str) -> Any:
        if self.rng.random() < 0.4:
            return None
        if dtype == "string":
            return "n/a"
        return float(self.rng.choice([-1.5, np.nan])) if dtype.startswith("float") else 7

    def _write(self) -> list[Operation]:
        dataset = self._pick(self.arrays)
        if not self.arrays[dataset]:
            return []
        name = self._pick(self.arrays[dataset])
        extents = self.arrays[dataset][name].values.shape
        start = tuple(int(self.rng.integers(0, e)) for e in extents)
        shape = [int(self.rng.integers(1, e - s + 1)) for e, s in zip(extents, start, strict=True)]
        array = self.arrays[dataset][name]
        values = self._values(array.dtype, tuple(shape))
        box = tuple(slice(s, s + n) for s, n in zip(start, shape, strict=True))
        array.values[box] = values[()]  # of texts without axes the text, not the array around it
        return [("write", dataset, name, values, start)]

    def _values(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if dtype == "string":
            numbers = self.rng.integers(0, len(WORDS), int(np.prod(shape)))
            return np.array([WORDS[i] for i in numbers], object).reshape(shape)
        if dtype.startswith("float"):
            return np.asarray(self.rng.normal(size=shape), dtype)
        bounds = np.iinfo(item_type(dtype))
        drawn = self.rng.integers(bounds.min, bounds.max, shape, bounds.dtype, endpoint=True)
        return np.asarray(drawn, bounds.dtype)

    def _set_attr(self) -> list[Operation]:
        dataset = self._pick(self.arrays)
        key = self._pick(("title", "n", "a.b"))
        values = (True, 3, -(2**40), 2.5, 3.0, "text", "Zürich", "")
        value = values[self.rng.integers(len(values))]
        self.attributes[dataset][key] = value
        return [("set_attr", dataset, key, value)]

    def _delete_array(self) -> list[Operation]:
        dataset = self._pick(self.arrays)
        if not self.arrays[dataset]:
            return []
        name = self._pick(self.arrays[dataset])
        del self.arrays[dataset][name]
        self.deleted.add((dataset, name))
        return [("delete_array", dataset, name)]

    def _delete_dataset(self) -> list[Operation]:
        dataset = self._pick(self.arrays)
        self.deleted |= {(dataset, name) for name in self.arrays[dataset]}
        del self.arrays[dataset], self.attributes[dataset]
        return [("delete_dataset", dataset)]

    def _flush(self) -> list[Operation]:
        return [("flush",)]


def _unwritten(dtype: str, fill: Any) -> Any:
    if dtype == "string":
        return ""  # a string fill is for the statistics alone
    return 0 if fill is None else fill
