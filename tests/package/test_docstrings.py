"""Docstrings of everything public: sections, parameters, and types of results."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import atompack_torch as apt

MODULES = (
    "atompack_torch",
    "atompack_torch.hub",
    "atompack_torch.conversion",
    "atompack_torch.loading.samplers",
)
NOT_IN_ALL = {"atompack_torch": ("open",)}  # `import *` must not hide the builtin
NO_RESULT = (None, "None", "Self", "NoReturn", inspect.Signature.empty)


class Documented(NamedTuple):
    """A public class, function, method or property, and the docstrings that describe it."""

    name: str
    value: Any
    function: Callable[..., Any] | None
    docstrings: tuple[str, ...]


def public_names(module: ModuleType) -> list[str]:
    """Lists ``__all__``, or what the module itself defines."""
    defined = [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and getattr(value, "__module__", None) == module.__name__
    ]
    return [*getattr(module, "__all__", defined), *NOT_IN_ALL.get(module.__name__, ())]


def documented() -> Iterator[Documented]:
    """Yields everything that can be reached from the public modules, each name once."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in public_names(module):
            value = getattr(module, name)
            if isinstance(value, type):
                yield from documented_class(f"{module_name}.{name}", value)
            elif callable(value):
                yield Documented(f"{module_name}.{name}", value, value, (value.__doc__ or "",))


def documented_class(name: str, kind: type) -> Iterator[Documented]:
    """Yields a class and its public members, inherited ones of this package included."""
    init = inspect.getattr_static(kind, "__init__", None)
    own_init = init if inspect.isfunction(init) and is_ours(init) else None
    home = next(base for base in kind.__mro__ if "__init__" in vars(base))
    docstrings = (kind.__doc__ or "", home.__doc__ or "", (own_init and init.__doc__) or "")
    yield Documented(name, kind, own_init, docstrings)
    for member in dir(kind):
        home = next((base for base in kind.__mro__ if member in vars(base)), kind)
        value = vars(home).get(member)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        function = value.fget if isinstance(value, property) else value
        if member[0] != "_" and inspect.isfunction(function) and is_ours(function):
            doc = function.__doc__ or ""
            yield Documented(f"{name}.{member}", value, function, (doc,))


def is_ours(value: Any) -> bool:
    """True for code of this package, not what a decorator generated."""
    in_package = value.__module__.split(".")[0] == "atompack_torch"
    return in_package and value.__code__.co_filename.endswith(".py")


def folder_of(item: Documented) -> str:
    """Returns the folder, or module at the top, that defines an item."""
    where = item.value if isinstance(item.value, type) else item.function
    parts = (where.__module__ if where is not None else "").split(".")
    return parts[1] if len(parts) > 1 else ""


def section(docstring: str, title: str) -> str:
    """Returns the lines of a section; empty if missing."""
    match = re.search(rf"^{title}:\n((?: +.*\n?|\n)+)", inspect.cleandoc(docstring), re.MULTILINE)
    return match[1] if match else ""


def faults(item: Documented) -> list[str]:
    """Describes what the docstrings of an item lack."""
    first = inspect.cleandoc(item.docstrings[0])
    if not first:
        return ["no docstring"]
    found = []
    is_property = isinstance(item.value, property)
    if item.function is not None:
        signature = inspect.signature(item.function)
        returned = signature.return_annotation
        if re.search(r"\bAny\b", str(returned)):
            found.append(f"returns {returned}")
        described = "".join(section(doc, "Args") for doc in item.docstrings)
        parameters = [*signature.parameters.values()]
        if "." in item.function.__qualname__ or isinstance(item.value, type):
            parameters = [p for p in parameters if p.name not in ("self", "cls")]
        found += [
            f"Args: no {p.name}"
            for p in parameters
            if not re.search(rf"^ +\*{{0,2}}{p.name}:", described, re.MULTILINE)
        ]
        has_result = "".join(section(first, title) for title in ("Returns", "Yields"))
        if returned not in NO_RESULT and not is_property and not has_result:
            found.append("no section Returns")
        raises = "".join(section(doc, "Raises") for doc in item.docstrings)
        if raises_directly(item.function) and not raises:
            found.append("no section Raises")
    return found


def raises_directly(function: Callable[..., Any]) -> bool:
    """True if the body itself raises an error, other than one that it caught."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef))
    pending: list[ast.AST] = [*tree.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Raise) and node.exc is not None:
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return False


ITEMS = {item.name: item for item in documented()}


def test_there_is_something_to_check() -> None:
    assert {"atompack_torch.convert", "atompack_torch.Loader.state_dict"} <= ITEMS.keys()
    assert {"atompack_torch.hub.open", "atompack_torch.AtpDataset.schema"} <= ITEMS.keys()
    folders = {folder_of(item) for item in ITEMS.values()}
    assert {"batch", "conversion", "datasets", "errors", "formats"} <= folders
    assert {"hub", "loading", "ops"} <= folders


def test_docstrings() -> None:
    found = [f"{name}: {fault}" for name, item in ITEMS.items() for fault in faults(item)]
    assert not found, "\n".join(found)


def test_no_module_has_the_name_of_a_function() -> None:
    for name, item in ITEMS.items():
        package, _, _ = name.rpartition(".")
        if inspect.isfunction(item.value) and package in MODULES:
            path = getattr(importlib.import_module(package), "__path__", None)
            assert path is None or importlib.util.find_spec(name) is None, name


def test_open_lists_all_formats_and_options() -> None:
    listed = inspect.getdoc(apt.open) or ""
    datasets = {name for name in apt.__all__ if name.endswith("Dataset")}
    for name in datasets - {"MixtureDataset", "ResidentDataset"}:
        for option in [name, *inspect.signature(getattr(apt, name)).parameters]:
            assert option == "path" or f"``{option}``" in listed, (name, option)


def test_open_stays_out_of_star_imports() -> None:
    assert "open" not in apt.__all__
    assert callable(apt.open)
