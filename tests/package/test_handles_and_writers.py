"""What all handles and writers have in common: paths, `with`, `close`, modes, options."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch.formats.torch_cache.verification import verify_cache

POSITIONS, NUMBERS = np.zeros((3, 2, 3), np.float32), np.ones((3, 2), np.uint8)
URLS = (
    "s3://bucket/key",
    "hf://datasets/someone/name/data.atp",
    "https://user:secret@host/data?token=secret",
    "simplecache::s3://bucket/key",
    "file:///tmp/data",
)


def fill_molecules(writer: Any) -> None:
    writer.write_arrays(positions=POSITIONS, atomic_numbers=NUMBERS)


def fill_examples(writer: Any) -> None:
    for i in range(20):
        writer.write({"x": np.full(50, i)})


def fill_store(store: Any) -> None:
    store.create_dataset("d")
    store.define_array("d", "t", "float64", (64,), chunk_shape=(8,))
    store.write("d", "t", np.arange(64.0))


def fill_file(file: Any) -> None:
    file.define("t", "float64", (64,), chunk_shape=(8,))
    file.write("t", np.arange(64.0))


class Case:
    """One public class: how it is opened, its modes, and what is written through it."""

    def __init__(
        self,
        opened: Callable[..., Any],
        modes: str,
        fill: Callable[[Any], None] | None,
        codec: str = "zstd",
    ) -> None:
        self.opened = opened
        self.modes = modes
        self.fill = fill
        self.codec = codec
        self.name = "d.af" if opened is apt.ArrayFile else "data"


def shard_writer(path: Any, **options: Any) -> apt.ShardWriter:
    return apt.ShardWriter(path, 10, 2, **options)


WRITERS = {
    "AtpWriter": Case(apt.AtpWriter, "xwa", fill_molecules),
    "ShardWriter": Case(shard_writer, "xwa", fill_examples),
    "AtlasStore": Case(apt.AtlasStore, "rax", fill_store),
    "ArrayFile": Case(apt.ArrayFile, "rax", fill_file),
}
HANDLES = {**WRITERS, "TorchCache": Case(apt.TorchCache, "r", None)}
COMMON = {"mode", "codec", "level", "num_threads"}


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest) -> Case:
    """Each class that writes."""
    return WRITERS[request.param]


@pytest.fixture(params=HANDLES)
def case(request: pytest.FixtureRequest) -> Case:
    """Each class that opens a path."""
    return HANDLES[request.param]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feature cache, and its molecules next to it."""
    path = tmp_path_factory.mktemp("handles") / "c.h5"
    with apt.AtpWriter(path.with_name("m.atp")) as molecules:
        fill_molecules(molecules)
    descriptor = apt.ChebyshevDescriptor(["H"], 2, 4.0, 2, 3.0)
    apt.build_cache(apt.AtpDataset(path.with_name("m.atp")), descriptor, path, progress=False)
    return path


def path_for(case: Case, folder: Path, cache: Path) -> Path:
    """A path that the class opens without further options in its first mode that works."""
    if case.fill is None:
        return cache
    return folder / case.name


def opened_new(case: Case, path: Any, **options: Any) -> Any:
    """A handle; one that can write makes a new file."""
    if case.fill is not None:
        options = {"mode": "x", **options}
    return case.opened(path, **options)


def test_no_public_class_is_left_out() -> None:
    """Whatever takes a path and is not a dataset is in the table above."""
    found = {
        name
        for name in apt.__all__
        if inspect.isclass(kind := getattr(apt, name))
        and {"path", "root"} & set(inspect.signature(kind).parameters)
        and not name.endswith(("Dataset", "Verification"))
    }
    assert found == set(HANDLES)


@pytest.mark.parametrize("name", WRITERS)
def test_writers_have_the_same_options(name: str) -> None:
    assert set(inspect.signature(getattr(apt, name)).parameters) >= COMMON


