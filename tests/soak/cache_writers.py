"""Feature caches, whose build continues after a kill where it was."""

from __future__ import annotations

import random
import time
from pathlib import Path

from processes.client import ScriptServer
from reference import cache_molecules
from reference.cache_molecules import descriptor
from soak.killing import KilledWriter, tell

import atompack_torch as apt

N = 400


def build(source: str, target: str) -> None:
    """Builds a cache in many chunks and checkpoints though there are few atoms."""
    from atompack_torch.formats.torch_cache import building

    building._FIRST_ATOMS = building._MOST_ATOMS = 24
    building._CHECKPOINT_BYTES = 50000
    apt.build_cache(
        apt.AtpDataset(source),
        descriptor(),
        target,
        force_derivatives=True,
        progress=lambda n: tell("at", n),
        num_threads=2,
    )
    tell("built", 1)


class CacheBuilding(KilledWriter):
    """``build_cache``: each run continues where the killed one was, to the same bytes."""

    name = "build_cache"

    def __init__(self, folder: Path, scripts: ScriptServer, rng: random.Random) -> None:
        super().__init__(folder, scripts, rng)
        self._source = cache_molecules.write(folder.with_suffix(".atp"), N)
        self._target = folder / "made.h5"
        self._reached = 0
        self._build()
        self._whole = self._target.read_bytes()
        self._target.unlink()

    def kill_once(self) -> None:
        script = self.start("cache_writers.build", self._source, self._target)
        n_lines = self.rng.randrange(12)  # of progress, until it is killed
        while script.stdout.count("\n") < n_lines and "built" not in script.stdout:
            time.sleep(0.0005)
        done = self.kill(script, self.rng.random() * 0.002)
        lines = done.stdout.split("\n")[:-1]
        if lines and lines[0].startswith("at "):
            found = int(lines[0].split()[1])
            assert found >= self._reached, f"{found} entries found, {self._reached} before"
            self._reached = found
        self.counts["resumed"] += self._reached > 0
        if self._target.exists():
            # One that is killed just after the file took its name may leave the journal.
            assert self.left() <= {"made.h5", ".made.h5.journal.new"}, self.left()
            self._check()
        else:
            assert "built 1" not in lines
            assert self.left() <= {".made.h5.new", ".made.h5.journal.new"}, self.left()

    def finish(self) -> None:
        self._build()
        assert self.left() == {"made.h5"}, self.left()
        self._check()

    def _build(self) -> None:
        done = self.start("cache_writers.build", self._source, self._target).wait()
        assert done.returncode == 0, done.stderr

    def _check(self) -> None:
        assert self._target.read_bytes() == self._whole
        assert len(apt.TorchCacheDataset(self._target).batch(range(N))) == N
        self._target.unlink()
        self._reached = 0
        self.counts["built"] += 1
