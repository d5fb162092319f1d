"""How fast are extended XYZ files converted and ``.atp`` files verified, and in how much memory?

    python benchmarks/convert.py [--quick] [--rounds N] [--molecules N]

The peer of the conversion reads the same file with ``ase.io.iread`` and hands the structures to
atompack-db's ``add_ase_batch``. Everything runs in a separate process; see write_atp.py for how
the rounds are taken.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import races as bench
from races.readers import structures
from results import Result, note
from turns import in_own_process

TIMES = 10  # how much longer the longer file is


def make_extxyz(path: Path, count: int) -> None:
    """Write structures as ASE does."""
    import ase.io
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator

    def images() -> Any:
        for plain in structures(count):
            atoms = Atoms(
                numbers=plain["atomic_numbers"],
                positions=plain["positions"],
                cell=plain["cell"],
                pbc=True,
            )
            atoms.calc = SinglePointCalculator(
                atoms, energy=plain["energy"], forces=plain["forces"]
            )
            yield atoms

    ase.io.write(path, images(), format="extxyz")


def ours(source: Path, target: Path) -> float:
    """Convert; return the seconds."""
    from atompack_torch.conversion import convert

    start = time.perf_counter()
    convert(source, target, progress=False)
    return time.perf_counter() - start


def theirs(source: Path, target: Path) -> float:
    """Read with ASE, add to a database in blocks; return the seconds."""
    import ase.io
    import atompack
    from atompack.ase_bridge import add_ase_batch

    start = time.perf_counter()
    database = atompack.Database(str(target))
    block = []
    for atoms in ase.io.iread(source, format="extxyz"):
        block.append(atoms)
        if len(block) == 1024:
            add_ase_batch(database, block)
            block = []
    add_ase_batch(database, block)
    database.flush()
    return time.perf_counter() - start


def peak_memory(source: Path, target: Path) -> int:
    """Convert in a fresh interpreter; return its peak memory in bytes."""
    code = (
        "import sys; from turns import peak_bytes; from atompack_torch.conversion import convert; "
        "convert(*sys.argv[1:], progress=False, mode='w'); "
        "print(peak_bytes())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(target)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,  # which has turns.py
    )
    return int(done.stdout.split()[-1])


def verify_speed(path: Path, rounds: int) -> float:
    """Return the bytes of uncompressed records that are verified in a second."""
    import atompack_torch as apt

    speeds = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = apt.verify(path)
        speeds.append(found.n_bytes / (time.perf_counter() - start))
        if not found.ok:
            raise AssertionError(f"{path}: {found.faults[0].message}")
    return statistics.median(speeds)


def make_atp(path: Path, codec: Any, count: int) -> None:
    """Write molecules of the standard data again and again, 20,000 of them."""
    import atompack_torch as apt

    batch = apt.MoleculeBatch.from_molecules(
        [apt.Molecule(**plain) for plain in structures(min(count, 20_000))]
    )
    with apt.AtpWriter(path, codec=codec) as writer:
        for _ in range(max(1, count // 20_000)):
            writer.write(batch)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run everything."""
    source = folder / "source.extxyz"
    bench.progress(f"writing {options.molecules} structures with ASE")
    in_own_process(make_extxyz, source, options.molecules)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    bench.progress("converting")
    for _ in range(min(options.rounds, 3)):
        for side, function in (("ours", ours), ("theirs", theirs)):
            target = folder / f"{side}.atp"
            seconds[side].append(in_own_process(function, source, target))
            target.unlink()
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)]
    result: dict[str, Any] = {
        "extxyz_ratio": statistics.median(ratios),
        "extxyz_ratios": ratios,
        "extxyz_mb_per_s": source.stat().st_size / statistics.median(seconds["ours"]) / 1e6,
        "extxyz_structures_per_s": options.molecules / statistics.median(seconds["ours"]),
        "ase_structures_per_s": options.molecules / statistics.median(seconds["theirs"]),
    }
    bench.progress("memory")
    longer = folder / "longer.extxyz"
    with longer.open("wb") as out:
        for _ in range(TIMES):
            out.write(source.read_bytes())
    result["peak_bytes"] = peak_memory(source, folder / "a.atp")
    result["peak_bytes_longer"] = peak_memory(longer, folder / "b.atp")
    for codec in ("none", "lz4", "zstd"):
        bench.progress(f"verifying, {codec}")
        path = folder / f"verify-{codec}.atp"
        in_own_process(make_atp, path, codec, 10 * options.molecules)
        result[f"verify_{codec}"] = in_own_process(verify_speed, path, options.rounds)
    return result


def note_all(result: dict[str, Any]) -> None:
    """Note the conversion, and verifying, which has no peer."""
    ours, theirs = result["extxyz_structures_per_s"], result["ase_structures_per_s"]
    case, peer = "convert extended XYZ", "ase.io.iread, add_ase_batch"
    ratio = result["extxyz_ratio"]
    note(Result(".atp, convert", case, ours, "molecules/s", peer, theirs, ratio))
    for codec in ("none", "lz4", "zstd"):
        note(Result(".atp, convert", f"verify, {codec}", result[f"verify_{codec}"] / 1e9, "GB/s"))


def report(result: dict[str, Any]) -> None:
    """Print it."""
    ratio = result["extxyz_ratio"]
    low, high = min(result["extxyz_ratios"]), max(result["extxyz_ratios"])
    print(
        f"extxyz to .atp: {ratio:.1f}x ({low:.1f}-{high:.1f}) ase.io + add_ase_batch;"
        f" {result['extxyz_structures_per_s']:,.0f} against"
        f" {result['ase_structures_per_s']:,.0f} molecules/s,"
        f" {result['extxyz_mb_per_s']:.0f} MB/s of text"
    )
    first, longer = result["peak_bytes"] / 1e6, result["peak_bytes_longer"] / 1e6
    print(f"peak memory: {first:.0f} MB, of a file {TIMES} times as long {longer:.0f} MB")
    for codec in ("none", "lz4", "zstd"):
        speed = result[f"verify_{codec}"] / 1e9
        print(f"verify, {codec}: {speed:.2f} GB/s of records")


def main() -> None:
    """Run everything and print it."""
    options = bench.script_options(__doc__)
    with tempfile.TemporaryDirectory() as name:
        result = measure(Path(name), options)
    note_all(result)
    report(result)


if __name__ == "__main__":
    main()
