"""Shards of examples: how fast are batches read and shards written, next to pickle and zstandard?

    python benchmarks/atlas_shards.py [--rounds N] [--examples N] [--quick]

Atomistic examples of 5 to 40 atoms (positions, numbers, forces, energy), in blocks of 100 and
shards of 5000, strategy 2. The other side does what torch_atlas_ds does: it decompresses with
zstandard, unpickles, keeps the last block of each shard, and a DataLoader concatenates batches of
64. Both read the same files, which lie in the page cache, with one torch thread. Batches are
compared first. Sides take turns in one process; medians count.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zstandard
from results import Result, note
from torch.utils.data import DataLoader, Dataset
from turns import parser_of, take_turns

import atompack_torch as apt

BATCH, BLOCK, SHARD, WINDOW = 64, 100, 5000, 16
Example = dict[str, Any]


class Pickled(Dataset[Example]):
    """Reads as the original does."""

    def __init__(self, root: Path) -> None:
        meta = json.loads((root / "meta.json").read_text())
        self.dictionary = None
        if meta["compression_strategy"] == 2:
            self.dictionary = zstandard.ZstdCompressionDict((root / "zstd_dict.bin").read_bytes())
        self.folders = sorted(path for path in root.iterdir() if path.is_dir())
        self.metas = [json.loads((path / "meta.json").read_text()) for path in self.folders]
        self.indices = [np.load(path / "index.npy", mmap_mode="r") for path in self.folders]
        self.files = [(path / "data.bin").open("rb") for path in self.folders]
        self.ends = np.cumsum([meta["stored_examples"] for meta in self.metas])
        self.kept: dict[int, tuple[int, list[Example]]] = {}

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, number: int) -> Example:
        shard = int(np.searchsorted(self.ends, number, side="right"))
        inside = number - (int(self.ends[shard - 1]) if shard else 0)
        block, position = divmod(inside, self.metas[shard]["block_size"])
        kept = self.kept.get(shard)
        if kept is None or kept[0] != block:
            kept = self.kept[shard] = block, self.load(shard, block)
        return kept[1][position]

    def load(self, shard: int, block: int) -> list[Example]:
        """The examples of a block."""
        first, last = int(self.indices[shard][block]), int(self.indices[shard][block + 1])
        stored = os.pread(self.files[shard].fileno(), last - first, first)
        if self.metas[shard]["compression_strategy"] != 0:
            stored = zstandard.ZstdDecompressor(dict_data=self.dictionary).decompress(stored)
        return list(pickle.loads(stored))


def concatenate(examples: list[Example]) -> dict[str, torch.Tensor]:
    """The collate function of someone who wants it fast."""

    def joined(key: str) -> torch.Tensor:
        return torch.cat([torch.as_tensor(example[key]) for example in examples])

    n_atoms = torch.tensor([len(example["positions"]) for example in examples])
    return {
        "positions": joined("positions"),
        "atomic_numbers": joined("atomic_numbers"),
        "forces": joined("forces"),
        "energy": torch.tensor([example["energy"] for example in examples], dtype=torch.float64),
        "batch": torch.repeat_interleave(torch.arange(len(examples)), n_atoms),
    }


def write_as_the_original(root: Path, examples: Iterable[Example]) -> None:
    """Blocks pickled by Python; the first shard trains the dictionary, with zstandard's trainer."""
    root.mkdir()
    shards: list[list[bytes]] = []
    block: list[Example] = []
    for n, example in enumerate(examples):
        if n % SHARD == 0:
            shards.append([])
        block.append(example)
        if len(block) == BLOCK:
            shards[-1].append(pickle.dumps(block))
            block = []
    raw = shards[0]
    dictionary = zstandard.train_dictionary(max(1024, sum(map(len, raw)) // 100 + 1), raw)
    (root / "zstd_dict.bin").write_bytes(dictionary.as_bytes())
    compressor = zstandard.ZstdCompressor(level=3, dict_data=dictionary)
    for k, blocks in enumerate(shards):
        (root / str(k)).mkdir()
        with (root / str(k) / "data.bin").open("wb") as file:
            for pickled in blocks:
                file.write(compressor.compress(pickled))


def write(root: Path, examples: Iterable[Example]) -> None:
    with apt.ShardWriter(root, SHARD, BLOCK) as writer:
        for example in examples:
            writer.write(example)


def examples_of(n: int, tensors: bool) -> list[Example]:
    rng = np.random.default_rng(0)
    kind: Callable[[Any], Any] = torch.from_numpy if tensors else lambda array: array
    made = []
    for _ in range(n):
        atoms = int(rng.integers(5, 41))
        made.append(
            {
                "positions": kind(rng.normal(size=(atoms, 3)).astype(np.float32).round(3)),
                "atomic_numbers": kind(rng.choice([1, 6, 7, 8], atoms)),
                "energy": float(rng.normal()),
                "forces": kind(rng.normal(size=(atoms, 3)).astype(np.float32).round(3)),
            }
        )
    return made


def go_through(loader: Iterable[Any], most: int | None = None) -> None:
    """A pass, or its first batches."""
    for k, batch in enumerate(loader):
        batch["positions"].data_ptr()
        if k + 1 == most:
            return


def report(
    what: str, n: int, sides: Mapping[str, tuple[int, Callable[[], object]]], rounds: int
) -> None:
    """Each side with the number of examples that it goes through; the last is the original."""
    seconds = take_turns({name: side for name, (_, side) in sides.items()}, rounds)
    rates = {name: sides[name][0] / each.median for name, each in seconds.items()}
    *_, original = rates
    print(f"  {what}: the original {rates[original]:,.0f} examples/s")
    for name, rate in rates.items():
        if name != original:
            print(f"    {name}: {rate:,.0f} examples/s, {rate / rates[original]:.1f} times faster")
            numbers = (rate, "examples/s", "zstandard and pickle", rates[original])
            case = what if name == "ours" else f"{what}: {name}"
            note(Result("Atlas shards", case, *numbers))


def check(root: Path) -> None:
    """Both sides make the same tensors."""
    theirs = Pickled(root)
    batch = apt.ShardDataset(root).batch(range(BATCH))
    for name, tensor in concatenate([theirs[i] for i in range(BATCH)]).items():
        assert torch.equal(batch[name], tensor), name


def report_reading(root: Path, n: int, rounds: int) -> None:
    check(root)

    def ours(**options: Any) -> tuple[int, Callable[[], object]]:
        return n, functools.partial(
            go_through, DataLoader(apt.ShardDataset(root), BATCH, **options)
        )

    def theirs(part: int, **options: Any) -> tuple[int, Callable[[], object]]:
        loader = DataLoader(Pickled(root), BATCH, collate_fn=concatenate, **options)
        return n // part, functools.partial(go_through, loader, n // part // BATCH)

    few = apt.ShardDataset(root, cache_blocks=WINDOW)
    in_order = {
        "DataLoader": (n, functools.partial(go_through, DataLoader(few, BATCH))),
        "Loader": (n, functools.partial(go_through, apt.Loader(few, BATCH))),
        "theirs": theirs(1),
    }
    report("in order, no workers", n, in_order, rounds)
    blocks = apt.BlockShuffleSampler(few, window=WINDOW)
    shuffled = {
        f"blocks shuffled, windows of {WINDOW}, {WINDOW} kept": (
            n,
            functools.partial(go_through, DataLoader(few, BATCH, sampler=blocks)),
        ),
        "fully shuffled, all kept": ours(shuffle=True),
        "theirs": theirs(8, shuffle=True),
    }
    report("shuffled, the original fully", n, shuffled, rounds)
    workers = {"DataLoader": ours(num_workers=2), "theirs": theirs(1, num_workers=2)}
    report("in order, 2 workers", n, workers, rounds)


def report_tensors(root: Path, n: int, rounds: int) -> None:
    write(root, examples_of(n, tensors=True))
    check(root)
    loaders = {
        "DataLoader": DataLoader(apt.ShardDataset(root, cache_blocks=WINDOW), BATCH),
        "theirs": DataLoader(Pickled(root), BATCH, collate_fn=concatenate),
    }
    sides = {name: (n, functools.partial(go_through, each)) for name, each in loaders.items()}
    report("tensors in the examples, in order, no workers", n, sides, rounds)


def report_writing(folder: Path, n: int, rounds: int) -> None:
    examples = examples_of(n, tensors=False)
    sizes = {}

    def fresh(make: Callable[[Path, Iterable[Example]], None], name: str) -> None:
        root = folder / name
        shutil.rmtree(root, ignore_errors=True)
        make(root, examples)
        sizes[name] = sum(path.stat().st_size for path in root.rglob("*.bin"))

    sides = {
        "ours": (n, functools.partial(fresh, write, "ours")),
        "theirs": (n, functools.partial(fresh, write_as_the_original, "theirs")),
    }
    report("written, durably", n, sides, rounds)
    print(f"    {sizes['ours'] / sizes['theirs']:.3f} times as large")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=20_000)
    options = parser.parse_args()
    n, rounds = (2000, 1) if options.quick else (options.examples, options.rounds)
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}; {n} examples")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report_writing(folder, n, rounds)
        report_reading(folder / "ours", n, rounds)
        report_tensors(folder / "tensors", n // 8, rounds)


if __name__ == "__main__":
    main()
