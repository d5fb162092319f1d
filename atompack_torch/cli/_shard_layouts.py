"""Trial of layouts for Atlas shards: sizes of blocks, strategies and levels, on the user's data."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

BLOCK_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
STRATEGIES = (0, 1, 2, 3)
LEVELS = (1, 9, 19)  # in addition to the default, at one size of blocks
_DEFAULT_LEVEL = 3
_LEVELS_AT = 64  # examples per block
_SAMPLE_BYTES = 16 << 20  # as stored
_MOST_EXAMPLES = 16_384
_RUN = 2048  # consecutive examples of the sample, so that its blocks resemble those of the dataset
_BATCH = 64

Row = dict[str, Any]


def trials(path: str, seconds: float, options: dict[str, Any]) -> Iterator[Row]:
    """Writes a sample of the examples in each layout, and reads it.

    Args:
        path: folder of the dataset.
        seconds: duration of one measurement.
        options: options of the dataset.

    Yields:
        Per layout: block size, strategy, level, bytes per example, examples/s in a random order
        without a cache, and examples/s in sequence.
    """
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset
    from atompack_torch.formats.dispatch import compact

    with tempfile.TemporaryDirectory(prefix="atompack-") as folder:
        dataset = ShardDataset(path, **options)
        sample = sample_of(len(dataset), _size_of(path))
        for number, (block_size, strategy, level) in enumerate(_layouts()):
            target = Path(folder) / str(number)
            shards = (max(len(sample), 1), block_size, strategy)
            compact(path, target, order=sample, level=level, shards=shards)
            yield {
                "block_size": block_size,
                "strategy": strategy,
                "level": level if strategy else None,
                "bytes_per_example": _size_of(target) / len(sample),
                "random_per_s": _rate(target, seconds, is_random=True, **options),
                "sequential_per_s": _rate(target, seconds, is_random=False, **options),
            }


def sample_of(n: int, n_bytes: int) -> list[int]:
    """Chooses runs of examples spread evenly over a dataset.

    Args:
        n: number of examples in the dataset.
        n_bytes: size of its files.

    Returns:
        Indices in ascending order.
    """
    wanted = min(n, _MOST_EXAMPLES, max(_RUN, _SAMPLE_BYTES * n // max(n_bytes, 1)))
    n_runs = -(-wanted // _RUN)
    firsts = [n * i // n_runs for i in range(n_runs)]
    ends = [*firsts[1:], n]
    length = -(-wanted // n_runs)
    return [
        i
        for first, end in zip(firsts, ends, strict=True)
        for i in range(first, min(first + length, end))
    ]


def table_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Formats the results, with a head."""
    head = ("block", "strategy", "level", "bytes/example", "random/s", "sequential/s")
    return [
        head,
        *(
            (
                f"{row['block_size']:,}",
                str(row["strategy"]),
                "-" if row["level"] is None else str(row["level"]),
                f"{row['bytes_per_example']:,.0f}",
                f"{row['random_per_s']:,.0f}",
                f"{row['sequential_per_s']:,.0f}",
            )
            for row in rows
        ),
    ]


def _layouts() -> Iterator[tuple[int, int, int]]:
    for block_size in BLOCK_SIZES:
        for strategy in STRATEGIES:
            yield block_size, strategy, _DEFAULT_LEVEL
    for strategy in STRATEGIES[1:]:
        for level in LEVELS:
            yield _LEVELS_AT, strategy, level


def _size_of(path: str | Path) -> int:
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


def _rate(path: Path, seconds: float, *, is_random: bool, **options: Any) -> float:
    """Measures examples per second, in batches; each batch decodes its blocks."""
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset

    numbers = random.Random(0)
    with ShardDataset(path, cache_blocks=0 if is_random else 1, **options) as dataset:
        n = len(dataset)
        size = min(_BATCH, n)
        dataset.batch(range(size))  # opens the files
        made = 0
        start = time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds or made == 0:
            first = made * size % (n - size + 1)
            chosen = numbers.sample(range(n), size) if is_random else range(first, first + size)
            dataset.batch(chosen)
            made += 1
    return made * size / passed
