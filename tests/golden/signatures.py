"""All public names with their signatures, as one sorted text."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

import atompack_torch as apt

MODULES = ("hub", "loading.samplers", "conversion")
# What Python calls for users: `with`, `len`, `in`, `[]`, iteration, comparison, construction.
_CALLED = (
    "__call__",
    "__contains__",
    "__enter__",
    "__eq__",
    "__exit__",
    "__getitem__",
    "__getitems__",
    "__hash__",
    "__init__",
    "__iter__",
    "__len__",
    "__setitem__",
)


def public_signatures() -> list[str]:
    """A line for each public name, method and property."""
    lines = [f"{name}: {type(getattr(apt, name)).__name__}" for name in ("__version__",)]
    lines += _module_lines("atompack_torch", apt)
    for name in MODULES:
        full = f"atompack_torch.{name}"
        lines += _module_lines(full, importlib.import_module(full))
    return sorted(lines)


def _module_lines(prefix: str, module: ModuleType) -> list[str]:
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(module).items()
            if name[0] != "_" and getattr(value, "__module__", None) == module.__name__
        ]
    lines: list[str] = []
    for name in names:
        lines += _lines(f"{prefix}.{name}", getattr(module, name))
    return lines


def _lines(name: str, value: Any) -> list[str]:
    if isinstance(value, ModuleType):
        return [f"{name}: module"]
    if not isinstance(value, type):
        return [f"{name}{inspect.signature(value)}"]
    lines = [f"class {name}{_bases(value)}"]
    fields = {
        field
        for kind in value.__mro__
        if _is_ours(kind)
        for field in inspect.get_annotations(kind)
        if field[0] != "_"
    }
    lines += [f"{name}.{field}: field" for field in fields]
    for member in sorted({*dir(value)} - fields):
        home = next((kind for kind in value.__mro__ if member in vars(kind)), None)
        if home is None or not _is_ours(home):
            continue
        if member[0] != "_" or member in _CALLED:
            lines += _member_lines(f"{name}.{member}", inspect.getattr_static(value, member))
    return lines


def _member_lines(name: str, member: Any) -> list[str]:
    if isinstance(member, property):
        assert member.fget is not None
        returned = inspect.signature(member.fget).return_annotation
        return [f"{name}: property -> {returned}"]
    if isinstance(member, (staticmethod, classmethod)):
        kind = type(member).__name__
        return [f"{name}: {kind} {inspect.signature(member.__func__)}"]
    if inspect.isroutine(member):
        return [f"{name}{inspect.signature(member)}"]
    return [f"{name}: {_kind(member)}"]


def _kind(member: Any) -> str:
    """What an attribute is: fields of tuples and dataclasses are all one to users."""
    if type(member).__name__ in ("_tuplegetter", "member_descriptor"):
        return "field"
    return "None" if member is None else type(member).__name__


def _bases(kind: type) -> str:
    """The classes that `isinstance` knows it by: public ones, and those of other libraries."""
    known = [
        base.__name__
        for base in kind.__mro__[1:]
        if base is not object and (not _is_ours(base) or base.__name__ in apt.__all__)
    ]
    return f"({', '.join(known)})"


def _is_ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "atompack_torch"
