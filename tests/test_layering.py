"""The layers of DESIGN: reads every #include and every import, and fails on a breach."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
CSRC = REPOSITORY / "csrc"
PACKAGE = REPOSITORY / "atompack_torch"

FORMATS = ("atp", "array_format", "atlas_store", "atlas_shards", "torch_cache", "extxyz")
# Layer -> our own folders it may include from, besides itself.
OWN = {
    "base": set(),
    "io": {"base"},
    "codec": {"base"},
    "pickle": {"base"},
    "atp": {"base", "io", "codec"},
    "array_format": {"base", "io", "codec"},
    "atlas_store": {"base", "io", "codec", "array_format"},
    "atlas_shards": {"base", "io", "codec", "pickle"},
    "torch_cache": {"base", "io", "codec", "pickle"},
    "extxyz": {"base", "io", "codec"},
    "descriptor": {"base"},
    "collate": {"base", "io", "descriptor"},
    "bindings": {"base", "io", "codec", "pickle", *FORMATS, "descriptor", "collate"},
}
OPERATING_SYSTEM = re.compile(
    r"(sys|linux|asm|netinet|arpa)/[\w/]+\.h|(unistd|fcntl|errno|pthread|sched|signal|dirent)\.h"
)
STANDARD = re.compile(r"[a-z_]+")  # <vector>, <cstdint>; everything else has a dot or a slash
TORCH = re.compile(r"(ATen|c10|torch)/[\w/]+\.h")
OUTSIDE = {
    "base": [],
    "io": [OPERATING_SYSTEM],
    "codec": [re.compile(r"zstd(_errors)?\.h|zdict\.h|lz4(hc)?\.h|zlib\.h")],
    "pickle": [],
    **{name: [re.compile(r"nlohmann/json(_fwd)?\.hpp")] for name in FORMATS[:4]},
    "torch_cache": [re.compile(r"hdf5\.h|nlohmann/json(_fwd)?\.hpp")],
    "extxyz": [],
    "descriptor": [],
    "collate": [TORCH, re.compile(r"omp\.h")],
    "bindings": [TORCH, re.compile(r"pybind11/[\w/]+\.h|Python\.h")],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', re.MULTILINE)

SOURCES = sorted(p for p in CSRC.rglob("*") if p.suffix in {".h", ".cpp", ".hpp", ".cc"})
MODULES = sorted(PACKAGE.rglob("*.py"))


def breaches(source: Path, layer: str, text: str) -> list[str]:
    """What a C++ file includes and may not."""
    found = []
    for outside, own in INCLUDE.findall(text):
        name = outside or own
        ours = (CSRC / name).is_file() or (source.parent / name).is_file()
        if ours and not _may_include(layer, name):
            found.append(f"{layer} includes {name}")
        if not ours and not (STANDARD.fullmatch(name) or _matches(OUTSIDE[layer], name)):
            found.append(f"{layer} includes <{name}>")
    return found


def _may_include(layer: str, name: str) -> bool:
    target = name.split("/")[0] if "/" in name else layer
    if layer == "collate" and target == "io":
        # Memory as the system gives it, and whether this process is a fork.
        memory = {"io/shared_memory.h", "io/shared_ring.h", "io/huge_pages.h"}
        return name in {*memory, "io/process.h"}
    return target == layer or target in OWN[layer]


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
    return any(p.fullmatch(name) for p in patterns)


def test_there_is_something_to_check() -> None:
    assert {p.parent.name for p in SOURCES} >= {"base", "io", "codec", "atp", "collate", "bindings"}
    assert {p.name for p in MODULES} >= {"__init__.py", "_core.py", "errors.py", "fields.py"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: str(p.relative_to(CSRC)))
def test_includes(source: Path) -> None:
    layer = source.relative_to(CSRC).parts[0]
    assert layer in OWN, f"csrc/{layer} is no layer of the design"
    assert breaches(source, layer, source.read_text()) == []


def test_a_breach_is_found() -> None:
    """The check itself: what it must not let pass."""
    wrong = {
        "base": ['"io/file.h"', "<sys/mman.h>", "<ATen/ATen.h>"],
        "io": ['"codec/codec.h"', "<zstd.h>"],
        "codec": ['"io/file.h"', '"atp/reader.h"'],
        "pickle": ['"io/file.h"', '"codec/codec.h"', "<Python.h>", '"torch_cache/structure.h"'],
        "atp": ["<torch/torch.h>", "<pybind11/pybind11.h>", "<Python.h>", '"collate/plan.h"'],
        "collate": ['"atp/reader.h"', '"io/file.h"', "<pybind11/pybind11.h>"],
        "bindings": ["<zstd.h>", "<sys/mman.h>"],
    }
    for layer, includes in wrong.items():
        for name in includes:
            found = breaches(CSRC / layer / "x.cpp", layer, f"#include {name}\n")
            assert found, f"{layer}: {name}"
    assert breaches(CSRC / "io" / "x.cpp", "io", "#include <sys/mman.h>\n#include <vector>\n") == []


def imports(module: Path) -> set[str]:
    """Modules of ours that a Python file imports, as dotted names below the package."""
    here = module.relative_to(PACKAGE).with_suffix("").parts
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            for name in node.names:
                found |= _below(name.name)
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join((*here[: len(here) - node.level], *filter(None, [node.module])))
            found |= _named(base, node)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for base in _below(node.module):
                found |= _named(base, node)
    return found


def _below(name: str) -> set[str]:
    top, _, rest = name.partition(".")
    return {rest} if top == PACKAGE.name else set()


def _named(base: str, node: ast.ImportFrom) -> set[str]:
    """``from base import name`` means a module where there is one, else the base."""
    found = set()
    for name in node.names:
        dotted = f"{base}.{name.name}".strip(".")
        path = PACKAGE / dotted.replace(".", "/")
        is_module = path.with_suffix(".py").is_file() or path.is_dir() or dotted == "_C"
        found.add(dotted if is_module else base)
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports(module: Path) -> None:
    name = ".".join(module.relative_to(PACKAGE).with_suffix("").parts)
    ours = imports(module)
    if name != "_core":
        assert not {i for i in ours if i.split(".")[0] == "_C"}, "only _core imports _C"
    top = name.split(".")[0]
    if top == "datasets" and not name.endswith("__init__"):
        allowed = {"_core", "_storage", "fields", "batch", "molecule", "errors", "neighbors"}
        allowed |= {"statistics", "sweeping", "descriptors", "options", "indices", "formats"}
        allowed |= {"atlas_store", "column_scan"}
        assert {i for i in ours if i.split(".")[0] != "datasets"} <= allowed
        siblings = {i for i in ours if i.startswith("datasets.")}
        shared = {i for i in siblings if i.startswith("datasets._")}
        assert siblings == shared, "data sets do not import each other"
    if top == "samplers" and not name.endswith("__init__"):
        others = {i for i in ours if i.split(".")[0] != "samplers"}
        assert not others, "samplers get atom counts and use nothing of ours"
    if top in {"errors", "fields"}:
        assert not ours
    if top == "formats":
        assert ours <= {"errors"}
    if top == "_core":
        assert ours <= {"_C", "_build_info", "errors"}


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_bytes_on_disk_in_python(module: Path) -> None:
    """The package knows no file format: nothing decodes structures or maps files here."""
    text = module.read_text()
    forbidden = {"struct", "mmap", "zlib", "zstandard", "lz4", "h5py"}
    if module.parent == PACKAGE / "convert" and module.name in ("arrays.py", "mace_hdf5.py"):
        forbidden -= {"h5py"}  # converters meet foreign formats through their own libraries
    if module == PACKAGE / "convert" / "lmdb_pages.py":
        forbidden -= {"struct"}  # LMDB's own library maps files, and dies with those that are cut
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = {n.name.split(".")[0] for n in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = {(node.module or "").split(".")[0]}
        else:
            continue
        assert not names & forbidden


def test_core_is_free_of_torch_and_python() -> None:
    """What stands below collate builds without torch and Python."""
    text = (REPOSITORY / "CMakeLists.txt").read_text()
    core = re.findall(r"target_link_libraries\(\s*atompack_core\b([^)]*)\)", text)
    assert core
    assert not re.search(r"(?i)torch|python|pybind", " ".join(core))


UNLOCKED = re.compile(r"call_guard|gil_scoped_release")
# Where the GIL is released: around the work alone, by what these headers offer.
RELEASING = {"unlocked.h", "serial.h", "taking.h"}


@pytest.mark.parametrize(
    "source", [p for p in SOURCES if p.parent.name == "bindings"], ids=lambda p: p.name
)
def test_the_gil_is_released_around_work_alone(source: Path) -> None:
    """pybind11 keeps a table of instances that only the GIL guards.

    A call_guard around py::init() releases the GIL while an instance is put into that table, so
    bindings release it by unlocked(), without_gil() and Serial, which run no code of pybind11.
    """
    code = re.sub(r"//[^\n]*", "", source.read_text())
    assert source.name in RELEASING or not UNLOCKED.search(code)
