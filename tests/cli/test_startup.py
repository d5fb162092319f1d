"""How the command line starts: what needs no torch is quick, and Ctrl-C leaves no traceback."""

from __future__ import annotations

import importlib.metadata
import json
import signal
import sys
from pathlib import Path

import pytest
from reference.commands import PROGRAM, Command, python
from reference.fixture_files import fixtures_root

from atompack_torch import cli

# All commands in one process: what one of them imports is present for the others.
WITHOUT_TORCH = """
import contextlib, io, json, sys
from atompack_torch.__main__ import main
commands, forbidden = map(json.loads, sys.argv[1:])
for words in commands:
    sys.argv = ["atompack-torch", *words]
    shown = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown):
        with contextlib.redirect_stderr(shown):
            main()
    assert shown.getvalue(), words
    heavy = {*forbidden} & {*sys.modules}
    assert not heavy, (words, heavy)
"""
QUICK = [["--help"], ["--version"], ["nothing"], ["info"], ["stats", "--bogus"]]


def assert_light(commands: list[list[str]], *forbidden: str) -> None:
    """No command imports any of these modules."""
    given = json.dumps(commands), json.dumps(forbidden)
    done = python("-c", WITHOUT_TORCH, *given)
    assert done.returncode == 0, done.stderr


def test_no_torch_for_help_version_and_usage_errors() -> None:
    commands = [*QUICK, *([name, "--help"] for name in cli.commands())]
    assert_light(commands, "torch", "numpy", "ase", "h5py")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_and_version_are_quick(arguments: list[str]) -> None:
    """Processor time, which does not depend on what else the machine does."""
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime)\n"
    )
    done = python("-c", script, sys.executable, *PROGRAM, *arguments, check=True)
    assert float(done.stdout) < 0.5


def test_version(run: Command) -> None:
    version = importlib.metadata.version("atompack-torch")
    assert run("--version").out == f"atompack-torch {version}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "--json"], "required: PATH"),
        (["nothing", "--json"], "invalid choice"),
        (["cache", "info", "--json", "--bogus", "x"], "--bogus"),
        (["head", "--json", "x.atp", "-n", "many"], "invalid int value"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_as_json(arguments: list[str], message: str, run: Command) -> None:
    captured = run(*arguments, status=2)
    error = captured.document["error"]
    assert (error["type"], error["status"]) == ("UsageError", 2)
    assert message in error["message"]
    assert message in captured.err


@pytest.mark.parametrize("command", [["stats", "x.atp"], ["convert", "a.xyz", "b.atp"]])
def test_ctrl_c_while_torch_is_imported(command: list[str], tmp_path: Path) -> None:
    """No traceback, though modules within torch may make another error of the interrupt."""
    (tmp_path / "torch.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(30)\n"
        "except KeyboardInterrupt:\n"
        "    raise ImportError('numpy failed to import')\n"
    )
    done = python(*PROGRAM, *command, env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_ignored_ctrl_c_stays_ignored(fixtures: Path, tmp_path: Path) -> None:
    """As in what a shell without job control runs in the background."""
    (tmp_path / "torch.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError('as planned')\n"
    )
    done = python(
        *(*PROGRAM, "stats", fixtures / "gen3.atp"),
        env={"PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 2
    assert "as planned" in done.stderr


def test_files_are_described_without_torch() -> None:
    root = fixtures_root()
    commands = [
        ["info", f"{root}/atp/custom_all_types.atp"],
        ["info", "--json", f"{root}/atlas/dtypes_none"],
        ["info", f"{root}/atlas_shards/data/aliases"],
        ["cache", "info", f"{root}/torch_cache/legacy_v1_f64_two.h5"],
    ]
    assert_light(commands, "torch", "ase", "h5py")
