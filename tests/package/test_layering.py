"""The layers of DESIGN: reads every #include and every import, and fails on a breach."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CSRC = REPOSITORY / "csrc"
PACKAGE = REPOSITORY / "atompack_torch"

FORMATS = (
    "atp",
    "array_file",
    "atlas_store",
    "atlas_shards",
    "torch_cache",
    "parsed",
    "lmdb",
    "extxyz",
)
FORMAT_LAYERS = tuple(f"formats/{name}" for name in FORMATS)
# Layer -> our own layers it may include from, besides itself. A format is a layer by itself.
BELOW_FORMATS = {"base", "threads", "io", "codec", "serial", "model"}
BELOW_TENSORS = {"base", "threads", "model", "physics", "plan"}
OWN = {
    "base": set(),
    "threads": {"base"},
    "io": {"base", "threads"},
    "io/fetch/http": {"base", "threads", "io", "codec"},
    "codec": {"base"},
    "model": {"base"},
    "serial": {"base", "model"},
    **dict.fromkeys(FORMAT_LAYERS, BELOW_FORMATS),
    "formats/atlas_store": {*BELOW_FORMATS, "formats/array_file"},
    "formats/extxyz": {*BELOW_FORMATS, "formats/parsed"},
    "formats/lmdb": {*BELOW_FORMATS, "formats/parsed"},
    "physics": {"base"},
    "plan": {"base", "model", "physics"},
    "collate": BELOW_TENSORS,
    "passes": BELOW_TENSORS,
    "ops": {*BELOW_TENSORS, "collate"},
    "bindings": {
        *BELOW_FORMATS,
        *BELOW_TENSORS,
        *FORMAT_LAYERS,
        "io/fetch/http",
        "collate",
        "passes",
        "ops",
    },
}
# Single headers from other layers: memory as the system gives it, and checksums.
EXTRA = {
    "collate": {"io/shared_memory.h", "io/shared_ring.h", "io/huge_pages.h"},
    "ops": {"io/huge_pages.h"},
    "physics": {"io/huge_pages.h", "threads/chunked_loops.h"},
    "io": {"codec/crc32c.h", "codec/sha256.h"},
}
OPERATING_SYSTEM = re.compile(
    r"(sys|linux|asm|netinet|arpa)/[\w/]+\.h|(unistd|fcntl|errno|pthread|sched|signal|dirent)\.h"
)
STANDARD = re.compile(r"[a-z_]+")  # <vector>, <cstdint>; everything else has a dot or a slash
TORCH = re.compile(r"(ATen|c10|torch)/[\w/]+\.h")
JSON = re.compile(r"nlohmann/json(_fwd)?\.hpp")
OUTSIDE: dict[str, list[re.Pattern[str]]] = {
    "threads": [OPERATING_SYSTEM],
    "io": [OPERATING_SYSTEM, re.compile(r"liburing\.h")],
    "io/fetch/http": [OPERATING_SYSTEM, re.compile(r"curl/curl\.h|openssl/(evp|hmac|sha)\.h")],
    "codec": [
        re.compile(r"zstd(_errors)?\.h|zdict\.h|lz4(hc)?\.h|zlib\.h|libdeflate\.h|openssl/sha\.h")
    ],
    **{layer: [JSON] for layer in FORMAT_LAYERS[:4]},
    "formats/torch_cache": [re.compile(r"hdf5\.h"), JSON],
    "physics": [re.compile(r"immintrin\.h")],
    "collate": [TORCH, re.compile(r"omp\.h")],
    "ops": [TORCH],
    "bindings": [TORCH, re.compile(r"pybind11/[\w/]+\.h|Python\.h")],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', re.MULTILINE)

SOURCES = sorted(p for p in CSRC.rglob("*") if p.suffix in {".h", ".cpp", ".hpp", ".cc"})
MODULES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: str) -> str:
    """The layer of a path below csrc: its folder, or format, or the folder that needs libcurl."""
    if path.startswith("io/fetch/http/"):
        return "io/fetch/http"
    parts = path.split("/")
    return "/".join(parts[: 2 if parts[0] == "formats" else 1])


def breaches(source: Path, layer: str, text: str) -> list[str]:
    """The includes of a C++ file that its layer does not allow."""
    found = []
    for outside, own in INCLUDE.findall(text):
        name = outside or own
        ours = (CSRC / name).is_file() or (source.parent / name).is_file()
        if ours and not _may_include(layer, name):
            found.append(f"{layer} includes {name}")
        if not ours and not (STANDARD.fullmatch(name) or _matches(OUTSIDE.get(layer, []), name)):
            found.append(f"{layer} includes <{name}>")
    return found


def _may_include(layer: str, name: str) -> bool:
    target = layer_of(name) if "/" in name else layer
    return target == layer or target in OWN[layer] or name in EXTRA.get(layer, ())


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
    return any(p.fullmatch(name) for p in patterns)


def test_there_is_something_to_check() -> None:
    assert {layer_of(str(p.relative_to(CSRC))) for p in SOURCES} == set(OWN)
    assert {p.name for p in MODULES} >= {"__init__.py", "_core.py", "errors.py", "fields.py"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: str(p.relative_to(CSRC)))
def test_includes(source: Path) -> None:
    layer = layer_of(str(source.relative_to(CSRC)))
    assert layer in OWN, f"csrc/{layer} is no layer of the design"
    assert breaches(source, layer, source.read_text()) == []


def test_a_breach_is_found() -> None:
    """The check itself: what it must not let pass."""
    wrong = {
        "base": ['"io/file.h"', "<sys/mman.h>", "<ATen/ATen.h>"],
        "threads": ['"io/file.h"', '"model/value.h"'],
        "io": ['"codec/codec.h"', "<zstd.h>"],
        "codec": ['"io/file.h"', '"formats/atp/reader.h"'],
        "serial": ['"io/file.h"', '"codec/codec.h"', "<Python.h>"],
        "formats/atp": ["<torch/torch.h>", "<Python.h>", '"formats/array_file/layer/layer.h"'],
        "plan": ["<ATen/core/Tensor.h>", '"collate/collator.h"', '"io/file.h"'],
        "collate": ['"formats/atp/reader.h"', '"io/file.h"', "<pybind11/pybind11.h>"],
        "bindings": ["<zstd.h>", "<sys/mman.h>"],
    }
    for layer, includes in wrong.items():
        for name in includes:
            found = breaches(CSRC / layer / "x.cpp", layer, f"#include {name}\n")
            assert found, f"{layer}: {name}"
    assert breaches(CSRC / "io" / "x.cpp", "io", "#include <sys/mman.h>\n#include <vector>\n") == []


def imports(module: Path, *, of_types: bool = True) -> set[str]:
    """Modules of ours that a Python file imports anywhere, as dotted names below the package.

    Args:
        module: the file.
        of_types: also imports under ``if TYPE_CHECKING``, which are never executed.
    """
    here = module.relative_to(PACKAGE).with_suffix("").parts
    found: set[str] = set()
    tree = ast.parse(module.read_text())
    for node in ast.walk(tree if of_types else _WithoutTypes().visit(tree)):
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


class _WithoutTypes(ast.NodeTransformer):
    """Replaces ``if TYPE_CHECKING`` by its else branch."""

    def visit_If(self, node: ast.If) -> Any:
        is_typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        self.generic_visit(node)
        return node.orelse if is_typing else node


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other."""
    reached = {node: reachable(graph, node) for node in graph}
    groups = {
        tuple(sorted({other for other in reached[node] if node in reached[other]}))
        for node in graph
        if node in reached[node]
    }
    return sorted(map(list, groups))


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Nodes at the end of a path of one or more edges."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
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
        native = dotted in ("_C", "_formats", "_remote")
        is_module = native or path.with_suffix(".py").is_file() or path.is_dir()
        found.add(dotted if is_module else base)
    return found


