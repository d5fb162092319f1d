"""Kills of every writer at random times, 100 in all; ``make soak`` continues with the same."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes.client import ScriptServer
from soak.growing_writers import GROWING
from soak.killing import GrowingWriter, KilledWriter
from soak.writers import PRELOADED, WRITERS

N_KILLS = 100


def share(number: int) -> int:
    """Number of kills of one writer."""
    weights = [kind.weight for kind in WRITERS]
    ends = [round(N_KILLS * sum(weights[:n]) / sum(weights)) for n in (number, number + 1)]
    return ends[1] - ends[0]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptServer]:
    with ScriptServer(tmp_path_factory.mktemp("scripts"), PRELOADED) as server:
        yield server


def made(kind: type[KilledWriter], scripts: ScriptServer, folder: Path) -> KilledWriter:
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")  # shown if the test fails
    return kind(folder / "made", scripts, random.Random(seed))


@pytest.mark.parametrize("number", range(len(WRITERS)), ids=[kind.name for kind in WRITERS])
def test_kills(scripts: ScriptServer, tmp_path: Path, number: int) -> None:
    writer = made(WRITERS[number], scripts, tmp_path)
    for _ in range(10 * N_KILLS):
        if writer.counts["kills"] == share(number):
            break
        writer.kill_once()
    writer.finish()
    print(dict(writer.counts))
    assert writer.counts["kills"] == share(number)


@pytest.mark.parametrize("kind", GROWING, ids=[kind.name for kind in GROWING])
def test_reads_beside_a_writer(
    scripts: ScriptServer, tmp_path: Path, kind: type[GrowingWriter]
) -> None:
    writer = made(kind, scripts, tmp_path)
    assert isinstance(writer, GrowingWriter)
    writer.read_beside(0.2)
    writer.finish()
    assert writer.counts["reads next to the writer"] > 1


def test_all_kills() -> None:
    shares = [share(number) for number in range(len(WRITERS))]
    assert sum(shares) == N_KILLS
    assert min(shares) > 0
    assert len({kind.name for kind in WRITERS}) == len(WRITERS)
