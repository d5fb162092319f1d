"""How fast does ``Loader`` hand out batches, and next to what?

    python benchmarks/loaders.py [--quick] [--json] [--rounds N] [--molecules N]

Random epochs of the file of read_atp.py, in batches of 64; rounds are taken as there.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import peers

from atompack_torch import AtpDataset, Loader, bench
from atompack_torch.bench.race import Build, Contestant, Entry, Setting, in_own_process, race
from atompack_torch.bench.readers import atompack_db, fingerprint, make_atp, ours


def one_thread(setting: Setting) -> Contestant:
    """``Loader`` with one thread."""
    return _loader(setting, 1)


def two_threads(setting: Setting) -> Contestant:
    """``Loader`` with two threads."""
    return _loader(setting, 2)


def _loader(setting: Setting, threads: int) -> Contestant:
    dataset = AtpDataset(setting.path)
    loader = Loader(dataset, setting.batch_size, shuffle=True, num_threads=threads)
    return Contestant(loader, dataset.batch)


@dataclasses.dataclass(frozen=True)
class Case:
    """One line of the table."""

    title: str
    required: float | None
    codec: str
    first: Build
    second: Build
    name: str
    workers: int = 0  # of the second
    both: bool = False  # the first has them too


CASES = (
    Case("2 threads, none", 6, "none", two_threads, atompack_db, "atompack-db, DataLoader"),
    Case("2 threads, none", 2, "none", two_threads, ours, "DataLoader, 2 workers", workers=2),
    Case("2 threads, none", None, "none", two_threads, ours, "DataLoader, no workers"),
    Case("1 thread, none", 6, "none", one_thread, atompack_db, "atompack-db, DataLoader"),
    Case(
        "2 workers, none",
        20,
        "none",
        ours,
        atompack_db,
        "atompack-db, 2 workers",
        workers=2,
        both=True,
    ),
    Case("2 threads, none", None, "none", two_threads, peers.memcpy, "memcpy in a DataLoader"),
    Case("2 threads, zstd", 1.7, "zstd", two_threads, one_thread, "1 thread"),
    Case("2 threads, zstd", None, "zstd", two_threads, atompack_db, "atompack-db, DataLoader"),
)


def compare(paths: dict[str, Path], options: argparse.Namespace) -> Iterator[bench.Row]:
    """Run the comparison, row by row."""
    for case in CASES:
        bench.progress(f"{case.title} next to {case.name}")
        setting = Setting(paths[case.codec], options.molecules, batch_size=options.batch_size)
        other = dataclasses.replace(setting, workers=case.workers)
        mine = other if case.both else setting
        entries = [Entry("ours", case.first, mine), Entry(case.name, case.second, other)]
        first, second = race(entries, options.rounds, options.seconds)
        title = f"{'DataLoader' if case.both else 'Loader'}, {case.title}"
        yield bench.Row(title, case.required, first, second)


def main() -> int:
    """Run everything and print it."""
    options = bench.script_options(__doc__)
    with tempfile.TemporaryDirectory() as name:
        bench.progress(f"writing {options.molecules} molecules with atompack-db")
        paths = in_own_process(make_atp, Path(name), options.molecules, ("none", "zstd"))
        indices = list(range(0, options.molecules, max(1, options.molecules // 64)))
        setting = Setting(paths["none"], options.molecules)
        found = [
            in_own_process(fingerprint, side, setting, indices) for side in (ours, two_threads)
        ]
        if found[0] != found[1]:
            raise AssertionError(f"the batches differ: {found}")
        rows = compare(paths, options)
        if options.json:
            print(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
        else:
            bench.print_rows(rows, as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
