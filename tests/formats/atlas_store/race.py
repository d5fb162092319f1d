"""Readers that open a store again and again next to a writer that flushes and compacts.

    python tests/formats/atlas_store/race.py --seconds 60 [--durable] [--readers 2] [--original]

Prints the counts of all processes as JSON. ``mixed`` are reads that show two flushes immediately;
``refused`` are those that say that the store was written to in the meantime. ``original`` is a
reader by atlas-python, which knows of no flush as a whole: its mixed reads and errors are counted
alike.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DATASETS = [f"d{i}" for i in range(4)]
ARRAYS = ["a", "b", "c"]
N_VALUES = 6


def wait_for_the_others() -> None:
    """Says that this process is ready, and waits until all are."""
    print("ready", flush=True)
    sys.stdin.readline()


def write(path: str, seconds: float, durable: bool) -> Counter[str]:
    """Flushes the same number to all arrays, every other time to an attribute too."""
    import atompack_torch as apt

    counts: Counter[str] = Counter()
    with apt.AtlasStore(path, "a", durable=durable) as store:
        wait_for_the_others()
        end = time.monotonic() + seconds
        number = 1
        while time.monotonic() < end:
            number += 1
            for name in DATASETS:
                for array in ARRAYS:
                    store.write(name, array, np.full(N_VALUES, number, "i4"))
            if number % 2 == 0:
                store.set_attr(DATASETS[0], "number", number)
            store.flush()
            counts["flushes"] += 1
            if number % 5 == 0:
                store.compact()
                counts["compactions"] += 1
    return counts


def read_on(path: str, seconds: float, look: Callable[[str, Counter[str]], None]) -> Counter[str]:
    """Looks at the store until the time is over."""
    look(path, Counter())  # imports what it needs
    wait_for_the_others()
    counts: Counter[str] = Counter(reads=0, refused=0, mixed=0, errors=0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        look(path, counts)
    return counts


def judge(numbers: set[int], attribute: int, counts: Counter[str]) -> None:
    """One number everywhere; the attribute is of this flush or of the one before."""
    counts["reads"] += 1
    number = next(iter(numbers))
    if len(numbers) > 1 or attribute != number - number % 2:
        counts["mixed"] += 1
        if counts["mixed"] <= 3:
            print(f"mixed: {sorted(numbers)}, attribute {attribute}", file=sys.stderr)


def look(path: str, counts: Counter[str]) -> None:
    """One read by a handle of its own, statistics too."""
    import atompack_torch as apt

    try:
        store = apt.AtlasStore(path)
        attribute = store.attrs(DATASETS[0])["number"]
        scans = store.scan_many(ARRAYS)
        numbers = {int(v) for scan in scans.values() for v in scan.values.unique()}
        for array in ARRAYS:
            for found in store.stats(array).values():
                numbers |= {int(bound) for bound in (found.min, found.max) if bound is not None}
    except apt.FieldError as error:
        if "written to since" not in str(error):
            raise
        counts["refused"] += 1
    else:
        judge(numbers, attribute, counts)


def look_as_original(path: str, counts: Counter[str]) -> None:
    """The same by atlas-python."""
    import atlas

    try:
        store = atlas.Atlas.open(path)
        numbers: set[int] = set()
        for name in DATASETS:
            dataset = store.open_dataset(name)
            for array in ARRAYS:
                numbers |= {int(v) for v in np.unique(np.asarray(dataset.read_array(array)))}
        attribute = store.open_dataset(DATASETS[0]).attributes()["number"]
    except Exception as error:
        counts["errors"] += 1
        counts[f"{type(error).__name__}: {str(error)[:60]}"] += 1
    else:
        judge(numbers, int(attribute), counts)


def make(path: str) -> None:
    """The store before the race: 0 everywhere."""
    import atompack_torch as apt

    with apt.AtlasStore(path, "x") as store:
        for name in DATASETS:
            store.create_dataset(name)
            for array in ARRAYS:
                store.define_array(name, array, "int32", (N_VALUES,), chunk_shape=(2,))
                store.write(name, array, np.zeros(N_VALUES, "i4"))
        store.set_attr(DATASETS[0], "number", 0)


def main() -> None:
    """Starts the processes, or is one of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--original", action="store_true")
    parser.add_argument("--as", dest="role", choices=["writer", "reader", "original"])
    parser.add_argument("path", nargs="?")
    args = parser.parse_args()
    if args.role == "writer":
        print(json.dumps(write(args.path, args.seconds, args.durable)))
    elif args.role is not None:
        looking = look if args.role == "reader" else look_as_original
        print(json.dumps(read_on(args.path, args.seconds, looking)))
    else:
        print(json.dumps(race(args)))


def race(args: argparse.Namespace) -> dict[str, Any]:
    """What each process counted, by its role."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store")
        make(path)
        roles = ["writer"] + ["reader"] * args.readers + ["original"] * args.original
        command = [sys.executable, __file__, "--seconds", str(args.seconds)]
        command += ["--durable"] if args.durable else []
        running = [
            subprocess.Popen(
                [*command, "--as", role, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for role in roles
        ]
        for process in running:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit(f"a process ended with {process.wait()}")
        for process in running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        found: dict[str, Counter[str]] = {}
        for role, process in zip(roles, running, strict=True):
            printed = process.communicate()[0]
            if process.returncode != 0:
                raise SystemExit(f"{role}: ended with {process.returncode}")
            found.setdefault(role, Counter()).update(json.loads(printed))
        return {role: dict(counts) for role, counts in found.items()}


if __name__ == "__main__":
    main()
