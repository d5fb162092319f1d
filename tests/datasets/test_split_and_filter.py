"""`split(by=)` and `filter` of every dataset of molecules, compared with slow references."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_every_dataset import OPEN, WRITE

import atompack_torch as apt
from atompack_torch.datasets.selection import blocks as _blocks
from atompack_torch.datasets.selection.blocks import deal, sizes_of
from atompack_torch.datasets.selection.expressions import Expression

MOLECULES = ["AtpDataset", "AseLmdbDataset", "ExtxyzDataset", "ShardDataset", "MixtureDataset"]
SYMBOLS = {1: "H", 6: "C", 8: "O", 26: "Fe"}


def molecules(n: int, seed: int = 0) -> list[apt.Molecule]:
    """Molecules of all kinds, a third of them without forces, some without a trajectory."""
    draw = np.random.default_rng(seed)
    found = []
    for i in range(n):
        n_atoms = int(draw.integers(1, 9))
        energy = math.nan if i % 13 == 5 else float(draw.normal() * n_atoms)
        found.append(
            apt.Molecule(
                torch.from_numpy(draw.normal(size=(n_atoms, 3))),
                torch.from_numpy(draw.choice([1, 6, 8, 26], n_atoms)),
                energy=None if i % 11 == 3 else energy,
                forces=torch.from_numpy(draw.normal(size=(n_atoms, 3))) if i % 3 else None,
                cell=torch.eye(3) * (i % 5 + 1) if i % 2 else None,
                name=f"mol é {i % 7}" if i % 4 else None,
                properties={
                    "step": int(draw.integers(0, 50)),
                    "trajectory": f"run {i % 9}",
                    "odd key!": float(i),
                    "moment": draw.normal(size=3),
                    "Å": float(i % 3),
                },
                atom_properties={"charges_of_mine": draw.normal(size=n_atoms)},
            )
        )
    return found


@pytest.fixture
def dataset(tmp_path: Path) -> apt.AtpDataset:
    with apt.AtpWriter(tmp_path / "all.atp") as writer:
        writer.write(molecules(200))
    return apt.AtpDataset(tmp_path / "all.atp")


def value(molecule: apt.Molecule, key: str) -> float:
    found = molecule[key] if key in molecule.keys() else None
    return math.nan if found is None else float(found)


def max_force(molecule: apt.Molecule) -> float:
    forces = molecule.forces
    return math.nan if forces is None else float(forces.norm(dim=1).max())


def symbols(molecule: apt.Molecule) -> list[str]:
    return [SYMBOLS[int(z)] for z in molecule.atomic_numbers]


REFERENCES: dict[str, Callable[[apt.Molecule], bool]] = {
    "energy / n_atoms < -0.3": lambda m: value(m, "energy") / len(m) < -0.3,
    "not energy / n_atoms < -0.3": lambda m: not value(m, "energy") / len(m) < -0.3,
    "n_atoms <= 4": lambda m: len(m) <= 4,
    "2 < n_atoms <= 4": lambda m: 2 < len(m) <= 4,
    "'Fe' in elements": lambda m: "Fe" in symbols(m),
    "26 not in elements": lambda m: "Fe" not in symbols(m),
    "elements <= {'C', 'H'}": lambda m: {*symbols(m)} <= {"C", "H"},
    "{'C', 'H'} <= elements": lambda m: {*symbols(m)} >= {"C", "H"},
    "elements == ('O',)": lambda m: {*symbols(m)} == {"O"},
    "count('C') >= 2 and n_elements > 1": lambda m: (
        symbols(m).count("C") >= 2 and len({*symbols(m)}) > 1
    ),
    "formula == 'CH'": lambda m: sorted(symbols(m)) == ["C", "H"],
    "max_force < 2": lambda m: max_force(m) < 2,
    "max(norm(forces)) < 2": lambda m: max_force(m) < 2,
    "rms_force > 1": lambda m: m.forces is not None and float(m.forces.square().mean().sqrt()) > 1,
    "any(abs(charges_of_mine) > 2)": lambda m: bool((m["charges_of_mine"].abs() > 2).any()),
    "all(charges_of_mine > -1)": lambda m: bool((m["charges_of_mine"] > -1).all()),
    "mean(charges_of_mine) > sum(charges_of_mine) / 4": lambda m: bool(
        m["charges_of_mine"].mean() > m["charges_of_mine"].sum() / 4
    ),
    "min(moment) > -0.5": lambda m: float(m["moment"].min()) > -0.5,
    "has(energy)": lambda m: m.energy is not None,
    "not has(forces)": lambda m: m.forces is None,
    "has(velocities)": lambda m: False,
    "isnan(energy)": lambda m: m.energy is not None and math.isnan(m.energy),
    "energy != energy": lambda m: False,
    "name == 'mol é 3'": lambda m: m.name == "mol é 3",
    "name != 'mol é 3'": lambda m: m.name is not None and m.name != "mol é 3",
    "'é 2' in name or endswith(name, '1')": lambda m: (
        m.name is not None and ("é 2" in m.name or m.name.endswith("1"))
    ),
    "trajectory in ('run 1', 'run 3')": lambda m: m["trajectory"] in ("run 1", "run 3"),
    "step in {1, 2, 3}": lambda m: int(m["step"]) in (1, 2, 3),
    "step % 2 == 0 and step // 10 == 1": lambda m: int(m["step"]) in range(10, 20, 2),
    "field('odd key!') ** 2 > 100": lambda m: float(m["odd key!"]) ** 2 > 100,
    "Å == 1": lambda m: float(m["Å"]) == 1,
    "volume > 20": lambda m: m.cell is not None and float(m.cell.det()) > 20,
    "periodic": lambda m: m.pbc is not None and bool(m.pbc.any()),
    "-energy > +0.5": lambda m: -value(m, "energy") > 0.5,
    "max_force * n_atoms < energy or step < 10": lambda m: (
        max_force(m) * len(m) < value(m, "energy") or int(m["step"]) < 10
    ),
    "True": lambda m: True,
}


@pytest.mark.parametrize("expression", REFERENCES)
def test_filter_equals_a_slow_reference(
    dataset: apt.AtpDataset, expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_blocks, "_BLOCK_MOLECULES", 17)  # several blocks
    keep = [i for i in range(len(dataset)) if REFERENCES[expression](dataset[i])]
    found = dataset.filter(expression)
    assert found[:].index.tolist() == keep if keep else len(found) == 0


@pytest.mark.parametrize("kind", MOLECULES)
def test_filter_of_every_data_set(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    suffix = {"ExtxyzDataset": ".xyz", "AseLmdbDataset": ".aselmdb"}.get(kind, "")
    path = path.with_suffix(suffix)
    WRITE[kind](path, 4)
    dataset = OPEN[kind](path)
    found = dataset.filter("energy >= 1 and 'O' in elements")
    assert sorted(found.batch(range(3)).energy.tolist()) == [1, 2, 3]
    assert len(dataset.filter("has(forces)")) == 2
    assert len(dataset.filter("max_force < 1")) == 1
    for by, fractions, sizes in (("formula", [1, 0], [4, 0]), ("energy", [0.5, 0.5], [2, 2])):
        parts = dataset.split(fractions, 0, by=by)
        assert [len(part) for part in parts] == sizes


def test_shards_whose_first_example_lacks_a_label(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "s", 8, 4) as writer:
        for i in range(6):
            example = {"positions": np.zeros((1, 3)), "atomic_numbers": np.array([1])}
            writer.write({**example, "energy": 1.0 * i} if i else example)
    dataset = apt.ShardDataset(tmp_path / "s")
    assert len(dataset.filter("energy > 2")) == 3
    assert len(dataset.filter("has(energy)")) == 5
    with pytest.raises(apt.FieldError, match="unknown name 'enrgy'"):
        dataset.filter("enrgy > 2")
    with pytest.raises(apt.FieldError, match=r"got none.*molecule 0"):
        dataset.split([0.5, 0.5], 0, by="energy")


def test_shards_of_other_examples(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "s", 8, 4) as writer:
        writer.write({"x": 1.0})
    with pytest.raises(TypeError, match="expected examples of molecules, got dict"):
        apt.ShardDataset(tmp_path / "s").filter("x > 0")


def test_filter_of_a_feature_cache(fixtures: Path) -> None:
    dataset = apt.TorchCacheDataset(fixtures.parent / "torch_cache" / "legacy_v1_f64_two.h5")
    energies = dataset[:].energy
    found = dataset.filter(f"energy > {float(energies.min())!r}")
    assert len(found) == int((energies > energies.min()).sum())
    parts = dataset.split([0.5, 0.5], 0, by="energy")
    assert sum(map(len, parts)) == len(dataset)


def test_filter_reads_what_batches_leave_out(dataset: apt.AtpDataset) -> None:
    """Values as stored, whatever the options of batches are; the options stay."""
    whole = dataset.filter("step < 10 and energy < 0")
    narrow = apt.AtpDataset(
        dataset.path,
        fields=["forces"],
        missing="drop",
        dtype=torch.float32,
        transform=lambda batch: batch.n_atoms,
        neighbors=apt.NeighborList(1.0),
    )
    found = narrow.filter("step < 10 and energy < 0")
    assert len(found) == len(whole)
    assert isinstance(found.batch([0, 1]), torch.Tensor)


def test_filter_in_a_subset(dataset: apt.AtpDataset) -> None:
    subset = dataset.subset([7, 3, 3, 100])
    found = subset.filter("index != 3")
    assert found[:].index.tolist() == [7, 100]
    assert len(found.filter("False")) == 0


def test_filter_by_atoms_reads_no_record(tmp_path: Path) -> None:
    path = tmp_path / "damaged.atp"
    with apt.AtpWriter(path) as writer:
        writer.write(molecules(20))
    data = bytearray(path.read_bytes())
    dataset = apt.AtpDataset(path)
    n_atoms = dataset.n_atoms
    dataset.close()
    data[9000:9100] = b"\xff" * 100
    path.write_bytes(data)
    dataset = apt.AtpDataset(path)
    assert len(dataset.filter("n_atoms > 3")) == int((n_atoms > 3).sum())
    with pytest.raises(apt.CorruptFileError):
        dataset.filter("energy > 0 or step > 3 or max_force > 0 or has(trajectory)")


def test_filter_reports_progress(dataset: apt.AtpDataset) -> None:
    done: list[int] = []
    dataset.filter("energy < 0", progress=done.append)
    assert sum(done) == len(dataset)


@pytest.mark.parametrize("kind", ["extxyz", "atp"])
def test_an_empty_data_set(kind: str, tmp_path: Path) -> None:
    if kind == "atp":
        apt.AtpWriter(tmp_path / "empty.atp").close()
        dataset: Any = apt.AtpDataset(tmp_path / "empty.atp")
    else:
        (tmp_path / "empty.xyz").write_text("")
        dataset = apt.ExtxyzDataset(tmp_path / "empty.xyz")
    assert len(dataset.filter("energy < 0")) == 0
    assert [len(part) for part in dataset.split([0.9, 0.1], 0, by="name")] == [0, 0]
    with pytest.raises(apt.FieldError, match="invalid syntax"):
        dataset.filter("energy <")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("enrgy < 3", r"unknown name 'enrgy': did you mean 'energy'\? \(column 1\)"),
        ("  n_atoms > 3 and enrgy < 3", r"\(column 19\)"),
        ("'é' in name and stepp > 1", r"'stepp': did you mean 'step'\? \(column 17\)"),
        ("velocities == 1", r"no molecule has the label 'velocities'"),
        ("has(enrgy)", "unknown name 'enrgy'"),
        ("field('odd key') > 1", "did you mean 'odd key!'"),
        ("energy <", r"invalid syntax \(column"),
        ("energy = 1", r"invalid syntax: write == \(column 8\)"),
        ("energy < 1 && n_atoms > 2", "invalid syntax: write and"),
        ("energy < 1 || n_atoms > 2", "invalid syntax: write or"),
        ("!has(energy)", "invalid syntax: write not"),
        ("zzz > 1", "unknown name 'zzz': expected one of .*energy"),
        ("", "column 1"),
        ("energy", "expected a condition, got a number"),
        ("name", "expected a condition, got a string"),
        ("energy and n_atoms > 1", r"and: expected a condition, got a number"),
        ("name > 3", "expected operands of one kind, got a string and a number"),
        ("step == 'a'", "expected operands of one kind, got a number and a string"),
        ("name + 1 > 3", r"expected numbers around \+, got a string"),
        ("'Xx' in elements", "expected the symbol of an element, got 'Xx'"),
        ("0 in elements", "expected an atomic number, got 0"),
        ("count('fe') > 1", "expected the symbol of an element, got 'fe'"),
        ("charges_of_mine > 0", r"any\(...\) or all\(...\)"),
        ("max(energy) > 1", "max: expected several numbers per molecule"),
        ("norm(energy) > 1", "norm: expected vectors"),
        ("charges_of_mine > moment", "same rows"),
        ("(energy < 0) & (n_atoms < 3)", "write and, or"),
        ("energy.__class__ == 1", "an attribute is not allowed"),
        ("forces[0] == 1", "an index is not allowed"),
        ("__import__('os').system('true')", "expected one of the functions .*, got an attribute"),
        ("open('/etc/passwd') == 1", "expected one of the functions"),
        ("(lambda: 1)() == 1", "expected one of the functions"),
        ("[x for x in elements] == 1", "ListComp is not allowed"),
        ("energy is None", "expected == or !=, got is"),
        ("max < 1", r"max is a function: write max\(...\)"),
        ("max(norm(forces), 1) < 1", "max: expected 1 argument"),
        ("has(forces[0])", "expected the name of a field"),
        ("1" * 5000 + " < 2", "expression"),
        ("1e999 in elements", "expected an atomic number, got inf"),
        ("-" * 200 + "1 < 2", "nested too deeply"),
        ("(" * 3000 + "1" + ")" * 3000, "nested|too many"),
        ("a" * 20000, "expected at most 10,000 characters"),
        ("energy < 1j", "this constant is not allowed"),
        ("energy < \0", "null"),
    ],
)
def test_wrong_expressions(dataset: apt.AtpDataset, expression: str, message: str) -> None:
    with pytest.raises(apt.FieldError, match=message) as error:
        dataset.filter(expression)
    assert type(error.value).__name__ == "ExpressionError"


def test_the_volume_is_a_number_without_cells_too(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(apt.Molecule(torch.zeros(1, 3), [1]))
    dataset = apt.AtpDataset(tmp_path / "a.atp")
    with pytest.raises(apt.FieldError, match="max: expected several numbers per molecule"):
        dataset.filter("max(volume) > 1")
    assert len(dataset.filter("not volume > 1")) == 1


def test_large_numbers_take_no_time(dataset: apt.AtpDataset) -> None:
    assert len(dataset.filter("9 ** 9 ** 9 ** 9 > n_atoms")) == len(dataset)
    assert len(dataset.filter(f"n_atoms < {10**300}")) == len(dataset)


def test_integers_are_compared_exactly(tmp_path: Path) -> None:
    path, large = tmp_path / "m.atp", 2**53
    ids = [large, large + 1, large + 2, -large, -large - 1, -(2**63), 3]
    with apt.AtpWriter(path) as writer:
        writer.write([apt.Molecule(np.zeros((1, 3)), [1], properties={"i": i}) for i in ids])
    dataset = apt.AtpDataset(path)
    for expression, expected in (
        (f"i == {large + 1}", [1]),
        (f"i == -{large + 1}", [4]),
        (f"i < -{large}", [4, 5]),
        (f"i in {{{large + 1}, -{large + 1}, 3.0, 2.5, {10**300}{10**99}, 1e999}}", [1, 4, 6]),
        (f"i not in [{large}, -{2**63}]", [1, 2, 3, 4, 6]),
    ):
        assert dataset.filter(expression).selection.tolist() == expected, expression


def test_no_expression(dataset: apt.AtpDataset) -> None:
    with pytest.raises(TypeError, match="expected str, got function"):
        dataset.filter(lambda molecule: True)  # type: ignore[arg-type]


def test_a_property_named_like_a_derived_value(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        writer.write(
            [
                apt.Molecule(
                    torch.zeros(1, 3), torch.tensor([1]), properties={"formula": f"mine {i}"}
                )
                for i in range(3)
            ]
        )
    dataset = apt.AtpDataset(tmp_path / "x.atp")
    assert len(dataset.filter("formula == 'H'")) == 3
    assert len(dataset.filter("field('formula') == 'mine 1'")) == 1
    assert len(dataset.filter("field('properties/formula') == 'mine 1'")) == 1
    with pytest.raises(ValueError, match=r"got none for 0\.5 of 1 groups"):
        dataset.split([0.5, 0.5], 0, by="formula")
    assert {len(p) for p in dataset.split([0.5, 0.5], 0, by="properties/formula")} == {1, 2}


def test_data_without_labels_is_refused(tmp_path: Path) -> None:
    WRITE["AtlasDataset"](tmp_path / "store", 4)
    dataset = OPEN["AtlasDataset"](tmp_path / "store")
    with pytest.raises(TypeError, match="expected a dataset of molecules, got AtlasDataset"):
        dataset.filter("n_atoms > 1")


# Splits


@pytest.mark.parametrize("by", ["trajectory", "step", "formula"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_groups_stay_together(dataset: apt.AtpDataset, by: str, seed: int) -> None:
    parts = dataset.split([0.8, 0.1, 0.1], seed, by=by)
    numbers = [part[:].index.tolist() for part in parts]
    assert sorted(itertools.chain(*numbers)) == list(range(len(dataset)))
    assert all(part == sorted(part) for part in numbers)

    keys = [
        str(sorted(symbols(molecule))) if by == "formula" else str(molecule[by])
        for molecule in dataset[:]
    ]
    groups = [{keys[i] for i in part} for part in numbers]
    assert not groups[0] & groups[1]
    assert not groups[0] & groups[2]
    assert not groups[1] & groups[2]
    largest = max(keys.count(key) for key in groups[0])
    for part, share in zip(parts, (0.8, 0.1, 0.1), strict=True):
        assert abs(len(part) - share * len(dataset)) <= largest
    again = dataset.split([0.8, 0.1, 0.1], seed, by=by)
    assert [part[:].index.tolist() for part in again] == numbers


def test_splits_depend_on_the_seed(dataset: apt.AtpDataset) -> None:
    tests = {tuple(dataset.split([0.8, 0.2], s, by="step")[1][:].index.tolist()) for s in range(5)}
    assert len(tests) > 1


def test_split_without_groups_is_as_before(dataset: apt.AtpDataset) -> None:
    order = torch.randperm(200, generator=torch.Generator().manual_seed(3))
    first, second = dataset.split([0.75, 0.25], 3)
    assert torch.equal(first[:].index, order[:150])
    assert torch.equal(second[:].index, order[150:])


@pytest.mark.parametrize("options", [{}, {"by": "step"}, {"stratify": "step"}])
def test_seeds_are_integers(dataset: apt.AtpDataset, options: Any, tmp_path: Path) -> None:
    def of_seed(seed: Any) -> list[int]:
        return dataset.split([0.5, 0.5], seed, **options)[0][:].index.tolist()  # type: ignore[no-any-return]

    assert of_seed(np.int64(3)) == of_seed(3) == of_seed(3 + (1 << 64))
    assert of_seed(-1) == of_seed((1 << 64) - 1) != of_seed(1)
    targets = [tmp_path / "a.atp", tmp_path / "b.atp"]
    for seed in (None, 1.0, "a", True):
        for split in (of_seed, lambda seed: apt.split(dataset.path, targets, [0.5, 0.5], seed)):
            with pytest.raises(TypeError, match=f"^seed: expected an int, got {seed!r}$"):
                split(seed)


def test_names_as_groups(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        for i in range(30):
            writer.write(apt.Molecule(torch.zeros(1, 3), torch.tensor([1]), name=f"é{i // 3}"))
    parts = apt.AtpDataset(tmp_path / "x.atp").split([0.5, 0.5], 7, by="name")
    assert [len(part) for part in parts] == [15, 15]
    assert not {*parts[0][:].name} & {*parts[1][:].name}


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("name", r"by: expected a value in every molecule, got none: filter\('has\(name\)'\)"),
        ("energy", r"got none.*\(molecule 3, field 'energy'\)"),
        ("trajektory", "unknown name 'trajektory': did you mean 'trajectory'"),
        ("charges_of_mine", "expected one value per molecule, got several"),
        ("moment", "expected one value per molecule, got several"),
    ],
)
def test_wrong_groups(dataset: apt.AtpDataset, by: str, message: str) -> None:
    with pytest.raises(apt.FieldError, match=message):
        dataset.split([0.5, 0.5], 0, by=by)


def test_a_label_that_no_molecule_has_is_not_suggested(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        writer.write(apt.Molecule(torch.zeros(1, 3), torch.tensor([1]), energy=1.0))
    with pytest.raises(apt.FieldError, match=r"has the label 'name': expected one of .*energy"):
        apt.AtpDataset(tmp_path / "x.atp").split([0.5, 0.5], 0, by="name")


def test_groups_of_another_type(dataset: apt.AtpDataset) -> None:
    with pytest.raises(TypeError, match="by: expected None or the name of a field, got int"):
        dataset.split([0.5, 0.5], 0, by=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("fractions", [[0.5, 0.6], [1.5, -0.5], [], [math.nan, 1.0]])
def test_wrong_fractions(dataset: apt.AtpDataset, fractions: list[float]) -> None:
    for by in (None, "step"):
        with pytest.raises(ValueError, match="fractions: expected positive numbers"):
            dataset.split(fractions, 0, by=by)


def test_a_group_larger_than_a_part(tmp_path: Path) -> None:
    """The large group goes to the part that can hold it, and the test set stays near its size."""
    groups = np.array([0] * 80 + [*range(1, 21)], np.uint64)
    for seed in range(5):
        parts = deal(groups, [0.9, 0.1], seed)
        assert [len(part) for part in parts] == [90, 10]
        assert 0 in parts[0]


@pytest.mark.parametrize(
    ("n", "fractions", "sizes"),
    [(2, [0.5, 0.5], [1, 1]), (3, [0, 0.5, 0.5], [0, 2, 1]), (0, [0.9, 0.1], [0, 0])],
)
def test_parts_are_empty_only_on_request(n: int, fractions: list[float], sizes: list[int]) -> None:
    assert sizes_of(n, fractions) == sizes
    assert [len(part) for part in deal(np.arange(n, dtype=np.uint64), fractions, 0)] == sizes


@pytest.mark.parametrize("fractions", [0.5, "80/20"])
def test_no_list_of_fractions(fractions: Any) -> None:
    with pytest.raises(TypeError, match="fractions: expected numbers that add up to 1, got"):
        sizes_of(4, fractions)


def test_a_part_without_items_is_refused(dataset: apt.AtpDataset) -> None:
    with pytest.raises(ValueError, match=r"got none for 0\.1 of 2 items: choose other fractions"):
        dataset.subset([0, 1]).split([0.9, 0.1], 0)
    with pytest.raises(ValueError, match=r"got none for 0\.4 of 1 groups, which stay together"):
        deal(np.zeros(10, np.uint64), [0.6, 0.4], 0)


def best_error(counts: list[int], wanted: list[int]) -> int:
    """Smallest deviation of all deals to two parts, by trying every one."""
    sums = {0}
    for count in counts:
        sums |= {s + count for s in sums}
    return min(2 * abs(s - wanted[0]) for s in sums)


def test_sizes_are_as_near_as_groups_permit() -> None:
    draw = np.random.default_rng(5)
    worse = 0
    for seed in range(60):
        counts = draw.integers(1, 12, size=int(draw.integers(2, 14))).tolist()
        groups = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
        fractions = [0.7, 0.3]
        parts = deal(groups, fractions, seed)
        wanted = sizes_of(len(groups), fractions)
        error = sum(abs(len(p) - w) for p, w in zip(parts, wanted, strict=True))
        worse += error > best_error(counts, wanted)
        assert error <= best_error(counts, wanted) + 2 * min(counts)
    assert worse <= 6


def test_every_group_may_get_into_the_test_set() -> None:
    """No bias: a group of half the size of the test set gets there as often as its share."""
    groups = np.array([0] * 5 + [*range(1, 96)], np.uint64)
    hits = sum(0 in deal(groups, [0.9, 0.1], seed)[1].tolist() for seed in range(400))
    assert 15 <= hits <= 70


def test_single_items_are_dealt_evenly() -> None:
    hits = np.zeros(20)
    for seed in range(400):
        hits[deal(np.arange(20, dtype=np.uint64), [0.75, 0.25], seed)[1].numpy()] += 1
    assert hits.sum() == 400 * 5
    assert hits.min() > 60
    assert hits.max() < 140


def test_many_groups_are_fast() -> None:
    groups = np.random.default_rng(0).integers(0, 300_000, 1_000_000).astype(np.uint64)
    parts = deal(groups, [0.8, 0.1, 0.1], 0)
    assert [len(part) for part in parts] == [800_000, 100_000, 100_000]


def test_one_group_for_equal_numbers_of_any_type(tmp_path: Path) -> None:
    text = "".join(f"1\nenergy={e} Properties=species:S:1:pos:R:3\nH 0 0 0\n" for e in "1212")
    (tmp_path / "x.xyz").write_text(text.replace("energy=1", "energy=1.0"))
    parts = apt.ExtxyzDataset(tmp_path / "x.xyz").split([0.5, 0.5], 0, by="energy")
    assert sorted(part[:].index.tolist() for part in parts) == [[0, 2], [1, 3]]


def test_the_expression_is_kept() -> None:
    assert Expression("n_atoms > 1").text == "n_atoms > 1"
    assert not Expression("n_atoms > 1").needs_structures
    assert Expression("'H' in elements").needs_structures
