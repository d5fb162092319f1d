"""What is paid once or in memory: the first batch, opening a large file, and workers."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from races.race import Build, Setting, touch

from atompack_torch import AtpDataset, AtpWriter

Open = Callable[[Path], Any]


def resident_kb(pid: int | str = "self") -> dict[str, int]:
    """Resident memory of a process in kB: all of it, and the part that no file backs."""
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split()[:2]
        fields[name.rstrip(":")] = int(value)
    return {"resident": fields["Rss"], "anonymous": fields["Anonymous"]}


def warm(setting: Setting) -> None:
    """Bring the file into the page cache: what is measured is the reader, not the disk."""
    setting.path.read_bytes()


def first_batch_ms(build: Build, setting: Setting, module: str) -> float:
    """Time from opening to the first batch of a shuffled DataLoader, in a fresh process."""
    __import__(module)
    warm(setting)
    start = time.perf_counter()
    touch(next(iter(build(setting).loader)))
    return 1e3 * (time.perf_counter() - start)


def worker_memory(build: Build, setting: Setting, epochs: int) -> list[dict[str, int]]:
    """Resident memory of the DataLoader's workers, the largest of them, after each epoch."""
    loader = build(setting).loader
    result = []
    for _ in range(epochs):
        for batch in loader:
            touch(batch)
        sizes = [resident_kb(worker.pid or 0) for worker in multiprocessing.active_children()]
        result.append({key: max(size[key] for size in sizes) for key in sizes[0]})
    return result


def make_large(path: Path, molecules: int) -> None:
    """Write the same small molecule again and again: one atom, with an energy of -1.25."""
    with AtpWriter(path) as writer:
        writer.write_arrays(
            positions=np.zeros((molecules, 1, 3), np.float32),
            atomic_numbers=np.full((molecules, 1), 6),
            energy=np.full(molecules, -1.25),
        )


def open_ours(path: Path) -> Any:
    """Open with this package."""
    return AtpDataset(path)


def open_atompack(path: Path) -> Any:
    """Open with atompack-db."""
    import atompack

    return atompack.Database.open(str(path))


def opening(open_file: Open, large: Path, small: Path) -> dict[str, float]:
    """Cost of opening the large file, in a process that has opened and read a small one before.

    Milliseconds and the growth of resident memory in MB of opening alone, and of opening and
    reading a molecule from the middle, with what the kernel maps of the page cache unasked;
    ``anonymous`` is the part that the file does not back.
    """
    held = open_file(small)  # until the end, so that no freed memory hides the growth
    energy = held[0].energy
    sizes = [resident_kb()]
    start = time.perf_counter()
    dataset = open_file(large)
    count = len(dataset)
    open_s = time.perf_counter() - start
    sizes.append(resident_kb())
    start = time.perf_counter()
    energy = dataset[count // 2].energy
    molecule_s = open_s + time.perf_counter() - start
    sizes.append(resident_kb())
    if float(energy) != -1.25:
        raise AssertionError(f"expected the energy -1.25, got {energy}")
    resident = [(size["resident"] - sizes[0]["resident"]) / 1e3 for size in sizes]
    anonymous = (sizes[2]["anonymous"] - sizes[0]["anonymous"]) / 1e3
    return {
        "open_ms": 1e3 * open_s,
        "open_mb": resident[1],
        "molecule_ms": 1e3 * molecule_s,
        "molecule_mb": resident[2],
        "molecule_anonymous_mb": anonymous,
    }
