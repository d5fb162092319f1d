"""What the package says it needs, and what its wheels pin."""

from __future__ import annotations

import base64
import hashlib
import importlib.machinery
import importlib.util
import re
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import torch

from atompack_torch._build_info import TORCH_VERSION

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = (REPOSITORY / "pyproject.toml").read_text()
METADATA = "Name: atompack_torch\nRequires-Dist: torch>=2.7\nRequires-Dist: numpy>=1.24\n"


@pytest.fixture(scope="module")
def pin_torch() -> ModuleType:
    path = str(REPOSITORY / ".ci" / "pin_torch")
    loader = importlib.machinery.SourceFileLoader("pin_torch", path)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_build_and_run_need_the_same_torch() -> None:
    wanted = re.findall(r'"(torch[<>=!~][^"]*)"', PROJECT)
    assert len(wanted) == 2
    assert len(set(wanted)) == 1
    oldest = tuple(map(int, re.findall(r">=(\d+)\.(\d+)", wanted[0])[0]))
    assert tuple(map(int, torch.__version__.split(".")[:2])) >= oldest


def wheel(folder: Path, metadata: str) -> Path:
    """A wheel with nothing but what is said of it."""
    path = folder / "atompack_torch-0.1.0-cp311-cp311-linux_x86_64.whl"
    place = "atompack_torch-0.1.0.dist-info"
    record = f"{place}/METADATA,sha256=old,1\natompack_torch/__init__.py,sha256=kept,2\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("atompack_torch/__init__.py", "x\n")
        archive.writestr("atompack_torch/_build_info.py", f'TORCH_VERSION = "{TORCH_VERSION}"\n')
        archive.writestr(f"{place}/METADATA", metadata)
        archive.writestr(f"{place}/RECORD", record + f"{place}/RECORD,,\n")
    return path


def test_a_wheel_is_pinned_to_the_torch_it_was_built_for(
    tmp_path: Path, pin_torch: ModuleType
) -> None:
    path = wheel(tmp_path, METADATA)
    version = TORCH_VERSION.split("+")[0]
    for _ in range(2):  # the second time changes nothing
        assert pin_torch.pin(path) == version
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert archive.read("atompack_torch/__init__.py") == b"x\n"
            metadata = archive.read("atompack_torch-0.1.0.dist-info/METADATA")
            record = archive.read("atompack_torch-0.1.0.dist-info/RECORD").decode()
        assert metadata.decode() == METADATA.replace(">=2.7", f"=={version}")
        digest = base64.urlsafe_b64encode(hashlib.sha256(metadata).digest()).decode().rstrip("=")
        assert f"METADATA,sha256={digest},{len(metadata)}\n" in record
        assert "atompack_torch/__init__.py,sha256=kept,2\n" in record
        assert record.endswith("RECORD,,\n")


def test_a_wheel_that_does_not_say_which_torch(tmp_path: Path, pin_torch: ModuleType) -> None:
    path = wheel(tmp_path, "Name: atompack_torch\n")
    with pytest.raises(SystemExit, match="expected one requirement of torch, got 0"):
        pin_torch.pin(path)
