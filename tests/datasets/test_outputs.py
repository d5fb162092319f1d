"""Outputs for trainers: every kind against a slow reference, made with a batch and from one."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import numpy as np
import pytest
import torch
from ase.build import bulk, molecule
from ase.geometry import wrap_positions
from torch import Tensor
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.trainers._layout import Layout, open_dataset, selected_schema
from atompack_torch.trainers._samplers import epoch_loader

CUTOFF = 3.5
F32, F64, I64 = torch.float32, torch.float64, torch.int64
Z_TABLE = (1, 6, 8, 13, 29)
COLUMNS = by_atomic_number({z: column for column, z in enumerate(Z_TABLE)}, -1)
REFERENCES = by_atomic_number({z: -0.3 * z for z in Z_TABLE}, math.nan)
ORDER = (0, 4, 8, 1, 5, 2)


def structures() -> list[ase.Atoms]:
    """Crystals with atoms outside of the cell, slabs, chains and molecules."""
    rng = np.random.default_rng(1)
    made = []
    for number in range(14):
        if number % 3 == 2:
            atoms = molecule(("H2O", "CH3OH", "CO2")[number % 2])
        else:
            atoms = bulk("Al", "fcc", 4.05, cubic=number % 2 == 0) * (1 + number % 2, 1, 1)
            atoms.numbers[0] = 29
            atoms.set_cell(atoms.cell[:] + rng.normal(0, 0.2, (3, 3)), scale_atoms=True)
            atoms.positions += rng.integers(-2, 3, (len(atoms), 3)) @ atoms.cell[:]
            atoms.pbc = ((True, True, True), (True, True, False), (False, True, False))[number % 3]
        atoms.rattle(0.1, rng=rng)
        made.append(atoms)
    return made


def has_stress(number: int) -> bool:
    return number % 4 != 1


def write(path: Path, dtype: type = np.float64) -> Path:
    rng = np.random.default_rng(2)
    with apt.AtpWriter(path) as writer:
        for number, atoms in enumerate(structures()):
            fields: dict[str, Any] = {"energy": float(rng.normal())}
            if number % 3:
                fields["forces"] = rng.normal(size=(len(atoms), 3)).astype(dtype)
            if has_stress(number):
                fields["stress"] = rng.normal(size=(3, 3))
            if atoms.cell.rank:
                fields |= {"cell": atoms.cell[:], "pbc": atoms.pbc}
            made = apt.Molecule(atoms.positions.astype(dtype), atoms.numbers, **fields)
            if number % 2:
                made.set_property("charge", float(number - 5))
            writer.write(made)
    return path


class Plain(Layout):
    """Any outputs; the object of the trainer is the dict of them."""

    def __init__(self, *outputs: Output, fields: tuple[str, ...] = ()) -> None:
        self._outputs, self._fields = outputs, fields

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self._outputs

    @property
    def neighbors(self) -> apt.NeighborList | None:
        return apt.NeighborList(CUTOFF)

    @property
    def fields(self) -> tuple[str, ...]:
        return self._fields

    def assemble(self, batch: apt.MoleculeBatch, made: dict[str, Tensor]) -> dict[str, Tensor]:
        return made | {"index": batch.index}


class Watching(Plain):
    """Also keeps the batches that the outputs came with."""

    def __init__(self, seen: list[apt.MoleculeBatch], *outputs: Output) -> None:
        super().__init__(*outputs)
        self._seen = seen

    def assemble(self, batch: apt.MoleculeBatch, made: dict[str, Tensor]) -> dict[str, Tensor]:
        self._seen.append(batch)
        return made


def rows(batch: apt.MoleculeBatch, name: str) -> list[Tensor]:
    """The field of each molecule, or NaN."""
    return [batch[i][name] if batch.mask(name)[i] else None for i in range(len(batch))]


def cells(batch: apt.MoleculeBatch) -> Tensor:
    return batch.cell[batch.batch[batch.edge_index[0]]]


def offsets(batch: apt.MoleculeBatch) -> Tensor:
    return torch.einsum("ei,eij->ej", batch.edge_shift.double(), cells(batch))


def vectors(batch: apt.MoleculeBatch) -> Tensor:
    i, j = batch.edge_index
    return batch.positions[j].double() - batch.positions[i].double() + offsets(batch)


def one_hot(batch: apt.MoleculeBatch) -> Tensor:
    columns = [Z_TABLE.index(z) for z in batch.atomic_numbers.tolist()]
    return torch.nn.functional.one_hot(torch.tensor(columns), len(Z_TABLE))


def filled(name: str, fill: float) -> Callable[[apt.MoleculeBatch], Tensor]:
    def make(batch: apt.MoleculeBatch) -> Tensor:
        made = batch[name].clone()
        mask = batch.mask(name)
        made[~(mask[batch.batch] if batch.level(name) == "atom" else mask)] = fill
        return made

    return make


def referenced(batch: apt.MoleculeBatch) -> Tensor:
    sums = [
        sum(REFERENCES[z] for z in batch.atomic_numbers[batch.batch == i].tolist())
        for i in range(len(batch))
    ]
    return 0.5 * (batch.energy - torch.tensor(sums, dtype=F64))


def wrapped(batch: apt.MoleculeBatch) -> Tensor:
    made = [
        wrap_positions(
            batch.positions[batch.batch == i].double().numpy(),
            batch.cell[i].numpy(),
            batch.pbc[i].numpy(),
        )
        if batch.pbc[i].any()
        else batch.positions[batch.batch == i].double().numpy()
        for i in range(len(batch))
    ]
    return torch.from_numpy(np.concatenate(made))


def long_cell(batch: apt.MoleculeBatch) -> Tensor:
    made = []
    for i in range(len(batch)):
        cell = batch.cell[i].numpy().copy()
        if not cell.any():
            cell = np.identity(3)
        farthest = np.abs(batch.positions[batch.batch == i].double().numpy()).max() + 1
        for direction in range(3):
            if not batch.pbc[i][direction]:
                cell[direction] = farthest * 5 * CUTOFF * np.identity(3)[direction]
        made.append(cell)
    return torch.from_numpy(np.stack(made))


def reciprocal(cell: Tensor) -> Tensor:
    made = torch.zeros_like(cell)
    for i, one in enumerate(cell):
        if torch.det(one) != 0:
            made[i] = 2 * math.pi * torch.linalg.inv(one).T
    return made


def lattice(batch: apt.MoleculeBatch) -> Tensor:
    made = []
    for cell, long, pbc in zip(batch.cell, long_cell(batch), batch.pbc, strict=True):
        periodic = long if torch.det(cell) == 0 else cell
        made.append(periodic if pbc.any() else torch.eye(3, dtype=F64))
    return torch.stack(made)


CASES: dict[str, tuple[Output, Callable[[apt.MoleculeBatch], Tensor]]] = {
    "positions": (Output("x", "value", F32, "positions"), lambda b: b.positions),
    "atomic numbers": (
        Output("x", "value", torch.int32, "atomic_numbers"),
        lambda b: b.atomic_numbers,
    ),
    "energy": (Output("x", "value", F64, "energy"), lambda b: b.energy),
    "energy without references": (
        Output("x", "value", F64, "energy", scale=0.5, references=REFERENCES),
        referenced,
    ),
    "forces, 0": (Output("x", "value", F32, "forces", fill=0.0), filled("forces", 0.0)),
    "forces, NaN": (Output("x", "value", F64, "forces"), lambda b: b.forces),
    "stress, factor": (
        Output("x", "value", F64, "stress", fill=7.0, scale=-2.0),
        lambda b: filled("stress", -3.5)(b) * -2.0,
    ),
    "pbc": (Output("x", "value", torch.bool, "pbc"), lambda b: b.pbc),
    "pbc as numbers": (Output("x", "value", F32, "pbc"), lambda b: b.pbc),
    "charge": (Output("x", "value", I64, "charge"), filled("charge", 0.0)),
    "charge by its scope": (
        Output("x", "value", F32, "properties/charge", fill=0.0),
        filled("charge", 0.0),
    ),
    "charge, 9": (Output("x", "value", F64, "charge", fill=9.0), filled("charge", 9.0)),
    "velocities of none": (
        Output("x", "value", F32, "velocities", fill=0.0),
        lambda b: torch.zeros(len(b.positions), 3),
    ),
    "weight": (
        Output("x", "weight", F32, "stress", scale=2.5),
        lambda b: 2.5 * b.mask("stress"),
    ),
    "weight of none": (Output("x", "weight", F64, "velocities"), lambda b: torch.zeros(len(b))),
    "voigt": (
        Output("x", "voigt", F32, "stress", order=ORDER),
        lambda b: b.stress.reshape(-1, 9)[:, list(ORDER)],
    ),
    "one hot": (Output("x", "one_hot", F32, columns=COLUMNS), one_hot),
    "one hot, integers": (Output("x", "one_hot", I64, columns=COLUMNS), one_hot),
    "element": (Output("x", "element_index", I64, columns=COLUMNS), lambda b: one_hot(b).argmax(1)),
    "shift": (Output("x", "edge_shift", torch.int32), lambda b: b.edge_shift),
    "shift, float": (Output("x", "edge_shift", F64), lambda b: b.edge_shift),
    "offset": (Output("x", "edge_offset", F64), offsets),
    "vector": (Output("x", "edge_vector", F32), vectors),
    "reversed": (Output("x", "edge_reversed", I64), lambda b: b.edge_index.flip(0)),
    "pairs": (Output("x", "edge_pairs", I64), lambda b: b.edge_index.T),
    "pairs, narrow": (Output("x", "edge_pairs", torch.int32), lambda b: b.edge_index.T),
    "count": (
        Output("x", "edge_count", I64),
        lambda b: torch.bincount(b.batch[b.edge_index[0]], minlength=len(b)),
    ),
    "wrapped": (Output("x", "wrapped_positions", F64), wrapped),
    "constant": (
        Output("x", "constant", F32, fill=2.5, shape=(3, 2)),
        lambda b: torch.full((len(b), 3, 2), 2.5),
    ),
    "constant, 0": (
        Output("x", "constant", I64, fill=0.0, level="atom"),
        lambda b: torch.zeros(len(b.positions)),
    ),
    "cell": (Output("x", "cell", F32), lambda b: b.cell),
    "long cell": (Output("x", "cell", F64, cutoff=CUTOFF), long_cell),
    "reciprocal": (Output("x", "reciprocal_cell", F64), lambda b: reciprocal(b.cell)),
    "reciprocal, long": (
        Output("x", "reciprocal_cell", F64, cutoff=CUTOFF),
        lambda b: reciprocal(long_cell(b)),
    ),
    "lattice": (Output("x", "lattice", F64, cutoff=CUTOFF), lattice),
    "fractional": (
        Output("x", "fractional_positions", F64, cutoff=CUTOFF),
        lambda b: torch.einsum(
            "ai,aij->aj", b.positions.double(), torch.linalg.inv(lattice(b))[b.batch]
        ),
    ),
    "volume": (Output("x", "volume", F64), lambda b: torch.det(b.cell)),
    "volume, long": (
        Output("x", "volume", F64, cutoff=CUTOFF),
        lambda b: torch.det(long_cell(b)),
    ),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("outputs") / "data.atp")


@pytest.fixture(scope="module")
def whole(path: Path) -> apt.MoleculeBatch:
    """Everything as stored, with edges."""
    return apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))[:]


def assert_same(made: Tensor, output: Output, expected: Tensor) -> None:
    assert made.dtype == output.dtype
    expected = expected.to(torch.float64).to(output.dtype)
    torch.testing.assert_close(made, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("case", CASES)
def test_with_and_from_a_batch(path: Path, whole: apt.MoleculeBatch, case: str) -> None:
    output, reference = CASES[case]
    for made in (Plain(output).dataset(apt.AtpDataset(path))[:], Plain(output).batch(whole)):
        assert set(made) == {"x", "index"}
        assert_same(made["x"], output, reference(whole))


@pytest.mark.parametrize("num_threads", [1, 2])
def test_many_molecules_on_threads(path: Path, num_threads: int) -> None:
    layout = Plain(*(o._replace(name=name) for name, (o, _) in CASES.items()))
    numbers = list(range(14)) * 40
    plain = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))
    made = layout.dataset(apt.AtpDataset(path, num_threads=num_threads)).batch(numbers)
    expected = layout.batch(plain.batch(numbers))
    assert made.keys() == expected.keys()
    for name, tensor in made.items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0, equal_nan=True)


def test_what_equals_a_field_is_written_once(path: Path) -> None:
    """Only the first output of a field, so that a change in place does not show in another."""
    of_fields = {
        "x": Output("x", "value", F64, "positions"),
        "z": Output("z", "value", I64, "atomic_numbers"),
        "f": Output("f", "value", F64, "forces"),
        "cell": Output("cell", "cell", F64),
        "s": Output("s", "edge_shift", F64),
        "reversed": Output("reversed", "edge_reversed", I64),
    }
    again = [output._replace(name=f"{name} again") for name, output in of_fields.items()]
    stored = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))
    for missing in ("nan", "drop"):  # the plan follows from the schema, or from a survey
        seen: list[apt.MoleculeBatch] = []
        layout = Watching(seen, *of_fields.values(), *again)
        data = apt.AtpDataset(path, missing=missing)
        numbers = [i for i in range(14) if i % 3]  # those with forces
        made = layout.dataset(data).batch(numbers)
        expected = Plain(*of_fields.values(), *again).batch(stored.batch(numbers))
        batch = seen[0]
        fields = {"x": batch.positions, "z": batch.atomic_numbers, "f": batch.forces}
        fields |= {"cell": batch.cell, "s": batch.edge_shift}
        for name, field in fields.items():
            assert made[name].data_ptr() == field.data_ptr(), name
        assert made["reversed"].data_ptr() == batch.edge_index[1].data_ptr()
        for name in of_fields:
            first, second = made[name], made[f"{name} again"]
            torch.testing.assert_close(first, expected[name], rtol=0, atol=0)
            torch.testing.assert_close(second, expected[name], rtol=0, atol=0)
            first.zero_()
            torch.testing.assert_close(second, expected[name], rtol=0, atol=0)


def test_what_differs_from_a_field_is_not_shared(path: Path) -> None:
    for output in (
        Output("x", "value", F32, "positions"),
        Output("x", "value", F64, "forces", fill=0.0),
        Output("x", "value", F64, "energy", scale=2.0),
        Output("x", "value", F64, "energy", references=REFERENCES),
        Output("x", "cell", F64, cutoff=CUTOFF),
    ):
        seen: list[apt.MoleculeBatch] = []
        made = Watching(seen, output).dataset(apt.AtpDataset(path))[:]
        held = [value for value in seen[0]._fields.values() if isinstance(value, Tensor)]
        places = [value.data_ptr() for value in held if value is not made["x"]]
        assert made["x"].data_ptr() not in places


def test_wrapped_shifts_keep_the_vectors(path: Path, whole: apt.MoleculeBatch) -> None:
    layout = Plain(Output("x", "wrapped_positions", F64), Output("s", "wrapped_shift", F64))
    for made in (layout.dataset(apt.AtpDataset(path))[:], layout.batch(whole)):
        i, j = whole.edge_index
        shifts = torch.einsum("ei,eij->ej", made["s"], cells(whole))
        found = made["x"][j] - made["x"][i] + shifts
        torch.testing.assert_close(found, vectors(whole), rtol=0, atol=1e-9)
        assert torch.equal(made["s"], made["s"].round())


def test_narrow_files_are_read_as_stored(tmp_path: Path) -> None:
    """Products are those of the stored float32 values in float64, whatever dtype is wanted."""
    path = write(tmp_path / "narrow.atp", np.float32)
    output = Output("x", "edge_vector", F64)
    expected = vectors(apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))[:])
    made = Plain(output).dataset(apt.AtpDataset(path, dtype=torch.float32))[:]["x"]
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-12)


def loaders(dataset: apt.AtpDataset) -> dict[str, Any]:
    return {
        "Loader": apt.Loader(dataset, 4, num_threads=2),
        "DataLoader": DataLoader(dataset, 4),
        "workers": DataLoader(dataset, 4, num_workers=2),
        "spawned": DataLoader(dataset, 4, num_workers=1, multiprocessing_context="spawn"),
    }


@pytest.mark.parametrize(
    "kind",
    ["Loader", "DataLoader", "workers", pytest.param("spawned", marks=pytest.mark.exhaustive)],
)
def test_through_loaders(path: Path, whole: apt.MoleculeBatch, kind: str) -> None:
    layout = Plain(*(CASES[name][0]._replace(name=name) for name in ("offset", "one hot")))
    dataset = layout.dataset(apt.AtpDataset(path))
    expected = [dataset[k : k + 4] for k in range(0, 14, 4)]
    for _ in range(2):
        made = list(loaders(dataset)[kind])
        assert len(made) == len(expected)
        for one, other in zip(made, expected, strict=True):
            assert one.keys() == other.keys()
            for name in one:
                assert torch.equal(one[name], other[name]), name


def test_every_data_set(path: Path, tmp_path: Path, whole: apt.MoleculeBatch) -> None:
    """Extended XYZ, subsets and mixtures as well, which `convert` made of the same molecules."""
    from atompack_torch.conversion import convert

    convert(path, tmp_path / "data.extxyz")
    layout = Plain(CASES["vector"][0])
    expected = layout.batch(whole)["x"]
    opened = open_dataset(tmp_path / "data.extxyz")
    torch.testing.assert_close(layout.dataset(opened)[:]["x"], expected, rtol=1e-6, atol=1e-6)
    subset = apt.AtpDataset(path).subset([3, 1])
    assert layout.dataset(subset)[:]["index"].tolist() == [3, 1]
    mixture = apt.MixtureDataset([apt.AtpDataset(path), subset])
    assert len(layout.dataset(mixture)[:4]["index"]) == 4


def test_the_transform_of_the_user_comes_first(path: Path) -> None:
    def double(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        batch.energy = 2 * batch.energy
        return batch

    layout = Plain(Output("energy", "value", F64, "energy"))
    plain = layout.dataset(apt.AtpDataset(path))[:]["energy"]
    doubled = layout.dataset(apt.AtpDataset(path, transform=double))[:]["energy"]
    assert torch.equal(doubled, 2 * plain)


def test_the_schema_is_that_of_batches(path: Path) -> None:
    """Without what options omit, and with what the transform of the user adds."""

    def add(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        batch.of_edges = torch.bincount(batch.edge_index[0], minlength=len(batch.positions))
        batch.relative = batch.energy / batch.n_atoms
        return batch

    whole = apt.AtpDataset(path)
    assert selected_schema(whole) == whole.schema
    for option in ({"fields": ["energy"]}, {"exclude": ["forces", "stress", "charge"]}):
        for transform in (None, add):
            dataset = apt.AtpDataset(path, transform=transform, missing="error", **option)
            schema = selected_schema(dataset)
            assert "energy" in schema
            assert schema.keys().isdisjoint({"forces", "stress", "charge"})
            assert ("relative" in schema) == (transform is not None)
    assert schema["relative"].level == "molecule"
    assert schema["relative"].dtype == F64
    assert "relative" not in selected_schema(dataset.subset([]))


def test_further_fields_stay_in_the_batch(path: Path) -> None:
    class Keeping(Plain):
        def assemble(self, batch: apt.MoleculeBatch, made: dict[str, Tensor]) -> Any:
            return batch.charge, batch.mask("charge")

    charge, mask = Keeping(fields=("charge",)).dataset(apt.AtpDataset(path))[:]
    assert mask.tolist() == [bool(i % 2) for i in range(14)]
    assert charge[1::2].tolist() == [float(i - 5) for i in range(1, 14, 2)]


def test_the_data_set_itself_is_unchanged(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    before = dataset[:].keys()
    Plain(CASES["vector"][0]).dataset(dataset)[:]
    assert dataset[:].keys() == before


def test_an_element_that_the_model_lacks(path: Path, whole: apt.MoleculeBatch) -> None:
    for kind in ("one_hot", "element_index"):
        layout = Plain(Output("x", kind, I64, columns=by_atomic_number({1: 0, 8: 1, 13: 2}, -1)))
        expected = r"expected elements of the model \(H, O, Al\), got Cu \(molecule 1, field"
        with pytest.raises(apt.FieldError, match=rf"{path.name}: {expected}"):
            layout.dataset(apt.AtpDataset(path)).batch([2, 1])
        with pytest.raises(apt.FieldError, match="got Cu"):
            layout.batch(whole)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (Output("x", "value", F64, "chrage"), "chrage"),
        (
            Output("x", "value", F64, "energy", references=by_atomic_number({13: -1.0}, math.nan)),
            "no reference energy of element 29",
        ),
        (
            Output("x", "value", I64, "energy"),
            "expected integers that int64 holds, got .*energy",
        ),
        (
            Output("x", "value", torch.uint8, "charge"),
            "expected integers that uint8 holds, got -4",
        ),
        (
            Output("x", "voigt", F64, "forces", order=ORDER),
            r"expected \(3, 3\) values of molecules.*forces",
        ),
    ],
    ids=["name", "reference", "fraction", "range", "shape"],
)
def test_outputs_that_cannot_be_made(
    path: Path, whole: apt.MoleculeBatch, output: Output, message: str
) -> None:
    layout = Plain(output)
    for make in (lambda: layout.dataset(apt.AtpDataset(path))[:], lambda: layout.batch(whole)):
        with pytest.raises(apt.FieldError, match=message):
            make()


def test_missing_labels_may_be_an_error_or_dropped(path: Path) -> None:
    layout = Plain(Output("x", "value", F64, "stress"))
    with pytest.raises(apt.FieldError, match="stress"):
        layout.dataset(apt.AtpDataset(path, missing="error"))[:]
    made = layout.dataset(apt.AtpDataset(path, missing="drop"))[:]
    assert made["index"].tolist() == [i for i in range(14) if has_stress(i)]
    assert not made["x"].isnan().any()


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_labels_left_out_are_not_missing(path: Path, missing: str) -> None:
    """Neither those that the user omits, nor those that no file has."""
    layout = Plain(
        Output("energy", "value", F64, "energy"),
        Output("stress", "value", F64, "stress"),
        Output("weight", "weight", F64, "stress"),
        Output("velocities", "value", F64, "velocities", fill=0.0),  # in no file
    )
    options: list[dict[str, Any]] = [{"fields": ["energy"]}, {"exclude": ["stress", "forces"]}]
    for option in options:
        made = layout.dataset(apt.AtpDataset(path, missing=missing, **option))[:]
        assert made["index"].tolist() == list(range(14))
        assert made["stress"].shape == (14, 3, 3)
        assert made["stress"].isnan().all()
        assert not made["weight"].any()
        assert not made["velocities"].any()
        assert not made["energy"].isnan().any()


def test_loaders_from_memory(path: Path) -> None:
    layout = Plain(*(output._replace(name=name) for name, (output, _) in CASES.items()))
    plain, resident = (
        epoch_loader(apt.AtpDataset(path), layout, batch_size=4, seed=3, resident=is_resident)
        for is_resident in (False, True)
    )
    assert isinstance(resident.dataset, apt.ResidentDataset)
    for _ in range(2):
        for expected, made in zip(plain, resident, strict=True):
            assert made.keys() == expected.keys()
            for name, tensor in made.items():
                torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0, equal_nan=True)


def test_a_batch_without_edges(path: Path) -> None:
    with pytest.raises(apt.FieldError, match=r"neighbors=NeighborList\(3.5\)"):
        Plain(CASES["vector"][0]).batch(apt.AtpDataset(path)[:])


@pytest.mark.parametrize(
    "edges", [[[0, 1], [1, 99]], [[1, 0], [0, 1]], [[-1, 0], [0, 1]], [[0, 40], [1, 2]]]
)
def test_edges_that_do_not_belong_to_the_batch(path: Path, edges: list[list[int]]) -> None:
    batch = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))[:]
    batch._fields["edge_index"] = torch.tensor(edges)
    batch._fields["edge_shift"] = torch.zeros(2, 3, dtype=F64)
    with pytest.raises(apt.FieldError, match="edge_index"):
        Plain(CASES["vector"][0]).batch(batch)


def test_a_singular_cell(tmp_path: Path) -> None:
    cell = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 0.0, 1.0]])
    batch = apt.collate([apt.Molecule(np.zeros((1, 3)), [1], cell=cell, pbc=[True] * 3)])
    batch._fields["edge_index"] = torch.zeros((2, 0), dtype=I64)
    batch._fields["edge_shift"] = torch.zeros((0, 3), dtype=F64)
    for kind in ("wrapped_positions", "fractional_positions"):
        with pytest.raises(apt.FieldError, match="the cell is singular"):
            Plain(Output("x", kind, F64)).batch(batch)
    assert Plain(Output("x", "reciprocal_cell", F64)).batch(batch)["x"].eq(0).all()


def test_only_data_sets_of_molecules_are_opened(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    assert open_dataset(dataset) is dataset
    assert len(open_dataset([path, path])) == 28
    with pytest.raises(TypeError, match="expected a dataset or a path, got int"):
        open_dataset(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a path to open"):
        open_dataset(dataset, missing="drop")
