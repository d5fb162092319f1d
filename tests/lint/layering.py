"""Lint of the layers: what the C++ sources include, and what the Python modules import.

    python tests/lint/layering.py

prints each breach as ``file:line: what``, and fails if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

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
    "plan": {"base", "threads", "model", "physics"},
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
# Folders whose namespace is `atompack` itself.
PLAIN = {"base", "model"}
# Single headers from other layers: memory as the system gives it, and checksums.
EXTRA = {
    "collate": {"io/shared_ring.h", "io/huge_pages.h"},
    "ops": {"io/huge_pages.h"},
    "physics": {"io/huge_pages.h", "threads/chunked_loops.h"},
    "io": {"codec/checksums.h"},
}
OPERATING_SYSTEM = re.compile(
    r"(sys|linux|asm|netinet|arpa)/[\w/]+\.h|(unistd|fcntl|errno|pthread|sched|signal|dirent|cxxabi)\.h"
)
STANDARD = re.compile(r"[a-z_]+")  # <vector>, <cstdint>; everything else has a dot or a slash
TORCH = re.compile(r"(ATen|c10|torch)/[\w/]+\.h")
JSON = re.compile(r"nlohmann/json(_fwd)?\.hpp")
OUTSIDE: dict[str, list[re.Pattern[str]]] = {
    "base": [re.compile(r"emmintrin\.h")],
    "threads": [OPERATING_SYSTEM],
    "io": [OPERATING_SYSTEM, re.compile(r"liburing\.h")],
    "io/fetch/http": [OPERATING_SYSTEM, re.compile(r"curl/curl\.h|openssl/(evp|hmac|sha)\.h")],
    "codec": [
        re.compile(r"zstd(_errors)?\.h|zdict\.h|lz4(hc)?\.h|zlib\.h|libdeflate\.h|openssl/sha\.h")
    ],
    **{layer: [JSON] for layer in FORMAT_LAYERS[:4]},
    "formats/torch_cache": [re.compile(r"hdf5\.h"), JSON],
    "physics": [re.compile(r"(immintrin|arm_neon)\.h")],
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


def include_breaches(folder: Path, layer: str, text: str) -> list[str]:
    """The includes of a C++ file that its layer does not allow.

    Args:
        folder: the folder of the file.
        layer: its layer.
        text: its content.
    """
    found = []
    for match in INCLUDE.finditer(text):
        name = match[1] or match[2]
        line = text.count("\n", 0, match.start(1 if match[1] else 2)) + 1
        ours = (CSRC / name).is_file() or (folder / name).is_file()
        if ours and not _may_include(layer, name):
            found.append(f"{line}: {layer} includes {name}")
        if not ours and not (STANDARD.fullmatch(name) or _matches(OUTSIDE.get(layer, []), name)):
            found.append(f"{line}: {layer} includes <{name}>")
    return found


def namespace_breaches(path: str, text: str) -> Iterator[str]:
    """The namespaces of ours that a C++ file opens and that no folder of its path is named after.

    Args:
        path: of the file below csrc.
        text: its content.
    """
    folders = path.split("/")[:-1]
    for match in re.finditer(r"^namespace atompack(?:::(\w+))?[\w:]* \{", text, re.MULTILINE):
        if match[1] not in ([None] if folders[0] in PLAIN else folders):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{line}: expected a namespace named after a folder, got atompack::{match[1]}"


def _may_include(layer: str, name: str) -> bool:
    target = layer_of(name) if "/" in name else layer
    return target == layer or target in OWN[layer] or name in EXTRA.get(layer, ())


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
    return any(p.fullmatch(name) for p in patterns)


def imports(module: Path, *, of_types: bool = True) -> dict[str, int]:
    """Modules of ours that a Python file imports anywhere, by dotted name below the package → line.

    Args:
        module: the file.
        of_types: also imports under ``if TYPE_CHECKING``, which are never executed.
    """
    here = module.relative_to(PACKAGE).with_suffix("").parts
    found: dict[str, int] = {}
    tree = ast.parse(module.read_text())
    for node in ast.walk(tree if of_types else _WithoutTypes().visit(tree)):
        names: set[str] = set()
        if isinstance(node, ast.Import):
            names = {below for name in node.names for below in _below(name.name)}
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join((*here[: len(here) - node.level], *filter(None, [node.module])))
            names = _named(base, node)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {name for base in _below(node.module) for name in _named(base, node)}
        found |= {name: node.lineno for name in names if isinstance(node, ast.stmt)}
    return found


class _WithoutTypes(ast.NodeTransformer):
    """Replaces ``if TYPE_CHECKING`` by its else branch."""

    def visit_If(self, node: ast.If) -> Any:
        is_typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        self.generic_visit(node)
        return node.orelse if is_typing else node


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
    "ray": {"batch", "conversion", "datasets", "formats"},
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
    "random_order": {"_core"},
}


# Modules that use a library for bytes on disk, and that library.
LIBRARIES = {
    "conversion/sources/hdf5_child.py": "h5py",  # a foreign format through its own library
    "conversion/targets/mace_hdf5.py": "h5py",
    "formats/aselmdb/converter.py": "zlib",  # around the JSON of a row
}
BYTES_ON_DISK = {"struct", "mmap", "zlib", "zstandard", "lz4", "h5py"}
UNLOCKED = re.compile(r"call_guard|gil_scoped_release")
# Where the GIL is released: around the work alone, by what these headers offer. pybind11 keeps a
# table of instances that only the GIL guards, and a call_guard around py::init() would release it
# while an instance is put into that table.
RELEASING = {"gil.h", "locked.h"}


def import_breaches(module: Path) -> Iterator[str]:
    """The imports of a module that its package does not allow."""
    name = ".".join(module.relative_to(PACKAGE).with_suffix("").parts)
    door = {"_core": "_C", "_native": "_formats", "remote.client": "_remote"}.get(name)
    top = name.split(".")[0]
    is_sampler = name.startswith("loading.samplers") and not name.endswith("__init__")
    for target, line in imports(module).items():
        package = target.split(".")[0]
        if package in ("_C", "_formats", "_remote"):
            if package != door:
                yield f"{line}: {name} imports {package}: extensions have one door each"
        elif top in BELOW and package not in {top, *BELOW[top], *TOP}:
            yield f"{line}: {top} imports {target}"
        if top in TOP and target not in TOP[top]:
            yield f"{line}: {top} imports {target}"
        if is_sampler and not target.startswith(("options", "random_order", "loading.samplers")):
            yield f"{line}: samplers use nothing of ours but options and orders, not {target}"


def library_breaches(module: Path) -> Iterator[str]:
    """Imports of libraries that decode or map files: the package knows no bytes on disk."""
    forbidden = BYTES_ON_DISK - {LIBRARIES.get(module.relative_to(PACKAGE).as_posix(), "")}
    for node in ast.walk(ast.parse(module.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] in forbidden and isinstance(node, ast.stmt):
                yield f"{node.lineno}: imports {name}"


# Of the standard library and torch, which name what anyone may use with an underscore.
NOT_PRIVATE = {"_asdict", "_fields", "_make", "_replace", "_version"}


def private_names(tree: ast.AST) -> set[str]:
    """The names with an underscore that a module defines, also as attributes of its classes."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return {name for name in found if re.match(r"_[a-z]", name)}


