"""Runs of a framework on two ranks, and checks of which molecules came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases import N, write
from ranks import run_ranks

HERE = Path(__file__).parent
RANKS = 2

Ranks = list[dict[str, Any]]  # of each rank: the epochs, the error


def start(
    folder: Path, script: str, *arguments: str | Path, n_ranks: int = RANKS
) -> dict[str, Ranks]:
    """Starts a script on every rank and returns what came of each case in it."""
    found = run_ranks(folder, HERE / script, _data(folder), *arguments, n_ranks=n_ranks)
    return {name: [of_rank[name] for of_rank in found] for name in found[0]}


def start_alone(folder: Path, script: str) -> dict[str, Ranks]:
    """Starts a script that starts the ranks itself, and writes what came of each."""
    (found,) = run_ranks(folder, HERE / script, _data(folder), n_ranks=1)
    return {name: [of_rank[name] for of_rank in found] for name in found[0]}


def _data(folder: Path) -> Path:
    path = folder / "data.atp"
    if not path.exists():
        write(path)
    return path


def epochs(ranks: Ranks) -> list[list[int]]:
    """The molecules of each epoch, those of all ranks."""
    assert [rank["error"] for rank in ranks] == [None] * len(ranks)
    of_each = [rank["epochs"] for rank in ranks]
    assert of_each[0]
    return [
        [number for batches in parts for batch in batches for number in batch]
        for parts in zip(*of_each, strict=True)
    ]


def assert_complete(ranks: Ranks, *, repeated: int = 0, in_step: bool = True) -> None:
    """Every molecule comes in each epoch, so many of them twice; no two epochs are the same."""
    seen = epochs(ranks)
    for numbers in seen:
        assert set(numbers) == set(range(N))
        assert len(numbers) == N + repeated
    assert len({tuple(numbers) for numbers in seen}) == len(seen)
    if in_step:
        steps = [[len(batches) for batches in rank["epochs"]] for rank in ranks]
        assert steps == [steps[0]] * len(ranks)


def error_of(ranks: Ranks) -> str:
    """The error that all ranks ended with."""
    errors = {rank["error"] for rank in ranks}
    assert len(errors) == 1
    (error,) = errors
    assert error is not None
    return str(error)
