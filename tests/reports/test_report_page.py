"""Reports: their numbers against the data, and pages that hold nothing but what they show."""

from __future__ import annotations

import html.parser
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.reports.sampling import Extremes, HashSample, ThinnedRows

N = 60
HOSTILE = "<script>alert(1)</script>"


def molecules(seed: int) -> Iterator[apt.Molecule]:
    rng = np.random.default_rng(seed)
    for i in range(N):
        n = int(rng.integers(2, 9))
        numbers = rng.choice([1, 6, 8], n)
        positions = np.arange(n)[:, None] * [1.1, 0, 0] + rng.normal(0, 0.05, (n, 3))
        forces = rng.normal(size=(n, 3))
        if i == 4:
            forces[0, 1] = np.nan
        yield apt.Molecule(
            positions.astype(np.float32),
            numbers,
            energy=None if i % 5 == 0 else float(numbers.sum() * -2.0 + rng.normal()),
            forces=forces.astype(np.float32),
            cell=np.eye(3) * 9 if i % 2 else None,
            pbc=np.array([True, True, False]) if i % 2 else None,
            name=HOSTILE,
            properties={HOSTILE: float(i), "<b>": "x & y"},
        )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reports") / "a<b>.atp"
    with apt.AtpWriter(path) as writer:
        structures = [*molecules(0)]
        for molecule in [*structures, structures[3], structures[3], structures[7]]:
            writer.write(molecule)
    return path


@pytest.fixture(scope="module")
def document(path: Path) -> dict[str, Any]:
    made: dict[str, Any] = apt.report(path).as_dict()["datasets"][0]  # type: ignore[index]
    return made