# Package -> those of ours that it may import from, besides itself and the modules at the top.
BELOW = {
    "display": set(),
    "remote": set(),
    "batch": {"display"},
    "ops": {"batch"},
    "datasets": {"batch", "display", "ops"},
    "loading": {"batch", "datasets", "ops"},
    "formats": {"batch", "datasets", "display", "ops", "remote"},
    "conversion": {"batch", "datasets", "formats", "remote"},
    "reports": {"batch", "datasets", "display", "formats", "remote"},
    "ray": {"batch", "conversion", "formats"},
    "trainers": {"batch", "datasets", "formats", "loading"},
}
# The same of the modules at the top, of which all else may import.
TOP = {
    "_native": {"_formats", "_build_info"},
    "_core": {"_C", "_native"},
    "errors": set(),
    "fields": {"_native"},
    "options": {"errors", "_native"},
    "progress": set(),
    "publishing": {"_native"},
}


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports(module: Path) -> None:
    name = ".".join(module.relative_to(PACKAGE).with_suffix("").parts)
    ours = imports(module)
    doors = {"_core": "_C", "_native": "_formats", "remote.client": "_remote"}
    extensions = {i.split(".")[0] for i in ours} & set(doors.values())
    assert extensions <= {doors.get(name)}, "extensions have one door each"
    top = name.split(".")[0]
    if top in TOP:
        assert ours <= TOP[top]
    if top in BELOW:
        assert {i.split(".")[0] for i in ours} - extensions <= {top, *BELOW[top], *TOP}
    if name.startswith("loading.samplers") and not name.endswith("__init__"):
        others = {i for i in ours if i != "options" and not i.startswith("loading.samplers")}
        assert not others, "samplers get atom counts and use nothing of ours but checks of options"


