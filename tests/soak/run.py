"""Kills and faults of all writers, fuzzing of all targets, training on two machines, for a time.

    python tests/soak/run.py build/soak --seconds 3600

All parts run next to each other; each fuzz target has an equal share of the time. Shows
progress, and writes and prints totals (``totals.json``); the status is 1 if anything was found, and
the folders of what failed are kept. ``tests/fuzz/run.sh`` must have built the targets.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from processes.client import ScriptServer  # noqa: E402
from soak.faults import CASES, Faults, failing_scripts  # noqa: E402
from soak.killing import GrowingWriter, KilledWriter  # noqa: E402
from soak.machines import SKIPPED, train_on_two_machines  # noqa: E402
from soak.writers import PRELOADED, WRITERS  # noqa: E402


class Soak:
    """Totals, shared by the threads of all parts."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.seconds = seconds
        self.end: float | None = None
        self.writers: dict[str, Counter[str]] = {}
        self.fuzzing: dict[str, dict[str, int]] = {}
        self.machines: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.failures: list[str] = []

    def start(self) -> None:
        """Starts the clock: called when all is prepared."""
        self.end = time.monotonic() + self.seconds

    def stop(self, *_: object) -> None:
        """Ends all parts after what they are doing, so that they remove their namespaces."""
        self.end = time.monotonic()

    def left(self) -> float:
        """Seconds until the end."""
        return self.seconds if self.end is None else self.end - time.monotonic()

    def totals(self) -> dict[str, Any]:
        """Returns everything counted so far."""
        counts = [*self.writers.values()]
        return {
            "kills": sum(found["kills"] for found in counts),
            "kills within a write": sum(found["within a write"] for found in counts),
            "reads next to a writer": sum(found["reads next to the writer"] for found in counts),
            "fuzzed inputs": sum(found["inputs"] for found in self.fuzzing.values()),
            "machines": dict(self.machines),
            "faults": dict(self.faults),
            "failures": self.failures,
            "writers": {name: dict(found) for name, found in self.writers.items()},
            "fuzzing": self.fuzzing,
        }

    def line(self) -> str:
        """Returns the progress."""
        found = self.totals()
        return (
            f"{max(0, self.left()):6.0f} s left: {found['kills']:,} kills, "
            f"{found['reads next to a writer']:,} reads next to writers, "
            f"{found['fuzzed inputs']:,} inputs of {len(self.fuzzing)} fuzz targets, "
            f"{self.machines['epochs']:,} epochs on two machines, {len(self.failures)} failures"
        )


def kill_writers(soak: Soak, seed: int) -> None:
    """Kills writers in turn; one that failed is not started again."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as outputs, ScriptServer(Path(outputs), PRELOADED) as server:
        writers: list[KilledWriter] = []
        for number, kind in enumerate(WRITERS):
            writers.append(kind(soak.folder / f"writer-{number}", server, rng))
            soak.writers[kind.name] = writers[-1].counts
        weights = [writer.weight for writer in writers]
        if soak.end is None:
            soak.start()
        n_rounds = 0
        while writers and soak.left() > 0:
            (writer,) = rng.choices(writers, weights)
            try:
                writer.kill_once()
                n_rounds += 1
                if n_rounds % 50 == 0:
                    beside = [each for each in writers if isinstance(each, GrowingWriter)]
                    if beside:
                        writer = rng.choice(beside)
                        writer.read_beside(1.0)
            except Exception:
                where = f"{writer.name}, seed {seed}, {writer.folder}"
                soak.failures.append(f"{where}:\n{traceback.format_exc()}")
                weights.pop(writers.index(writer))
                writers.remove(writer)


def inject_faults(soak: Soak) -> None:
    """Lets every call of every writer fail, one after the other."""
    folder = soak.folder / "faults"
    folder.mkdir()
    with failing_scripts(folder) as scripts:
        faults = Faults(folder, scripts)
        for name in CASES:
            if soak.left() > 0:
                soak.failures += faults.sweep(name, soak.faults)


def fuzz(soak: Soak, build: Path) -> None:
    """Runs all fuzz targets one after the other, each with an equal share of the time."""
    script = ROOT / "tests/fuzz/run.sh"
    targets = re.findall(r"^ *run (\w+) ", script.read_text(), re.MULTILINE)
    for number, target in enumerate(targets):
        seconds = soak.left() / (len(targets) - number) - 3  # run.sh looks at the build first
        if seconds < 1:
            return
        log = soak.folder / f"fuzz-{target}.log"
        with log.open("w") as file:
            command = ["sh", str(script), str(build), str(int(seconds)), target]
            status = subprocess.run(command, stdout=file, stderr=file, check=False).returncode
        text = log.read_text(errors="replace")
        inputs = re.findall(r"stat::number_of_executed_units: +(\d+)", text)
        soak.fuzzing[target] = {"inputs": int(inputs[-1]) if inputs else 0, "seconds": int(seconds)}
        if status != 0 or not inputs:
            soak.failures.append(f"fuzz target {target}: status {status}, see {log}")


def use_machines(soak: Soak) -> None:
    """Trains on two machines again and again."""
    if SKIPPED:
        print(f"two machines: skipped, {SKIPPED}", flush=True)
        return
    number = 0
    while soak.left() > 0:
        number += 1
        folder = soak.folder / f"machines-{number}"
        try:
            folder.mkdir()
            soak.machines.update(train_on_two_machines(folder, seed=number))
        except Exception:
            soak.failures.append(f"machines, seed {number}, {folder}:\n{traceback.format_exc()}")
            return


def main() -> int:
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for files and totals")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--fuzz-build", type=Path, help="build folder of tests/fuzz/run.sh")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    began = time.strftime("%Y-%m-%d")
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=options.folder))
    soak = Soak(folder, options.seconds)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, soak.stop)
    seed = int.from_bytes(os.urandom(4), "little")
    parts = [threading.Thread(target=kill_writers, args=(soak, seed))]
    parts.append(threading.Thread(target=use_machines, args=(soak,)))
    parts.append(threading.Thread(target=inject_faults, args=(soak,)))
    if options.fuzz_build is not None:
        parts.append(threading.Thread(target=fuzz, args=(soak, options.fuzz_build)))
    for part in parts:
        part.start()
    while any(part.is_alive() for part in parts):
        print(soak.line(), flush=True)
        for part in parts:
            part.join(10)
    totals = {
        "date": began,
        "seconds": options.seconds,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "seed": seed,
        **soak.totals(),
    }
    (options.folder / "totals.json").write_text(json.dumps(totals, indent=1) + "\n")
    print(json.dumps(totals, indent=1))
    print(soak.line())
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
