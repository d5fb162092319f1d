"""The frame of the command line: help, exit statuses, errors, closed pipes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reference.commands import PROGRAM, Command, parsers, python

from atompack_torch import cli
from atompack_torch.formats import FORMATS

COMMANDS = {
    *("bench", "cache", "compact", "convert", "diff", "drop", "filter", "head"),
    *("info", "rename", "report", "sample", "show", "split", "stats", "verify"),
}


def test_every_module_is_a_command() -> None:
    assert set(cli.commands()) == COMMANDS


def test_help_names_all_commands(run: Command) -> None:
    text = run("--help").out
    for name in cli.commands():
        assert re.search(rf"^ +{name} +\w", text, re.MULTILINE), name


@pytest.mark.parametrize("columns", [50, 70, 80, 120])
def test_help_is_as_wide_as_the_terminal(
    columns: int, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in sorted(COMMANDS):
        text = run(name, "--help").out
        assert f"\n  atompack-torch {name} " in text  # an example
        lines = text.splitlines()
        long = [line for line in lines if len(line) > columns and " " in line[columns // 2 :]]
        assert long == [], name
        assert name != "convert" or columns < 80 or len(lines) <= 60


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["nothing"], ["info"], ["head", "--bogus", "x.atp"], ["bench", "--rounds", "0"]),
        *(["cache"], ["cache", "nothing"], ["cache", "info"], ["cache", "verify", "a", "b"]),
    ],
    ids=" ".join,
)
def test_wrong_usage(arguments: list[str], run: Command) -> None:
    captured = run(*arguments, status=2)
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("atompack-torch")


@pytest.mark.parametrize("arguments", [["info", "a.atp", "--bogus"], ["cache", "verify", "a", "b"]])
def test_usage_of_the_command_that_was_given(arguments: list[str], run: Command) -> None:
    error = run(*arguments, status=2).err
    command = " ".join(arguments[: 1 + (arguments[0] == "cache")])
    assert error.startswith(f"usage: atompack-torch {command} ")
    assert f"atompack-torch {command}: error: unrecognized arguments: {arguments[-1]}" in error


@pytest.mark.parametrize("suffix", ["atp", "db", "parquet", "npz"])
@pytest.mark.parametrize("command", ["info", "verify", "head", "stats"])
def test_no_such_file(command: str, suffix: str, tmp_path: Path, run: Command) -> None:
    captured = run(command, tmp_path / f"no\nsuch.{suffix}", status=1)
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"atompack-torch {command}: ")
    assert "No such file" in line


@pytest.mark.parametrize("command", ["head", "stats"])
def test_bad_data(command: str, fixtures: Path, run: Command) -> None:
    path = fixtures / "bad_section_cut.atp"
    (line,) = run(command, path, status=1).err.splitlines()
    assert line.startswith(f"atompack-torch {command}: {path}: ")
    assert "molecule 0" in line


def test_something_that_is_not_installed(
    tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "ase"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ase", None)
    (tmp_path / "a.traj").write_bytes(b"- of UlmASE-Trajectory")
    assert (
        "No module named 'ase.io'"
        in run("convert", tmp_path / "a.traj", tmp_path / "b.atp", status=2).err
    )


def test_interrupt(fixtures: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("atompack_torch.formats.atp.inspection.verify", interrupted)
    run("verify", fixtures / "minimal.atp", status=130)


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
        paths = [fixtures / name] * 300
        output = {"stdout": write, "stderr": subprocess.PIPE, "capture_output": False}
        done = python(*PROGRAM, *arguments, *paths, **output)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.parametrize(
    "arguments", [["info", "--json"], ["convert", "--to", "extxyz", "--quiet"]]
)
def test_full_disk_behind_stdout(fixtures: Path, arguments: list[str]) -> None:
    """As with ``> FILE``: one message, which no traceback follows at exit."""
    paths = [fixtures / "gen3.atp", *(["-"] if arguments[0] == "convert" else [])]
    with Path("/dev/full").open("w") as full:
        output = {"stdout": full, "stderr": subprocess.PIPE, "capture_output": False}
        done = python(*PROGRAM, *arguments, *paths, **output)
    message = f"atompack-torch {arguments[0]}: [Errno 28] No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_names_that_a_terminal_would_obey(fixtures: Path, tmp_path: Path) -> None:
    """Or that its encoding does not have: neither breaks the output."""
    path = tmp_path / "\x1b[2J\N{LATIN SMALL LETTER U WITH DIAERESIS}.atp"
    shutil.copy(fixtures / "gen3.atp", path)
    for encoding in ("utf-8", "ascii"):
        environment = {"PYTHONIOENCODING": encoding}
        done = python(*PROGRAM, "info", path, env=environment, encoding=encoding)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout
        assert r"\x1b[2J" in done.stdout


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
    seen: dict[str, set[str]] = {}
    found = {words: parser for words, parser in parsers().items() if words not in ("", "cache")}
    assert len(found) == len(COMMANDS) - 1 + 3  # those of `cache`
    for command, parser in found.items():
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
    run: Command,
    command: str,
    option: str,
    value: str,
    low: str,
) -> None:
    expected = f"atompack-torch {command}: {option}: expected a number from {low}, got "
    shown = run(command, fixtures / "minimal.atp", option, value, status=2)
    assert shown.err.startswith(expected)


def test_formats_of_convert_are_those_of_the_registry(run: Command) -> None:
    text = " ".join(run("convert", "--help").out.split())
    for known in FORMATS:
        assert not known.source or known.source in text
