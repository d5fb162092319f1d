"""docs/reports.md: every command in it runs as it is written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch import cli

PAGE = Path(__file__).parents[2] / "docs" / "reports.md"


def commands() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    with apt.AtpWriter(folder / "alloys.atp") as writer:
        for n in (2, 3, 4):
            positions = 2.0 * np.arange(3 * n).reshape(n, 3)
            forces = rng.normal(size=(n, 3))
            writer.write(apt.Molecule(positions, [29] * n, energy=-1.0 * n, forces=forces))
    dataset = apt.AtpDataset(folder / "alloys.atp")
    for name in ("train", "test"):
        apt.convert(folder / "alloys.atp", folder / f"{name}.xyz", progress=False)
    descriptor = apt.ChebyshevDescriptor(["Cu"], 4, 4.0, 2, 3.0)
    apt.build_cache(dataset, descriptor, folder / "water.h5", progress=False)
    return folder


@pytest.mark.parametrize("command", commands())
def test_command(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    program, *arguments = shlex.split(command, comments=True)
    assert program == "atompack-torch"
    assert cli.main(arguments) == 0
    picture = Path(arguments[arguments.index("-o" if "-o" in arguments else "--plot") + 1])
    assert picture.stat().st_size > 5000
    picture.unlink()
