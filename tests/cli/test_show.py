"""`show`: one structure with all labels; colors of the terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import torch
from reference.commands import Command

import atompack_torch as apt
from atompack_torch.cli import _output

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        for i in range(3):
            writer.write(
                apt.Molecule(
                    torch.arange(6.0).reshape(2, 3) + i,
                    torch.tensor([8, 1]),
                    energy=-1.5 - i,
                    forces=torch.ones(2, 3) / 3,
                    cell=torch.eye(3) * 7,
                    name=f"né\x1b[2J{i}",
                    properties={"tag": "ß", "vector": torch.arange(40.0)},
                    atom_properties={"wide": torch.zeros(2, 5)},
                )
            )
    return tmp_path / "x.atp"


def test_all_labels_with_units(path: Path, run: Command) -> None:
    text = run("show", path, "1").out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "molecule 1: HO, 2 atoms"
    assert "energy -2.5 usually eV" in lines
    assert "7 0 0; 0 7 0; 0 0 7" in text
    assert "positions (usually Å)" in text
    assert "forces (usually eV/Å)" in text
    assert "0 O 1 2 3 0.333333 0.333333 0.333333" in lines
    assert "1 H 4 5 6 0.333333 0.333333 0.333333" in lines
    assert "tag 'ß'" in lines
    assert any(line.startswith("vector (40,) 0 1 2") and "..." in line for line in lines)
    assert any(line == "wide 0 0 0 0 0; 0 0 0 0 0" for line in lines)
    assert "\x1b" not in text


@pytest.mark.parametrize(("index", "number"), [("0", 0), ("-1", 2), ("-3", 0)])
def test_json(index: str, number: int, path: Path, run: Command) -> None:
    document = run("show", "--json", path, index).document
    assert document["molecule"] == number
    assert document["fields"]["energy"] == {
        "dtype": "float64",
        "shape": [],
        "values": -1.5 - number,
        "usual_unit": "eV",
    }
    assert document["fields"]["positions"]["usual_unit"] == "Å"


@pytest.mark.parametrize("index", ["3", "-4", "99999999999999999999"])
def test_no_such_structure(index: str, path: Path, run: Command) -> None:
    assert f"expected a number below 3, got {index}" in run("show", path, index, status=2).err


def test_few_atoms_and_fields(path: Path, run: Command) -> None:
    text = run("show", path, "0", "--atoms", "1", "--fields", "energy").out
    assert "... and 1 more atoms" in text
    assert "forces" not in text
    assert "no field 'nothing'" in run("show", path, "0", "--fields", "nothing", status=2).err


def test_other_formats(tmp_path: Path, run: Command) -> None:
    (tmp_path / "x.xyz").write_text("1\nenergy=2 Properties=species:S:1:pos:R:3\nFe 0 0 1\n")
    assert "molecule 0: Fe, 1 atoms" in run("show", tmp_path / "x.xyz", "0").out
    with apt.ShardWriter(tmp_path / "shards", 4, 2) as writer:
        writer.write({"text": "é", "values": torch.arange(3)})
    assert "example 0" in run("show", tmp_path / "shards", "0").out
    assert "energy" in run("show", FIXTURES / "cache" / "water.h5", "0").out


SENSORS = FIXTURES / "atlas" / "sensors_lz4_json_zst"


@pytest.mark.parametrize("index", ["s00003", "3", "-57"])
def test_a_dataset_of_a_store(index: str, run: Command) -> None:
    lines = [" ".join(line.split()) for line in run("show", SENSORS, index).out.splitlines()]
    assert lines[0] == "dataset s00003"
    assert "station string () 'station-3'" in lines
    document = run("show", "--json", SENSORS, index, "--fields", "station").document
    assert document["dataset"] == "s00003"
    assert document["arrays"] == {"station": "station-3"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["s0003"], "INDEX: no dataset 's0003': did you mean 's00030'"),
        (["60"], "expected a number below 60, got 60"),
        (["-61"], "expected a number below 60, got -61"),
        (["0", "--fields", "statoin"], "no array 'statoin': did you mean 'station'?"),
    ],
)
def test_no_such_dataset(arguments: list[str], message: str, run: Command) -> None:
    assert message in run("show", SENSORS, *arguments, status=2).err


def test_names_come_before_numbers(tmp_path: Path, run: Command) -> None:
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        for name in ("1", "0", "b\x1b"):
            store.create_dataset(name)
    for index, name in (("0", "0"), ("1", "1"), ("2", "b\\x1b"), ("-1", "b\\x1b")):
        assert run("show", tmp_path / "store", index).out == f"dataset {name}\n"


def test_an_array_of_an_array_file(run: Command) -> None:
    path = str(FIXTURES / "atlas" / "tiny_json" / "t" / "data.af")
    for index in ("jan", "0", "-1"):
        words = " ".join(run("show", path, index).out.split())
        assert words == "dataset jan float32 (2, 3) 0 1 2 3 4 5"
    assert "no dataset 'feb'" in run("show", path, "feb", status=2).err


def test_heads_of_stores_and_shards_select_what_there_is(tmp_path: Path, run: Command) -> None:
    assert [
        *run("head", "--json", SENSORS, "-n", "1", "--fields", "count").document[0]["arrays"]
    ] == ["count"]
    assert "did you mean 'count'?" in run("head", SENSORS, "--fields", "counts", status=2).err
    with apt.ShardWriter(tmp_path / "shards", 4, 2) as writer:
        writer.write(1)
    assert (
        "fields: expected none for Atlas shards"
        in run("head", tmp_path / "shards", "--fields", "x", status=2).err
    )


def test_numbers_of_structures(path: Path, run: Command) -> None:
    assert "INDEX: expected a number, got 'first'" in run("show", path, "first", status=2).err
    cache = str(FIXTURES / "cache" / "water.h5")
    document = run("show", "--json", cache, "-1").document
    dataset = apt.TorchCacheDataset(cache)
    assert document["molecule"] == len(dataset) - 1
    assert document["fields"]["features"]["values"] == dataset[-1].features.tolist()  # type: ignore[union-attr]
    run("show", cache, len(dataset), status=2)


def test_bad_data(fixtures: Path, run: Command) -> None:
    assert "molecule 0" in run("show", fixtures / "bad_section_cut.atp", "0", status=1).err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colors_only_on_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert _output.styled("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert _output.styled("x", "red", io.StringIO()) == "x"
    assert _output.styled("x", "red", None) == "x"
    monkeypatch.setenv("TERM", "dumb")
    assert not _output.has_colors(Terminal())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert _output.has_colors(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not _output.has_colors(Terminal())


@pytest.fixture
def colored(monkeypatch: pytest.MonkeyPatch, run: Command) -> Command:
    """Runs commands with colors."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    return run


