"""torch_atlas_ds's reader in short: its rules of names, indices and frames; pickles are executed.

The original cannot be installed here, so this stands for it: what it must be able to read, and what
examples and batches have to be.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zstandard
from torch.utils.data import default_collate

from atompack_torch import Molecule, MoleculeBatch
from atompack_torch.fields import BUILTINS

ROOT_KEYS = {"version", "shard_sizes", "compression_strategy"}
SHARD_KEYS = {
    "version",
    "block_size",
    "stored_examples",
    "compression_strategy",
    "compression_level",
    "compression_dict_size",
}


class Shard:
    """One folder; the dictionary of the root is for those of strategy 2."""

    def __init__(self, folder: Path, shared: zstandard.ZstdCompressionDict | None) -> None:
        self.meta = _meta(folder / "meta.json", SHARD_KEYS)
        self.name = folder.name
        self._folder = folder
        self.index = np.load(folder / "index.npy", mmap_mode="r")
        strategy = self.meta["compression_strategy"]
        self._dictionary = shared if strategy == 2 else None
        if strategy == 3:
            self._dictionary = zstandard.ZstdCompressionDict(
                (folder / "zstd_dict.bin").read_bytes()
            )

    def __len__(self) -> int:
        return int(self.meta["stored_examples"])

    def raw(self, block: int) -> bytes:
        """The pickle of a block."""
        first, last = int(self.index[block]), int(self.index[block + 1])
        with (self._folder / "data.bin").open("rb") as file:
            file.seek(first)
            stored = file.read(last - first)
        if self.meta["compression_strategy"] == 0:
            return stored
        # Without a limit of its own it takes the size that the frame states, and fails if none is.
        return zstandard.ZstdDecompressor(dict_data=self._dictionary).decompress(stored)

    def example(self, number: int) -> Any:
        block, position = divmod(number, self.meta["block_size"])
        return pickle.loads(self.raw(block))[position]


class Reader:
    """A dataset: every folder in it is a shard, in the order of the names."""

    def __init__(self, root: Path) -> None:
        self.meta = _meta(root / "meta.json", ROOT_KEYS)
        shared = None
        if self.meta["compression_strategy"] == 2:
            shared = zstandard.ZstdCompressionDict((root / "zstd_dict.bin").read_bytes())
        folders = sorted((p for p in root.iterdir() if p.is_dir()), key=lambda p: p.name)
        self.shards = [Shard(folder, shared) for folder in folders]

    def __len__(self) -> int:
        return sum(map(len, self.shards))

    def __getitem__(self, number: int) -> Any:
        for shard in self.shards:
            if number < len(shard):
                return shard.example(number)
            number -= len(shard)
        raise IndexError(number)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


def _meta(path: Path, keys: set[str]) -> dict[str, Any]:
    meta = json.loads(path.read_text())
    assert set(meta) == keys, f"{path}: {set(meta) ^ keys}"
    assert meta["version"] == 1
    return dict(meta)


def collated(examples: list[Any], numbers: list[int]) -> Any:
    """What a batch of these examples has to be."""
    first = examples[0]
    if isinstance(first, dict) and {"positions", "atomic_numbers"} <= first.keys():
        batch = MoleculeBatch.from_molecules([molecule(example) for example in examples])
        batch.set_field("index", torch.tensor(numbers), "molecule")
        return batch
    if isinstance(first, dict):
        return {key: collated([e[key] for e in examples], numbers) for key in first}
    if isinstance(first, (list, tuple)):
        return [collated(list(values), numbers) for values in zip(*examples, strict=True)]
    if isinstance(first, (np.ndarray, torch.Tensor)) and len({e.shape for e in examples}) > 1:
        return [torch.as_tensor(example) for example in examples]
    return default_collate(examples)


def molecule(values: dict[str, Any]) -> Molecule:
    """Keys that are not labels are properties of molecules, except for magnetic moments."""
    given: dict[str, Any] = {"properties": {}, "atom_properties": {}}
    for key, value in values.items():
        scope = given["atom_properties" if key == "magmoms" else "properties"]
        (given if key in BUILTINS or key in ("positions", "atomic_numbers") else scope)[key] = value
    return Molecule(**given)


def assert_same(got: Any, want: Any, where: str = "") -> None:
    """Bit for bit; NumPy arrays and scalars may be tensors of their dtype in ``got``."""
    if isinstance(want, MoleculeBatch):
        assert isinstance(got, MoleculeBatch), where
        assert set(got.keys()) == set(want.keys()), where
        for key in want.keys():
            assert_same(got[key], want[key], f"{where}.{key}")
            assert got.level(key) == want.level(key), f"{where}.{key}"
            assert_same(got.mask(key), want.mask(key), f"{where}.mask({key})")
    elif isinstance(want, (np.ndarray, np.generic)) and isinstance(got, torch.Tensor):
        array = want.astype(want.dtype.newbyteorder("="))
        assert_same(got, torch.from_numpy(np.array(array, order="C")), where)
    elif isinstance(want, (np.ndarray, np.generic)):
        assert type(got) is type(want), where
        assert got.dtype == want.dtype, where
        assert got.shape == want.shape, where
        if want.dtype == object:
            for i in range(want.size):
                assert_same(got.flat[i], want.flat[i], f"{where}.flat[{i}]")
        else:
            assert got.tobytes() == want.tobytes(), where
    elif isinstance(want, torch.Tensor):
        assert isinstance(got, torch.Tensor), where
        assert (got.dtype, got.shape) == (want.dtype, want.shape), where
        assert got.requires_grad == want.requires_grad, where
        raw = [
            t.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8)
            for t in (got, want)
        ]
        assert raw[0].equal(raw[1]), where
    elif isinstance(want, dict):
        assert type(got) is dict, where
        assert [repr(key) for key in got] == [repr(key) for key in want], where
        for (key, a), b in zip(got.items(), want.values(), strict=True):
            assert_same(a, b, f"{where}[{key!r}]")
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want), where
        assert len(got) == len(want), where
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    else:
        assert type(got) is type(want), where
        assert repr(got) == repr(want), where
