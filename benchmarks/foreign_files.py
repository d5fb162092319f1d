"""How fast are extended XYZ and ASE databases opened, read and converted, compared with ASE?

    python benchmarks/foreign_files.py [--quick] [--folder PATH]

Structures of 10, 30 and 50 atoms with energies, forces, stresses and cells, as ASE and
ase-db-backends write them. Epochs are shuffled, in batches of 64, on one thread; ASE's side reads
the same structures one after the other and stacks energies, positions and forces of 64 of them as
tensors. Files are in memory. Conversions use all cores and end on the disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import torch
from ase_db_backends.aselmdb import LMDBDatabase

import atompack_torch as apt
from atompack_torch.conversion import convert

BATCH = 64
DISTINCT = 300  # structures, repeated


def structure(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {
        "numbers": rng.integers(1, 80, n),
        "positions": rng.uniform(0, 10, (n, 3)),
        "cell": rng.normal(size=(3, 3)) + 10 * np.eye(3),
        "energy": float(rng.normal()),
        "forces": rng.normal(size=(n, 3)),
        "stress": rng.normal(size=6),
    }


def write_xyz(path: Path, count: int, n: int) -> None:
    rng = np.random.default_rng(0)
    symbols = np.array(ase.data.chemical_symbols)
    frames = []
    for _ in range(DISTINCT):
        made = structure(rng, n)
        cell = " ".join(f"{value:.10f}" for value in made["cell"].ravel())
        stress = " ".join(f"{value:.12f}" for value in made["cell"].ravel())
        head = (
            f'Lattice="{cell}" Properties=species:S:1:pos:R:3:forces:R:3 '
            f'energy={made["energy"]:.12f} stress="{stress}" config_type=bulk pbc="T T T"'
        )
        rows = np.hstack([made["positions"], made["forces"]])
        lines = [
            f"{symbol:2} " + " ".join(f"{value:15.8f}" for value in row)
            for symbol, row in zip(symbols[made["numbers"]], rows, strict=True)
        ]
        frames.append("\n".join([str(n), head, *lines]) + "\n")
    with path.open("w") as file:
        for first in range(0, count, DISTINCT):
            file.write("".join(frames[: count - first]))


def as_json(values: Any) -> dict[str, Any]:
    array = np.asarray(values)
    return {"__ndarray__": [list(array.shape), str(array.dtype), array.ravel().tolist()]}


def write_database(path: Path, count: int, n: int) -> None:
    import lmdb

    rng = np.random.default_rng(0)
    rows = []
    for i in range(DISTINCT):
        row: dict[str, Any] = {
            key: as_json(value) if isinstance(value, np.ndarray) else value
            for key, value in structure(rng, n).items()
        }
        row |= {"pbc": as_json([True] * 3), "unique_id": "0" * 32, "ctime": 26.9, "mtime": 26.9}
        row |= {"calculator": "unknown", "calculator_parameters": {}, "key_value_pairs": {}}
        row["data"] = {"charge": 0, "spin": 1, "origin": "some/path", "sid": i}
        rows.append(zlib.compress(json.dumps(row).encode()))
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 36, lock=False, meminit=False)
    with environment.begin(write=True) as transaction:
        for i in range(count):
            transaction.put(b"%d" % (i + 1), rows[i % DISTINCT])
        transaction.put(b"nextid", zlib.compress(b"%d" % (count + 1)))
    environment.close()


def stacked(structures: Iterable[ase.Atoms]) -> Iterator[tuple[torch.Tensor, ...]]:
    """Batches of tensors, as a collate function makes them."""
    for batch in batched(structures):
        yield (
            torch.tensor([atoms.get_potential_energy() for atoms in batch]),
            torch.from_numpy(np.concatenate([atoms.positions for atoms in batch])),
            torch.from_numpy(np.concatenate([atoms.get_forces() for atoms in batch])),
        )


def batched(structures: Iterable[ase.Atoms]) -> Iterator[list[ase.Atoms]]:
    iterator = iter(structures)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch


def rate(count: int, work: Callable[[], object], repeats: int = 3) -> float:
    """Structures a second, the best of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return count / best


