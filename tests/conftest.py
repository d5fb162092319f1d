"""Shared fixtures: where the data files lie, and the one process that writes with atompack-db."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Before numpy and torch are imported, here and in all processes of the tests: threads that spin
# while they wait take the cores from other tests, and no matrix is large enough for several.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Worker processes started by spawn get sys.path handed on, so they find these modules too.
sys.path.insert(0, str(Path(__file__).parent))

from hypothesis import HealthCheck, settings
from oracle.atlas_client import AtlasProcess
from oracle.client import AtompackProcess
from processes.client import ScriptServer
from reference.cache_damage import damage_all
from reference.fixture_files import fixtures_root

# A shell without job control starts what runs in the background deaf to Ctrl-C, and so are the
# children of that; some tests send it to theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Python 3.14 starts workers by forkserver. They need not import what that process has imported.
multiprocessing.set_forkserver_preload(["atompack_torch"])

ON_CI = bool(os.environ.get("CI"))

settings.register_profile(
    "atompack_torch",
    deadline=None,
    derandomize=ON_CI,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("atompack_torch")


# Files whose tests start processes, wait, or compute for seconds.
SLOW = {
    "test_atp_handles.py",
    "test_build_cache_parts.py",
    "test_build_cache_processes.py",
    "test_cache_forms.py",
    "test_feature_operators.py",
    "test_shard_safety.py",
    "test_store_limits.py",
    "test_worker_ring.py",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow what `make check` does without."""
    for item in items:
        if item.path.name in SLOW or "scripts" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Folder of the .atp files written by the original, with their expected values."""
    return fixtures_root() / "atp"


@pytest.fixture(scope="session")
def damaged_caches(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the feature caches that are damaged, ``NAME.h5``."""
    return damage_all(
        fixtures.parent / "torch_cache", tmp_path_factory.mktemp("caches") / "damaged"
    )


@pytest.fixture(scope="session")
def atompack() -> Iterator[AtompackProcess]:
    """atompack-db in a separate process: forked children of one that used it hang."""
    with AtompackProcess() as process:
        yield process


@pytest.fixture(scope="session")
def atlas_python() -> Iterator[AtlasProcess]:
    """atlas-python in a separate process, for the same reason."""
    with AtlasProcess() as process:
        yield process


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptServer]:
    """Runs scripts in separate processes, which start in milliseconds."""
    with ScriptServer(tmp_path_factory.mktemp("scripts")) as server:
        yield server


@pytest.fixture(scope="session")
def new_path() -> Iterator[Callable[[], Path]]:
    """Makes fresh .atp paths, in memory where the system has /dev/shm, removed at the end."""
    shared_memory = Path("/dev/shm")
    root = shared_memory if shared_memory.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="atompack-tests-", dir=root))
    numbers = itertools.count()
    yield lambda: folder / f"{next(numbers)}.atp"
    shutil.rmtree(folder)
