"""Sizes that files claim take no memory until stored bytes bear them out."""

from __future__ import annotations

import io
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from processes.client import ScriptServer

import atompack_torch as apt

pytestmark = pytest.mark.timeout(120)

MIB = 1 << 20

SCRIPT = """
    import resource, sys
    import atompack_torch as apt
    from atompack_torch.conversion import convert
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        {use}
    except (apt.AtompackError, OSError) as error:
        print(type(error).__name__, error, file=sys.stderr)
    else:
        raise AssertionError("opened")
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


Growth = Callable[[str, Path], int]


@pytest.fixture
def growth(scripts: ScriptServer) -> Growth:
    """Returns the bytes by which a process grows that opens a damaged file, and is refused."""

    def of(use: str, path: Path) -> int:
        run = scripts.run(textwrap.dedent(SCRIPT.format(use=use)), path)
        assert run.returncode == 0, run.stderr
        return int(run.stdout)

    return of


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    with apt.AtpWriter(folder / "a.atp") as writer:
        writer.write_arrays(positions=np.zeros((3, 1, 3)), atomic_numbers=np.ones((3, 1), int))
    descriptor = apt.ChebyshevDescriptor(["H"], 2, 4.0, 2, 3.0)
    dataset = apt.AtpDataset(folder / "a.atp")
    apt.build_cache(dataset, descriptor, folder / "c.h5", progress=False)
    return folder / "c.h5"


TABLES = ("entries/meta", "entries/structures", "torch_cache/features/index")


@pytest.mark.parametrize("changed", [TABLES, TABLES[:1]], ids=str)
def test_rows_of_caches(
    cache: Path, tmp_path: Path, growth: Growth, changed: tuple[str, ...]
) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "c.h5"
    path.write_bytes(cache.read_bytes())
    with h5py.File(path, "r+") as file:
        tables: list[str] = []
        file.visit(lambda name: tables.append(name) if name.endswith(changed) else None)
        assert len(tables) >= len(changed)
        for table in tables:
            file[table].resize((2 * 10**8,))
    assert path.stat().st_size < 2 * MIB
    assert growth("apt.TorchCache(sys.argv[1])", path) < 100 * MIB


@pytest.mark.parametrize("count", [10**9, 10**30])
def test_atoms_of_extended_xyz(tmp_path: Path, growth: Growth, count: int) -> None:
    path = tmp_path / "a.xyz"
    path.write_text(f"{count}\nProperties=species:S:1:pos:R:3\nH 0 0 0\n")
    assert growth("convert(sys.argv[1], sys.argv[1] + '.atp')", path) < 100 * MIB


def test_rows_of_npz(tmp_path: Path, growth: Growth) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name, shape in (("R", (10, 10**8, 3)), ("z", (10**8,))):
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                header, {"descr": "<f8", "fortran_order": False, "shape": shape}
            )
            archive.writestr(f"{name}.npy", header.getvalue() + b"\0" * 64)
    assert growth("convert(sys.argv[1], sys.argv[1] + '.atp')", tmp_path / "a.npz") < 100 * MIB
