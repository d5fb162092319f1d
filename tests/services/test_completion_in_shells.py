"""The scripts of `completion` in zsh and fish; bash is in tests/cli."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from atompack_torch import cli

SECONDS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a file whose name can be completed."""
    (tmp_path / "data.atp").touch()
    return tmp_path


def script_for(shell: str, path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert shutil.which(shell), f"make test-services installs {shell}"
    assert cli.main(["completion", shell]) == 0
    path.write_text(capsys.readouterr().out)
    return path


def test_fish(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = script_for("fish", folder / "script.fish", capsys)

    def complete(line: str) -> list[str]:
        command = ["fish", "--no-config", "-c", f"source {script}; complete -C {line!r}"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True
        )
        assert done.stderr == ""
        return sorted(row.split("\t")[0] for row in done.stdout.splitlines())

    assert complete("atompack-torch s") == ["sample", "show", "split", "stats"]
    assert complete("atompack-torch cache v") == ["verify"]
    assert "--replace-labels" in complete("atompack-torch convert --re")
    assert "data.atp" in complete("atompack-torch info da")


class Terminal:
    """An interactive zsh without the user's settings."""

    def __init__(self, folder: Path) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            kept = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder), "PS1": "$ "}
            os.execvpe("zsh", ["zsh", "-f", "-i"], kept)

    def type_until(self, keys: str, pattern: str) -> str:
        """Types, and returns what is shown from then on, up to the pattern."""
        os.write(self._terminal, keys.encode())
        shown, end = "", time.monotonic() + SECONDS
        while not re.search(pattern, shown):
            left = end - time.monotonic()
            assert left > 0, f"no {pattern!r} but {shown!r}"
            if select.select([self._terminal], [], [], left)[0]:
                shown += os.read(self._terminal, 4096).decode(errors="replace")
        return shown

    def close(self) -> None:
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


@pytest.fixture
def terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Terminal]:
    functions = folder / "functions"
    functions.mkdir()
    script_for("zsh", functions / "_atompack-torch", capsys)
    made = Terminal(folder)
    setup = "fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D; print re''ady\n"
    made.type_until(setup, r"ready\r\n")
    yield made
    made.close()


def test_zsh(terminal: Terminal) -> None:
    cancel = "\x15"  # Ctrl-U
    terminal.type_until("atompack-torch conv\t", r"convert ")
    terminal.type_until(cancel + "atompack-torch cache ver\t", r"verify ")
    terminal.type_until(cancel + "atompack-torch convert --replace\t", r"--replace-labels")
    terminal.type_until(cancel + "atompack-torch info da\t", r"data\.atp")
