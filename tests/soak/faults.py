"""Faults of the disk: each call of a writer fails once, or the disk is full from there on.

Whatever fails, the writer ends with an error that names its target and leaves nothing behind, or
the target is right: ``sweep`` tries every call of a writer, ``try_fault`` one.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from processes.client import ScriptServer
from reference import cache_molecules
from soak import numbered

import atompack_torch as apt

N = 3
_TOGETHER = 8  # faults in one process
PRELOADED = (
    "torch",
    "atompack_torch",
    "soak.faults",
    "ase.db",
    "h5py",
    "lmdb",
    "netCDF4",
    "pyarrow.parquet",
    "xarray",
    "zarr",
)
# Kinds of faults: number of the error, and True for a disk that stays full.
FAULTS = {"EIO": (errno.EIO, False), "ENOSPC": (errno.ENOSPC, False), "full": (errno.ENOSPC, True)}


class Case(NamedTuple):
    """A writer.

    Attributes:
        target: name of what it writes.
        write: writes to this path, from a folder of sources.
        content: returns what a target holds, in the same folder.
        kept: names of hidden files that an error leaves, to be resumed.
        codes: numbers of errors into which its library turns others.
        crashes: True if its library may crash, which is counted.
    """

    target: str
    write: Callable[[Path, Path], object]
    content: Callable[[Path, Path], str]
    kept: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    crashes: bool = False


def prepare(sources: Path) -> None:
    """Writes the sources of all writers."""
    with apt.AtpWriter(sources / "a.atp") as writer:
        writer.write_arrays(**numbered.labeled(0, N))
    cache_molecules.write(sources / "c.atp", N)
    with apt.AtlasStore(sources / "store", "x") as store:
        for name in "ab":
            store.create_dataset(name)
            store.define_array(
                name, "v", "float64", (4, 3), dimension_names=("x", "y"), chunk_shape=(2, 3)
            )
            store.write(name, "v", np.arange(12.0).reshape(4, 3) + len(name))


def _digest(values: Any) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()


def _molecules(target: Path, sources: Path) -> str:
    path = target
    if target.suffix != ".atp":
        path = sources / f"{target.name}.read.atp"
        apt.convert(target, path, mode="w", progress=False)
    dataset = apt.AtpDataset(path)
    batch = dataset[:]
    found = [(key, np.asarray(batch[key]).tolist()) for key in sorted(dataset.schema)]
    if target.is_dir() and (target / "metadata.npz").exists():
        found.append(("natoms", np.load(target / "metadata.npz")["natoms"].tolist()))
    return _digest(found)


def _datasets(target: Path, sources: Path) -> str:
    import xarray

    engine = "zarr" if target.is_dir() else None
    found = []
    for group in "ab":
        with xarray.open_dataset(target, group=group, engine=engine) as dataset:
            found.append({str(k): v.values.tolist() for k, v in dataset.variables.items()})
    return _digest(found)


def _cache(target: Path, sources: Path) -> str:
    import h5py

    found: list[Any] = []

    def look(name: str, item: Any) -> None:
        found.append((name, sorted((key, str(value)) for key, value in item.attrs.items())))
        if isinstance(item, h5py.Dataset):
            found.append([np.asarray(row).tolist() for row in item[:]])

    with h5py.File(target) as file:
        file.visititems(look)
    assert len(apt.TorchCache(target)) == N
    return _digest(found)


def _bytes(target: Path, sources: Path) -> str:
    return _digest(target.read_bytes())


def _converting(target: str, kind: str | None = None, codes: tuple[int, ...] = ()) -> Case:
    def write(path: Path, sources: Path) -> object:
        return apt.convert(sources / "a.atp", path, target=kind, progress=False)

    return Case(target, write, _molecules, codes=codes)


def _export(path: Path, sources: Path) -> object:
    from atompack_torch.conversion import export_datasets

    return export_datasets(sources / "store", path, progress=False)


def _build_cache(path: Path, sources: Path) -> None:
    dataset = apt.AtpDataset(sources / "c.atp")
    of = cache_molecules.descriptor()
    apt.build_cache(dataset, of, path, force_derivatives=True, progress=False, num_threads=1)


def _report(path: Path, sources: Path) -> object:
    page = apt.report(sources / "a.atp", progress=False)
    return page.save(path)


CASES = {
    "atp": _converting("a.atp"),
    "shards": Case(
        "set",
        lambda path, sources: apt.convert(
            sources / "a.atp", path, target="shards", shards=(10, 2, 1), progress=False
        ),
        _molecules,
    ),
    "extxyz": _converting("a.extxyz"),
    "ase-db": _converting("a.db", codes=(errno.EIO,)),
    "aselmdb": _converting("a.aselmdb"),
    "aselmdb folder": _converting("set", "aselmdb"),
    "parquet": _converting("a.parquet"),
    "deepmd": _converting("systems", "deepmd"),
    "metatrain": _converting("arrays", "metatrain"),
    "mace-hdf5": _converting("a.h5", "mace-hdf5"),
    "netcdf": Case("a.nc", _export, _datasets, codes=(errno.EIO,), crashes=True),
    "zarr": Case("a.zarr", _export, _datasets),
    "build_cache": Case("a.h5", _build_cache, _cache, (".a.h5.new", ".a.h5.journal.new")),
    "report": Case("a.html", _report, _bytes),
}


def run(name: str, sources: str, folder: str, first: str, last: str, code: str, full: str) -> None:
    """Writes with each fault of a range; prints what came of each."""
    for number in range(int(first), int(last)):
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir()
        _run_one(name, sources, folder, number, int(code), int(full))


def _run_one(name: str, sources: str, folder: str, number: int, code: int, full: int) -> None:
    case, place = CASES[name], Path(folder)
    calls = ctypes.CDLL(None)
    calls.fault_disarm.restype = ctypes.c_long
    calls.fault_arm(folder.encode(), ctypes.c_long(number), code, full)
    found: dict[str, Any] = {"error": None}
    try:
        case.write(place / case.target, Path(sources))
    except Exception as error:
        found["error"] = [
            f"{type(error).__name__}: {error}",
            getattr(error, "errno", None),
            str(getattr(error, "filename", None)),
            isinstance(error, OSError),
        ]
    found["calls"] = calls.fault_disarm()
    found["left"] = sorted(path.name for path in place.iterdir())
    if case.target in found["left"]:
        try:
            found["content"] = case.content(place / case.target, Path(sources))
        except Exception as error:
            found["content"] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


class Faults:
    """Injects faults into writers.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder: Path, scripts: ScriptServer) -> None:
        self._sources, self._folder, self._scripts = folder / "sources", folder / "made", scripts
        self._sources.mkdir()
        prepare(self._sources)
        self._right: dict[str, dict[str, Any]] = {}

    def _run(self, name: str, first: int, last: int, code: int, full: bool) -> list[dict[str, Any]]:
        """Runs a range of faults in one process; the list is shorter if that died."""
        arguments = (name, self._sources, self._folder, first, last, code, int(full))
        script = "import sys\nfrom soak import faults\nfaults.run(*sys.argv[1:])"
        done = self._scripts.run(script, *map(str, arguments))
        return [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]

    def n_calls(self, name: str) -> int:
        """Returns the number of calls of a writer without faults."""
        if name not in self._right:
            (found,) = self._run(name, -1, 0, errno.EIO, False)
            self._right[name] = found
            assert found["error"] is None, found
            assert found["left"] == [CASES[name].target], found
        return int(self._right[name]["calls"])

    def fail(self, name: str, kind: str, number: int) -> str:
        """Lets a call fail, in a separate process.

        Returns:
            What came of it: "error", "right" for a target that is right nevertheless, or "crash".
        """
        self.n_calls(name)
        found = self._run(name, number, number + 1, *FAULTS[kind])
        if not found and CASES[name].crashes:
            assert not (self._folder / CASES[name].target).exists()
            return "crash"
        assert found, f"{name}, {kind} at call {number}: the process died"
        return self._judge(name, kind, number, found[0])

    def _judge(self, name: str, kind: str, number: int, found: dict[str, Any]) -> str:
        case, (code, _) = CASES[name], FAULTS[kind]
        where = f"{name}, {kind} at call {number}: {found}"
        left = {*found["left"]} - {case.target}
        if case.target in found["left"]:
            assert found["content"] == self._right[name]["content"], where
        if found["error"] is None:
            assert not left, where
            assert case.target in found["left"], where
            return "right"
        _, got, file, is_system_error = found["error"]
        assert is_system_error, where
        assert got in (code, *case.codes), where
        assert file.startswith(str(self._folder)), where
        assert ".part" not in file, where
        assert left <= {*case.kept}, where
        return "error"

    def sweep(self, name: str, counts: Counter[str]) -> list[str]:
        """Lets every call fail in every way; returns what was wrong."""
        wrong = []
        for kind in FAULTS:
            n, found = self.n_calls(name), []
            for number in range(n):
                if number % _TOGETHER == 0:
                    last = min(number + _TOGETHER, n)
                    found = self._run(name, number, last, *FAULTS[kind])
                try:
                    try:
                        one = found[number % _TOGETHER]
                        counts[self._judge(name, kind, number, one)] += 1
                    except (AssertionError, IndexError):  # or an effect of the faults before
                        counts[self.fail(name, kind, number)] += 1
                except AssertionError as error:
                    wrong.append(str(error).partition("\nassert ")[0])
                    counts["wrong"] += 1
        return wrong


@contextmanager
def failing_scripts(folder: Path) -> Iterator[ScriptServer]:
    """Starts a server of scripts whose calls can be made to fail."""
    library = folder / "failing_calls.so"
    source = Path(__file__).with_name("failing_calls.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    outputs = folder / "outputs"
    outputs.mkdir()
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = str(library)
    try:
        server = ScriptServer(outputs, PRELOADED)
    finally:
        os.environ.pop("LD_PRELOAD")
        if before is not None:
            os.environ["LD_PRELOAD"] = before
    with server:
        yield server
