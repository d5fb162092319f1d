"""What atlas-python reads from a store of the fixtures, dataset by dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reference.fixture_files import names_of

FIXTURES = names_of("atlas/*", ".expected.json")
DTYPES = {"timestamp_nanoseconds": "timestamp_ns"}


class AtlasFixture:
    """A store and the values, schemas, attributes and statistics that it should give."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        self._facts = json.loads((folder / f"{name}.expected.json").read_text())
        numbers = folder / f"{name}.expected.npz"
        self._numbers = dict(np.load(numbers)) if numbers.exists() else {}
        self.datasets: list[str] = self._facts["datasets_order"]
        self.arrays: list[str] = self._facts["arrays_order"]

    def arrays_of(self, dataset: str) -> list[str]:
        """Names in stored order."""
        return list(self._facts["datasets"][dataset]["arrays"])

    def attributes(self, dataset: str) -> dict[str, Any]:
        """Timestamps as int nanoseconds."""
        found = self._facts["datasets"][dataset]["attributes"]
        return {key: unplain(value) for key, value in found.items()}

    def facts(self, dataset: str, array: str) -> dict[str, Any]:
        """Schema and statistics as the original tells them."""
        entry = dict(self._facts["datasets"][dataset]["arrays"][array])
        entry["dtype"] = DTYPES.get(entry["dtype"], entry["dtype"])
        entry["fill"] = unplain(entry["fill"])
        return entry

    def value(self, dataset: str, array: str) -> Any:
        """A tensor, or strings in lists for each axis; None where the array is missing."""
        entry = self._facts["datasets"][dataset]["arrays"].get(array)
        if entry is None:
            return None
        if "key" in entry:
            return torch.from_numpy(np.ascontiguousarray(self._numbers[entry["key"]])).reshape(
                entry["shape"]
            )
        strings = np.array(entry["strings"], object)
        return strings.reshape(entry["shape"]).tolist() if entry["shape"] else strings[0]

    def column(self, array: str, datasets: list[str] | None = None) -> list[Any]:
        """The values of one array over datasets."""
        return [self.value(name, array) for name in datasets or self.datasets]

    def all_arrays(self) -> Iterator[tuple[str, str]]:
        """Dataset and array names of everything in the store."""
        for dataset in self.datasets:
            for array in self.arrays_of(dataset):
                yield dataset, array


def unplain(value: Any) -> Any:
    """The JSON holds non-finite floats as ``{"float": "nan"}``, bytes as a list of integers."""
    if isinstance(value, dict):
        return float(value["float"])
    return bytes(value) if isinstance(value, list) else value
