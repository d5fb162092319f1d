"""A file that is cut while a pass over it runs: a result or a named error, never a signal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import atompack_torch as apt

pytestmark = pytest.mark.timeout(300)

N_CUTS = int(os.environ.get("ATOMPACK_CUTS", "10"))

# Runs one script after the other, not in forks, where kernels have one thread.
SERVER = """
import json, os, shutil, sys
import numpy as np
import atompack_torch as apt
from atompack_torch.cli import main

while request := sys.stdin.readline():
    script, whole, path, n = json.loads(request)
    exec(compile(script, "<script>", "exec"))
"""
# Runs a pass again and again; a thread of another process, which is the parent, cuts the file.
HEAD = """
    fresh = shutil.copytree if os.path.isdir(whole) else shutil.copyfile

    def clear(path):
        shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.unlink(path)

    outcomes = {"whole": 0, "error": 0}
    for i in range(n):
        clear(path)
        fresh(whole, path)
        begin()
        print("go", flush=True)
        try:
            run()
            outcomes["whole"] += 1
        except (apt.AtompackError, OSError) as error:
            outcomes["error"] += 1
        print("done", flush=True)
        sys.stdin.readline()
    print(json.dumps(outcomes), flush=True)
"""


Cut = Callable[[str, Path, Path, Path], dict[str, int]]


@pytest.fixture(scope="module")
def cut_while() -> Iterator[Cut]:
    """Runs a script's ``run`` many times while a file is cut at changing moments."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        yield partial(cut_in, child)
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait() == 0


def cut_in(
    child: subprocess.Popen[str], script: str, whole: Path, path: Path, file: Path
) -> dict[str, int]:
    assert child.stdin is not None
    assert child.stdout is not None
    text = textwrap.dedent(script) + textwrap.dedent(HEAD)
    child.stdin.write(json.dumps([text, str(whole), str(path), N_CUTS]) + "\n")
    child.stdin.flush()
    rng = np.random.default_rng(0)
    spent = 0.02  # seconds that a run takes
    for i in range(N_CUTS):
        line = child.stdout.readline()
        assert line == "go\n", (line, child.wait())
        start = time.monotonic()
        if i > 1:  # the first two tell how long a run takes
            time.sleep(float(rng.uniform(0, spent)))
            os.truncate(file, int(file.stat().st_size * rng.uniform(0, 0.9)))
        line = child.stdout.readline()
        assert line == "done\n", f"a signal ended the process: {child.wait()}"
        if i == 1:
            spent = time.monotonic() - start
        child.stdin.write("\n")
        child.stdin.flush()
    return dict(json.loads(child.stdout.readline()))


def atp_file(path: Path, codec: str) -> Path:
    rng = np.random.default_rng(1)
    with apt.AtpWriter(path, codec=codec) as writer:  # type: ignore[arg-type]
        for _ in range(20):
            writer.write_arrays(
                positions=rng.normal(size=(500, 40, 3)),
                atomic_numbers=rng.integers(1, 9, (500, 40)),
                energy=rng.normal(size=500),
                forces=rng.normal(size=(500, 40, 3)),
            )
    return path


PASSES = {
    "compact": "apt.compact(path, path + '.new', codec='zstd')",
    "compact in place": "apt.compact(path, path)",
    "verify": "assert apt.verify(path).n_molecules >= 0",
    "statistics": "ds.statistics()",
    "joined statistics": "joined.statistics()",
    "atom counts": "[ds.n_atoms for _ in range(100)]",
}
BEGIN = """
    def begin():
        global ds, joined
        clear(path + '.new')
        ds = apt.AtpDataset(path)
        joined = apt.MixtureDataset([ds, ds])
    def run():
        {}
"""


CODECS = [
    *((name, "none") for name in PASSES),
    *(
        pytest.param(name, codec, marks=pytest.mark.exhaustive)
        for name in ("compact", "verify", "statistics")
        for codec in ("lz4", "zstd")
    ),
]


@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_atp(tmp_path: Path, cut_while: Cut, codec: str, name: str) -> None:
    path = tmp_path / "a.atp"
    whole = atp_file(tmp_path / "whole.atp", codec)
    outcomes = cut_while(BEGIN.format(PASSES[name]), whole, path, path)
    assert outcomes["whole"] >= 2
    if name != "verify":
        assert outcomes["error"] >= 1


