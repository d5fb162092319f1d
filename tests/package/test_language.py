"""Lint of the language of docstrings and comments: plain English, subject first."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "atompack_torch"
CSRC = REPOSITORY / "csrc"

# A docstring or the first comment of a header names its subject; these words only ask about it.
OPENINGS = re.compile(r"(What|How|Whether|Of|So)\b")
PHRASES = re.compile(
    r"\b(is told of|what is said of|so-manieth|come what may|who waits)\b", re.IGNORECASE
)
# Folders that are not converted yet; remove an entry with its last breach.
UNCONVERTED = (
    "csrc/plan",
    "csrc/collate",
)
CPP_STRING_OR_COMMENT = re.compile(
    r"""R"(?P<tag>[^()\\\s]*)\(.*?\)(?P=tag)" | "(?:\\.|[^"\\\n])*"
    | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
    | (?P<comment>//[^\n]* | /\*.*?\*/)""",
    re.DOTALL | re.VERBOSE,
)

Text = tuple[int, str]  # first line, and the text without its markers


def docstrings_of(source: str) -> Iterator[Text]:
    """Yields the docstrings of a module, its classes and its functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


def join_lines(comments: list[Text]) -> Iterator[Text]:
    """Joins comments on successive lines, so that phrases across a line break are found."""
    start, last = 0, -1
    parts: list[str] = []
    for line, text in comments:
        if line != last + 1 and parts:
            yield start, " ".join(parts)
            parts = []
        if not parts:
            start = line
        parts.append(text)
        last = line + text.count("\n")
    if parts:
        yield start, " ".join(parts)


def python_comments(source: str) -> Iterator[Text]:
    """Yields the comments of a Python module."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = [(t.start[0], t.string.lstrip("# ")) for t in tokens if t.type == tokenize.COMMENT]
    yield from join_lines(found)


def cpp_comments(source: str) -> Iterator[Text]:
    """Yields the comments of a C++ source."""
    found = []
    for match in CPP_STRING_OR_COMMENT.finditer(source):
        comment = match["comment"]
        if comment is not None:
            text = re.sub(r"^/[/*]+|\*/$", "", comment).strip()
            found.append((source.count("\n", 0, match.start()) + 1, text))
    yield from join_lines(found)


def breaches(openings: list[Text], texts: list[Text]) -> list[str]:
    """Describes forbidden openings, and forbidden phrases anywhere, with their lines."""
    found = [(n, f"begins with {m[1]!r}") for n, t in openings if (m := OPENINGS.match(t))]
    for line, text in texts:
        flat = " ".join(text.split())
        found += [(line, f"says {match[1]!r}") for match in PHRASES.finditer(flat)]
    return [f"{line}: {what}" for line, what in sorted(found)]


def python_breaches(source: str) -> list[str]:
    """Lints a Python module."""
    docstrings = list(docstrings_of(source))
    return breaches(docstrings, [*docstrings, *python_comments(source)])


def cpp_breaches(source: str, *, is_header: bool) -> list[str]:
    """Lints a C++ source; only headers have an opening comment."""
    comments = list(cpp_comments(source))
    return breaches(comments[:1] if is_header else [], comments)


def sources(folder: Path, *suffixes: str) -> list[str]:
    """Lists converted files below a folder, relative to the repository."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in suffixes)
    names = [path.relative_to(REPOSITORY).as_posix() for path in paths]
    folders = tuple(f"{folder}/" for folder in UNCONVERTED)
    return [n for n in names if not n.startswith(folders)]


@pytest.mark.parametrize("name", sources(PACKAGE, ".py"))
def test_python_follows_the_language_guide(name: str) -> None:
    assert python_breaches((REPOSITORY / name).read_text()) == []


@pytest.mark.parametrize("name", sources(CSRC, ".h", ".cpp"))
def test_cpp_follows_the_language_guide(name: str) -> None:
    source = (REPOSITORY / name).read_text()
    assert cpp_breaches(source, is_header=name.endswith(".h")) == []


@pytest.mark.parametrize("name", UNCONVERTED)
def test_unconverted_folders_exist(name: str) -> None:
    assert (REPOSITORY / name).is_dir()


@pytest.mark.parametrize("opening", ["What", "How", "Whether", "Of", "So"])
def test_lint_finds_openings_of_docstrings(opening: str) -> None:
    text = f'"""{opening} it is."""'
    source = f"{text}\nclass A:\n    {text}\n    def _f(self):\n        {text}\n"
    assert python_breaches(source) == [f"{n}: begins with {opening!r}" for n in (1, 3, 5)]
    assert python_breaches(source.replace(opening, "Offset and")) == []


def test_lint_finds_phrases_across_lines() -> None:
    assert python_breaches('"""A queue\n\nwho\nwaits."""\n') == ["1: says 'who waits'"]
    assert python_breaches("x = 1  # Come what\n# may.\n") == ["1: says 'Come what may'"]
    assert python_breaches('x = "come what may"\n') == []


def test_lint_finds_openings_of_headers() -> None:
    source = "// How it is laid out.\n#pragma once\n// What follows is fine.\n"
    assert cpp_breaches(source, is_header=True) == ["1: begins with 'How'"]
    assert cpp_breaches(source, is_header=False) == []


def test_lint_finds_phrases_in_cpp_comments_alone() -> None:
    source = 'f("// so-manieth");  // the so-manieth\ng();\n/* is told\n   of it */\n'
    assert cpp_breaches(source, is_header=False) == ["1: says 'so-manieth'", "3: says 'is told of'"]
    assert cpp_breaches("int n = 1'000;  // who waits\nint m = '\\'';\n", is_header=False) == [
        "1: says 'who waits'"
    ]
