"""Training on several ranks: as many steps on each, every molecule once, even after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from processes.client import Script, ScriptServer

import atompack_torch as apt

N = 601
MAX_ATOMS = 64
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "03_distributed.py"
SECONDS = 200.0  # for anything; without the reasons to wait it would be a tenth

# One rank. It says which molecules came in each step, once all ranks have done that step. In place
# of DistributedDataParallel, whose imports take seconds, one collective a step as that makes it.
RANK = """
import json, os, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist
import atompack_torch as apt

path, meeting, checkpoint, kind = sys.argv[1:5]
rank, n_ranks, stop, max_atoms = map(int, sys.argv[5:])
torch.set_num_threads(1)
dist.init_process_group("gloo", f"file://{meeting}", timedelta(seconds=30), n_ranks, rank)
dataset = apt.AtpDataset(path)
if kind == "budget":
    sampler = apt.AtomBudgetBatchSampler(dataset, max_atoms, seed=5)
    loader = apt.Loader(dataset, batch_sampler=sampler, num_threads=2)
else:
    sampler = apt.BlockShuffleSampler(dataset, block=16, window=8, seed=5, pad=True)
    loader = apt.Loader(dataset, 5, sampler=sampler, num_threads=2)
if os.path.exists(checkpoint):
    loader.load_state_dict(torch.load(checkpoint, weights_only=True))
step = 0
while (epoch := loader.epoch) < 2:
    for batch in loader:
        dist.all_reduce(batch.positions.sum(0))
        step += 1
        if step == stop and rank == 0:
            torch.save(loader.state_dict(), checkpoint)
        print(json.dumps([epoch, batch.energy.long().tolist(), int(batch.n_atoms.sum())]))
        if stop and step == stop + 2:
            time.sleep(60)  # to be killed meanwhile
