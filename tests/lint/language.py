"""Lint of the language of docstrings, comments, names and pages: plain English, subject first.

    python tests/lint/language.py

prints each breach as ``file:line: what``, and fails if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

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
    | beside | at\ once | anew | in\ place\ of | go(es)?\ on | leaves?\ out | leaving\ out | tells
    | times\ as\ fast | data\ sets?
    | so\ many(?!\ (?:that|as)\b) | say(?:s|ing)?\ nothing\ of
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


def pages() -> list[str]:
    """Lists the Markdown pages of the project, relative to the repository."""
    found = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    for folder in ("benchmarks", "csrc", "docs"):
        found += sorted((REPOSITORY / folder).rglob("*.md"))
    return [path.relative_to(REPOSITORY).as_posix() for path in found]


def find_breaches() -> list[str]:
    """Lints the package, the C++ sources and the pages."""
    found: list[str] = []
    for name in (*sources(PACKAGE, ".py"), *sources(CSRC, ".h", ".cpp"), *pages()):
        text = (REPOSITORY / name).read_text()
        if name.endswith(".py"):
            those = python_breaches(text)
        elif name.endswith(".md"):
            those = page_breaches(text)
        else:
            those = cpp_breaches(text, is_header=name.endswith(".h"))
        found += [f"{name}:{breach}" for breach in those]
    return found


if __name__ == "__main__":
    sys.exit("\n".join(find_breaches()) or 0)
