"""Two machines and a store: network namespaces joined by a bridge. Needs root and ``ip``."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parents[1]
STORE, MACHINES = "10.77.0.1", ("10.77.0.2", "10.77.0.3")
SECONDS = 200.0
N_MOLECULES, N_EPOCHS = 300, 3
_numbers = itertools.count()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def _why_not() -> str:
    """Returns why there can be no namespaces; "" if there can."""
    if shutil.which("ip") is None:
        return "no `ip`"
    name = f"apt-{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not allowed here: {error.stderr.strip()}"
    return ""


SKIPPED = _why_not()


class Network:
    """Namespaces of a store and of machines."""

    def __init__(self) -> None:
        self._begin = f"apt-{os.getpid()}-{next(_numbers)}"
        self.store = f"{self._begin}-s"
        self.machines = [f"{self._begin}-m{i}" for i in range(len(MACHINES))]

    def __enter__(self) -> Network:
        _ip("netns", "add", self.store)
        _ip("-n", self.store, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.store, "addr", "add", f"{STORE}/24", "dev", "bridge")
        _ip("-n", self.store, "link", "set", "bridge", "up")
        _ip("-n", self.store, "link", "set", "lo", "up")
        for i, (name, address) in enumerate(zip(self.machines, MACHINES, strict=True)):
            _ip("netns", "add", name)
            end = ("peer", "name", f"port{i}", "netns", self.store)
            _ip("link", "add", "eth0", "netns", name, "type", "veth", *end)
            _ip("-n", self.store, "link", "set", f"port{i}", "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in (*self.machines, self.store):
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def interrupt(self, machine: int, seconds: float) -> None:
        """Takes the cable of a machine out for a while."""
        _ip("-n", self.store, "link", "set", f"port{machine}", "down")
        time.sleep(seconds)
        _ip("-n", self.store, "link", "set", f"port{machine}", "up")

    @contextmanager
    def running(
        self, name: str, folder: Path, script: str, *arguments: object
    ) -> Iterator[subprocess.Popen[str]]:
        """Runs a script of this folder in a namespace; what it prints is read by the block."""
        search = [str(TESTS), str(TESTS / "remote"), os.environ.get("PYTHONPATH", "")]
        fixed = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
        command = ["ip", "netns", "exec", name, sys.executable, str(TESTS / "soak" / script)]
        with (folder / f"{name}-{time.monotonic_ns()}.log").open("w") as log:
            process = subprocess.Popen(
                [*command, *map(str, arguments)],
                env={**os.environ, **fixed, "PYTHONPATH": os.pathsep.join(search)},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def _train(
    network: Network, folder: Path, url: str, seed: int, port: int, rng: random.Random, kill: bool
) -> Counter[str]:
    """Trains on both machines to the end, or until both are killed at a random batch."""
    counts: Counter[str] = Counter()
    given = [folder, url, seed, port]
    with (
        network.running(network.machines[0], folder, "machine_rank.py", 0, *given) as first,
        network.running(network.machines[1], folder, "machine_rank.py", 1, *given) as second,
    ):
        assert first.stdout is not None
        assert first.stdout.readline() == "training\n", _logs(folder)
        for _ in range(rng.randrange(1, 12)):
            first.stdout.readline()
        network.interrupt(rng.randrange(2), 0.3 * rng.random())
        counts["interruptions"] += 1
        if kill:
            for process in rng.sample([first, second], 2):
                process.send_signal(signal.SIGKILL)
            counts["killed trainings"] += 1
            return counts
        for process in (first, second):
            process.communicate(timeout=SECONDS)
            assert process.returncode == 0, _logs(folder)
    return counts


def _logs(folder: Path) -> str:
    return "\n".join(
        log.read_text(errors="replace")[-2000:] for log in sorted(folder.glob("*.log"))
    )


def train_on_two_machines(folder: Path, seed: int) -> Counter[str]:
    """Trains on two machines from one store, with broken connections and a kill, and continues.

    Returns:
        Counts of what happened.

    Raises:
        AssertionError: a molecule is missing or twice in an epoch, or the ranks' models differ.
    """
    rng = random.Random(seed)
    with Network() as network, network.running(network.store, folder, "machine_store.py") as store:
        assert store.stdout is not None
        url = store.stdout.readline().strip()
        assert url.startswith(f"http://{STORE}:"), _logs(folder)
        counts = _train(network, folder, url, seed, 29400, rng, kill=True)
        counts += _train(network, folder, url, seed, 29401, rng, kill=False)
    results = [json.loads((folder / f"result-{rank}.json").read_text()) for rank in range(2)]
    assert results[0]["model"] == results[1]["model"]
    seen = {}  # a batch that is not in the last checkpoint is made again
    for rank in range(2):
        for line in (folder / f"batches-{rank}.jsonl").read_text().splitlines():
            epoch, step, indices = json.loads(line)
            seen[rank, epoch, step] = indices
    for epoch in range(N_EPOCHS):
        of_epoch = [i for (_, e, _), indices in seen.items() if e == epoch for i in indices]
        assert sorted(of_epoch) == list(range(N_MOLECULES)), f"epoch {epoch}"
        counts["epochs"] += 1
    return counts
