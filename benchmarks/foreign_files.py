"""How fast are extended XYZ and ASE databases opened, read and converted, compared with ASE?

    python benchmarks/foreign_files.py [--quick] [--folder PATH] [--rounds N] [--cases CASE ...]

Structures of 10, 30 and 50 atoms with energies, forces, stresses and cells, as ASE and
ase-db-backends write them; Parquet as LeMat-Traj has it. Epochs are shuffled, in batches of 64, on
one thread; ASE's side reads the same structures one after the other and stacks energies, positions
and forces of 64 of them as tensors. Both sides take turns. Files are in memory. Conversions use all
cores and end on the disk.

Each figure is the best and the median of the rounds, and the best rate per second of processor
time, which other work on the machine disturbs less. Memory is the peak of a fresh process.
"""

from __future__ import annotations

import io
import itertools
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ase
import ase.io
import numpy as np
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from ase_db_backends.aselmdb import LMDBDatabase
from convert import peak_memory
from turns import parser_of, take_turns

import atompack_torch as apt
from atompack_torch.conversion import convert

BATCH = 64
DISTINCT = 250  # structures, repeated


def distinct(n: int) -> list[ase.Atoms]:
    """Structures of n atoms with results."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(DISTINCT):
        atoms = ase.Atoms(rng.integers(1, 80, n), rng.uniform(0, 10, (n, 3)), pbc=True)
        atoms.cell[:] = rng.normal(size=(3, 3)) + 10 * np.eye(3)
        results = {"forces": rng.normal(size=(n, 3)), "stress": rng.normal(size=6)}
        atoms.calc = SinglePointCalculator(atoms, energy=float(rng.normal()), **results)
        atoms.info["config_type"] = "bulk"
        made.append(atoms)
    return made


def n_repeats(count: int) -> int:
    return -(-count // DISTINCT)


def write_xyz(path: Path, count: int, n: int) -> None:
    text = io.StringIO()
    ase.io.write(text, distinct(n), format="extxyz")
    with path.open("w") as file:
        for _ in range(n_repeats(count)):
            file.write(text.getvalue())


def write_database(path: Path, count: int, n: int) -> None:
    import lmdb

    first = path.with_name("first.aselmdb")
    with LMDBDatabase(first) as database:
        for number, atoms in enumerate(distinct(n)):
            data = {"charge": 0, "spin": 1, "origin": "some/path", "sid": number}
            database.write(atoms, data=data)
    source = lmdb.open(str(first), subdir=False, readonly=True, lock=False)
    with source, source.begin() as rows:
        values = n_repeats(count) * [rows.get(b"%d" % (i + 1)) for i in range(DISTINCT)]
    first.unlink()
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 36, lock=False, meminit=False)
    with environment, environment.begin(write=True) as transaction:
        for i, value in enumerate(values):
            transaction.put(b"%d" % (i + 1), value)
        transaction.put(b"nextid", zlib.compress(b"%d" % (len(values) + 1)))


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


class Rate(NamedTuple):
    """Structures or bytes a second."""

    median: float
    best: float
    of_processor: float

    def __str__(self) -> str:
        return (
            f"{self.best:,.0f}/s (median {self.median:,.0f}, "
            f"{self.of_processor:,.0f} per processor second)"
        )


def rates(rounds: int, *sides: tuple[int, Callable[[], object]]) -> list[Rate]:
    """Rates of several sides, each a count and its work, which take turns."""
    spent = take_turns({number: work for number, (_, work) in enumerate(sides)}, rounds)
    return [
        Rate(*(count / seconds for seconds in spent[number]))
        for number, (count, _) in enumerate(sides)
    ]


def ratios(ours: Rate, theirs: Rate) -> str:
    """How many times faster the first is, by the clock and by processor time."""
    times = ours.median / theirs.median, ours.of_processor / theirs.of_processor
    return f"{times[0]:.0f}x by the clock, {times[1]:.0f}x by processor time"


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


def extended_xyz(folder: Path, count: int, n_ase: int, rounds: int) -> None:
    path, small = folder / "a.xyz", folder / "small.xyz"
    write_xyz(path, count, 30)
    write_xyz(small, n_ase, 30)
    size = path.stat().st_size
    path.read_bytes()
    (index,) = rates(rounds, (size, lambda: apt.ExtxyzDataset(path, index=False)))
    apt.ExtxyzDataset(path)
    (again,) = rates(rounds, (1, lambda: apt.ExtxyzDataset(path)))
    dataset = apt.ExtxyzDataset(path, num_threads=1)
    ours, theirs = rates(
        rounds,
        (count, lambda: epoch(dataset)),
        (n_ase, lambda: exhaust(stacked(ase.io.iread(small, ":")))),
    )
    print(f"extended XYZ, {count:,} structures of 30 atoms, {size / 1e9:.2f} GB")
    print(f"  index, bytes           {index}")
    print(f"  opened again           {1e3 / again.best:.1f} ms (median {1e3 / again.median:.1f})")
    print(f"  epoch, one thread      {ours}")
    print(f"  ase.io, in order       {theirs}: {ratios(ours, theirs)}")
    path.unlink()


def databases(folder: Path, count: int, n_ase: int, rounds: int) -> None:
    path, small = folder / "a.aselmdb", folder / "small.aselmdb"
    write_database(path, count, 30)
    write_database(small, n_ase, 30)
    path.read_bytes()
    (index,) = rates(rounds, (count, lambda: apt.AseLmdbDataset(path, index=False)))
    apt.AseLmdbDataset(path)
    (again,) = rates(rounds, (1, lambda: apt.AseLmdbDataset(path)))
    one, two = (apt.AseLmdbDataset(path, num_threads=threads) for threads in (1, 2))
    ours, on_two, theirs = rates(
        rounds,
        (count, lambda: epoch(one)),
        (count, lambda: epoch(two)),
        (n_ase, lambda: exhaust(stacked(rows_of(small, n_ase)))),
    )
    print(f".aselmdb, {count:,} structures of 30 atoms, {path.stat().st_size / 1e9:.2f} GB")
    print(f"  index, rows            {index}")
    print(f"  opened again           {1e3 / again.best:.1f} ms (median {1e3 / again.median:.1f})")
    print(f"  epoch, one thread      {ours}")
    print(f"  epoch, two threads     {on_two}: {ratios(on_two, theirs)}")
    print(f"  ase-db-backends        {theirs}: {ratios(ours, theirs)}")
    path.unlink()


def write_parquet(path: Path, count: int, n: int) -> None:
    """Rows with the columns of LeMat-Traj."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "immutable_id": f"agm{i:09}",
            "lattice_vectors": atoms.cell.tolist(),
            "cartesian_site_positions": atoms.positions.tolist(),
            "species_at_sites": atoms.get_chemical_symbols(),
            "energy": atoms.calc.results["energy"],
            "forces": atoms.calc.results["forces"].tolist(),
            "stress_tensor": np.eye(3).tolist(),
            "functional": "pbe",
            "band_gap_direct": 0.5,
        }
        for i, atoms in enumerate(distinct(n))
    ]
    table = pa.Table.from_pylist(rows)
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for first in range(0, n_repeats(count), 50):
            n_tables = min(50, n_repeats(count) - first)
            writer.write_table(pa.concat_tables([table] * n_tables))