def epoch(dataset: Any) -> None:
    order = torch.randperm(len(dataset)).tolist()
    for first in range(0, len(order), BATCH):
        batch = dataset.batch(order[first : first + BATCH])
        assert batch.forces.shape == batch.positions.shape


def exhaust(batches: Iterable[object]) -> None:
    for _ in batches:
        pass


def rows_of(path: Path, count: int) -> Iterator[ase.Atoms]:
    database = LMDBDatabase(path, readonly=True, use_lock_file=False)
    for i in np.random.default_rng(0).permutation(count):
        yield database._get_row_by_index(int(i)).toatoms()


def extended_xyz(folder: Path, count: int, n_ase: int) -> None:
    path, small = folder / "a.xyz", folder / "small.xyz"
    write_xyz(path, count, 30)
    write_xyz(small, n_ase, 30)
    size = path.stat().st_size
    path.read_bytes()
    index = size / (count / rate(count, lambda: apt.ExtxyzDataset(path, index=False)))
    apt.ExtxyzDataset(path)
    again = count / rate(count, lambda: apt.ExtxyzDataset(path))
    ours = rate(count, lambda: epoch(apt.ExtxyzDataset(path, num_threads=1)))
    theirs = rate(n_ase, lambda: exhaust(stacked(ase.io.iread(small, ":"))), 1)
    print(f"extended XYZ, {count:,} structures of 30 atoms, {size / 1e9:.2f} GB")
    print(f"  index                  {index / 1e9:.2f} GB/s; opened again in {again * 1e3:.1f} ms")
    peer = f"ase.io in order {theirs:,.0f}/s: {ours / theirs:.0f}x"
    print(f"  epoch, one thread      {ours:,.0f}/s; {peer}")


def databases(folder: Path, count: int, n_ase: int) -> None:
    path, small = folder / "a.aselmdb", folder / "small.aselmdb"
    write_database(path, count, 30)
    write_database(small, n_ase, 30)
    path.read_bytes()
    index = rate(count, lambda: apt.AseLmdbDataset(path, index=False))
    apt.AseLmdbDataset(path)
    again = count / rate(count, lambda: apt.AseLmdbDataset(path))
    theirs = rate(n_ase, lambda: exhaust(stacked(rows_of(small, n_ase))), 1)
    print(f".aselmdb, {count:,} structures of 30 atoms, {path.stat().st_size / 1e9:.2f} GB")
    print(f"  index                  {index:,.0f}/s; opened again in {again * 1e3:.1f} ms")
    for threads in (1, 2):
        dataset = apt.AseLmdbDataset(path, num_threads=threads)
        ours = rate(count, partial(epoch, dataset))
        peer = f"ase-db-backends and collate {theirs:,.0f}/s: {ours / theirs:.0f}x"
        print(f"  epoch, {threads} thread(s)     {ours:,.0f}/s; {peer}")


def conversions(folder: Path, count: int) -> None:
    for n in (10, 30, 50):
        for name, write in (("a.xyz", write_xyz), ("a.aselmdb", write_database)):
            path = folder / f"{n}-{name}"
            write(path, count, n)
            path.read_bytes()
            work = partial(convert, path, folder / "out.atp", mode="w", progress=False)
            found = rate(count, work)
            print(f"{name[2:]} to .atp, {n} atoms: {found:,.0f}/s")
            path.unlink()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"largest memory of all: {peak / 1024:,.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="check that it runs")
    parser.add_argument("--folder", type=Path, help="where files are made; it needs 2 GB")
    given = parser.parse_args()
    count, n_ase = (1200, 128) if given.quick else (200_000, 2000)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        extended_xyz(Path(folder), count, n_ase)
        databases(Path(folder), count // 2, n_ase)
        conversions(Path(folder), count)


if __name__ == "__main__":
    main()
