"""README and docs: blocks run as written, each page from its top and in an empty folder."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from pages import REPOSITORY, Block, blocks_of, is_run, pages, unexplained
from processes.client import ScriptServer
from reference.commands import parsers

# Compiled with the line at which a block begins, so that an error names the line of the page.
RUNNER = """
import doctest, glob, json, os, shlex, sys
import torch
from atompack_torch import cli

folder, told = sys.argv[1:]
os.chdir(folder)
torch.set_num_threads(1)  # pages run next to each other
page, *blocks = json.loads(told)
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")  # of torchrun
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", OMP_NUM_THREADS="1")
names = {"__name__": "__main__"}
for line, language, code in blocks:
    if language == "python":
        exec(compile("\\n" * (line - 1) + code, page, "exec"), names)
    elif language == "pycon":
        test = doctest.DocTestParser().get_doctest(code + "\\n", names, page, page, line - 1)
        failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False)
        names = test.globs
        assert failed.failed == 0
    else:  # in this process: importing torch for each command would take most of the time
        for command in code.replace("\\\\\\n", " ").splitlines():
            program, *words = shlex.split(command, comments=True)
            assert program == "atompack-torch", command
            words = [found for word in words for found in sorted(glob.glob(word)) or [word]]
            assert cli.main(words) == 0, f"{page}, line {line}: {command}"
"""


RECIPES = "docs/recipes.md"  # each of its blocks needs the first one alone


def documents() -> list[tuple[str, list[Block]]]:
    """Pages with blocks that are run here, and these; a page of recipes once for each."""
    found = []
    for page in pages():
        blocks = [b for b in blocks_of((REPOSITORY / page).read_text()) if is_run(page, b)]
        if page == RECIPES:
            found += [(page, [blocks[0], recipe]) for recipe in blocks[1:]]
        elif blocks:
            found.append((page, blocks))
    return found


@pytest.mark.parametrize(("page", "blocks"), [pytest.param(*d, id=d[0]) for d in documents()])
def test_blocks_run_as_written(
    page: str, blocks: list[Block], tmp_path: Path, scripts: ScriptServer
) -> None:
    scripts.preload("torch._dynamo", "ase.io")
    told = [page, *((b.line, b.language, b.code) for b in blocks)]
    done = scripts.run(RUNNER, tmp_path, json.dumps(told))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def test_blocks_that_are_not_run_say_why() -> None:
    found = {page: unexplained(page, (REPOSITORY / page).read_text()) for page in pages()}
    assert {page: blocks for page, blocks in found.items() if blocks} == {}


def test_unexplained_blocks_are_found() -> None:
    head = "# Title\n\nThis block is not run, as it needs a GPU:\n\n```sh\nls\n```\n"
    assert unexplained("docs/a.md", f"{head}\n```text\nsbatch a\n```\n") == []
    page = f"{head}\n## Next\n\n```text\nsbatch a\n```\n\nAn item:\n\n    sbatch b\n"
    assert unexplained("docs/a.md", page) == ["12: text", "17: indented"]
    assert unexplained("docs/a.md", page.replace("An item:", "- An item:")) == ["12: text"]
    for_all = "# Title\n\nThe blocks on this page are not run by the tests, which have no GPU.\n"
    assert unexplained("docs/a.md", page.replace("# Title\n", for_all)) == []
    python = "# Title\n\n```python\n1\n```\n"
    assert unexplained("docs/a.md", python) == []
    assert unexplained("docs/trainers/a.md", python) == ["4: python"]


def commands_in(page: str) -> list[str]:
    """Commands of this program in a page, in blocks and in code inside of sentences."""
    joined = page.replace("\\\n", " ")
    inline = [" ".join(found.split()) for found in re.findall(r"`(atompack-torch [^`]+)`", joined)]
    return inline + re.findall(r"^(?:\$ |    )?(atompack-torch .*)$", joined, re.MULTILINE)


PARSERS = parsers()


def mistakes_in(command: str) -> list[str]:
    """Words of a command line that are not command or option of it; `a | b` names several."""
    words = shlex.split(command.replace("'", "").replace('"', ""), comments=True)[1:]
    group = f"{words.pop(0)} " if " ".join(words[:2]) in PARSERS and len(words) > 1 else ""
    names = [f"{group}{words[0]}"] if not words[0].startswith("-") else [""]
    while words[1:2] == ["|"]:
        words = words[2:]
        names.append(f"{group}{words[0]}")
    known = {o for n in names if n in PARSERS for o in PARSERS[n]._option_string_actions}
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return [n for n in names if n not in PARSERS] + [o for o in options if o not in known]


def test_commands_and_options_exist() -> None:
    found = [(page, c) for page in pages() for c in commands_in((REPOSITORY / page).read_text())]
    wrong = {(page, command): mistakes_in(command) for page, command in found}
    assert {command: words for command, words in wrong.items() if words} == {}


def test_commands_that_do_not_exist_are_found() -> None:
    assert mistakes_in("atompack-torch convert a.xyz b.atp --key E=energy --codec zstd") == []
    assert mistakes_in("atompack-torch cache build a b --like c") == []
    assert mistakes_in("atompack-torch info | head | stats PATH --json") == []
    assert mistakes_in("atompack-torch convort a b") == ["convort"]
    assert mistakes_in("atompack-torch info | hed PATH") == ["hed"]
    assert mistakes_in("atompack-torch cache build a b --codecs zstd") == ["--codecs"]


def test_the_installation_page_lists_all_extras() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text()
    table = project.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = re.findall(r"^(\w+) = \[", table, re.MULTILINE)
    page = (REPOSITORY / "docs" / "install.md").read_text().partition("## Extras")[2]
    listed = re.findall(r"`(\w+)`", page.partition("## Versions")[0])
    assert [extra for extra in extras if extra not in listed] == []


def test_targets_of_make_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE)
    texts = {page: (REPOSITORY / page).read_text() for page in pages()}
    named = re.compile(r"(?:^|`)make ([a-z0-9-]+)", re.MULTILINE)
    used = [(page, target) for page, text in texts.items() for target in named.findall(text)]
    assert [(page, target) for page, target in used if target not in targets] == []


PATH = re.compile(r"`((?:csrc|tests|atompack_torch|examples|docs|benchmarks)/[\w./]+)(?:, \w+)*`")


def missing_files(page: str) -> list[str]:
    """Paths in a page that name no file or folder, with or without a suffix."""
    named = [match[1] for match in PATH.finditer(page)]
    return [n for n in named if "NAME" not in n and not any(REPOSITORY.glob(f"{n.rstrip('/')}*"))]


def test_named_files_exist() -> None:
    paths = [*(REPOSITORY / page for page in pages()), *REPOSITORY.glob("csrc/**/*.md")]
    found = {str(path): missing_files(path.read_text()) for path in paths}
    assert {page: files for page, files in found.items() if files} == {}


def test_missing_files_are_found() -> None:
    page = "See `csrc/plan/type_rules.cpp`, `csrc/formats/NAME/` and `csrc/absent/of_this, other`."
    assert missing_files(page) == ["csrc/absent/of_this"]
