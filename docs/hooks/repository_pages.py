"""MkDocs hook: files of the repository that pages link to become pages of the site.

Links of a page are written as in the repository, where they work too, such as
`../csrc/formats/atp/FORMAT.md`. Each such file gets a page `repository/PATH`, whose own links are
followed in the same way; sources are shown highlighted. A link to what does not exist is left
alone, so that `mkdocs build --strict` reports it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS, FOLDER = "docs", "repository"
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".cpp": "cpp",
    ".h": "cpp",
    ".def": "cpp",
}
# Pages that the navigation names, whether or not another page links to them.
ALWAYS = ("CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")
CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|``.+?``|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


def source_of(site_path: str) -> str:
    """Path in the repository of a page of the site."""
    prefix = f"{FOLDER}/"
    if site_path.startswith(prefix):
        found = site_path[len(prefix) :]
        return found if (REPOSITORY / found).is_file() else found.removesuffix(".md")
    return f"{DOCS}/{site_path}"


def site_path_of(source: str) -> str:
    """Path in the site of a file of the repository."""
    if source.startswith(f"{DOCS}/"):
        return source[len(DOCS) + 1 :]
    return f"{FOLDER}/{source}" + ("" if source.endswith(".md") else ".md")


def links_of(markdown: str) -> list[re.Match[str]]:
    """Local links of a page outside of its code."""
    blank = CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), markdown)
    return [m for m in LINK.finditer(blank) if not re.match(r"[a-z]+:|#|/", m[1])]


def target_of(source: str, link: str) -> str:
    """Path in the repository that a link of a file there leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link.partition("#")[0]))


def rewrite_links(markdown: str, site_path: str) -> str:
    """Directs links of a page that lead to files of the repository to their pages."""
    source, folder = source_of(site_path), posixpath.dirname(site_path)
    for match in reversed(links_of(markdown)):
        target, anchor = target_of(source, match[1]), match[1].partition("#")[1:]
        if (REPOSITORY / target).is_file():
            link = posixpath.relpath(site_path_of(target), folder or ".") + "".join(anchor)
            markdown = markdown[: match.start()] + link + markdown[match.end() :]
    return markdown


def content_of(source: str) -> str:
    """Markdown of the page of a file: its own, or its lines."""
    path = REPOSITORY / source
    text = path.read_text()
    if path.suffix == ".md":
        return text
    language = LANGUAGES.get(path.suffix, "text")
    head = f"# {path.name}\n\n`{source}` in the repository.\n\n"
    return f"{head}````{language}\n{text}````\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of all files that pages link to, directly or through other such pages."""
    waiting = [*ALWAYS]
    for file in files.documentation_pages():
        waiting += targets(file.content_string, f"{DOCS}/{file.src_uri}")
    while waiting:
        source = waiting.pop()
        site_path = site_path_of(source)
        if source.startswith(f"{DOCS}/") or files.get_file_from_path(site_path) is not None:
            continue
        content = content_of(source)
        files.append(File.generated(config, site_path, content=content))
        if source.endswith(".md"):
            waiting += targets(content, source)
    return files


def targets(markdown: str, source: str) -> list[str]:
    """Files of the repository that a page links to."""
    found = [target_of(source, match[1]) for match in links_of(markdown)]
    return [target for target in found if (REPOSITORY / target).is_file()]


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Directs links of a page to the pages of files."""
    return rewrite_links(markdown, page.file.src_uri)
