"""`completion`: scripts for shells; bash runs its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from atompack_torch import cli

COMPLETE = """
source "$1"
COMP_WORDS=(atompack-torch "${@:2}")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
COMPREPLY=()
$(complete -p atompack-torch | sed 's/.*-F \\([^ ]*\\).*/\\1/') \\
    atompack-torch "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", str(script), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=script.parent,
    )
    return sorted({line.strip() for line in done.stdout.splitlines()})


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"]) == 0
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "data.atp").write_text("")
    assert complete(script, "s") == ["sample", "show", "split", "stats"]
    assert complete(script, "cache", "v") == ["verify"]
    assert "--replace-labels" in complete(script, "convert", "--re")
    assert "data.atp" in complete(script, "info", "da")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["shell"] == shell
    for name in cli.commands():
        assert name in document["script"]


def test_another_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["completion", "tcsh"])
    assert stop.value.code == 2


def test_without_shtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    assert "pip install shtab" in capsys.readouterr().err
