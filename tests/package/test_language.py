"""Lint of the language of docstrings, comments, names and pages: plain English, subject first."""

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
    r"""\b(
    (is|are|was|be)\ told(\ of)? | what\ is\ said\ of | sa(ys?|id)\ of | so-manieth
    | come\ what\ may | who\ waits | (for|by|of|or)\ who | whoever | lies
    | stands?\ (there|here) | as\ (it|they)\ stands?
    | as\ it\ is | (bears?|borne)\ (it\ |them\ )?out | nobody\ (knows|wants|needs)
    | tak(es?|en|ing)\ up(?!\ to) | let(s|ting)?\ go | giv(es|en|ing)\ up | held\ against
    | at\ (any|every|whatever|all)\ moments? | (a|as|no|its)\ moments? | in\ silence
    | without\ a\ word | none\ the\ worse | one\ another
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
# Names of limits, and names that were replaced.
NAMES = re.compile(
    r"\b(k(Most|Least)[A-Z]\w*|kMost|kLeast|(most|least)_\w+|kNotYet|ParallelPace|run_paced|settle\w*"
    r"|ours|took|spoiled|cautions|text_like_a_moment)\b"
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


def phrases_in(texts: list[Text]) -> list[tuple[int, str]]:
    """Finds forbidden phrases, also across line breaks."""
    flat = [(line, " ".join(text.split())) for line, text in texts]
    return [(line, f"says {m[0]!r}") for line, text in flat for m in PHRASES.finditer(text)]


def describe(found: list[tuple[int, str]]) -> list[str]:
    """Formats findings in order of their lines."""
    return [f"{line}: {what}" for line, what in sorted(found)]


def breaches(openings: list[Text], texts: list[Text]) -> list[tuple[int, str]]:
    """Finds forbidden openings, and forbidden phrases anywhere, with their lines."""
    found = [(n, f"begins with {m[1]!r}") for n, t in openings if (m := OPENINGS.match(t))]
    return found + phrases_in(texts)


def python_breaches(source: str) -> list[str]:
    """Lints a Python module."""
    docstrings = list(docstrings_of(source))
    return describe(breaches(docstrings, [*docstrings, *python_comments(source)]))


def cpp_breaches(source: str, *, is_header: bool) -> list[str]:
    """Lints a C++ source; only headers have an opening comment."""
    comments = list(cpp_comments(source))
    found = breaches(comments[:1] if is_header else [], comments)
    code = CPP_STRING_OR_COMMENT.sub(lambda match: "\n" * match[0].count("\n"), source)
    lines = enumerate(code.split("\n"), 1)
    found += [(n, f"names {m[0]!r}") for n, line in lines for m in NAMES.finditer(line)]
    return describe(found)


def page_breaches(page: str) -> list[str]:
    """Lints the paragraphs of a Markdown page, without its code blocks."""
    text = re.sub(r"```.*?```|`[^`\n]*`", lambda m: "\n" * m[0].count("\n"), page, flags=re.DOTALL)
    paragraphs: list[Text] = []
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        paragraphs.append((line, paragraph))
        line += paragraph.count("\n")
    return describe(phrases_in(paragraphs))


def sources(folder: Path, *suffixes: str) -> list[str]:
    """Lists files below a folder, relative to the repository."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in suffixes)
    return [path.relative_to(REPOSITORY).as_posix() for path in paths]


@pytest.mark.parametrize("name", sources(PACKAGE, ".py"))
def test_python_follows_the_language_guide(name: str) -> None:
    assert python_breaches((REPOSITORY / name).read_text()) == []


@pytest.mark.parametrize("name", sources(CSRC, ".h", ".cpp"))
def test_cpp_follows_the_language_guide(name: str) -> None:
    source = (REPOSITORY / name).read_text()
    assert cpp_breaches(source, is_header=name.endswith(".h")) == []


def pages() -> list[str]:
    """Lists the Markdown pages of the project, relative to the repository."""
    found = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    for folder in ("benchmarks", "csrc", "docs"):
        found += sorted((REPOSITORY / folder).rglob("*.md"))
    return [path.relative_to(REPOSITORY).as_posix() for path in found]


@pytest.mark.parametrize("name", pages())
def test_pages_follow_the_language_guide(name: str) -> None:
    assert page_breaches((REPOSITORY / name).read_text()) == []


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


@pytest.mark.parametrize(
    "phrase",
    [
        "is told of",
        "are told",
        "says of",
        "for who",
        "Whoever",
        "stands there",
        "stand here",
        "as it stands",
        "lies",
        "as it is",
        "bear it out",
        "borne out",
        "nobody knows",
        "takes up",
        "let go",
        "lets go",
        "given up",
        "held against",
        "at any moment",
        "a moment",
        "in silence",
        "without a word",
        "none the worse",
        "one another",
    ],
)
def test_lint_finds_phrases_everywhere(phrase: str) -> None:
    words = phrase.split()
    assert python_breaches(f'"""The file\n{phrase} again."""\n') != []
    assert python_breaches(f"x = 1  # the file {phrase} again\n") != []
    assert cpp_breaches(f"// The file {phrase} again.\n", is_header=False) != []
    across = "\n// ".join(words)
    assert cpp_breaches(f"// The file {across} again.\n", is_header=True) != []
    assert page_breaches(f"# Title\n\nThe file {phrase} again.\n") == [f"3: says {phrase!r}"]
    assert page_breaches(f"The `{phrase}`.\n\n```\n{phrase}\n```\n") == []


def test_lint_leaves_plain_english_alone() -> None:
    text = "Takes up to 2 MB; replies; the moments of a distribution; told apart by size; outgoing."
    assert page_breaches(text) == []
    assert cpp_breaches(f"// {text}\n", is_header=True) == []


@pytest.mark.parametrize(
    "name", ["kMostBytes", "kLeast", "most_bytes", "least_rows", "settle_dicts", "took", "ours"]
)
def test_lint_finds_names(name: str) -> None:
    assert cpp_breaches(f"int a;\nint {name} = 1;\n", is_header=False) == [f"2: names {name!r}"]
    assert cpp_breaches(f'// The {name}.\nf("{name}");\nint n_{name};\n', is_header=False) == []
