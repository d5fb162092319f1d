"""One entry of the registry makes a format known to the whole package."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import atompack_torch as apt
from atompack_torch import cli, formats

TOY = formats.Format("toy", "a toy file", ((0, b"TOY\n"),), entry="toy_format")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(formats, "FORMATS", [*formats.FORMATS, TOY])
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.delitem(sys.modules, "toy_format", raising=False)
    path = tmp_path / "energies"
    path.write_text("TOY\n-1.5\n-2.5\n")
    return path


def test_a_sixth_format(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = apt.open(toy)
    assert type(dataset).__name__ == "ToyDataset"
    assert [float(dataset[i].energy) for i in range(2)] == [-1.5, -2.5]
    assert apt.info(toy) == {"n_molecules": 2, "errors": []}
    assert [float(molecule.energy) for molecule in apt.head(toy, 1)] == [-1.5]
    assert apt.verify(toy).ok
    assert apt.statistics(toy) == [-1.5, -2.5]
    for command in ("info", "head", "verify", "stats"):
        assert cli.main([command, str(toy)]) == 0
        assert capsys.readouterr().out
    assert cli.main(["info", "--json", str(toy)]) == 0
    assert json.loads(capsys.readouterr().out) == {"n_molecules": 2}


def test_entries_have_all_functions() -> None:
    import importlib

    wanted = {"open_dataset", "describe", "head", "verify", "statistics"}
    entries = {known.entry for known in formats.FORMATS if known.entry}
    assert len(entries) == 4
    for name in entries:
        assert wanted <= set(vars(importlib.import_module(name)))
