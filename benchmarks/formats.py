"""The same structures in all five formats: how large are they, how fast written and read?

    python benchmarks/formats.py [--quick] [--folder PATH]

20,000 structures of 5 to 40 atoms with energies and forces, float64. Batches of 64, on one thread,
of the energies, positions and forces, in order and at random; the best of three passes over the
same files, which are in memory. ``write`` begins with arrays in memory and ends on the disk. The
feature cache also holds features, which are computed while it is written.
"""

from __future__ import annotations

import functools
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from turns import best, parser_of

import atompack_torch as apt

BATCH = 64
FIELDS = ["energy", "positions", "forces"]
ELEMENTS = ["H", "C", "O"]


class Structure(NamedTuple):
    """One structure: (n,) numbers, (n, 3) positions and forces, energy."""

    numbers: Any
    positions: Any
    forces: Any
    energy: float


def structures(count: int) -> list[Structure]:
    """Random ones, with coordinates of six decimals as programs print them."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 41, count)
    return [
        Structure(
            rng.choice(np.array([1, 6, 8], np.uint8), n),
            np.round(rng.random((n, 3)) * 2 * n ** (1 / 3), 6),
            np.round(rng.standard_normal((n, 3)), 6),
            round(float(rng.standard_normal() * n), 6),
        )
        for n in sizes
    ]


def write_atp(path: Path, made: list[Structure], codec: Any) -> None:
    with apt.AtpWriter(path, codec=codec) as writer:
        writer.write_arrays(
            n_atoms=[len(each.numbers) for each in made],
            atomic_numbers=np.concatenate([each.numbers for each in made]),
            positions=np.concatenate([each.positions for each in made]),
            forces=np.concatenate([each.forces for each in made]),
            energy=np.array([each.energy for each in made]),
        )


def write_cache(path: Path, made: list[Structure]) -> None:
    molecules = path.with_suffix(".atp")
    write_atp(molecules, made, "none")
    descriptor = apt.ChebyshevDescriptor(ELEMENTS, 3, 4.0, 2, 3.0)
    apt.build_cache(apt.AtpDataset(molecules), descriptor, path, progress=False)


def write_store(path: Path, made: list[Structure]) -> None:
    with apt.AtlasStore(path, "x") as store:
        for i, each in enumerate(made):
            name = f"{i:06d}"
            store.create_dataset(name)
            for array, values in each._asdict().items():
                found = np.atleast_1d(values)
                store.define_array(name, array, found.dtype, found.shape)
                store.write(name, array, found)


def write_array_file(path: Path, made: list[Structure]) -> None:
    """All atoms in one array each, in chunks of 4096."""
    with apt.ArrayFile(path, "x") as file:
        for name in ("numbers", "positions", "forces"):
            values = np.concatenate([getattr(each, name) for each in made])
            chunk = (4096, *values.shape[1:])
            file.define(name, values.dtype, values.shape, chunk_shape=chunk)
            file.write(name, values)
        energies = np.array([each.energy for each in made])
        file.define("energy", "float64", energies.shape, chunk_shape=(4096,))
        file.write("energy", energies)


def write_shards(path: Path, made: list[Structure]) -> None:
    with apt.ShardWriter(path, shard_size=10_000, block_size=64) as writer:
        for each in made:
            writer.write(
                apt.Molecule(each.positions, each.numbers, energy=each.energy, forces=each.forces)
            )


def array_file_batches(
    path: Path, made: list[Structure], order: Iterable[list[int]]
) -> Iterator[Any]:
    """A box for each structure and field: array files have no notion of structures."""
    file = apt.ArrayFile(path)
    ends = np.cumsum([len(each.numbers) for each in made])
    for numbers in order:
        for i in numbers:
            n = len(made[i].numbers)
            first = int(ends[i]) - n
            yield file.read("positions", [first, 0], [n, 3]), file.read("energy", [i], [1])
            yield file.read("forces", [first, 0], [n, 3])


def batches_of(dataset: Any) -> Callable[[Iterable[list[int]]], Iterator[Any]]:
    """Batches of a dataset."""
    return lambda order: (dataset.batch(numbers) for numbers in order)


def size_of(path: Path) -> int:
    """Bytes of a file, its layers, or a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.stem}*{path.suffix}"))


def row(
    name: str,
    path: Path,
    count: int,
    orders: Sequence[list[list[int]]],
    write: Callable[[Path], None],
    reading: Callable[[Path], Any],
) -> str:
    """One line of the table."""
    written = best(lambda: write(path), 1)
    read = reading(path)
    spent = [best(lambda order=order: deque(read(order), 0), 3) for order in orders]
    rates = "".join(f"{count / seconds:12,.0f}" for seconds in (written, *spent))
    return f"{name:26}{size_of(path) / count:12,.0f}{rates}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--folder", type=Path, help="where the files are made")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    made = structures(2000 if arguments.quick else 20_000)
    count = len(made)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    orders = [
        [list(numbers[k : k + BATCH]) for k in range(0, count, BATCH)]
        for numbers in (range(count), shuffled)
    ]
    print(f"{'':26}{'bytes each':>12}{'written/s':>12}{'in order/s':>12}{'random/s':>12}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        kinds: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], Any]]] = {
            f".atp, {title}": (
                f"{codec}.atp",
                functools.partial(write_atp, made=made, codec=codec),
                lambda path: batches_of(apt.AtpDataset(path, fields=FIELDS)),
            )
            for codec, title in (("none", "no codec"), ("zstd", "zstd"))
        }
        kinds |= {
            "feature cache (HDF5)": (
                "cache.h5",
                lambda path: write_cache(path, made),
                lambda path: batches_of(apt.TorchCacheDataset(path, fields=["energy", "forces"])),
            ),
            "ATLAS store": (
                "store",
                lambda path: write_store(path, made),
                lambda path: batches_of(apt.AtlasDataset(path, FIELDS, layout="jagged")),
            ),
            "array file (.af)": (
                "arrays.af",
                lambda path: write_array_file(path, made),
                lambda path: lambda order: array_file_batches(path, made, order),
            ),
            "Atlas shards": (
                "shards",
                lambda path: write_shards(path, made),
                lambda path: batches_of(apt.ShardDataset(path)),
            ),
        }
        for name, (file_name, write, reading) in kinds.items():
            path = Path(folder, file_name)
            print(row(name, path, count, orders, write, reading), flush=True)


if __name__ == "__main__":
    main()
