"""How fast are random batches from ``.atp`` files, and next to what?

    python benchmarks/read_atp.py [--quick] [--rounds N] [--molecules N]

First the comparison with atompack-db, then other ways to keep the same molecules, then what is paid
once: the first batch, opening a large file, the memory of a worker. Data are made in a temporary
folder, every contestant runs in a separate process, and the ratio comes first; see README.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import costs
import peers
import races as bench
from races.race import Entry, Setting, race
from races.readers import atompack_db, fingerprint, make_atp, ours
from results import noted
from turns import in_own_process

LARGE = 1_000_000  # molecules
FLOOR = "memcpy"
SLOW_EPOCH = 2048  # molecules in an epoch of a peer that would need seconds for all
REPEATS = 3  # fresh processes for what happens once


def peer_entries(folder: Path, atp: Path, options: argparse.Namespace) -> list[Entry]:
    """Make the peers' files; each entry reads the same molecules."""
    for name, make in peers.MAKERS.items():
        bench.progress(f"writing {name}")
        in_own_process(make, folder / name, options.molecules)

    def setting(path: Path, epoch: int | None = None) -> Setting:
        if epoch is not None:
            epoch = min(epoch, options.molecules)
        return Setting(path, options.molecules, batch_size=options.batch_size, epoch=epoch)

    return [
        Entry("atompack-db, torch operators", peers.atompack_by_torch, setting(atp, SLOW_EPOCH)),
        Entry("LMDB of pickles", peers.lmdb_pickles, setting(folder / "molecules.lmdb")),
        Entry("h5py, flat", peers.flat_h5, setting(folder / "molecules.h5", SLOW_EPOCH)),
        Entry("PyG InMemoryDataset", peers.pyg_in_memory, setting(folder / "molecules.pyg")),
        Entry(FLOOR, peers.memcpy, setting(atp)),
    ]


def compare_peers(folder: Path, atp: Path, options: argparse.Namespace) -> Iterator[bench.Row]:
    """Race the peers against us, after a check that they deliver the same tensors."""
    entries = peer_entries(folder, atp, options)
    mine = Entry("ours", ours, Setting(atp, options.molecules, batch_size=options.batch_size))
    indices = list(range(0, options.molecules, max(1, options.molecules // 64)))
    expected = in_own_process(fingerprint, mine.build, mine.setting, indices)
    for entry in entries[:-1]:  # all but memcpy
        if in_own_process(fingerprint, entry.build, entry.setting, indices) != expected:
            raise AssertionError(f"{entry.name}: not the same batch as ours")
    bench.progress("peers: " + "; ".join(entry.name for entry in entries))
    first, *others = race([mine, *entries], options.rounds, options.seconds)
    for standing in others:
        yield bench.Row("DataLoader, 0 workers", first, standing)


def measure_costs(folder: Path, atp: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure what happens once per process or per file."""
    setting = Setting(atp, options.molecules, batch_size=options.batch_size)
    bench.progress("first batch")
    builds = {"atompack_torch": ours, "atompack": atompack_db}
    first = {
        module: statistics.median(
            in_own_process(costs.first_batch_ms, build, setting, module) for _ in range(REPEATS)
        )
        for module, build in builds.items()
    }
    bench.progress(f"opening {LARGE} molecules")
    large, small = folder / "large.atp", folder / "small.atp"
    costs.make_large(large, LARGE)
    costs.make_large(small, 100)
    openers = {"atompack_torch": costs.open_ours, "atompack": costs.open_atompack}
    opening = {
        module: median_opening(open_file, large, small) for module, open_file in openers.items()
    }
    bench.progress("memory of two workers over 10 epochs")
    workers = dataclasses.replace(setting, workers=2)
    memory = in_own_process(costs.worker_memory, ours, workers, 10)
    return {"first_batch_ms": first, "opening": opening, "worker_kb": memory}


def median_opening(open_file: costs.Open, large: Path, small: Path) -> dict[str, float]:
    """Open in fresh processes; the median of each figure."""
    runs = [in_own_process(costs.opening, open_file, large, small) for _ in range(REPEATS)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def print_costs(result: dict[str, Any]) -> None:
    """Lay out what is paid once."""
    first, theirs = result["first_batch_ms"].values()
    print(f"first batch after opening: {first:.1f} ms; atompack-db {theirs:.1f} ms")
    for module, cost in result["opening"].items():
        opened = f"{cost['open_ms']:.2f} ms, {cost['open_mb']:.2f} MB"
        print(
            f"opening {LARGE:,} molecules, {module}: {opened}; with a first molecule"
            f" {cost['molecule_ms']:.2f} ms, {cost['molecule_mb']:.2f} MB,"
            f" {cost['molecule_anonymous_mb']:.2f} MB of it not of the file"
        )
    for key, title in (("resident", "resident"), ("anonymous", "of it not of files")):
        sizes = [epoch[key] for epoch in result["worker_kb"]]
        print(f"worker, kB after each of 10 epochs, {title}: {' '.join(map(str, sizes))}")


def main() -> None:
    """Run everything and print it."""
    options = bench.script_options(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench.progress(f"writing {options.molecules} molecules with atompack-db")
        paths = in_own_process(make_atp, folder, options.molecules)
        bench.check(paths, options.molecules)
        bench.print_rows(noted(".atp, read", bench.compare(paths, options)))
        peers_found = compare_peers(folder, paths["none"], options)
        bench.print_rows(noted(".atp, read", peers_found, references=[FLOOR]))
        print_costs(measure_costs(folder, paths["none"], options))


if __name__ == "__main__":
    main()