def array_file(path: Path) -> Path:
    rng = np.random.default_rng(2)
    with apt.ArrayFile(path, "x", block_bytes=1 << 16) as file:
        for k in range(4):
            file.define(f"v{k}", "float64", (400_000,), chunk_shape=(1000,))
            file.write(f"v{k}", rng.normal(size=400_000))
    with apt.ArrayFile(path, "a") as file:
        file.compact()
    return path


@pytest.mark.parametrize(
    "run",
    ["file.compact()", pytest.param("main(['verify', path])", marks=pytest.mark.exhaustive)],
)
def test_array_file(tmp_path: Path, cut_while: Cut, run: str) -> None:
    path = tmp_path / "a.af"
    whole = array_file(tmp_path / "whole.af")
    script = f"""
        def begin():
            global file
            file = apt.ArrayFile(path, "a")
        def run():
            try:
                sys.stdout = open(os.devnull, "w")
                {run}
            finally:
                sys.stdout = sys.__stdout__
                file.discard()
    """
    assert cut_while(script, whole, path, path)["whole"] >= 2


@pytest.mark.parametrize(
    "run",
    ["main(['verify', path])", pytest.param("store.compact()", marks=pytest.mark.exhaustive)],
)
def test_store(tmp_path: Path, cut_while: Cut, run: str) -> None:
    rng = np.random.default_rng(3)
    with apt.AtlasStore(tmp_path / "whole", "x", block_bytes=1 << 16) as store:
        for k in range(40):
            store.create_dataset(f"d{k}")
            store.define_array(f"d{k}", "v", "float64", (40_000,), chunk_shape=(1000,))
            store.write(f"d{k}", "v", rng.normal(size=40_000))
    with apt.AtlasStore(tmp_path / "whole", "a") as store:
        store.compact()
    path = tmp_path / "s"
    script = f"""
        def begin():
            global store
            store = apt.AtlasStore(path, "a")
        def run():
            try:
                sys.stdout = open(os.devnull, "w")
                {run}
            finally:
                sys.stdout = sys.__stdout__
                store.discard()
    """
    file = path / "v" / "data.af"
    assert file.relative_to(path) in [
        f.relative_to(tmp_path / "whole") for f in (tmp_path / "whole").rglob("*.af")
    ]
    assert cut_while(script, tmp_path / "whole", path, file)["whole"] >= 2


@pytest.mark.parametrize(
    "run",
    [
        "cached.statistics()",
        *(
            pytest.param(run, marks=pytest.mark.exhaustive)
            for run in ("beside.statistics()", "verify()")
        ),
    ],
)
def test_cache(tmp_path: Path, cut_while: Cut, run: str) -> None:
    rng = np.random.default_rng(4)
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write_arrays(
            positions=rng.uniform(0, 5, (1000, 12, 3)),
            atomic_numbers=np.ones((1000, 12), int),
            energy=rng.normal(size=1000),
            forces=rng.normal(size=(1000, 12, 3)),
        )
    descriptor = apt.ChebyshevDescriptor(["H"], 3, 4.0, 2, 3.0)
    dataset = apt.AtpDataset(tmp_path / "a.atp")
    whole = tmp_path / "whole.h5"
    apt.build_cache(dataset, descriptor, whole, force_derivatives=True, progress=False)
    path = tmp_path / "c.h5"
    script = f"""
        from atompack_torch.formats.torch_cache.verification import _Examiner
        def verify():
            faults = [f for part in examiner.parts() for f in examiner.examine(part).faults]
            if faults:
                raise apt.CorruptFileError(faults[0].message)
        def begin():
            global cached, beside, examiner
            cache = apt.TorchCache(path).without_mapping()  # opened before the file is cut
            examiner = _Examiner(cache, None)
            cached = apt.TorchCacheDataset(cache)
            beside = apt.AtpDataset({str(tmp_path / "a.atp")!r}, features=cache)
        def run():
            {run}
    """
    assert cut_while(script, whole, path, path)["whole"] >= 2


def test_shards(tmp_path: Path, cut_while: Cut) -> None:
    rng = np.random.default_rng(5)
    with apt.ShardWriter(tmp_path / "whole", 10_000, 50, 1) as writer:
        for _ in range(5000):
            writer.write({"x": rng.normal(size=100)})
    path = tmp_path / "s"
    script = """
        def begin():
            pass
        def run():
            try:
                sys.stdout = open(os.devnull, "w")
                main(['verify', path])
            finally:
                sys.stdout = sys.__stdout__
    """
    file = path / next((tmp_path / "whole").glob("*/data.bin")).relative_to(tmp_path / "whole")
    assert cut_while(script, tmp_path / "whole", path, file)["whole"] >= 2