def private_breaches(tree: ast.AST, owned: set[str], foreign: set[str]) -> Iterator[str]:
    """The uses of private names of another package of ours, other than by a subclass.

    Args:
        tree: of the module.
        owned: names that its package defines.
        foreign: names that other packages define.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            receiver = ast.unparse(node.value)
            if node.attr in foreign - owned and receiver not in ("self", "cls", "super()"):
                yield f"{node.lineno}: {receiver}.{node.attr}: private to another package"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            for name in node.names:
                if name.name in foreign - owned:
                    yield f"{node.lineno}: imports {name.name}: private to another package"


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """A circle of nodes, in order; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [*error.args[1]]
    return []


def circular_imports() -> list[str]:
    """Modules that import each other; inside of a function counts too."""
    graph = {}
    for module in MODULES:
        parts = module.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        graph[name] = {*imports(module, of_types=False)}
    assert len(graph) == len(MODULES)
    return circle_in(graph)


def build_breaches(folder: Path) -> Iterator[str]:
    """Sources that the CMakeLists.txt of a folder does not list, or that are not there."""
    text = (folder / "CMakeLists.txt").read_text()
    listed = re.findall(r"^\s+([\w/]+\.cpp)$", text, re.MULTILINE)
    nested = {p.parent for p in folder.glob("*/**/CMakeLists.txt")}
    there = [p for p in folder.rglob("*.cpp") if not nested & set(p.parents)]
    names = [str(p.relative_to(folder)) for p in there]
    for name in sorted({*listed, *names}):
        if listed.count(name) != names.count(name):
            yield f"1: {name}: expected once in the list and in the folder"


