"""Importing the package: its names, its version, and a torch it was not built for."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from processes.client import ScriptServer
from reference.commands import python

import atompack_torch as apt


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptServer]:
    """Runs scripts in processes that have imported torch, and nothing of this package."""
    with ScriptServer(tmp_path_factory.mktemp("scripts"), ["torch"]) as server:
        yield server


def test_public_names() -> None:
    for name in apt.__all__:
        assert hasattr(apt, name), name
    shown = {name for name in dir(apt) if not name.startswith("_")}
    assert shown == {*apt.__all__, "open", "ray"}
    assert shown == set(re.findall(r"\w+", apt.__doc__ or "")) & set(dir(apt))


def test_types_are_shipped() -> None:
    folder = Path(inspect.getfile(apt)).parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_C.pyi").is_file()


def test_import_starts_no_threads_and_opens_no_files(with_torch: ScriptServer) -> None:
    script = (
        "import os, torch\n"
        "before = len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))\n"
        "import atompack_torch\n"
        "after = len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))\n"
        "assert before == after, (before, after)\n"
    )
    done = with_torch.run(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ["AtompackError", "CorruptFileError", "UnsupportedFormatError", "FieldError"]
)
def test_errors_take_one_string(name: str) -> None:
    """DataLoader workers rebuild an exception as ``type(text)``."""
    error = getattr(apt, name)
    assert issubclass(error, apt.AtompackError)
    builtin = {"CorruptFileError": ValueError, "UnsupportedFormatError": NotImplementedError}
    assert issubclass(error, builtin.get(name, ValueError if name == "FieldError" else Exception))
    text = "some text: expected 1, got 2"
    assert str(error(text)) == text
    for wrong in ((), ("one", "two")):
        with pytest.raises(TypeError):
            error(*wrong)
    assert str(pickle.loads(pickle.dumps(error(text)))) == text


def test_names_are_listed_once_each() -> None:
    """Those that load on first use, those that type checkers see, and those that ``*`` imports."""
    source = Path(inspect.getfile(apt)).read_text()
    (block,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.name: (node.module or "").removeprefix("atompack_torch").removeprefix(".")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    # They would hide the built-in functions, and the library of that name.
    seen_by_star = set(seen) - {"filter", "open", "ray"}
    assert seen_by_star == set(apt.__all__)
    assert {name: home for name, home in seen.items() if home} == apt._HOMES
    assert set(apt.__all__) <= set(dir(apt))


def test_nothing_heavy_is_imported_before_a_name_is_used() -> None:
    done = python(
        "-c",
        "import sys, types, atompack_torch as apt\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert 'AtpDataset' in dir(apt) and not hasattr(apt, 'NoSuchName')\n"
        "assert 'torch' not in sys.modules\n"
        "apt.AtpDataset\n"
        "assert 'torch' in sys.modules\n"
        # Functions are not hidden by modules, whatever was imported before.
        "from atompack_torch import conversion, datasets, formats, reports\n"
        "for name in ('build_cache', 'verify', 'compact', 'collate'):\n"
        "    assert isinstance(getattr(apt, name), types.FunctionType), name\n"
        "for name in ('hub', 'loading'):\n"
        "    assert isinstance(getattr(apt, name), types.ModuleType), name\n",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_first_use_from_many_threads() -> None:
    done = python(
        "-c",
        "import threading, atompack_torch as apt\n"
        "found = []\n"
        "def look(name):\n"
        "    found.append(getattr(apt, name).__name__)\n"
        "threads = [threading.Thread(target=look, args=(n,)) for n in apt.__all__]\n"
        "[t.start() for t in threads], [t.join() for t in threads]\n"
        "assert len(found) == len(apt.__all__), found\n",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_pickles_bring_their_collation_along(tmp_path: Path, with_torch: ScriptServer) -> None:
    """In a process that imports nothing of the package but what a pickle names."""
    molecule = apt.Molecule([[0.0, 0, 0]], [1])
    for value in (molecule, apt.collate([molecule])):
        (tmp_path / "items.pickle").write_bytes(pickle.dumps([value] * 2))
        done = with_torch.run(
            "import pickle, torch.utils.data as data\n"
            f"items = pickle.load(open({str(tmp_path / 'items.pickle')!r}, 'rb'))\n"
            "(batch,) = data.DataLoader(items, batch_size=2)\n"
            "print(type(batch).__name__, len(batch))\n",
        )
        assert (done.stdout, done.stderr) == ("MoleculeBatch 2\n", "")


def test_data_sets_register_how_their_batches_travel(with_torch: ScriptServer) -> None:
    """Even where only a pickle, or the module itself, brings the class."""
    done = with_torch.run(
        "from multiprocessing.reduction import ForkingPickler\n"
        "from atompack_torch.formats.atp.dataset import AtpDataset\n"
        "from atompack_torch.batch.molecule_batch import MoleculeBatch\n"
        "assert MoleculeBatch in ForkingPickler._extra_reducers\n",
    )
    assert done.returncode == 0, done.stderr


BROKEN = {
    "no torch": (
        "import sys\nsys.modules['torch'] = None\n",
        [f"pip install torch=={torch.__version__.split('+')[0]}"],
    ),
    "no extension": (
        "import sys\nsys.modules['atompack_torch._C'] = None\n",
        ["_C", "pip install --no-build-isolation", "outside of the source folder"],
    ),
    "never built": (
        "import sys\nsys.modules['atompack_torch._build_info'] = None\n",
        ["_C", "pip install --no-build-isolation", "outside of the source folder"],
    ),
    "cannot be loaded": (
        "import sys\n"
        "class Linker:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'atompack_torch._C':\n"
        "            raise ImportError('libhdf5.so.103: cannot open shared object file')\n"
        "sys.meta_path.insert(0, Linker())\n",
        ["libhdf5.so.103", "cannot be loaded", "pip install --no-build-isolation"],
    ),
    "another torch": (
        "import torch\ntorch.__version__ = '2.1.0+cpu'\n",
        [
            *("pip install torch==", "2.1.0+cpu", "pip install --no-build-isolation"),
            torch.__version__.split("+")[0].rsplit(".", 1)[0],
        ],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_installation_that_does_not_work_says_what_to_do(
    case: str, with_torch: ScriptServer
) -> None:
    before, expected = BROKEN[case]
    done = with_torch.run(before + "import atompack_torch\natompack_torch.AtpDataset\n")
    assert done.returncode == 1
    (last,) = done.stderr.strip().splitlines()[-1:]
    assert last.startswith("ImportError: ")
    for part in expected:
        assert part in last
    assert done.stderr.count("Traceback") == 1  # one error, not a chain of them
    assert "undefined symbol" not in done.stderr
