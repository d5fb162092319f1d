"""Docstrings of everything public: sections, parameters, and types of results."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import atompack_torch as apt

MODULES = (
    "atompack_torch",
    "atompack_torch.hub",
    "atompack_torch.conversion",
    "atompack_torch.loading.samplers",
)
NOT_IN_ALL = {"atompack_torch": ("open",)}  # `import *` must not hide the builtin
NO_RESULT = (None, "None", "Self", "NoReturn", inspect.Signature.empty)


def public_names(module: ModuleType) -> list[str]:
    """Lists ``__all__``, or what the module itself defines."""
    defined = [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and getattr(value, "__module__", None) == module.__name__
    ]
    return [*getattr(module, "__all__", defined), *NOT_IN_ALL.get(module.__name__, ())]


def documented() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yields public functions and methods by name, inherited ones included, with docstrings."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in public_names(module):
            value = getattr(module, name)
            if not isinstance(value, type):
                if callable(value):
                    yield f"{module_name}.{name}", value, value.__doc__ or ""
                continue
            init = inspect.getattr_static(value, "__init__", None)
            home = next(base for base in value.__mro__ if "__init__" in vars(base))
            if inspect.isfunction(init) and is_ours(init):
                doc = f"{inspect.getdoc(value)}\n\n{inspect.getdoc(home)}\n\n{init.__doc__ or ''}"
                yield f"{module_name}.{name}", init, doc
            for member in dir(value):
                held = inspect.getattr_static(value, member)
                held = getattr(held, "__func__", held)
                if member[0] != "_" and inspect.isfunction(held) and is_ours(held):
                    yield f"{module_name}.{name}.{member}", held, held.__doc__ or ""


def is_ours(function: Any) -> bool:
    """True for code of this package, not what a decorator generated."""
    in_package = function.__module__.split(".")[0] == "atompack_torch"
    return in_package and function.__code__.co_filename.endswith(".py")


def faults(function: Callable[..., Any], doc: str) -> list[str]:
    """Names the sections that a docstring lacks; pydoclint checks what is in them."""
    signature = inspect.signature(function)
    parameters = [name for name in signature.parameters if name not in ("self", "cls")]
    has_result = signature.return_annotation not in NO_RESULT
    source = inspect.getsource(function)
    wanted = {
        "Args": bool(parameters),
        "Returns|Yields": has_result,
        "Raises": re.search(r"^ +raise \w", source, re.MULTILINE) is not None,
    }
    found = [f"no section {title}" for title, is_wanted in wanted.items() if is_wanted]
    found = [text for text in found if not re.search(rf"^ *({text[11:]}):$", doc, re.MULTILINE)]
    return found + ["returns Any"] * bool(re.search(r"\bAny\b", str(signature.return_annotation)))


ITEMS = {name: (function, doc) for name, function, doc in documented()}


def test_docstrings() -> None:
    assert {"atompack_torch.convert", "atompack_torch.Loader.state_dict"} <= ITEMS.keys()
    assert {"atompack_torch.hub.open", "atompack_torch.AtpDataset.subset"} <= ITEMS.keys()
    found = [f"{name}: {fault}" for name, item in ITEMS.items() for fault in faults(*item)]
    assert not found, "\n".join(found)


def test_no_module_has_the_name_of_a_function() -> None:
    for name in ITEMS:
        package, _, _ = name.rpartition(".")
        if package in MODULES:
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