def test_path(case: Case, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (str, Path):
        folder = tmp_path / given.__name__
        folder.mkdir()
        assert_path(case, given, path_for(case, folder, cache), monkeypatch)


def assert_path(
    case: Case, given: type[str | Path], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    handle = opened_new(case, given(path.name))
    monkeypatch.chdir("/")
    assert isinstance(handle.path, Path)
    assert handle.path == path
    assert repr(str(path)) in repr(handle)
    handle.close()
    assert handle.path == path


REFUSALS = (apt.UnsupportedFormatError, OSError, ValueError, ImportError)
HOSTS = {"hf": "huggingface.co"}  # that do not answer here


def test_urls_are_refused_by_name(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of places that do not exist, or where nothing can be read or written."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    for url, mode in product(URLS, case.modes):
        with pytest.raises(REFUSALS) as e:
            case.opened(url, mode=mode)
        scheme = url.partition("://")[0]
        assert scheme in str(e.value) or HOSTS.get(scheme, scheme) in str(e.value)
        assert "secret" not in str(e.value)
    assert not [*tmp_path.iterdir()]


def test_with_closes(case: Case, tmp_path: Path, cache: Path) -> None:
    path = path_for(case, tmp_path, cache)
    with opened_new(case, path) as handle:
        if case.fill is not None:
            case.fill(handle)
    handle.close()  # again
    assert path.exists()
    if "r" in case.modes:
        with case.opened(path, mode="r") as again:
            assert again.path == path
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        del handle
        gc.collect()


def test_a_fork_leaves_the_block_by_its_own_exception(writer: Case, tmp_path: Path) -> None:
    assert writer.fill is not None
    with opened_new(writer, tmp_path / writer.name) as opened:
        writer.fill(opened)
        child = os.fork()
        if child == 0:
            try:
                with opened:
                    raise LookupError
            except LookupError:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert apt.verify(tmp_path / writer.name, progress=False).ok


def test_use_after_close(writer: Case, tmp_path: Path) -> None:
    assert writer.fill is not None
    path = tmp_path / writer.name
    for end in ("close", "discard"):
        handle = opened_new(writer, path)
        getattr(handle, end)()
        with pytest.raises(ValueError, match=rf"^{path}: the writer is closed$"):
            writer.fill(handle)
        if end == "close":
            path = path.with_name(f"2{path.name}")


def test_reading_handles_do_not_write(writer: Case, tmp_path: Path) -> None:
    if "r" not in writer.modes:
        with pytest.raises(ValueError, match=r"^mode: "):
            writer.opened(tmp_path / writer.name, mode="r")
        return
    assert writer.fill is not None
    path = tmp_path / writer.name
    opened_new(writer, path).close()
    message = rf'^{path}: expected a (store|file) opened with mode "a" or "x", got "r"$'
    with pytest.raises(ValueError, match=message):
        writer.fill(writer.opened(path, mode="r"))


def test_wrong_mode(case: Case, tmp_path: Path) -> None:
    expected = ", ".join(case.modes)
    for mode in ("q", "", None, "rw", 1):
        with pytest.raises(ValueError, match=rf"^mode: expected one of {expected}, got {mode!r}$"):
            case.opened(tmp_path / case.name, mode=mode)
    assert not [*tmp_path.iterdir()]


def test_unknown_option(case: Case, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="compression"):
        case.opened(tmp_path / case.name, compression="zstd")
    assert not [*tmp_path.iterdir()]


WRONG = [
    ({"num_threads": 0}, ValueError, "num_threads: expected a positive number or None, got 0"),
    ({"num_threads": -1}, ValueError, "num_threads: expected a positive number or None, got -1"),
    ({"num_threads": 2**31}, ValueError, r"num_threads: expected below 2\*\*31, got 2147483648"),
    ({"num_threads": "2"}, TypeError, "num_threads: expected an int, got '2'"),
    ({"num_threads": True}, TypeError, "num_threads: expected an int, got True"),
    ({"num_threads": 1.0}, TypeError, "num_threads: expected an int, got 1.0"),
    ({"level": 99}, ValueError, "level: expected -131072 to 22( for codec zstd)?, got 99"),
    ({"level": "3"}, TypeError, "level: expected an int, got '3'"),
    (
        {"codec": "gzip"},
        ValueError,
        "codec: expected one of none, (lz4, )?zstd or None, got 'gzip'",
    ),
    ({"codec": 1}, ValueError, "codec: expected one of none, (lz4, )?zstd or None, got 1"),
]


def test_wrong_options(writer: Case, tmp_path: Path) -> None:
    for (options, error, message), mode in product(WRONG, writer.modes):
        with pytest.raises(error, match=f"^{message}$"):
            writer.opened(tmp_path / writer.name, mode=mode, **options)
    assert not [*tmp_path.iterdir()]


def test_writers_are_not_pickled(writer: Case, tmp_path: Path) -> None:
    opened = writer.opened(tmp_path / writer.name, mode="x")
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(opened)
    opened.discard()


def functions(folder: Path, cache: Path) -> Iterator[Callable[[Any], Any]]:
    """Functions of a number of threads that write or read whole files."""
    molecules = cache.with_name("m.atp")
    dataset = apt.AtpDataset(molecules)
    descriptor = apt.ChebyshevDescriptor(["H"], 2, 4.0, 2, 3.0)
    yield lambda n: apt.build_cache(
        dataset, descriptor, folder / "b.h5", num_threads=n, progress=False
    )
    yield lambda n: verify_cache(cache, num_threads=n)
    yield lambda n: apt.compact(molecules, folder / "c.atp", num_threads=n)


def test_threads_of_functions(tmp_path: Path, cache: Path) -> None:
    for call in functions(tmp_path, cache):
        for number, error in ((0, ValueError), (-3, ValueError), ("2", TypeError)):
            with pytest.raises(error, match=r"^num_threads: expected "):
                call(number)
        call(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.h5", "c.atp"]


def test_threads_do_not_change_what_is_written(writer: Case, tmp_path: Path) -> None:
    assert writer.fill is not None
    contents = []
    for folder, num_threads in (("a", None), ("b", 1), ("c", 3), ("d", np.int64(2))):
        (tmp_path / folder).mkdir()
        with opened_new(
            writer, tmp_path / folder / writer.name, codec=writer.codec, num_threads=num_threads
        ) as handle:
            writer.fill(handle)
        files = sorted(p for p in (tmp_path / folder).rglob("*") if p.is_file())
        contents.append([(p.relative_to(tmp_path / folder), p.read_bytes()) for p in files])
    assert contents == [contents[0]] * 4
    assert contents[0]
