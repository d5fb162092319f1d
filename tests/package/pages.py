"""Blocks of code of the project's pages, and which of them are run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RUN = ("python", "pycon", "sh")  # languages of blocks that are run; others need a reason

# Visible sentences that say why a block is not run, or which test runs it.
REASON = re.compile(
    r"\bnot\s+run\b|\b(?:run|tried|built)\s+by\s+`?(?:tests/|make\s+(?:test|demo|bench|docs))"
)
# The same for all blocks of a page, in the paragraphs before its first section.
PAGE_REASON = re.compile(r"\b(?:blocks|code|commands) (?:on|of) this page\b[^.]*")


@dataclass(frozen=True)
class Block:
    """A block of code of a page.

    Attributes:
        line: Number of the line after its opening fence, from 1.
        language: Word after the fence; empty without one, and "indented" without a fence.
        code: Its lines.
        section: All text between the headings around it, without code.
    """

    line: int
    language: str
    code: str
    section: str


def blocks_of(markdown: str) -> list[Block]:
    """Returns the blocks of code of a page, in order."""
    found: list[tuple[int, str, list[str], int]] = []
    sections, fence, previous = [""], "", ""
    for number, line in enumerate(markdown.splitlines(), 1):
        opening = re.match(r"(`{3,}|~{3,})(.*)", line)
        if fence:
            if line.rstrip() == fence:
                fence = ""
            else:
                found[-1][2].append(line)
        elif opening:
            fence = opening[1]
            found.append((number + 1, opening[2].strip(), [], len(sections) - 1))
        elif line.startswith("    ") and not previous:
            found.append((number, "indented", [line], len(sections) - 1))
        elif line.startswith("#"):
            sections.append("")
        else:
            sections[-1] += line + "\n"
        # After a list, indented lines are its items' paragraphs.
        in_list = re.match(r"(\s*[-*]|\s*\d+\.) |    ", line) or (previous == "list" and not line)
        previous = "list" if in_list else line.strip()
    return [Block(line, word, "\n".join(code), sections[at]) for line, word, code, at in found]


def is_run(page: str, block: Block) -> bool:
    """Tells if `test_docs.py` runs a block; Python on trainers' pages needs their packages."""
    languages = ("sh",) if page.startswith("docs/trainers/") else RUN
    return block.language in languages


def unexplained(page: str, markdown: str) -> list[str]:
    """Blocks of a page that no test runs and for which its text gives no reason."""
    head = markdown.partition("\n## ")[0]
    for_all = PAGE_REASON.search(head)
    if for_all and REASON.search(for_all[0]):
        return []
    blocks = [b for b in blocks_of(markdown) if not is_run(page, b)]
    return [f"{b.line}: {b.language}" for b in blocks if not REASON.search(b.section)]


def pages() -> list[str]:
    """All pages of the site and of the repository's front, relative to the repository."""
    names = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
    found = [REPOSITORY / name for name in names] + sorted(REPOSITORY.glob("docs/**/*.md"))
    return [path.relative_to(REPOSITORY).as_posix() for path in found]
