"""The frame of the command line: help, exit statuses, errors, closed pipes."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atompack_torch import cli
from atompack_torch.formats import FORMATS

COMMANDS = {
    *(
        "bench",
        "cache",
        "compact",
        "completion",
        "convert",
        "diff",
        "drop",
        "filter",
        "head",
        "hub",
    ),
    *("info", "rename", "report", "sample", "show", "split", "stats", "verify"),
}
GROUPS = {"cache": 3, "hub": 2}  # commands that have commands of their own, and how many
RUN = [sys.executable, "-m", "atompack_torch"]


def test_every_module_is_a_command() -> None:
    assert set(cli.commands()) == COMMANDS


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for name in cli.commands():
        assert re.search(rf"^ +{name} +\w", text, re.MULTILINE), name


@pytest.mark.parametrize("columns", [50, 70, 80, 120])
def test_help_is_as_wide_as_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in sorted(COMMANDS):
        with pytest.raises(SystemExit):
            cli.main([name, "--help"])
        lines = capsys.readouterr().out.splitlines()
        long = [line for line in lines if len(line) > columns and " " in line[columns // 2 :]]
        assert long == [], name
        assert name != "convert" or columns < 80 or len(lines) <= 60


def test_help_of_each_command_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for name in sorted(COMMANDS):
        with pytest.raises(SystemExit) as stop:
            cli.main([name, "--help"])
        assert stop.value.code == 0
        text = capsys.readouterr().out
        assert f"\n  atompack-torch {name} " in text
        assert "--json" in text


@pytest.mark.parametrize(
    "arguments",
    [[], ["nothing"], ["info"], ["head", "--bogus", "x.atp"], ["bench", "--rounds", "0"]],
    ids=" ".join,
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("atompack-torch")


@pytest.mark.parametrize("command", ["info", "verify", "head", "stats"])
def test_no_such_file(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, str(tmp_path / "no\nsuch.atp")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"atompack-torch {command}: ")
    assert "No such file" in line


@pytest.mark.parametrize("command", ["head", "stats"])
def test_bad_data(command: str, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fixtures / "bad_section_cut.atp"
    assert cli.main([command, str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"atompack-torch {command}: {path}: ")
    assert "molecule 0" in line


def test_something_that_is_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "ase"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ase", None)
    (tmp_path / "a.traj").write_bytes(b"- of UlmASE-Trajectory")
    assert cli.main(["convert", str(tmp_path / "a.traj"), str(tmp_path / "b.atp")]) == 2
    assert "No module named 'ase.io'" in capsys.readouterr().err


def test_interrupt(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("atompack_torch.formats.atp.inspection.verify", interrupted)
    assert cli.main(["verify", str(fixtures / "minimal.atp")]) == 130


def test_as_a_program(fixtures: Path) -> None:
    done = subprocess.run(
        [*RUN, "verify", str(fixtures / "bad_section_cut.atp")],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "molecule 0" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "name", "status"),
    [
        (["head", "-n", "1000", "--json"], "gen3.atp", 0),
        (["verify"], "bad_section_cut.atp", 1),  # faults are not hidden
    ],
)
def test_nobody_reads_the_output(
    fixtures: Path, arguments: list[str], name: str, status: int
) -> None:
    """As when piping into ``head``: no traceback, no complaint at exit."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*RUN, *arguments, *[str(fixtures / name)] * 300],
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=200,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (status, b"")


def test_names_that_a_terminal_would_obey(fixtures: Path, tmp_path: Path) -> None:
    """Or that its encoding does not have: neither breaks the output."""
    path = tmp_path / "\x1b[2J\N{LATIN SMALL LETTER U WITH DIAERESIS}.atp"
    shutil.copy(fixtures / "gen3.atp", path)
    for encoding in ("utf-8", "ascii"):
        done = subprocess.run(
            [*RUN, "info", path],
            capture_output=True,
            timeout=200,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"\x1b" not in done.stdout
        assert rb"\x1b[2J" in done.stdout


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands of a parser, by name."""
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def all_parsers() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands and of the commands of `cache`."""
    made = subparsers(cli.build_parser()[0])
    nested = {
        f"{group} {name}": one
        for group in GROUPS
        for name, one in subparsers(made.pop(group)).items()
    }
    return made | nested


SHARED = {
    "--json": ("json", None),
    "--threads": ("threads", "N"),
    "--level": ("level", "N"),
    "--codec": ("codec", "CODEC"),
    "--max-faults": ("max_faults", "N"),
    "--fields": ("fields", "NAME"),
    "--no-resume": ("no_resume", None),
}


def test_options_have_one_meaning_in_all_commands() -> None:
    parsers = all_parsers()
    assert len(parsers) == len(cli.commands()) - len(GROUPS) + sum(GROUPS.values())
    seen: dict[str, set[str]] = {}
    for command, parser in parsers.items():
        for action in parser._actions:
            name = (action.option_strings or [str(action.metavar)])[-1]
            assert action.help, f"{command} {name}"
            assert not (action.help or "").startswith("("), f"{command} {name}"
            if action.type is not None:
                assert action.metavar is not None, f"{command} {name}"
            if name in SHARED:
                assert (action.dest, action.metavar) == SHARED[name], f"{command} {name}"
                seen.setdefault(name, set()).add(command)
        assert "--json" in {option for a in parser._actions for option in a.option_strings}
        assert "  atompack-torch " in (parser.description or ""), command
    assert seen.keys() == SHARED.keys()
    assert seen["--threads"] == {"bench", "cache build", "cache verify"}


@pytest.mark.parametrize(
    ("command", "option", "value", "low"),
    [
        ("head", "-n", "-1", "0"),
        ("verify", "--max-faults", "-1", "0"),
        ("stats", "--cutoff", "0", "0.001"),
        ("stats", "--cutoff", "nan", "0.001"),
        ("bench", "--threads", "0", "1"),
        ("bench", "--batch-size", "0", "1"),
        ("bench", "--rounds", "0", "1"),
    ],
)
def test_numbers_out_of_range(
    fixtures: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    option: str,
    value: str,
    low: str,
) -> None:
    assert cli.main([command, str(fixtures / "minimal.atp"), option, value]) == 2
    expected = f"atompack-torch {command}: {option}: expected a number from {low}, got "
    assert capsys.readouterr().err.startswith(expected)


def test_formats_of_convert_are_those_of_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["convert", "--help"])
    text = " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # wrapped at hyphens
    for known in FORMATS:
        assert not known.source or known.source in text
