"""How fast are random batches read from an ``.atp`` file three times as large as memory?

    python benchmarks/larger_than_memory.py [--quick] [--file FILE] [--rounds N]

Each side is a process in a memory cgroup of its own (needs root), with nothing of the file in
memory at its start, and reads the same random molecules:

* the ``Loader`` with one thread, the same with ``access="direct"``, ``ds.batch`` alone, and a
  ``DataLoader`` with two workers;
* hints by hand: Python's ``mmap`` and ``madvise``, 256 records ahead;
* a loop in C that does the same and copies the records;
* atompack-db.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turns import in_own_process, parser_of

ATOMS = 35  # 915 bytes a molecule
BATCH = 64
LIMIT = 450 << 20  # of the memory of a side
AT_ONCE = 50_000  # molecules per write
WARM_UP = 16  # batches before the clock starts
SIDES = ("loader", "direct", "batch", "workers", "by_hand", "c_loop", "atompack-db")


def make_file(path: Path, megabytes: int) -> None:
    """Write a file of molecules of 915 bytes."""
    import numpy as np

    import atompack_torch as apt

    rng = np.random.default_rng(0)
    count = megabytes * 1_000_000 // 935
    with apt.AtpWriter(path, codec="none") as writer:
        for first in range(0, count, AT_ONCE):
            n = min(AT_ONCE, count - first)
            writer.write_arrays(
                positions=rng.normal(size=(n, ATOMS, 3)).astype(np.float32),
                atomic_numbers=rng.integers(1, 80, (n, ATOMS)),
                energy=rng.normal(size=n),
                forces=rng.normal(size=(n, ATOMS, 3)).astype(np.float32),
            )
            print(f"\rwriting {path}: {first + n} of {count} molecules", end="", file=sys.stderr)
    print(file=sys.stderr)


def drop_from_memory(path: Path) -> None:
    """Evict the file from the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def batches_of(path: Path, n_batches: int) -> Any:
    """Random molecules, (n_batches, 64) int64."""
    import torch

    import atompack_torch as apt

    generator = torch.Generator().manual_seed(1)
    size = len(apt.AtpDataset(path))
    return torch.randint(size, (n_batches, BATCH), generator=generator)


def rate_of(batches: Any) -> float:
    """Records per second of an iterator over batches, after the first ones."""
    n, start = 0, 0.0
    for i, _ in enumerate(batches):
        if i == WARM_UP:
            start = time.perf_counter()
        n = i
    return (n - WARM_UP) * BATCH / (time.perf_counter() - start)


def run_dataset(side: str, path: Path, n_batches: int) -> float:
    import torch

    import atompack_torch as apt

    torch.set_num_threads(1)
    order = batches_of(path, n_batches).tolist()
    dataset = apt.AtpDataset(path, access="direct" if side == "direct" else "auto")
    if side in ("loader", "direct"):
        return rate_of(apt.Loader(dataset, batch_sampler=order, num_threads=1))
    if side == "workers":
        return rate_of(
            torch.utils.data.DataLoader(
                dataset, batch_sampler=order, num_workers=2, collate_fn=apt.collate_identity
            )
        )
    return rate_of(dataset.batch(indices) for indices in order)


def record_ranges(path: Path, n_batches: int) -> Any:
    """Offset and length of the records of these batches in order, (n, 2) int64."""
    import numpy as np

    from atompack_torch._native import AtpSnapshot

    indices = batches_of(path, n_batches).flatten().numpy()
    entry = np.dtype([("offset", "<u8"), ("stored", "<u4"), ("decoded", "<u4"), ("atoms", "<u4")])
    state = AtpSnapshot.take(path).__getstate__()
    index = np.fromfile(path, entry, state[7], offset=state[5] + 8)[indices]
    return np.stack([index["offset"], index["stored"]], 1).astype("<i8")


def run_by_hand(path: Path, n_batches: int) -> float:
    import mmap

    records = record_ranges(path, n_batches).tolist()
    window, page = 256, mmap.PAGESIZE
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        drop_from_memory(path)
        mapped.madvise(mmap.MADV_RANDOM)

        def hint(first: int, length: int) -> None:
            begin = first // page * page
            mapped.madvise(mmap.MADV_WILLNEED, begin, first + length - begin)

        start = time.perf_counter()
        for offset, length in records[:window]:
            hint(offset, length)
        for i, (offset, length) in enumerate(records):
            if i + window < len(records):
                hint(*records[i + window])
            _ = mapped[offset : offset + length]
        return len(records) / (time.perf_counter() - start)


def run_c_loop(path: Path, n_batches: int, program: Path) -> float:
    with tempfile.NamedTemporaryFile() as offsets:
        record_ranges(path, n_batches).tofile(offsets.name)
        drop_from_memory(path)
        done = subprocess.run(
            [program, path, offsets.name, "256"], check=True, capture_output=True, text=True
        )
    return float(done.stdout)


def run_atompack_db(path: Path, n_batches: int) -> float:
    import atompack

    database = atompack.Database.open(str(path))
    order = batches_of(path, n_batches).tolist()
    return rate_of(database.get_molecules(indices) for indices in order)


def run_side(side: str, arguments: argparse.Namespace, program: Path, group: Path) -> float:
    """Records per second of a side, in a process that joins a cgroup first."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    path, n = arguments.file, arguments.batches
    if side == "by_hand":
        return run_by_hand(path, n)
    if side == "c_loop":
        return run_c_loop(path, n, program)
    drop_from_memory(path)
    if side == "atompack-db":
        return run_atompack_db(path, max(n // 100, WARM_UP + 16))
    return run_dataset(side, path, n)


@contextmanager
def limited_memory(limit: int) -> Iterator[Path]:
    """Provides the folder of a cgroup with this memory, files included."""
    root = Path("/sys/fs/cgroup")
    folder = (root / "memory" if (root / "memory").is_dir() else root) / f"apt-{os.getpid()}"
    try:
        folder.mkdir()
        v1 = folder / "memory.limit_in_bytes"
        (v1 if v1.exists() else folder / "memory.max").write_text(str(limit))
    except OSError as error:
        raise SystemExit(f"no memory cgroup, which takes root: {error}") from None
    try:
        yield folder
    finally:
        folder.rmdir()


def build_loop() -> Path:
    """Compile the loop in C."""
    source = Path(__file__).with_name("cpp") / "hinted_reads.cpp"
    program = Path(tempfile.gettempdir()) / "atompack_hinted_reads"
    subprocess.run(["g++", "-O3", "-std=c++20", source, "-o", program], check=True)
    return program


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--file", type=Path, default=Path("build/bench/large.atp"))
    parser.add_argument("--megabytes", type=int, default=1400)
    parser.add_argument("--batches", type=int, default=2000, help="batches a side reads")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=LIMIT, help="bytes of memory a side has")
    parser.add_argument("--sides", nargs="+", default=SIDES)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.batches, arguments.rounds = 500, 1
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.file.exists():
        make_file(arguments.file, arguments.megabytes)
    program = build_loop()
    rates: dict[str, list[float]] = {side: [] for side in arguments.sides}
    for _ in range(arguments.rounds):
        for side, found in rates.items():
            with limited_memory(arguments.limit) as group:
                found.append(in_own_process(run_side, side, arguments, program, group))
            print(f"{side:15} {found[-1]:10,.0f} records/s", flush=True)
    print(json.dumps({name: statistics.median(found) for name, found in rates.items()}))


if __name__ == "__main__":
    main()
