"""Where does the time of one batch go? Costs per call, per molecule, per tensor and of the loader.

    python benchmarks/profile_batch.py [--codec none|lz4|zstd] [--threads N] [--molecules N]

Medians in microseconds. What a batch of no molecule costs is spent on every call; the growth with
the number of molecules is planning and filling; reading the tensors of a batch makes their views.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from races.race import in_own_process, touch
from races.readers import CODECS, make_atp
from torch.utils.data import DataLoader

from atompack_torch import AtpDataset

GEOMETRY_ONLY: tuple[str, ...] = ()
SIZES = (0, 1, 16, 64, 256, 1024)


def median_us(call: Callable[[Any], Any], arguments: list[Any]) -> float:
    """Median time of a call, one call for each argument."""
    times = []
    for argument in arguments:
        start = time.perf_counter()
        call(argument)
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def draws(molecules: int, size: int, repeats: int = 400) -> list[list[int]]:
    """Random index lists, different ones for each call."""
    return [[random.randrange(molecules) for _ in range(size)] for _ in range(repeats)]


def profile(path: Path, threads: int) -> None:
    """Print the breakdown; in a process of its own, which atompack-db has not touched."""
    random.seed(0)
    torch.set_num_threads(threads)
    dataset = AtpDataset(path)
    geometry = AtpDataset(path, fields=GEOMETRY_ONLY)
    n = len(dataset)
    for indices in draws(n, 64):  # pages and buffers are there when the clock starts
        touch(dataset.batch(indices))
    print(f"{path.name}, {threads} threads, us")
    print(f"{'molecules':>10} {'all fields':>11} {'geometry':>9}")
    for size in SIZES:
        times = [median_us(ds.batch, draws(n, size)) for ds in (dataset, geometry)]
        print(f"{size:>10} {times[0]:>11.1f} {times[1]:>9.1f}")
    batches = [dataset.batch(indices) for indices in draws(n, 64)]
    print(f"first look at all tensors of a batch of 64 {median_us(touch, batches):>8.1f}")
    print(f"second look                                {median_us(touch, batches):>8.1f}")
    print(f"DataLoader, per batch of 64                {loader_us(dataset):>8.1f}")


def loader_us(dataset: AtpDataset, epochs: int = 5) -> float:
    """Time per batch of a shuffled DataLoader without workers."""
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=64, shuffle=True)

    def epoch(_: int) -> None:
        for batch in loader:
            touch(batch)

    return median_us(epoch, list(range(epochs))) / len(loader)


def main() -> int:
    """Make the data and profile it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--codec", choices=CODECS, default="none", help="(default: none)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch")
    parser.add_argument("--molecules", type=int, default=20_000, help="(default: 20000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        paths = in_own_process(make_atp, Path(name), options.molecules, (options.codec,))
        in_own_process(profile, paths[options.codec], options.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
