"""MkDocs hook: fails where a page of the site would load anything from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import BuildError

TAG = re.compile(
    r"<(script|link|img|iframe|source|video|audio|object|embed)\b[^>]*>", re.IGNORECASE
)
ADDRESS = re.compile(
    r"\b(?:src|href|srcset|data|poster)\s*=\s*[\"']?\s*(?:https?:)?//", re.IGNORECASE
)
STYLE = re.compile(r"(?:@import\s+|url\(\s*)[\"']?(?:https?:)?//[^\"')]+", re.IGNORECASE)
IGNORED = re.compile(r"\brel\s*=\s*[\"']?(?:canonical|prev|next)\b", re.IGNORECASE)  # not loaded


def requests_of(text: str) -> list[str]:
    """Tags and rules of styles in a page that request something from another host."""
    tags = [match[0] for match in TAG.finditer(text)]
    found = [tag for tag in tags if ADDRESS.search(tag) and not IGNORED.search(tag)]
    return found + [match[0] for match in STYLE.finditer(text)]


def requests_in(site: Path) -> Iterator[str]:
    """Yields each request of a built site, with its file."""
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".css"}:
            for request in requests_of(path.read_text()):
                yield f"{path.relative_to(site)}: {request}"


def on_post_build(config: MkDocsConfig) -> None:
    """Checks the site."""
    found = list(requests_in(Path(config.site_dir)))
    if found:
        raise BuildError("pages load from other hosts:\n" + "\n".join(found))
