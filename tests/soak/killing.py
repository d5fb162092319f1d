"""Harness of writers that are killed: one object per writer, one call per kill."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from processes.client import Done, Script, ScriptServer

SECONDS = 100.0  # until a script must have begun, or its reader must have seen a state


def last_number(output: str, word: str, default: int) -> int:
    """Returns the largest number of the lines ``word number``; the last line may be cut."""
    lines = [line.split() for line in output.split("\n")[:-1]]
    return max([default, *(int(line[1]) for line in lines if line[0] == word)])


def tell(word: str, number: int) -> None:
    """In a script: reports progress, whole or not at all."""
    os.write(1, f"{word} {number}\n".encode())


def tell_open() -> None:
    """In a script: reports that it begins to write."""
    os.write(1, b"open\n")


class KilledWriter:
    """A writer that is killed at random times, again and again.

    Attributes:
        name: name in totals.
        weight: share of the kills, next to those of the others.
        folder: empty folder for what it writes.
        rng: source of all random choices.
        counts: events by name: ``kills``, and how many of them had which effect.
    """

    name: str
    weight = 1.0

    def __init__(self, folder: Path, scripts: ScriptServer, rng: random.Random) -> None:
        self.folder = folder
        self.rng = rng
        self.counts: Counter[str] = Counter()
        self._scripts = scripts
        folder.mkdir()

    def kill_once(self) -> None:
        """Starts the writer, kills it, and checks what is left.

        Raises:
            AssertionError: something is lost, mixed or left behind.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Writes to the end, undisturbed, and checks the result and the folder."""
        raise NotImplementedError

    def start(self, function: str, *arguments: object, reports: bool = False) -> Script:
        """Calls a function ``module.name`` of this package in a separate process, which reports
        ``open`` before and ``done 1`` after it if asked to."""
        module, _, name = function.rpartition(".")
        call = f"{name}(*sys.argv[1:])\n"
        if reports:
            call = f"tell_open()\n{call}tell('done', 1)\n"
        imports = "import sys\nfrom soak.killing import tell, tell_open\n"
        imports += f"from soak.{module} import {name}\n"
        return self._scripts.start(imports + call, *map(str, arguments))

    def kill(self, script: Script, delay: float) -> Done:
        """Kills a script after a delay, unless it has ended by then."""
        time.sleep(delay)
        done = script.kill()
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        self.counts["kills" if done.returncode else "finished before"] += 1
        return done

    def left(self) -> set[str]:
        """Returns the names in the folder."""
        return {path.name for path in self.folder.iterdir()}


class GrowingWriter(KilledWriter):
    """A writer that commits numbered states, each complete: any state may be found after a kill,
    from the last one acknowledged to the last one begun.

    Its script prints ``open``, ``sent N`` before it writes a state and ``done N`` after its commit.

    Attributes:
        script: function that writes until it is killed; arguments: path, seed, the state so far.
        target: name of what it writes.
        window: largest delay of a kill in seconds.
        limit: state at which it begins again.
    """

    script: str
    target: str
    arguments: tuple[str, ...] = ()
    window = 0.02
    limit = 3000

    state = 0

    @classmethod
    def state_of(cls, path: Path) -> int:
        """Checks everything at a path, and returns the number of its state; 0: nothing there."""
        raise NotImplementedError

    def kill_once(self) -> None:
        path = self.folder / self.target
        if self.state > self.limit:
            self.finish()
            for left in self.folder.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            self.state = 0
        script = self._begin(path)
        if self.rng.random() < 0.9:
            script.wait_for("open\n")
        done = self.kill(script, self.window * self.rng.random() ** 2)
        least = last_number(done.stdout, "done", self.state)
        most = last_number(done.stdout, "sent", self.state)
        found = self.state_of(path)
        assert least <= found <= most, f"state {found}, acknowledged {least}, sent {most}"
        if least < most:
            self.counts["within a write"] += 1
            self.counts["committed, not acknowledged"] += found > least
        self.state = found

    def finish(self) -> None:
        path = self.folder / self.target
        if path.exists():
            assert self.state_of(path) == self.state
            self.reopen(path)
            assert self.state_of(path) == self.state
            assert not [name for name in self.left() if name.startswith(".")], self.left()

    def _begin(self, path: Path) -> Script:
        seed = self.rng.randrange(1 << 30)
        return self.start(self.script, path, seed, self.state, *self.arguments)

    @classmethod
    def reopen(cls, path: Path) -> None:
        """Opens for writing and closes, which removes what a killed writer left."""
        raise NotImplementedError

    def read_beside(self, seconds: float) -> None:
        """Reads while a writer runs; every read must show one complete state, none an older one."""
        path = self.folder / self.target
        writer = self._begin(path)
        try:
            writer.wait_for("done ")
            self._read_until(time.monotonic() + seconds, writer)
        finally:
            writer.kill()
        self.state = self.state_of(path)

    def _read_until(self, end: float, writer: Script) -> None:
        last, states = self.state, set()
        while time.monotonic() < end or len(states) < 2:
            assert time.monotonic() < end + SECONDS, "the writer does not continue"
            least = max(last, last_number(writer.stdout, "done", self.state))
            last = self.state_of(self.folder / self.target)
            assert last >= least, f"state {last} after {least}"
            states.add(last)
            self.counts["reads next to the writer"] += 1


class PublishingWriter(KilledWriter):
    """A writer that replaces its target whole: after a kill there is the old or the new one.

    Attributes:
        function: function that writes; arguments: folder of sources, version (0 or 1), target, and
            ``arguments``.
        target: name of what it writes.
        others: names of further targets.
        replaces: False if it removes the old target itself, so that there may be none.
    """

    function: str
    target: str
    others: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    replaces = True

    def __init__(self, folder: Path, scripts: ScriptServer, rng: random.Random) -> None:
        super().__init__(folder, scripts, rng)
        self.sources = folder.parent / f"{folder.name}-sources"
        self.sources.mkdir()
        self.prepare()
        self._expected: list[Any] = []
        self._version = 1
        for _ in range(2):
            self._write_next()
            self._expected.append(self.content())
        assert self._expected[0] != self._expected[1]
        self._n_kills = 0

    @property
    def path(self) -> Path:
        return self.folder / self.target

    def prepare(self) -> None:
        """Makes the sources of both versions."""

    def content(self) -> object:
        """Checks the target and returns what it holds; equal for equal versions only."""
        raise NotImplementedError

    def kill_once(self) -> None:
        version = 1 - self._version
        script = self._begin(version)
        done = self.kill(script, self._span * 1.2 * self.rng.random())
        is_done = "done 1\n" in done.stdout
        if not self.replaces and not self.path.exists():
            assert not is_done
            self.counts["before the new one"] += 1
        else:
            found = self.content()
            assert self.is_expected(found), f"neither the old nor the new target: {found}"
            is_new = found == self._expected[version]
            assert is_new or not is_done, "acknowledged, but the old target is there"
            self.counts["published"] += is_new
            if is_new:
                self._version = version
        self._n_kills += 1
        if self._n_kills % 10 == 0:
            self.finish()

    def is_expected(self, found: object) -> bool:
        """True if this content may be found after a kill: that of a version."""
        return found in self._expected

    def finish(self) -> None:
        self._write_next()
        assert self.content() == self._expected[self._version]
        assert self.left() == {self.target, *self.others}, self.left()

    def _begin(self, version: int) -> Script:
        given = (self.sources, version, self.path, *self.arguments)
        script = self.start(self.function, *given, reports=True)
        script.wait_for("open\n")
        return script

    def _write_next(self) -> None:
        self._version = 1 - self._version
        script = self._begin(self._version)
        began = time.monotonic()
        done = script.wait()
        self._span = time.monotonic() - began
        assert done.returncode == 0, done.stderr