def test_errors_and_results_of_checks_are_red_or_green(
    path: Path, fixtures: Path, colored: Command
) -> None:
    error = colored("show", path, "7", status=2).err
    assert error.startswith("\x1b[31matompack-torch show:\x1b[0m ")
    assert colored("verify", path).out.splitlines()[-1].startswith("\x1b[32m")
    faults = colored("verify", fixtures / "bad_section_cut.atp", status=1).out
    assert faults.splitlines()[-1].startswith("\x1b[31m")


TITLES = {"info": "", "stats": "energy (usually eV):", "head": "molecule 1:", "show": ""}


@pytest.mark.parametrize("command", TITLES)
def test_titles_are_bold(
    command: str, path: Path, monkeypatch: pytest.MonkeyPatch, colored: Command
) -> None:
    arguments = [command, path, *(["1"] if command == "show" else [])]
    shown = colored(*arguments).out
    monkeypatch.setenv("NO_COLOR", "1")
    plain = colored(*arguments).out
    assert "\x1b" not in plain
    title = plain.splitlines()[0]
    assert shown.startswith(f"\x1b[1m{title}\x1b[0m\n")
    assert re.sub(r"\x1b\[\d+m", "", shown) == plain
    assert f"\n\x1b[36m{TITLES[command]}" in shown or not TITLES[command]


def test_velocities_have_no_usual_unit(tmp_path: Path, run: Command) -> None:
    """Momenta of ASE give velocities in its unit, other files have Å/fs."""
    columns = "Properties=species:S:1:pos:R:3:momenta:R:3"
    (tmp_path / "a.xyz").write_text(f"1\n{columns}\nH 0 0 0 1 0 0\n")
    rows = [row.split() for row in run("info", tmp_path / "a.xyz").out.splitlines()]
    assert ["velocities", "atom", "float64", "(3,)", "all"] in rows
