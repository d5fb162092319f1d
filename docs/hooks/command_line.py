"""MkDocs hook: `command_line.md`, the reference of all commands, from their argument parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from atompack_torch.cli import build_parser

PAGE = "command_line.md"
INTRODUCTION = """\
# Command line

`atompack-torch COMMAND`, or `python -m atompack_torch COMMAND`. This page is made from the parser
of the program, so that it shows what `--help` does. The examples are not run by the tests of this
page: their files are placeholders; `tests/cli` runs every command.

Exit status: 0, 1 (bad data), 2 (wrong usage). With `--json` an error is a JSON document too. Colors
appear on terminals, unless `NO_COLOR` is set.
"""


def escaped(text: str) -> str:
    """Text of a cell of a table, with nothing in it that is markup."""
    return re.sub(r"([|<>*_\[\]`\\])", r"\\\1", " ".join(text.split()))


def commands_of(
    parser: argparse.ArgumentParser, shown: str = ""
) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Commands of a parser, and theirs, each after its parent, with the line that lists them."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield command, lines.get(name, "")
                yield from commands_of(command)


def invocation(action: argparse.Action) -> str:
    """Spelling of an argument, as in a usage message."""
    metavar = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    )
    if not action.option_strings:
        return str(metavar or action.dest)
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {metavar or action.dest.upper()}"


def rows(actions: list[argparse.Action], parser: argparse.ArgumentParser) -> str:
    """A table of arguments."""
    lines = ["| argument | meaning |", "|---|---|"]
    for action in actions:
        text = parser._get_formatter()._expand_help(action) if action.help else ""
        lines.append(f"| `{invocation(action).replace('|', chr(0x2223))}` | {escaped(text)} |")
    return "\n".join(lines)


def description_of(text: str) -> str:
    """Docstring of a command: indented lines are examples."""
    parts = re.split(r"\n\s*\n", text.strip())
    blocks = []
    for part in parts:
        lines = part.split("\n")
        if all(line.startswith("  ") for line in lines):
            blocks.append("```sh\n" + "\n".join(line[2:] for line in lines) + "\n```")
        else:
            blocks.append("\n".join(escaped(line) for line in lines))
    return "\n\n".join(blocks)


def section(command: argparse.ArgumentParser, line: str) -> str:
    """Heading, description and arguments of a command."""
    name = command.prog.removeprefix("atompack-torch ")
    level = "##" if " " not in name else "###"
    parts = [f"{level} {name}", description_of(command.description or line)]
    shown = [a for a in command._actions if a.help is not argparse.SUPPRESS]
    shown = [
        a for a in shown if not isinstance(a, (argparse._HelpAction, argparse._SubParsersAction))
    ]
    if shown:
        parts.append(rows(shown, command))
    return "\n\n".join(parts)


def markdown() -> str:
    """The page."""
    parser, _ = build_parser()
    return (
        "\n\n".join([INTRODUCTION.strip(), *(section(*found) for found in commands_of(parser))])
        + "\n"
    )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the page."""
    files.append(File.generated(config, PAGE, content=markdown()))
    return files
