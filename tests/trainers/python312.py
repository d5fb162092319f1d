"""Imports packages for Python 3.12 in older ones: type parameters become a ``TypeVar``.

``make_environment`` has Python import this module when it starts.
"""

from __future__ import annotations

import re
import sys
import typing
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

import typing_extensions

PACKAGES = ("orb_models", "torch_sim")
_CLASS = re.compile(r"^class (\w+)\[(\w+)[^\]]*\](?:\((.*)\))?:", re.MULTILINE)
_FUNCTION = re.compile(r"^(\s*def \w+)\[\w+: [^\]]*\]", re.MULTILINE)
_FIRST_IMPORT = re.compile(r"^(?:import|from (?!__future__)) ?\w", re.MULTILINE)


class _Loader(SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        text = bytes(data).decode()
        text = _CLASS.sub(_generic, _FUNCTION.sub(r"\1", text))
        text = _FIRST_IMPORT.sub(r"import typing; T = typing.TypeVar('T')\n\g<0>", text, count=1)
        return super().source_to_code(text.encode(), path, _optimize=_optimize)

    def get_code(self, fullname: str) -> Any:  # no cached bytecode
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _generic(found: re.Match[str]) -> str:
    name, parameter, bases = found.groups()
    listed = ", ".join([*([bases] if bases else []), f"typing.Generic[{parameter}]"])
    return f"class {name}({listed}):"


class _Finder(PathFinder):
    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        found = super().find_spec(fullname, path, target)
        if found is not None and isinstance(found.loader, SourceFileLoader):
            found.loader = _Loader(fullname, found.loader.path)
        return found


if sys.version_info < (3, 12):
    typing.override = typing_extensions.override
    sys.meta_path.insert(0, _Finder)