def test_no_circles() -> None:
    """An import inside of a function counts: it hides a circle, and does not break it."""
    graph = {}
    for module in MODULES:
        parts = module.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        graph[name] = imports(module, of_types=False)
    assert len(graph) == len(MODULES)
    assert circles(graph) == []


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}
    assert circles(graph) == [["b", "c"], ["e"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_few_modules_at_the_top() -> None:
    """A newcomer finds packages, not a hall of modules."""
    assert len(list(PACKAGE.glob("*.py"))) <= 10 + 1  # _build_info.py is the build's
    assert {p.parent.name for p in PACKAGE.glob("*/__init__.py")} == {*BELOW, "cli"}


_WITH_H5PY = ("conversion/sources/hdf5_child.py", "conversion/targets/mace_hdf5.py")


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_bytes_on_disk_in_python(module: Path) -> None:
    """The package knows no file format: nothing decodes structures or maps files here."""
    text = module.read_text()
    forbidden = {"struct", "mmap", "zlib", "zstandard", "lz4", "h5py"}
    if str(module.relative_to(PACKAGE)) in _WITH_H5PY:
        forbidden -= {"h5py"}  # converters meet foreign formats through their own libraries
    if module == PACKAGE / "formats" / "aselmdb" / "converter.py":
        forbidden -= {"zlib"}  # around the JSON of a row
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = {n.name.split(".")[0] for n in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = {(node.module or "").split(".")[0]}
        else:
            continue
        assert not names & forbidden


def test_libraries_below_tensors_link_neither_torch_nor_python() -> None:
    """All layers but collate, passes, ops and bindings build without torch and Python."""
    text = (CSRC / "CMakeLists.txt").read_text()
    for library in ("core", "physics", "hdf5", "http"):
        linked = re.findall(rf"target_link_libraries\(\s*atompack_{library}\b([^)]*)\)", text)
        assert linked
        assert not re.search(r"(?i)torch_|python|pybind", " ".join(linked))


@pytest.mark.parametrize("folder", sorted(p.parent for p in CSRC.glob("**/CMakeLists.txt")))
def test_every_source_is_listed_once(folder: Path) -> None:
    listed = re.findall(
        r"^\s+([\w/]+\.cpp)$", (folder / "CMakeLists.txt").read_text(), re.MULTILINE
    )
    nested = {p.parent for p in folder.glob("*/**/CMakeLists.txt")}
    there = [p for p in folder.rglob("*.cpp") if not nested & set(p.parents)]
    assert sorted(listed) == sorted(str(p.relative_to(folder)) for p in there)


UNLOCKED = re.compile(r"call_guard|gil_scoped_release")
# Where the GIL is released: around the work alone, by what these headers offer.
RELEASING = {"unlocked.h", "locked.h", "wait_interruptibly.h"}


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
