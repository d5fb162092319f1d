"""The workflows of a host: what they call is there, and says the same as the Makefile."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (REPOSITORY / "Makefile").read_text()
TORCH = re.findall(r"^TORCH \?= torch==(.+)$", MAKEFILE, re.MULTILINE)[0]


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


def commands(path: Path) -> list[str]:
    """All commands that a workflow runs, those for cibuildwheel too."""
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    builds = [step.get("env", {}) for step in steps]
    own = [step["run"] for step in steps if "run" in step]
    return own + [
        str(text) for env in builds for name, text in env.items() if name.startswith("CIBW")
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_calls_is_there(path: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
    text = "\n".join(commands(path))
    made = re.findall(r"\bmake ([\w-]+)", text)
    assert made
    assert {*made} <= targets
    for name in re.findall(r"(?<![\w/.])((?:\.ci|tests|packaging)/[\w./-]+)", text):
        assert (REPOSITORY / name).is_file(), name
    for job in jobs(path).values():
        assert job["timeout-minutes"] <= 120
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])


def test_wheels_are_built_as_by_the_makefile() -> None:
    job = jobs(REPOSITORY / ".github" / "workflows" / "wheels.yml")["wheel"]
    assert TORCH in job["strategy"]["matrix"]["torch"]
    (build,) = (step["env"] for step in job["steps"] if "cibuildwheel" in step.get("uses", ""))
    repair = build["CIBW_REPAIR_WHEEL_COMMAND"]
    libraries = re.findall(r"addprefix --exclude ,(.+)\)", MAKEFILE)[0].split()
    assert re.findall(r"--exclude (\S+)", repair) == libraries
    for script in ("pin_torch", "add_licenses"):
        assert f".ci/{script} " in repair
        assert f".ci/{script} dist/*.whl" in MAKEFILE
    required = re.findall(
        r"^requires = \[(.+)\]$", (REPOSITORY / "pyproject.toml").read_text(), re.M
    )
    names = {re.split(r"[<>=]", each)[0] for each in re.findall(r'"([^"]+)"', required[0])}
    assert names <= {re.split(r"[<>=]", each)[0] for each in build["CIBW_BEFORE_BUILD"].split()}


def test_wheels_for_another_torch_say_so_in_their_version(tmp_path: Path) -> None:
    job = jobs(REPOSITORY / ".github" / "workflows" / "wheels.yml")["wheel"]
    (step,) = (step for step in job["steps"] if "if" in step)
    assert step["if"] == f"matrix.torch != '{TORCH}'"
    project = (REPOSITORY / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(project)
    script = step["run"].replace("${{ matrix.torch }}", "2.12.1")
    assert "${{" not in script
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    changed = (tmp_path / "pyproject.toml").read_text()
    before = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    assert re.findall(r'^version = "(.+)"$', changed, re.MULTILINE) == [f"{before[0]}+torch2.12"]
