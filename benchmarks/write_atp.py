"""How fast are ``.atp`` files written, next to atompack-db?

    python benchmarks/write_atp.py [--quick] [--rounds N] [--molecules N] [--folder DIR]

Both sides make a file out of the same arrays in memory and commit it, in turn, each in a separate
process; the file of the round before is removed outside the timing. The figure that counts is the
median of the ratios of the rounds. Where the objects differ (a MoleculeBatch here, a list of
atompack Molecules there), they are made beforehand on both sides.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import races as bench
from races.race import Standing
from races.readers import ELEMENTS, structures
from results import noted
from turns import own_process

LZ4_LEVEL = 3  # of ours; atompack-db's is 12
ATOMS = 35  # of every molecule in a stacked write

Write = Callable[[Path], None]


@dataclass(frozen=True)
class Task:
    """What one side is to write, again and again."""

    side: str  # ours or theirs
    form: str  # arrays, custom, or molecules
    codec: str
    molecules: int
    path: Path


def stacked(count: int, custom: bool) -> dict[str, Any]:
    """Draw equally large molecules as stacked arrays; with ten custom properties if asked for."""
    rng = np.random.default_rng(0)
    edge = (15.0 * ATOMS) ** (1 / 3)
    arrays: dict[str, Any] = {
        "positions": rng.uniform(0.0, edge, (count, ATOMS, 3)).astype(np.float32),
        "atomic_numbers": rng.choice(ELEMENTS, (count, ATOMS)),
        "energy": rng.normal(-4.0 * ATOMS, 1.0, count),
        "forces": rng.normal(0.0, 1.0, (count, ATOMS, 3)).astype(np.float32),
        "cell": np.broadcast_to(np.eye(3) * edge, (count, 3, 3)).copy(),
        "stress": rng.normal(0.0, 0.01, (count, 3, 3)),
    }
    if custom:
        arrays["properties"] = {
            **{f"number_{k}": rng.normal(size=count) for k in range(3)},
            "count": rng.integers(0, 9, count),
            "step": rng.integers(0, 10**6, count),
            "descriptor": rng.normal(size=(count, 16)).astype(np.float32),
        }
        arrays["atom_properties"] = {
            "magnetic": rng.normal(size=(count, ATOMS)).astype(np.float32),
            "spin": rng.integers(-3, 3, (count, ATOMS)),
            "dipole": rng.normal(size=(count, ATOMS, 3)).astype(np.float32),
            "field": rng.normal(size=(count, ATOMS, 4)).astype(np.float32),
        }
    return arrays


def ours(task: Task) -> Write:
    """Make the call that is timed."""
    import atompack_torch as apt

    codec: Any = task.codec
    level = LZ4_LEVEL if codec == "lz4" else 3
    batch, arrays = None, {}
    if task.form == "molecules":
        batch = apt.collate([apt.Molecule(**plain) for plain in structures(task.molecules)])
    else:
        arrays = stacked(task.molecules, task.form == "custom")

    def write(path: Path) -> None:
        with apt.AtpWriter(path, codec=codec, level=level) as writer:
            if batch is None:
                writer.write_arrays(**arrays)
            else:
                writer.write(batch)

    return write


def theirs(task: Task) -> Write:
    """Make the call that is timed."""
    import atompack

    molecules, arrays = None, {}
    if task.form == "molecules":
        molecules = [atompack.Molecule.from_arrays(**plain) for plain in structures(task.molecules)]
    else:
        arrays = stacked(task.molecules, task.form == "custom")
    leading = [arrays.pop(name) for name in ("positions", "atomic_numbers") if name in arrays]

    def add(path: Path) -> None:
        database = atompack.Database(str(path), compression=task.codec, level=3)
        if molecules is None:
            database.add_arrays_batch(*leading, **arrays)
        else:
            database.add_molecules(molecules)
        database.flush()

    return add


_call: Write | None = None
_task: Task | None = None


def _prepare(task: Task) -> None:
    global _call, _task
    _task = task
    _call = (ours if task.side == "ours" else theirs)(task)
    _run()


def _run() -> tuple[float, int]:
    """Write once; return the seconds and the size of the file."""
    assert _call is not None
    assert _task is not None
    start = time.perf_counter()
    _call(_task.path)
    seconds = time.perf_counter() - start
    size = _task.path.stat().st_size
    _task.path.unlink()
    return seconds, size


CASES = (  # title, form and codec
    ("stacked builtins, none", "arrays", "none"),
    ("stacked builtins, zstd 3", "arrays", "zstd"),
    (f"stacked builtins, lz4 (ours level {LZ4_LEVEL})", "arrays", "lz4"),
    ("ten custom properties, none", "custom", "none"),
    ("ten custom properties, zstd 3", "custom", "zstd"),
    ("molecules of 10 to 60 atoms, none", "molecules", "none"),
    ("molecules of 10 to 60 atoms, zstd 3", "molecules", "zstd"),
    (f"molecules of 10 to 60 atoms, lz4 (ours level {LZ4_LEVEL})", "molecules", "lz4"),
)


def compare(folder: Path, options: argparse.Namespace) -> Iterator[tuple[bench.Row, float]]:
    """Measure case by case; with each row comes the ratio of the file sizes, ours to theirs."""
    for title, form, codec in CASES:
        bench.progress(title)
        speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
        sizes = {}
        with ExitStack() as stack:
            processes: dict[str, ProcessPoolExecutor] = {}
            for side in speeds:
                task = Task(side, form, codec, options.molecules, folder / f"{side}.atp")
                processes[side] = stack.enter_context(own_process())
                processes[side].submit(_prepare, task).result()
            for _ in range(options.rounds):
                for side, process in processes.items():
                    seconds, sizes[side] = process.submit(_run).result()
                    speeds[side].append(options.molecules / seconds)
        mine, other = (
            Standing.of(name, speeds[side], speeds["ours"], sizes[side] / options.molecules / 1e6)
            for side, name in (("ours", "ours"), ("theirs", "atompack-db"))
        )
        (row,) = noted(".atp, write", [bench.Row(title, mine, other)])
        yield row, sizes["ours"] / sizes["theirs"]


def main() -> None:
    """Run everything and print it."""
    options = bench.script_options(
        __doc__,
        lambda parser: parser.add_argument("--folder", type=Path, help="where to write"),
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        print(f"{bench.HEADER}, size of our file to theirs")
        for row, size in compare(Path(name), options):
            print(f"{row.text()}, {size:.3f}", flush=True)


if __name__ == "__main__":
    main()