WRITERS = {"a.xyz": write_xyz, "a.aselmdb": write_database, "a.parquet": write_parquet}


def conversions(folder: Path, count: int, rounds: int) -> None:
    for n in (10, 30, 50):
        for name, write in WRITERS.items():
            path = folder / f"{n}-{name}"
            write(path, count, n)
            path.read_bytes()
            work = partial(convert, path, folder / "out.atp", mode="w", progress=False)
            (found,) = rates(rounds, (count, work))
            print(f"{name[2:]} to .atp, {n} atoms: {found}")
            path.unlink()


def memory(folder: Path, count: int) -> None:
    """Peaks of conversions of a source and of one ten times as long."""
    for name, write in WRITERS.items():
        peaks = []
        for n in (count // 10, count):
            path = folder / name
            write(path, n, 30)
            peaks.append(peak_memory(path, folder / "out.atp") / 1e6)
            path.unlink()
        text = f"{peaks[0]:,.0f} MB for {count // 10:,}, {peaks[1]:,.0f} MB for {count:,}"
        print(f"memory, {name[2:]} to .atp: {text}")


CASES = ("xyz", "aselmdb", "conversions", "memory")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--folder", type=Path, help="where files are made; it needs 2 GB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--count", type=int, default=200_000, help="structures in a file")
    given = parser.parse_args()
    count, n_ase = (1000, DISTINCT) if given.quick else (given.count, 2000)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if "xyz" in given.cases:
            extended_xyz(folder, count, n_ase, given.rounds)
        if "aselmdb" in given.cases:
            databases(folder, count // 2, n_ase, given.rounds)
        if "conversions" in given.cases:
            conversions(folder, count, given.rounds)
        if "memory" in given.cases:
            memory(folder, count)


if __name__ == "__main__":
    main()
