"""Writers that commit again and again: files, shards, stores, array files."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reference.atp_file import AtpFile
from soak import numbered
from soak.killing import GrowingWriter, tell, tell_open

import atompack_torch as apt

# .atp files


def append_molecules(path: str, seed: str, first: str, codec: Any) -> None:
    """Appends and commits runs of molecules without end."""
    rng = random.Random(int(seed))
    with apt.AtpWriter(path, mode="a", codec=codec) as writer:
        n, width = int(first), rng.choice([1, 30, 400])
        assert len(writer) == n
        tell_open()
        while True:
            for _ in range(rng.randrange(1, 4)):
                last = n + rng.choice([1, 7, 60])
                tell("sent", last)  # before: some of it may be there after a kill
                writer.write_arrays(**numbered.molecules(n, last, width))
                n = last
            writer.flush()
            tell("done", n)


class AtpWriterNone(GrowingWriter):
    """``.atp`` files without compression."""

    name = "AtpWriter, none"
    weight = 1.5
    script = "growing_writers.append_molecules"
    arguments = ("none",)
    target = "a.atp"

    @classmethod
    def state_of(cls, path: Path) -> int:
        if not path.exists():
            return 0
        dataset = apt.AtpDataset(path)
        n = len(dataset)
        if n == 0:
            return 0
        batch, want = dataset.batch(range(n)), numbered.molecules(0, n)
        for key in ("positions", "atomic_numbers", "n_atoms", "energy"):
            assert np.array_equal(batch[key].numpy(), want[key]), key
        assert batch.name == want["name"]
        number = batch.positions[:, 0].double() * 0.5
        columns = batch.q if isinstance(batch.q, list) else [batch.q]
        rows = 0
        for values in columns:  # of several widths
            if values is not None and len(values):
                assert (values == number[rows : rows + len(values), None]).all()
                rows += len(values)
        assert rows == len(number)
        return n

    def kill_once(self) -> None:
        super().kill_once()
        path = self.folder / self.target
        if path.exists():
            slot = AtpFile.open(path).slot
            end = slot.index_offset + slot.index_length
            self.counts["bytes after the last commit"] += path.stat().st_size > end

    @classmethod
    def reopen(cls, path: Path) -> None:
        apt.AtpWriter(path, mode="a").close()


class AtpWriterLz4(AtpWriterNone):
    """``.atp`` files of lz4 blocks."""

    name = "AtpWriter, lz4"
    arguments = ("lz4",)


class AtpWriterZstd(AtpWriterNone):
    """``.atp`` files of zstd blocks."""

    name = "AtpWriter, zstd"
    arguments = ("zstd",)


# Shards


def append_examples(path: str, seed: str, first: str) -> None:
    """Appends ten examples at a time; each close is a commit."""
    rng, n = random.Random(int(seed)), int(first)
    tell_open()
    while True:
        tell("sent", n + 10)
        with apt.ShardWriter(path, rng.choice([4, 10, 25]), 2, mode="a") as writer:
            for i in range(n, n + 10):
                writer.write(numbered.example(i))
        n += 10
        tell("done", n)


class ShardAppending(GrowingWriter):
    """Appends to a dataset of Atlas shards."""

    name = "ShardWriter, append"
    script = "growing_writers.append_examples"
    target = "set"
    limit = 300

    @classmethod
    def state_of(cls, path: Path) -> int:
        if not path.exists():
            return 0
        dataset = apt.ShardDataset(path, missing_shards="error")
        n = len(dataset)
        assert n % 10 == 0, n
        batch = dataset.batch(range(n))
        assert torch.equal(batch["i"], torch.arange(n))
        assert torch.equal(batch["a"], torch.arange(n)[:, None] * torch.arange(200))
        return n

    def finish(self) -> None:
        if self.state:
            append_once(self.folder / self.target, self.state)
            self.state += 10
        super().finish()

    @classmethod
    def reopen(cls, path: Path) -> None:
        """Its writers only exist while they append; see ``finish``."""


def append_once(path: Path, first: int) -> None:
    """Appends ten examples."""
    with apt.ShardWriter(path, 7, 2, mode="a") as writer:
        for i in range(first, first + 10):
            writer.write(numbered.example(i))


# Stores and array files

SHAPES = ((6,), (2, 3), (1, 2, 3))


def _values(shape: tuple[int, ...], number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return (number + np.arange(6, dtype="i4")).reshape(shape)


def _redefine(
    define: Callable[..., None], write: Callable[..., None], place: tuple[str, ...], number: int
) -> None:
    shape = SHAPES[number % 3]
    define(*place, "int32", shape, chunk_shape=shape if number % 2 else (1, *shape[1:]))
    write(*place, _values(shape, number))


def flush_store(path: str, seed: str, first: str) -> None:
    """Flushes one number to all arrays, one of them redefined, and to an attribute; compacts."""
    rng, n = random.Random(int(seed)), int(first)
    torch.set_num_threads(1)
    mode = "a" if Path(path).exists() else "x"
    with apt.AtlasStore(path, mode, durable=rng.random() < 0.3) as store:
        tell_open()
        while True:
            n += 1
            is_new = not store.datasets
            for name in "de":
                if is_new:
                    store.create_dataset(name)
                    store.define_array(name, "a", "int32", (6,), chunk_shape=(2,))
                else:
                    store.delete_array(name, "x")
                store.write(name, "a", _values((6,), n))
                _redefine(store.define_array, store.write, (name, "x"), n)
            store.set_attr("d", "number", n)
            tell("sent", n)
            store.flush()
            if rng.random() < 0.2:
                store.compact()
            tell("done", n)


def _read_beside_a_writer(read: Callable[[], int]) -> int:
    """Reads again while a writer flushes in between."""
    while True:
        try:
            return read()
        except apt.FieldError as error:
            if "written to since" not in str(error):
                raise


class StoreFlushing(GrowingWriter):
    """Flushes and compactions of an ATLAS store."""

    name = "AtlasStore"
    script = "growing_writers.flush_store"
    target = "store"
    window = 0.1
    limit = 400

    @classmethod
    def state_of(cls, path: Path) -> int:
        if not path.exists():
            return 0
        return _read_beside_a_writer(lambda: cls._number_at(path))

    @classmethod
    def _number_at(cls, path: Path) -> int:
        with apt.AtlasStore(path) as store:
            return cls._number_in(store)

    @classmethod
    def _number_in(cls, store: apt.AtlasStore) -> int:
        if not store.datasets:
            return 0
        n = int(store.attrs("d")["number"])
        assert list(store.datasets) == ["d", "e"]
        for name in "de":
            assert np.array_equal(np.asarray(store.read(name, "a")), _values((6,), n))
            assert np.array_equal(np.asarray(store.read(name, "x")), _values(SHAPES[n % 3], n))
        for found in store.stats("a").values():  # next to a writer they may be absent
            assert (found.min, found.max) == (n, n + 5)
        return n

    @classmethod
    def reopen(cls, path: Path) -> None:
        apt.AtlasStore(path, "a").close()


def flush_array_file(path: str, seed: str, first: str) -> None:
    """Flushes one number to both arrays, one of them redefined; compacts."""
    rng, n = random.Random(int(seed)), int(first)
    torch.set_num_threads(1)
    mode = "a" if Path(path).exists() else "x"
    with apt.ArrayFile(path, mode, durable=rng.random() < 0.3) as file:
        tell_open()
        while True:
            n += 1
            if file.names:
                file.delete("x")
            else:
                file.define("a", "int32", (6,), chunk_shape=(2,))
            file.write("a", _values((6,), n))
            _redefine(file.define, file.write, ("x",), n)
            tell("sent", n)
            file.flush()
            if rng.random() < 0.2:
                file.compact()
            tell("done", n)


class ArrayFileFlushing(GrowingWriter):
    """Flushes and compactions of an array file."""

    name = "ArrayFile"
    script = "growing_writers.flush_array_file"
    target = "a.af"
    window = 0.05
    limit = 400

    @classmethod
    def state_of(cls, path: Path) -> int:
        if not path.exists():
            return 0
        return _read_beside_a_writer(lambda: cls._number_at(path))

    @classmethod
    def _number_at(cls, path: Path) -> int:
        with apt.ArrayFile(path) as file:
            if not file.names:
                return 0
            found = np.asarray(file.read("a"))
            n = int(found[0])
            assert np.array_equal(found, _values((6,), n))
            assert np.array_equal(np.asarray(file.read("x")), _values(SHAPES[n % 3], n))
            return n

    @classmethod
    def reopen(cls, path: Path) -> None:
        """Flushes what is there once more: only a flush removes what a killed one left."""
        with apt.ArrayFile(path, "a") as file:
            if file.names:
                file.write("a", file.read("a"))


GROWING: list[type[GrowingWriter]] = [
    AtpWriterNone,
    AtpWriterLz4,
    AtpWriterZstd,
    ShardAppending,
    StoreFlushing,
    ArrayFileFlushing,
]
