"""Importing the package: its names, its version, and a torch it was not built for."""

from __future__ import annotations

import importlib.metadata
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import atompack_torch as apt

PUBLIC = {
    "AtompackError",
    "AtpDataset",
    "CorruptFileError",
    "FieldError",
    "Molecule",
    "MoleculeBatch",
    "UnsupportedFormatError",
    "collate",
}


def run(script: str) -> subprocess.CompletedProcess[str]:
    """A script in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=False
    )


def test_public_names() -> None:
    assert set(apt.__all__) >= PUBLIC
    for name in apt.__all__:
        assert hasattr(apt, name), name
    assert {n for n in dir(apt) if n in PUBLIC} == PUBLIC


def test_version_is_that_of_the_distribution() -> None:
    assert apt.__version__ == importlib.metadata.version("atompack-torch")


def test_types_are_shipped() -> None:
    folder = Path(inspect.getfile(apt)).parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_C.pyi").is_file()


@pytest.mark.parametrize("other", ["2.12.1", "2.14.0+cpu", "3.0.0"])
def test_another_torch_gives_one_plain_line(other: str) -> None:
    done = run(f"import torch\ntorch.__version__ = {other!r}\nimport atompack_torch\n")
    assert done.returncode == 1
    (last,) = done.stderr.strip().splitlines()[-1:]
    assert last.startswith("ImportError: ")
    assert other in last
    built_for = torch.__version__.split("+")[0].rsplit(".", 1)[0]
    assert built_for in last
    assert "undefined symbol" not in done.stderr
    # One error, not a chain of them.
    assert done.stderr.count("Traceback") == 1


def test_the_right_torch_imports_quietly() -> None:
    done = run("import atompack_torch")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_import_starts_no_threads_and_opens_no_files() -> None:
    script = (
        "import os, torch\n"
        "before = len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))\n"
        "import atompack_torch\n"
        "after = len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))\n"
        "assert before == after, (before, after)\n"
    )
    done = run(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ["AtompackError", "CorruptFileError", "UnsupportedFormatError", "FieldError"]
)
def test_errors_take_one_string(name: str) -> None:
    """DataLoader workers rebuild an exception as ``type(text)``."""
    error = getattr(apt, name)
    assert issubclass(error, apt.AtompackError)
    text = "some text: expected 1, got 2"
    assert str(error(text)) == text
    for wrong in ((), ("one", "two")):
        with pytest.raises(TypeError):
            error(*wrong)
    assert str(pickle.loads(pickle.dumps(error(text)))) == text


def test_errors_are_also_builtin_ones() -> None:
    assert issubclass(apt.CorruptFileError, ValueError)
    assert issubclass(apt.UnsupportedFormatError, NotImplementedError)
    assert issubclass(apt.FieldError, ValueError)
