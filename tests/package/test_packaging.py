"""What the package says it needs, and what its wheels pin."""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml

import atompack_torch as apt
from atompack_torch._build_info import TORCH_VERSION

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = (REPOSITORY / "pyproject.toml").read_text()
RECIPE = yaml.safe_load((REPOSITORY / "packaging" / "conda" / "recipe.yaml").read_text())
METADATA = "Name: atompack_torch\nRequires-Dist: torch>=2.7\nRequires-Dist: numpy>=1.24\n"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script of ``.ci`` as a module, which finds the modules next to it."""
    monkeypatch.syspath_prepend(str(REPOSITORY / ".ci"))
    loader = importlib.machinery.SourceFileLoader(name, str(REPOSITORY / ".ci" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    loader.exec_module(module)
    return module


@pytest.fixture
def pin_torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("pin_torch", monkeypatch)


@pytest.fixture
def add_licenses(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("add_licenses", monkeypatch)


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


LIBCURL = Path("/usr/share/doc/libcurl4/copyright")
BUNDLED = "libcurl-02fbea31.so.4.8.0"


def test_names_of_bundled_libraries(add_licenses: ModuleType) -> None:
    for bundled, original in (
        (BUNDLED, "libcurl.so.4.8.0"),
        ("liblber-2-64f183c1.5.so.0.1.8", "liblber-2.5.so.0.1.8"),
        ("libhdf5_serial-8768aa43.so.103.3.1", "libhdf5_serial.so.103.3.1"),
        ("libz.so.1", "libz.so.1"),
    ):
        assert add_licenses.original_name(bundled) == original


def test_licenses_are_added_once_and_named(tmp_path: Path, add_licenses: ModuleType) -> None:
    path = wheel(tmp_path, METADATA + "License-File: LICENSE\n\nA description.\n")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"atompack_torch.libs/{BUNDLED}", b"a library")
    texts = [b"Some license, see /usr/share/common-licenses/LGPL-2.1.\n"]
    sources = {BUNDLED: add_licenses.Source("libcurl4", "7.88", texts)}
    for _ in range(2):  # the second time changes nothing
        assert add_licenses.add(path, sources) == [BUNDLED]
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert len(set(archive.namelist())) == len(archive.namelist())
            assert archive.read(f"atompack_torch.libs/{BUNDLED}") == b"a library"
            place = "atompack_torch-0.1.0.dist-info"
            metadata = archive.read(f"{place}/METADATA").decode()
            record = archive.read(f"{place}/RECORD").decode()
            assert archive.read(f"{place}/licenses/libraries/libcurl4.txt") == texts[0]
            listed = archive.read(f"{place}/licenses/libraries/README.txt").decode()
        assert f"{BUNDLED}: libcurl4 7.88\n" in listed
        head, _, body = metadata.partition("\n\n")
        assert body == "A description.\n"
        named = [line.split(": ")[1] for line in head.split("\n") if line.startswith("License-")]
        assert named[0] == "LICENSE"
        assert {"libraries/README.txt", "libraries/libcurl4.txt"} <= {*named}
        assert len(set(named)) == len(named)
        for name in named[1:]:
            assert record.count(f"{place}/licenses/{name},sha256=") == 1
        assert record.endswith("RECORD,,\n")


def test_a_library_of_no_package_is_an_error(tmp_path: Path, add_licenses: ModuleType) -> None:
    path = wheel(tmp_path, METADATA)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("atompack_torch.libs/libnobody-01234567.so.1", b"")
    with pytest.raises(SystemExit, match=r"found no libnobody\.so\.1 on this system"):
        add_licenses.add(path)
    with pytest.raises(SystemExit, match="found no license of the package"):
        add_licenses.source_of(tmp_path / "mine.so")


@pytest.mark.skipif(not LIBCURL.exists(), reason="not a Debian system with libcurl4")
def test_licenses_of_this_system(add_licenses: ModuleType) -> None:
    files = add_licenses._library_files()
    (name,) = (name for name in files if name.startswith("libcurl.so."))
    source = add_licenses.source_of(files[name])
    assert source.package == "libcurl4"
    assert source.texts == [LIBCURL.read_bytes()]
    assert "pybind11" in add_licenses.sources_of([])


# The version, in every place that states it.


def test_one_version_everywhere() -> None:
    version = re.findall(r'^version = "(.+)"$', PROJECT, re.MULTILINE)
    assert version == [apt.__version__]
    (stated,) = version
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.findall(r"^## ([0-9.]+)", changes, re.MULTILINE)[0] == stated
    citation = (REPOSITORY / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [stated]
    released = re.findall(rf"^## {re.escape(stated)} \((.+)\)$", changes, re.MULTILINE)
    assert re.findall(r"^date-released: (.+)$", citation, re.MULTILINE) == released
    assert RECIPE["context"]["version"] == stated
    policy = (REPOSITORY / "SECURITY.md").read_text()
    assert f"| {stated.rpartition('.')[0]}.x | yes |" in policy


def test_wheels_are_built_for_the_versions_that_are_declared() -> None:
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "wheels.yml").read_text())
    built = workflow["jobs"]["wheel"]["strategy"]["matrix"]["python"]
    assert [f"3.{version.removeprefix('cp3')}" for version in built] == declared
    assert f'requires-python = ">={declared[0]}"' in PROJECT


def test_the_conda_recipe_names_the_same_requirements() -> None:
    needed = RECIPE["requirements"]
    run = {line.replace(" ", "").replace("pytorch", "torch") for line in needed["run"]}
    stated = re.findall(r"^dependencies = \[(.+)\]$", PROJECT, re.MULTILINE)[0]
    python = re.findall(r'^requires-python = "(.+)"$', PROJECT, re.MULTILINE)[0]
    assert run == {*re.findall(r'"([^"]+)"', stated), f"python{python}"}
    # What pkg-config is asked for, by the names of conda's packages.
    conda = {
        "hdf5-serial hdf5": "hdf5",
        "libzstd": "zstd",
        "liblz4": "lz4-c",
        "libcrypto": "openssl",
    }
    lists = (REPOSITORY / "CMakeLists.txt").read_text()
    asked = re.findall(r"pkg_\w+\(\w+ (?:REQUIRED )?IMPORTED_TARGET ([^)]+)\)", lists)
    assert len(asked) == 8
    host = {line.split()[0]: line for line in needed["host"]}
    for module in asked:
        name, _, least = module.partition(">=")
        package = conda.get(name, name)
        assert package in host
        assert not least or host[package] == f"{package} >={least}"


OFFLINE = REPOSITORY / "packaging" / "offline"


@pytest.mark.parametrize("name", ["collect", "build"])
def test_scripts_for_machines_without_network_are_bash(name: str) -> None:
    subprocess.run(["bash", "-n", OFFLINE / name], check=True)


def listed(name: str, text: str) -> set[str]:
    """Words of a list in a shell script or Makefile."""
    (found,) = re.findall(
        rf"^{name}(?:=\(|\s*:=)([^)]*?)(?:\)|\n\n|\n(?=[A-Z]))", text, re.MULTILINE
    )
    return set(found.split())


def test_all_that_a_build_needs_is_carried() -> None:
    collect = (OFFLINE / "collect").read_text()
    system = listed("DEBIAN", (REPOSITORY / "Makefile").read_text())
    assert listed("packages", collect) == {name for name in system if name.endswith("-dev")}
    (requires,) = re.findall(r"^requires = (\[.*\])", PROJECT, re.MULTILINE)
    tools = {re.split("[<>=]", name)[0] for name in ast.literal_eval(requires)}
    assert listed("wheels", collect) >= (tools - {"torch"}) | {"cmake", "ninja", "numpy", "pytest"}
