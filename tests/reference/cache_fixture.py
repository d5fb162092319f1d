"""What aenet-python has in its cache files: entry by entry, and as a batch of ours should be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reference.compare import assert_same
from reference.fixture_files import names_of

from atompack_torch.batch.elements import SYMBOLS

# The one file that no reader here takes has a filter that is not ours.
READABLE = [name for name in names_of("torch_cache/*", ".h5") if name != "v2_both_f64_blosc"]
# Field of a batch -> key in the expected values.
EDGES = {
    "radial_center_idx": "r_center",
    "radial_neighbor_idx": "r_neighbor",
    "radial_dG_drij": "r_dG",
    "radial_neighbor_typespin": "r_spin",
}
TRIPLETS = {
    "angular_center_idx": "a_center",
    "angular_neighbor_j_idx": "a_j",
    "angular_neighbor_k_idx": "a_k",
    "angular_grads_i": "a_gi",
    "angular_grads_j": "a_gj",
    "angular_grads_k": "a_gk",
    "angular_triplet_typespin": "a_spin",
}
DERIVATIVES = EDGES | TRIPLETS
# Shape of a row, and the value of one that is absent.
LABELS: dict[str, tuple[str, tuple[int, ...], Any]] = {
    "energy": ("molecule", (), np.float64("nan")),
    "forces": ("atom", (3,), np.float64("nan")),
    "cell": ("molecule", (3, 3), np.float64(0)),
    "pbc": ("molecule", (3,), np.False_),
}


class CacheFixture:
    """A file and what the original reads from it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.h5"
        self.facts = json.loads((folder / f"{name}.expected.json").read_text())
        self.arrays = dict(np.load(folder / f"{name}.expected.npz"))
        self.has_features: bool = self.facts["has_persisted_features"]
        self.has_derivatives: bool = self.facts["has_persisted_force_derivatives"]
        self.multi: bool = self.facts.get("descriptor", {}).get("multi", True)

    def __len__(self) -> int:
        return int(self.facts["entries"])

    def array(self, entry: int, key: str) -> Any:
        return self.arrays.get(f"e{entry}_{key}")

    @property
    def derivatives(self) -> dict[str, str]:
        """The columns that there are."""
        if not self.has_derivatives:
            return {}
        return {n: k for n, k in DERIVATIVES.items() if self.multi or not n.endswith("typespin")}

    def label(self, entry: int, name: str) -> Any:
        """None: absent."""
        if name == "energy":
            energy = self.facts["entry"][entry]["structure_energy"]
            return None if energy in (None, "nan") else np.float64(energy)
        if name == "pbc" and self.array(entry, "cell") is not None:
            flags = self.array(entry, "pbc")
            return np.ones(3, dtype=bool) if flags is None else flags
        return self.array(entry, "ref_forces" if name == "forces" else name)

    def numbers(self, entry: int) -> list[int]:
        return [SYMBOLS.index(label) for label in self.facts["entry"][entry]["species"]]

    def assert_batch(self, batch: Any, entries: Sequence[int], joined: bool = False) -> None:
        """Names, values, levels and masks of a batch of all fields, bit for bit.

        ``joined``: of single molecules, which know nothing of fields that none of them has.
        """
        entries = [k % len(self) for k in entries]
        sizes = [len(self.numbers(k)) for k in entries]
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        want = {
            "positions": _rows([self.array(k, "positions").astype("<f8") for k in entries]),
            "atomic_numbers": np.array([z for k in entries for z in self.numbers(k)], np.int64),
            "n_atoms": np.array(sizes, np.int64),
            "batch": np.repeat(np.arange(len(entries)), sizes),
            "ptr": ptr,
            "index": np.array(entries, np.int64),
        }
        for name, value in want.items():
            assert_same(batch[name], torch.from_numpy(value), name)
        fields = [*LABELS, "name", *self.derivatives, *["features"] * self.has_features]
        if joined:
            fields = [name for name in fields if any(self.has(k, name) for k in entries)]
        assert set(batch.keys()) == {*want, *fields}
        self.assert_labels(batch, entries)
        self.assert_rows(batch, entries, ptr)

    def has(self, entry: int, name: str) -> bool:
        """Whether an entry has a field."""
        if name == "name":
            return self.facts["entry"][entry]["structure_name"] is not None
        if name in LABELS:
            return self.label(entry, name) is not None
        return self.array(entry, DERIVATIVES.get(name, name)) is not None

    def assert_labels(self, batch: Any, entries: Sequence[int]) -> None:
        for name, (level, shape, absent) in LABELS.items():
            if name not in batch:
                continue  # assert_batch has seen to it that none has it
            values = [self.label(k, name) for k in entries]
            rows = [len(self.numbers(k)) if level == "atom" else 1 for k in entries]
            filled = [
                np.full((n, *shape), absent) if v is None else np.reshape(v, (n, *shape))
                for v, n in zip(values, rows, strict=True)
            ]
            assert_same(batch[name], torch.from_numpy(_rows(filled)), name)
            assert batch.level(name) == level
            assert batch.mask(name).tolist() == [v is not None for v in values]
        if "name" in batch:
            names = [self.facts["entry"][k]["structure_name"] for k in entries]
            assert batch["name"] == names
            assert batch.mask("name").tolist() == [name is not None for name in names]

    def assert_rows(self, batch: Any, entries: Sequence[int], ptr: Any) -> None:
        """Features and derivatives alone."""
        if self.has_features:
            want = _rows([self.array(k, "features") for k in entries])
            assert_same(batch.features, torch.from_numpy(want), "features")
            assert batch.level("features") == "atom"
            assert bool(batch.mask("features").all())
        for name, key in self.derivatives.items():
            if name not in batch:
                continue
            values = [(self.array(k, key), ptr[i]) for i, k in enumerate(entries)]
            is_index = name.endswith("_idx")
            there = [v + first if is_index else v for v, first in values if v is not None]
            if there:
                assert_same(batch[name], torch.from_numpy(_rows(there)), name)
            else:
                assert len(batch[name]) == 0
            assert batch.level(name) == ("edge" if name in EDGES else "triplet")
            assert batch.mask(name).tolist() == [value is not None for value, _ in values]


def _rows(arrays: list[Any]) -> Any:
    return np.concatenate(arrays)