dist.barrier()  # a rank that did fewer steps than the others stands here while they wait
dist.destroy_process_group()
"""

Steps = list[tuple[int, list[int], int]]  # epoch, molecules, their atoms


@pytest.fixture(scope="module")
def path(new_path: Callable[[], Path]) -> Path:
    """A file of periodic molecules with energies, which are their numbers, and forces."""
    made = new_path()
    rng = np.random.default_rng(0)
    with apt.AtpWriter(made) as writer:
        for number in range(N):
            n = int(rng.integers(1, 20))
            forces = rng.normal(size=(n, 3)).astype(np.float32)
            writer.write(
                apt.Molecule(
                    rng.uniform(0, 8, (n, 3)).astype(np.float32),
                    rng.integers(1, 9, n),
                    energy=float(number),
                    forces=forces,
                    cell=np.eye(3) * 8,
                    pbc=(True, True, True),
                )
            )
    return made


class Ranks:
    """Processes that train together."""

    def __init__(
        self,
        scripts: ScriptServer,
        path: Path,
        folder: Path,
        kind: str,
        n_ranks: int,
        stop: int = 0,
    ) -> None:
        meeting = folder / f"meeting-{len(list(folder.glob('meeting-*')))}"
        meeting.mkdir()
        self._running: list[Script] = []
        for rank in range(n_ranks):
            files = path, meeting / "store", folder / "checkpoint.pt"
            numbers = map(str, (rank, n_ranks, stop, MAX_ATOMS))
            self._running.append(scripts.start(RANK, *files, kind, *numbers))

    def finish(self) -> list[Steps]:
        """The steps of every rank, which all end well."""
        ended = [script.wait() for script in self._running]
        assert [done.returncode for done in ended] == [0] * len(ended), ended
        return [steps(done.stdout) for done in ended]

    def kill_after(self, stop: int) -> list[Steps]:
        """Kills all ranks once all are two steps beyond this one; returns the steps up to it."""
        for script in self._running:
            end = time.monotonic() + SECONDS
            while script.stdout.count("\n") < stop + 2:
                assert time.monotonic() < end, [script.kill() for script in self._running]
                time.sleep(0.001)
        for script in self._running:
            os.kill(script.pid, signal.SIGKILL)
        ended = [script.wait() for script in self._running]
        assert [done.returncode for done in ended] == [-signal.SIGKILL] * len(ended), ended
        return [steps(done.stdout)[:stop] for done in ended]


def steps(printed: str) -> Steps:
    """What a rank said."""
    return [tuple(json.loads(line)) for line in printed.splitlines()]


def n_repeated(ranks: list[Steps], epoch: int) -> int:
    """How many molecules came again in an epoch in which all came."""
    came = [k for rank in ranks for when, molecules, _ in rank if when == epoch for k in molecules]
    assert set(came) == set(range(N))
    return len(came) - N


def assert_in_step(ranks: list[Steps]) -> None:
    """As many steps on every rank, in each epoch."""
    for epoch in range(2):
        assert len({sum(when == epoch for when, *_ in rank) for rank in ranks}) == 1


kinds = pytest.mark.parametrize("kind", ["budget", "blocks"])


@kinds
@pytest.mark.parametrize(
    "n_ranks", [1, 3, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (2, 4))]
)
def test_every_molecule_once(
    scripts: ScriptServer, path: Path, tmp_path: Path, kind: str, n_ranks: int
) -> None:
    ranks = Ranks(scripts, path, tmp_path, kind, n_ranks).finish()
    assert_in_step(ranks)
    for epoch in range(2):
        assert n_repeated(ranks, epoch) == (0 if kind == "budget" else -N % n_ranks)
    assert kind != "budget" or max(atoms for rank in ranks for *_, atoms in rank) <= MAX_ATOMS
    first, second = ([k for e, k, _ in ranks[0] if e == epoch] for epoch in range(2))
    assert first[:5] != second[:5]


@kinds
@pytest.mark.parametrize(
    "sizes",
    [
        (3, 2, 4),
        *(
            pytest.param(sizes, marks=pytest.mark.exhaustive)
            for sizes in ((4, 1, 3), (1, 4, 2), (2, 3, 1))
        ),
    ],
)
def test_killed_and_resumed_on_other_ranks(
    scripts: ScriptServer, path: Path, tmp_path: Path, kind: str, sizes: tuple[int, ...]
) -> None:
    *killed, last = sizes
    before = []
    for stop, n_ranks in zip((6, 7), killed, strict=True):
        before += Ranks(scripts, path, tmp_path, kind, n_ranks, stop).kill_after(stop)
    ranks = Ranks(scripts, path, tmp_path, kind, last).finish()
    assert_in_step(ranks)
    n_before = sum(len(molecules) for rank in before for _, molecules, _ in rank)
    spare = 0 if kind == "budget" else -(N - n_before) % last
    assert n_repeated(before + ranks, 0) == spare
    assert n_repeated(ranks, 1) == (0 if kind == "budget" else -N % last)


@contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command and its children, all of which are killed at the end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        yield process
    finally:
        ended = process.poll() is not None
        for pid in [] if ended else [process.pid, *children(process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may end in the meantime
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def test_the_example(path: Path, tmp_path: Path) -> None:
    checkpoint, log = tmp_path / "checkpoint.pt", tmp_path / "log"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = [str(EXAMPLE), str(path), "--max-atoms", str(MAX_ATOMS), "--every", "2"]
    options += ["--checkpoint", str(checkpoint)]

    with started([sys.executable, *torchrun, *options, "--epochs", "100"], log) as process:
        end = time.monotonic() + SECONDS
        while not checkpoint.exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.001)
    state = torch.load(checkpoint, weights_only=True)
    sampler = apt.AtomBudgetBatchSampler(apt.AtpDataset(path), MAX_ATOMS)
    sampler.load_state_dict(state["loader"]["sampler"])
    sampler.set_epoch(epoch := state["loader"]["epoch"])
    n_left = len(list(sampler))
    assert n_left == len(sampler) - 2 * state["loader"]["batches"] > 0

    resumed = [*options, "--epochs", str(epoch + 1), "--resume"]
    with started([sys.executable, *resumed], log) as process:
        assert process.wait(SECONDS) == 0, log.read_text()
    n_steps = state["step"] + n_left
    assert f"\n{n_steps} steps" in log.read_text()
    state = torch.load(checkpoint, weights_only=True)
    assert (state["loader"]["epoch"], state["loader"]["batches"]) == (epoch + 1, 0)
    assert {kept["step"].item() for kept in state["optimizer"]["state"].values()} == {n_steps}
    assert all(parameter.isfinite().all() for parameter in state["model"].values())