class Reader(html.parser.HTMLParser):
    """Checks that tags are closed; collects names, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_counts_are_those_of_the_data(path: Path, document: dict[str, Any]) -> None:
    dataset = apt.AtpDataset(path)
    expected = dataset.statistics()
    assert document["n_structures"] == len(dataset)
    assert document["n_atoms"] == int(dataset.n_atoms.sum())
    assert {int(k): v for k, v in document["sizes"].items()} == expected.sizes
    assert {name: e["n_atoms"] for name, e in document["elements"].items()} == {
        "H": expected.elements[1].n_atoms,
        "C": expected.elements[6].n_atoms,
        "O": expected.elements[8].n_atoms,
    }
    assert {k: v["n_present"] for k, v in document["labels"].items()} == expected.coverage
    assert document["labels"]["forces"]["n_non_finite"] == 1
    fit = expected.reference_energies
    assert fit is not None
    energies = [*document["reference_energies"].values()]
    assert energies == pytest.approx([*fit.energies.values()], rel=1e-9)
    rms = document["residual_rms_per_atom"]
    assert rms == pytest.approx(fit.residual_rms_per_atom, rel=1e-6)


def test_longest_forces_are_named_by_number(path: Path, document: dict[str, Any]) -> None:
    dataset = apt.AtpDataset(path)
    norms = torch.stack(
        [molecule.forces.double().norm(dim=1).nan_to_num(0).max() for molecule in dataset]
    )
    worst = document["longest_forces"]
    assert [row["force"] for row in worst] == pytest.approx(
        norms.sort(descending=True).values[: len(worst)].tolist(), rel=1e-6
    )
    for row in worst:
        assert norms[row["structure"]].item() == pytest.approx(row["force"], rel=1e-6)


def test_neighbors_are_those_of_a_neighbor_list(path: Path, document: dict[str, Any]) -> None:
    batch = apt.AtpDataset(path, neighbors=apt.NeighborList(5.0, vectors=True)).batch(range(N + 3))
    expected = torch.bincount(batch.edge_index[0], minlength=len(batch.positions))
    values, counts = expected.unique(return_counts=True)
    found = {int(k): n for k, n in document["neighbors"]["counts"].items()}
    assert found == dict(zip(values.tolist(), counts.tolist(), strict=True))
    shortest = document["neighbors"]["shortest"][0]["distance"]
    assert shortest == pytest.approx(batch.edge_vector.norm(dim=1).min().item(), rel=1e-6)


def test_repeated_geometries(path: Path, document: dict[str, Any]) -> None:
    assert document["n_duplicates"] == 3
    page = Reader(apt.report(path).html).text
    assert "3, 60, 61" in page
    assert "7, 62" in page


def test_two_data_sets_show_what_they_share(path: Path) -> None:
    whole = apt.AtpDataset(path)
    made = apt.report(whole.subset(range(40)), whole.subset(range(30, N + 3)))
    # Structures 30 to 39 are in both, and the copies of 3 and 7.
    assert made.as_dict()["n_shared"] == 13
    text = Reader(made.html).text
    assert "a<b>.atp (1)" in text
    assert "a<b>.atp (2)" in text
    assert "share of molecules" in text


def test_the_page_is_escaped_and_self_contained(path: Path) -> None:
    page = Reader(apt.report(path, path).html)
    assert HOSTILE in page.text  # as text
    assert not page.seen & {"script", "img", "link", "iframe", "b>", "object"}
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "onerror", "onload", "onclick"}
    assert all(value and value[0] == "#" for name, value in page.attributes if name == "href")


def test_hidden_labels_stay_hidden(path: Path) -> None:
    made = apt.report(apt.AtpDataset(path, fields=["energy"], dtype=torch.float32))
    assert [*made.as_dict()["datasets"][0]["labels"]] == ["energy"]  # type: ignore[index]


def test_other_formats(path: Path, tmp_path: Path, document: dict[str, Any]) -> None:
    dataset = apt.AtpDataset(path)
    with apt.ShardWriter(tmp_path / "shards", 20, 5) as shards:
        for molecule in dataset:
            shards.write(
                {
                    "positions": molecule.positions.numpy(),
                    "atomic_numbers": molecule.atomic_numbers.numpy(),
                    "forces": molecule.forces.numpy(),
                }
            )
    plain = apt.AtpDataset(path, fields=["energy", "forces"])
    ase.io.write(tmp_path / "a.xyz", plain[:].to_ase(), format="extxyz")
    for other in ("shards", "a.xyz"):
        made = apt.report(tmp_path / other).as_dict()["datasets"][0]  # type: ignore[index]
        for name in ("n_structures", "n_atoms", "sizes", "elements", "longest_forces"):
            ours, wanted = made[name], document[name]
            if name == "longest_forces":
                ours, wanted = ([row["structure"] for row in each] for each in (ours, wanted))
            assert ours == wanted, (other, name)


def test_data_without_molecules_are_refused(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "numbers", 20, 5) as shards:
        for i in range(10):
            shards.write({"x": i})
    with pytest.raises(apt.UnsupportedFormatError, match="expected batches of molecules"):
        apt.report(tmp_path / "numbers")
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.create_dataset("d")
    with pytest.raises(apt.UnsupportedFormatError, match="ATLAS store"):
        apt.report(tmp_path / "store")


def test_an_empty_data_set_has_a_page(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "empty.atp"):
        pass
    made = apt.report(tmp_path / "empty.atp")
    assert made.as_dict()["datasets"][0]["n_structures"] == 0  # type: ignore[index]
    assert "No molecule has an energy" in Reader(made.html).text


def test_wrong_options(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cutoff"):
        apt.report(path, cutoff=0)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        apt.report(path, output=tmp_path / "absent" / "report.html")


def test_a_structure_without_neighbors_list_is_a_note(tmp_path: Path) -> None:
    made = [apt.Molecule([[0.0, 0, 0], [x, 0, 0]], [1, 1]) for x in (1.0, np.nan, 1.2)]
    warnings = warnings_of(tmp_path / "nan.atp", made)
    assert any("neighbor search failed" in text for text in warnings)
    found: Any = apt.report(tmp_path / "nan.atp").as_dict()["datasets"]
    assert found[0]["neighbors"]["n_structures"] == 2


def warnings_of(path: Path, molecules: Iterable[apt.Molecule]) -> list[str]:
    """Warnings on the page of a file of these molecules."""
    with apt.AtpWriter(path) as writer:
        writer.write([*molecules])
    found: Any = apt.report(path).as_dict()["datasets"]
    return [note["text"] for note in found[0]["notes"] if note["warning"]]


@pytest.mark.parametrize(("scale", "unit"), [(1.8897261, "Bohr"), (0.1, "nm")])
def test_lengths_in_other_units_are_a_note(tmp_path: Path, scale: float, unit: str) -> None:
    lengths = (0.95, 1.0, 1.08)
    made = [apt.Molecule([[0.0, 0, 0], [x * scale, 0, 0]], [1, 8]) for x in lengths]
    assert any(f"in {unit}," in text for text in warnings_of(tmp_path / "a.atp", made))


@pytest.mark.parametrize(("metal", "lattice"), [(46, 4.09), (12, 4.5)])
def test_hydrides_of_metals_are_in_angstrom(tmp_path: Path, metal: int, lattice: float) -> None:
    spots = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) * lattice / 2
    positions = np.concatenate([spots, spots + np.array([lattice / 2, 0, 0])])
    cell = np.eye(3) * lattice
    made = apt.Molecule(positions, [metal] * 4 + [1] * 4, cell=cell, pbc=[True] * 3)
    assert not any("seem to be in" in text for text in warnings_of(tmp_path / "a.atp", [made]))


@pytest.mark.parametrize(("scale", "unit"), [(1.0, "Hartree"), (627.5, "kcal/mol")])
def test_energies_in_other_units_are_a_note(tmp_path: Path, scale: float, unit: str) -> None:
    made = []
    for n in range(1, 9):
        numbers = [6] * n + [8] * (n % 3)
        positions = [[1.2 * i, 0, 0] for i in range(len(numbers))]
        energy = scale * (-37.8 * n - 75.1 * (n % 3))
        made.append(apt.Molecule(positions, numbers, energy=energy))
    assert any(text.endswith(f"{unit}.") for text in warnings_of(tmp_path / "a.atp", made))


def test_command(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "report.html"
    output.write_text("old")
    assert cli.main(["report", str(path), "-o", str(output)]) == 0
    assert output.read_text() == apt.report(path).html
    assert [*tmp_path.iterdir()] == [output]
    shown = capsys.readouterr().out
    notes = apt.report(path).as_dict()["datasets"][0]["notes"]  # type: ignore[index]
    assert [note["text"] in shown for note in notes] == [note["warning"] for note in notes]
    assert any(note["warning"] for note in notes)
    assert cli.main(["report", "--json", str(path), str(path), "-o", str(output)]) == 0
    assert json.loads(capsys.readouterr().out)["n_shared"] == N + 3
    assert cli.main(["report", str(tmp_path / "absent.atp"), "-o", str(output)]) == 1


def test_notebooks_show_a_frame(path: Path) -> None:
    shown = apt.report(path)._repr_html_()
    page = Reader(shown)
    assert page.seen == {"iframe"}
    assert ("srcdoc", apt.report(path).html) in page.attributes


def test_progress_counts_every_structure(path: Path) -> None:
    done: list[int] = []
    apt.report(path, path, progress=done.append)
    assert sum(done) == 2 * (N + 3)


def test_thinned_rows_are_evenly_spaced() -> None:
    rows = ThinnedRows(100)
    for first in range(0, 5000, 70):
        numbers = np.arange(first, min(first + 70, 5000))
        rows.add(numbers, {"square": numbers**2})
    kept = rows.rows()
    assert 50 <= len(kept["number"]) <= 100
    assert (np.diff(kept["number"]) == rows.stride).all()
    assert (kept["square"] == kept["number"] ** 2).all()


def test_a_sample_of_hashes_keeps_copies_together() -> None:
    hashes = np.random.default_rng(0).integers(0, 2**63, 1000).astype(np.uint64)
    sample = HashSample(300)
    for first in (0, 1000):
        for i in range(0, 1000, 50):
            sample.add(np.arange(first + i, first + i + 50), hashes[i : i + 50])
    kept, numbers = sample.sorted()
    assert sample.share > 1
    assert len(kept) <= 300
    assert (kept[::2] == kept[1::2]).all()
    assert (numbers[1::2] - numbers[::2] == 1000).all()


def test_extremes_are_the_largest_of_all() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    values[10] = np.nan
    extremes = Extremes(7)
    for i in range(0, 1000, 90):
        part = values[i : i + 90]
        extremes.add(part, np.arange(i, i + len(part)), str)
    expected = np.argsort(-np.nan_to_num(values, nan=-np.inf))[:7]
    assert [number for _, number, _ in extremes.rows()] == expected.tolist()


def test_absurd_values_have_a_page(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for energy in (1e308, -1e308, np.inf, np.nan, 0.0, 1e-300):
            writer.write(
                apt.Molecule(
                    np.random.default_rng(0).uniform(size=(2, 3)) * 1e3,
                    [1, 200],
                    energy=energy,
                    forces=[[1e38, 0, 0], [np.inf, 0, 0]],
                    cell=np.eye(3) * 1e30,
                    pbc=[True] * 3,
                    properties={"big": np.array([1e308, -1e308])},
                )
            )
        writer.write(apt.Molecule(np.zeros((0, 3)), np.zeros(0, int)))
    made = apt.report(tmp_path / "a.atp")
    json.dumps(made.as_dict(), allow_nan=False)
    assert "Z200" in Reader(made.html).text


def test_impossible_atomic_numbers_are_refused(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "shards", 20, 5) as shards:
        for number in (1, 8, 256):
            numbers = np.array([1, number])
            shards.write({"positions": np.zeros((2, 3)), "atomic_numbers": numbers})
    with pytest.raises(apt.FieldError, match=r"got 256 \(molecule 2"):
        apt.report(tmp_path / "shards")


def test_files_of_all_formats_have_a_page_or_a_named_error(fixtures: Path) -> None:
    root = fixtures.parent
    patterns = ("*.atp", "*.h5", "*.xyz", "*.aselmdb")
    paths = [path for pattern in patterns for path in sorted(root.rglob(pattern))]
    n_pages = 0
    for path in paths:
        try:
            page = apt.report(path)
        except (apt.AtompackError, OSError):
            continue
        n_pages += 1
        Reader(page.html)
        json.dumps(page.as_dict(), allow_nan=False)
    assert n_pages > 50


def grouped(path: Path) -> list[apt.Molecule]:
    """Molecules of two groups and none, with predictions, and two isolated atoms."""
    rng = np.random.default_rng(3)
    made = []
    for i in range(40):
        n = 1 if i in (7, 8) else int(rng.integers(2, 6))
        forces = rng.normal(size=(n, 3))
        properties: dict[str, Any] = {"config_type": ("bulk", "<b>surface", None)[i % 3]}
        if i != 5:
            properties["mace_energy"] = 2.0 * n + 0.1 * i
        made.append(
            apt.Molecule(
                rng.uniform(0, 5, (n, 3)),
                rng.choice([6, 8], n),
                energy=2.0 * n,
                forces=forces,
                cell=np.eye(3) * 6 if i % 2 else None,
                pbc=[True] * 3 if i == 7 else None,
                properties={key: value for key, value in properties.items() if value is not None},
                atom_properties={"mace_forces": forces + 0.5 * (i % 3)},
            )
        )
    with apt.AtpWriter(path) as writer:
        writer.write(made)
    return made


def test_groups_and_errors(tmp_path: Path) -> None:
    made = grouped(tmp_path / "a.atp")
    predicted = {"mace_energy": "energy", "mace_forces": "forces"}
    report = apt.report(tmp_path / "a.atp", predicted=predicted)
    found: Any = report.as_dict()["datasets"][0]  # type: ignore[index]
    assert found["groups"].keys() == {"bulk", "<b>surface", "(no value)"}
    for start, name in enumerate(("bulk", "<b>surface", "(no value)")):
        members, group = made[start::3], found["groups"][name]
        assert group["n_structures"] == len(members)
        assert group["n_atoms"] == sum(len(m.positions) for m in members)
        assert group["energy_per_atom"] == pytest.approx(2.0)
        norms = np.concatenate([np.linalg.norm(m.forces, axis=1) for m in members])
        assert group["longest_force"] == pytest.approx(norms.max())
        assert group["force_rms"] == pytest.approx(np.sqrt((norms**2).mean()))
        volumes = [216 / len(m.positions) for m in members if m.cell is not None]
        assert group["volume_per_atom"] == pytest.approx(np.mean(volumes))
        errors = group["errors"]["mace_energy"]
        wanted = [0.1 * i / len(made[i].positions) for i in range(start, 40, 3) if i != 5]
        assert errors["n"] == len(wanted)
        assert errors["mae"] == pytest.approx(np.mean(wanted))
        assert errors["largest"] == pytest.approx(max(wanted))
        assert group["errors"]["mace_forces"]["rmse"] == pytest.approx(0.5 * start)
    for symbol, z in (("C", 6), ("O", 8)):
        shifts = [0.5 * (i % 3) for i in range(40) for _ in range(int((made[i].z == z).sum()))]
        found_errors = found["errors_by_element"]["mace_forces"][symbol]
        assert found_errors["n"] == 3 * len(shifts)
        assert found_errors["mae"] == pytest.approx(np.mean(shifts))
    assert [atom["structure"] for atom in found["isolated"]] == [8]  # 7 is periodic
    assert found["isolated"][0]["energy"] == 2.0
    for text in ("Groups", "&lt;b&gt;surface", "Errors of", "mace_forces", "Isolated atoms (1)"):
        assert text in report.html
    assert "<b>surface" not in report.html


def test_groups_by_another_property(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.atp"
    grouped(path)
    for option in ({"by": "head"}, {"predicted": {"energy": "wrong"}}):
        with pytest.raises(apt.FieldError, match=r"no molecule has '(head|wrong)'"):
            apt.report(path, **option)  # type: ignore[arg-type]
    with pytest.raises(apt.FieldError, match="by: expected text or integers"):
        apt.report(path, by="mace_energy")
    with pytest.raises(apt.FieldError, match="predicted: expected the shape of 'forces'"):
        apt.report(path, predicted={"energy": "forces"})
    page = str(tmp_path / "r.html")
    options = ["--by", "config_type", "--predicted", "mace_energy=energy", "--json", "-o", page]
    assert cli.main(["report", str(path), *options]) == 0
    (found,) = json.loads(capsys.readouterr().out)["datasets"]
    assert found["by"] == "config_type"
    assert found["groups"]["bulk"]["errors"].keys() == {"mace_energy"}