def link_breaches() -> Iterator[str]:
    """Libraries below tensors that link torch or Python."""
    text = (CSRC / "CMakeLists.txt").read_text()
    for library in ("core", "physics", "hdf5", "http"):
        linked = re.findall(rf"target_link_libraries\(\s*atompack_{library}\b([^)]*)\)", text)
        if not linked or re.search(r"(?i)torch_|python|pybind", " ".join(linked)):
            yield f"1: atompack_{library}: expected libraries without torch and Python"


def find_breaches() -> list[str]:
    """All breaches in the sources, as ``file:line: what``."""
    found: list[str] = []

    def add(path: Path, those: Iterator[str] | list[str]) -> None:
        found.extend(f"{path.relative_to(REPOSITORY)}:{breach}" for breach in those)

    for source in SOURCES:
        layer, text = layer_of(source.relative_to(CSRC).as_posix()), source.read_text()
        add(source, namespace_breaches(source.relative_to(CSRC).as_posix(), text))
        if layer in OWN:
            add(source, include_breaches(source.parent, layer, text))
        else:
            add(source, [f"1: csrc/{layer} is no layer of the design"])
        code = re.sub(r"//[^\n]*", "", text)
        if layer == "bindings" and source.name not in RELEASING and UNLOCKED.search(code):
            add(source, ["1: releases the GIL other than by unlocked() and without_gil()"])
    trees = {module: ast.parse(module.read_text()) for module in MODULES}
    private: dict[str, set[str]] = {}
    for module, tree in trees.items():
        package = module.relative_to(PACKAGE).parts[0]
        private.setdefault(package, set()).update(private_names(tree) - NOT_PRIVATE)
    for module, tree in trees.items():
        add(module, [*import_breaches(module), *library_breaches(module)])
        package = module.relative_to(PACKAGE).parts[0]
        foreign = {name for other, names in private.items() if other != package for name in names}
        add(module, private_breaches(tree, private[package], foreign))
    if circle := circular_imports():
        add(PACKAGE, [f"1: circular imports: {', '.join(circle)}"])
    for listing in sorted(CSRC.glob("**/CMakeLists.txt")):
        add(listing, build_breaches(listing.parent))
    add(CSRC / "CMakeLists.txt", link_breaches())
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    if packages != {*BELOW, "cli"}:
        add(PACKAGE, [f"1: packages without a place in BELOW: {packages ^ {*BELOW, 'cli'}}"])
    if len(list(PACKAGE.glob("*.py"))) > 10 + 1:  # _build_info.py is the build's
        add(PACKAGE, ["1: more than 10 modules at the top, where a newcomer looks first"])
    return found


if __name__ == "__main__":
    sys.exit("\n".join(find_breaches()) or 0)
