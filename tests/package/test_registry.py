"""One entry of the registry makes a format known to the whole package."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import atompack_torch as apt
from atompack_torch import cli, formats

TOY = formats.Format(
    "toy",
    "a toy file",
    ((0, b"TOY\n"),),
    opens="ToyDataset",
    source="toy",
    is_target=True,
    suffixes=(".toy",),
    hub_files=("*.toy",),
    entry="toy_format",
)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    formats.FORMATS.append(TOY)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.delitem(sys.modules, "toy_format", raising=False)
    path = tmp_path / "energies.toy"
    path.write_text("TOY\n-1.5\n-2.5\n")
    yield path
    formats.FORMATS.remove(TOY)


def test_a_sixth_format(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = apt.open(toy)
    assert type(dataset).__name__ == "ToyDataset"
    assert [float(dataset[i].energy) for i in range(2)] == [-1.5, -2.5]
    assert apt.info(toy) == {"format": "toy", "n_molecules": 2, "errors": []}
    assert [float(molecule.energy) for molecule in apt.head(toy, 1)] == [-1.5]
    assert apt.verify(toy).ok
    assert apt.statistics(toy) == [-1.5, -2.5]
    for command in ("info", "head", "verify", "stats"):
        assert cli.main([command, str(toy)]) == 0
        assert capsys.readouterr().out
    assert cli.main(["info", "--json", str(toy)]) == 0
    assert json.loads(capsys.readouterr().out) == {"format": "toy", "n_molecules": 2}


def test_conversion_from_and_to_it(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    atp, back = toy.with_suffix(".atp"), toy.with_name("back.toy")
    report = apt.convert(toy, atp, progress=False)
    assert (report.structures_written, report.labels["energy"]) == (2, 2)
    assert report.bytes_read == toy.stat().st_size
    assert apt.AtpDataset(atp)[:].energy.tolist() == [-1.5, -2.5]
    assert cli.main(["convert", "--quiet", str(atp), str(back)]) == 0
    assert back.read_text() == toy.read_text()
    unnamed = toy.with_name("unnamed")
    apt.convert([toy, back], unnamed, target="toy", format="toy", progress=False)
    assert [float(molecule.energy) for molecule in apt.head(unnamed)] == [-1.5, -2.5] * 2
    with pytest.raises(ValueError, match=r"target format: expected one of .*, toy, got"):
        apt.convert(toy, toy.with_name("x.what"), progress=False)
    with pytest.raises(ValueError, match="not appended to"):
        apt.convert(atp, back, mode="a", progress=False)
    with pytest.raises(FileExistsError, match="mode='w' replaces it"):
        apt.convert(atp, back, progress=False)


def test_examples_that_are_no_molecules(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import toy_format

    monkeypatch.setattr(toy_format.ToyDataset, "__getitem__", lambda self, i: i)
    with pytest.raises(apt.FieldError, match=r"energies\.toy: .*expected Molecule .*, got int"):
        apt.convert(toy, tmp_path / "x.atp", progress=False)
    assert not (tmp_path / "x.atp").exists()


def test_compaction_of_it(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = toy.with_name("small.toy")
    apt.compact(toy, small, order=[1])
    assert small.read_text() == "TOY\n-2.5\n"
    assert cli.main(["compact", "--json", str(toy), str(toy.with_name("other.toy"))]) == 0
    n_bytes = toy.stat().st_size
    expected = {"n_toys": 2, "bytes_before": n_bytes, "bytes_after": n_bytes}
    assert json.loads(capsys.readouterr().out) == expected


def test_it_on_the_hub(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked: list[list[str]] = []
    snapshot = toy.parent / "snapshot"
    (snapshot / "data").mkdir(parents=True)
    (snapshot / "data" / toy.name).write_bytes(toy.read_bytes())

    def download(repo_id: str, *, allow_patterns: list[str], **options: Any) -> str:
        asked.append(allow_patterns)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    for name in (None, "data/energies.toy"):
        dataset = apt.hub.open("someone/toys", name)
        assert type(dataset).__name__ == "ToyDataset"
        assert len(dataset) == 2
    assert {"*.toy", "**/*.toy"} < set(asked[0])
    assert asked[1] == ["data/energies.toy"]
    (snapshot / "data" / toy.name).unlink()
    with pytest.raises(FileNotFoundError, match=r"no \.atp or \.toy file"):
        apt.hub.open("someone/toys")


def test_messages_name_it(toy: Path) -> None:
    with pytest.raises(apt.UnsupportedFormatError, match="got a toy file: ToyDataset opens it"):
        apt.AtpDataset(toy)
    other = toy.with_name("a.txt")
    other.write_text("nothing\n")
    with pytest.raises(apt.UnsupportedFormatError, match=r"a toy file, got a text file"):
        apt.open(other, convert=False)
    with pytest.raises(
        apt.UnsupportedFormatError, match=r"a.txt: expected .*, got a file that ASE does not know"
    ):
        apt.open(other)


def test_entries_have_all_functions() -> None:
    import importlib

    wanted = {"open_dataset", "describe", "head", "verify", "statistics"}
    entries = {known.entry for known in formats.FORMATS if known.entry}
    assert len(entries) >= 6
    for name in entries:
        assert wanted <= set(vars(importlib.import_module(name)))


def test_converters_have_all_functions() -> None:
    import importlib

    for known in formats.FORMATS:
        if known.source:
            module = importlib.import_module(known.converter)
            assert hasattr(module, "open_source")
            assert hasattr(module, "open_target") or not known.is_target
