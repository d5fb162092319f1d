"""Lint of the stubs of the extension modules, which are generated from what is built.

    python tests/lint/stubs.py [--write]

fails where a stub is not that of the extension, or writes it. pybind11-stubgen reads the
signatures; here they become those of callers: an int where pybind11 accepts anything with
``__int__``, and Any in containers whose content the bindings do not name.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import atompack_torch

PACKAGE = Path(atompack_torch.__file__).parent
MODULES = ("_C", "_formats", "_remote")
RULES = (
    (": str = b'", ": bytes = b'"),
    (r"(?m)^(\w+_FIELDS: list) = .*$", r"\1"),
    (r"(?:typing\.)?SupportsInt \| (?:typing\.)?SupportsIndex", "int"),
    (r"(?:typing\.)?SupportsFloat \| (?:typing\.)?SupportsIndex", "float"),
    (r": ([\w.]+) = None", r": \1 | None = None"),
    (r"\btuple\b(?!\[)", "tuple[typing.Any, ...]"),
    (r"\b(list|set)\b(?![\[(])", r"\1[typing.Any]"),
    (r"\bdict\b(?!\[)", "dict[str, typing.Any]"),
    (r"\bnumpy\.ndarray\b(?!\[)", "numpy.ndarray[typing.Any, typing.Any]"),
    (r"\bcollections\.abc\.Callable\b(?!\[)", "collections.abc.Callable[..., typing.Any]"),
)


def stub_of(module: str) -> str:
    """Returns the stub of an extension module.

    Args:
        module: its name in the package.
    """
    with tempfile.TemporaryDirectory() as folder:
        name = f"{PACKAGE.name}.{module}"
        command = ["pybind11_stubgen", name, "-o", folder, "--exit-code"]
        subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
        text = Path(folder, PACKAGE.name, f"{module}.pyi").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("__all__")]
    text = "\n".join(lines) + "\n"
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-", "--stdin-filename", f"{module}.pyi"],
        check=True,
        input=text,
        capture_output=True,
        text=True,
    ).stdout


def main() -> None:
    stubs = {PACKAGE / f"{module}.pyi": stub_of(module) for module in MODULES}
    if "--write" in sys.argv:
        for path, text in stubs.items():
            path.write_text(text)
    for path, text in stubs.items():
        if path.read_text() != text:
            sys.exit(f"{path.name}: not that of the extension: run tests/lint/stubs.py --write")


if __name__ == "__main__":
    main()
