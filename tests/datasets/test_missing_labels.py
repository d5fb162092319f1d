"""Labels that are not there: geometry, NaN that stands for nothing, names that no file has."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch import cli

NewPath = Callable[[], Path]
NAN = float("nan")
EDGES = apt.NeighborList(3.0, vectors=True)


def write(path: Path, molecules: Sequence[apt.Molecule], codec: Any = "none") -> Path:
    with apt.AtpWriter(path, codec=codec) as writer:
        for molecule in molecules:
            writer.write(molecule)
    return path


def molecule(n: int, **labels: Any) -> apt.Molecule:
    positions = np.arange(3.0 * n).reshape(n, 3)
    return apt.Molecule(positions, np.ones(n, int), **labels)


def open_and_periodic() -> list[apt.Molecule]:
    """Neither cell nor flags; both; flags alone; a cell alone."""
    cell = np.eye(3) * 4
    return [
        molecule(2, energy=1.0),
        molecule(3, energy=2.0, cell=cell, pbc=[True] * 3),
        molecule(1, energy=3.0, pbc=[False] * 3),
        molecule(2, energy=4.0, cell=cell * 2),
    ]


def assert_geometry(batch: apt.MoleculeBatch) -> None:
    """Of ``open_and_periodic``."""
    assert batch.mask("cell").tolist() == [False, True, False, True]
    assert batch.mask("pbc").tolist() == [False, True, True, False]
    assert batch.cell[[0, 2]].count_nonzero() == 0
    assert batch.cell[[1, 3], 0, 0].tolist() == [4.0, 8.0]
    assert batch.pbc.tolist() == [[False] * 3, [True] * 3, [False] * 3, [False] * 3]
    cells = [m.cell for m in batch]
    assert [cell is None for cell in cells] == [True, False, True, False]
    assert batch[0].pbc is None
    assert batch[2].pbc is not None


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("fields", [None, ["energy", "cell", "pbc"], ["cell"]])
@pytest.mark.parametrize("missing", ["nan", "error", "drop"])
@pytest.mark.parametrize("neighbors", [None, EDGES])
def test_an_absent_cell_is_zeros(
    new_path: NewPath, codec: str, fields: Any, missing: Any, neighbors: Any
) -> None:
    path = write(new_path(), open_and_periodic(), codec)
    options = {"fields": fields, "missing": missing, "neighbors": neighbors}
    dataset = apt.AtpDataset(path, **options)
    batch = dataset.batch(range(4))
    assert len(batch) == 4
    assert batch.cell[[0, 2]].count_nonzero() == 0
    if fields != ["cell"]:
        assert_geometry(batch)
        assert dataset.statistics().n_molecules == 4
    if neighbors:
        shifts = torch.einsum(
            "ea,eab->eb", batch.edge_shift, batch.cell[batch.batch[batch.edge_index[0]]]
        )
        assert bool(shifts.isfinite().all())
        i, j = batch.edge_index
        vectors = batch.positions[j] - batch.positions[i] + shifts
        assert torch.allclose(vectors, batch.edge_vector)
    assert dataset[0].cell is None


def test_an_absent_cell_is_zeros_in_every_kind_of_batch(new_path: NewPath, tmp_path: Path) -> None:
    path = write(new_path(), open_and_periodic())
    halves = write(new_path(), open_and_periodic()[:1]), write(new_path(), open_and_periodic()[1:])
    batch = apt.AtpDataset(path)[:]
    again = new_path()
    with apt.AtpWriter(again) as writer:
        writer.write(batch)
        writer.flush()
    mixture = apt.MixtureDataset([apt.AtpDataset(half) for half in halves], epoch="max")
    (loaded,) = DataLoader(apt.AtpDataset(path), batch_size=4)
    for made in (
        batch,
        loaded,
        apt.AtpDataset(again)[:],
        apt.AtpDataset(halves)[:],
        apt.collate([apt.AtpDataset(half)[:] for half in halves]),
        apt.MoleculeBatch.from_molecules(open_and_periodic()),
        apt.collate(list(batch)),
        mixture.batch(torch.argsort(mixture[:].energy)),
        pickle.loads(pickle.dumps(batch)),
        batch.clone(),
    ):
        assert_geometry(made)
    assert batch.to_dict("pyg")["cell"][0].count_nonzero() == 0
    assert [atoms.cell.array.any() for atoms in batch.to_ase()] == [False, True, False, True]
    only_open = apt.AtpDataset(halves[0], fields=["energy", "cell", "pbc"])[:]
    assert only_open.cell.tolist() == [[[0.0] * 3] * 3]
    assert only_open.mask("cell").tolist() == only_open.mask("pbc").tolist() == [False]


def test_an_absent_cell_is_zeros_in_shards(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "s", 10, 2) as writer:
        for m in open_and_periodic():
            example = {"positions": m.positions.numpy(), "atomic_numbers": m.atomic_numbers.numpy()}
            example["energy"] = float(m.energy)
            example |= {key: m[key].numpy() for key in ("cell", "pbc") if m[key] is not None}
            writer.write(example)
    dataset = apt.ShardDataset(tmp_path / "s")
    assert_geometry(dataset.batch(range(4)))
    assert_geometry(dataset._open().collate_in_python(range(4)))


def with_nan() -> list[apt.Molecule]:
    """Values as ANI-1x stores them: NaN where nothing was computed."""
    properties = {"gap": NAN, "moment": np.full(3, NAN), "count": -1}  # all bits set, as in a NaN
    return [
        molecule(2, energy=1.0, forces=np.ones((2, 3)), properties=properties),
        molecule(2, energy=NAN, forces=np.full((2, 3), NAN), properties={"gap": 2.0, "count": 1}),
        molecule(
            2,
            energy=3.0,
            forces=np.array([[NAN] * 3, [1, NAN, 3]]),
            stress=np.full((3, 3), np.inf),
            properties={"gap": 1.0, "moment": np.ones(3)},
            atom_properties={"magmom": np.full(2, NAN, "f4")},
        ),
    ]


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_nan_throughout_is_missing(new_path: NewPath, codec: str) -> None:
    path = write(new_path(), with_nan(), codec)
    plain = apt.AtpDataset(path)[:]
    assert plain.mask("energy").tolist() == [True, True, True]
    dataset = apt.AtpDataset(path, nan_is_missing=True)
    for judged in (dataset, pickle.loads(pickle.dumps(dataset)), dataset.subset([0, 1, 2])):
        batch = judged[:]
        masks = {
            "energy": [True, False, True],
            "forces": [True, False, True],
            "stress": [False, False, True],
            "gap": [False, True, True],
            "moment": [False, False, True],
            "count": [True, True, False],
            "magmom": [False, False, False],
        }
        for name, mask in masks.items():
            assert batch.mask(name).tolist() == mask, name
        assert torch.equal(batch.energy.isnan(), torch.tensor([False, True, False]))
        assert batch.forces[4:].isnan().any()  # stored so, in a label that is present
        assert judged[1].energy is None
    coverage = dataset.statistics().coverage
    assert (coverage["energy"], coverage["forces"], coverage["magmom"]) == (2, 2, 0)
    found = dataset.statistics().energy
    assert found is not None
    assert found.n_non_finite == 0


def test_inputs_of_some_molecules_are_judged_too(new_path: NewPath) -> None:
    """The way out is named: the fields that are needed."""
    moments = {"initial_magmoms": np.ones(2)}
    made = [molecule(2, energy=1.0), molecule(2, energy=2.0, atom_properties=moments)]
    path = write(new_path(), made)
    message = r"name those that it must have by fields= \(molecule 0, field 'initial_magmoms'\)"
    strict = apt.AtpDataset(path, missing="error")
    for read in (lambda: strict[:], strict.statistics):
        with pytest.raises(apt.FieldError, match=message):
            read()
    assert apt.AtpDataset(path, fields=["energy"], missing="error")[:].energy.tolist() == [1, 2]
    named = apt.AtpDataset(path, fields=["energy", "initial_magmoms"], missing="error")
    message = r'value: missing="nan" gives NaN, missing="drop" drops the molecule \(molecule 0,'
    for read in (lambda: named[:], lambda: named[0], named.statistics):
        with pytest.raises(apt.FieldError, match=message):
            read()


def test_nan_that_is_missing_is_dropped_or_an_error(new_path: NewPath) -> None:
    path = write(new_path(), with_nan())
    asked: dict[str, Any] = {"fields": ["energy", "forces"], "nan_is_missing": True}
    dropped = apt.AtpDataset(path, missing="drop", **asked)
    assert dropped[:].index.tolist() == [0, 2]
    assert dropped.statistics().n_molecules == 2
    strict = apt.AtpDataset(path, missing="error", **asked)
    with pytest.raises(apt.FieldError, match=r"drops the molecule \(molecule 1, field '"):
        strict[:]
    with pytest.raises(apt.FieldError, match="molecule 1"):
        strict[1]
    chosen = apt.AtpDataset(path, nan_is_missing=True, force_subset=apt.ForceSubset(0.5, seed=1))
    assert int(chosen[:].mask("forces").sum()) == 1
    halves = [apt.AtpDataset(path, nan_is_missing=flag) for flag in (True, False)]
    with pytest.raises(ValueError, match="nan_is_missing"):
        apt.MixtureDataset(halves)
    both = apt.MixtureDataset([halves[0], halves[0]], epoch="max")
    assert int(both[:].mask("energy").sum()) == 4
    with pytest.raises(TypeError, match="nan_is_missing: expected True or False, got 'energy'"):
        apt.AtpDataset(path, nan_is_missing="energy")  # type: ignore[arg-type]


def test_info_tells_of_nan(new_path: NewPath, capsys: pytest.CaptureFixture[str]) -> None:
    path, sound = write(new_path(), with_nan()), write(new_path(), open_and_periodic())
    assert cli.main(["info", "--json", str(path), str(sound)]) == 0
    found = json.loads(capsys.readouterr().out)["labels"]
    assert found["n_looked_at"] == 7
    assert found["nan"] == {"energy": 1, "forces": 1, "gap": 1, "moment": 1, "magmom": 1}
    assert cli.main(["info", str(path)]) == 0
    assert (
        "energy: NaN throughout in 1 of 3 molecules: AtpDataset(nan_is" in capsys.readouterr().out
    )
    assert cli.main(["info", str(sound)]) == 0
    assert "NaN" not in capsys.readouterr().out


def test_a_label_that_no_file_has(new_path: NewPath) -> None:
    other = [
        molecule(2, properties={"REF_energy": 1.0}, atom_properties={"REF_forces": np.ones((2, 3))})
    ]
    path = write(new_path(), other)
    for missing in ("nan", "error", "drop"):
        with pytest.raises(
            apt.FieldError, match=f"{path.name}: no field 'forces': the file has 'RE"
        ):
            apt.AtpDataset(path, fields=["forces"], missing=missing)
        with pytest.raises(apt.FieldError, match="the file has 'REF_energy'; expected one of"):
            apt.AtpDataset(path, fields=["REF_energy", "energy"], missing=missing)
    with pytest.raises(apt.FieldError, match="no field 'charges': expected one of 'REF_"):
        apt.AtpDataset(path, fields=["charges"])
    with pytest.raises(apt.FieldError, match="'REF_forces'"):
        apt.AtpDataset(path, fields=["ref_forces"])
    assert "cell" in apt.AtpDataset(path, fields=["cell", "pbc"])[:]
    assert "REF_energy" in apt.AtpDataset(path, exclude=["energy", "nope"])[:]
    apt.AtpDataset(path, dtype={"forces": torch.float32, "energy": torch.float32})[:]


def test_a_label_that_some_file_has(new_path: NewPath) -> None:
    with_forces = write(new_path(), [molecule(1, energy=1.0, forces=np.ones((1, 3)))])
    without = write(new_path(), [molecule(2, energy=2.0)])
    batch = apt.AtpDataset([without, with_forces], fields=["energy", "forces"])[:]
    assert batch.mask("forces").tolist() == [False, True]
    many = [without] * 5
    with pytest.raises(apt.FieldError, match=r"\.atp and 4 more: no field 'forces'"):
        apt.AtpDataset(many, fields=["forces"])


def test_nothing_is_known_of_an_empty_file(new_path: NewPath) -> None:
    path = write(new_path(), [])
    dataset = apt.AtpDataset(path, fields=["energy", "forces"])
    assert dataset[:].forces.shape == (0, 3)
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(molecule(1, energy=1.0))
    assert dataset.refresh()
    with pytest.raises(apt.FieldError, match="no field 'forces'"):
        dataset[0]


def test_schema_says_what_a_batch_has(new_path: NewPath) -> None:
    wide = apt.Molecule(np.zeros((1, 3)), [1], forces=np.zeros((1, 3)), energy=1.0, cell=np.eye(3))
    narrow = apt.Molecule(
        np.zeros((1, 3), "f4"),
        [1],
        forces=np.zeros((1, 3), "f4"),
        cell=np.eye(3, dtype="f4"),
        stress=np.eye(3, dtype="f4"),
        atom_properties={"n": np.zeros(1, "i4")},
    )
    longer = apt.Molecule(
        np.zeros((1, 3), "f4"),
        [1],
        atom_properties={"n": np.zeros(1, "i8"), "m": np.zeros(1, "i4")},
    )
    paths = [write(new_path(), [m]) for m in (wide, narrow, longer)]
    floats = {"forces": torch.float64, "cell": torch.float64, "stress": torch.float32}
    for dtype in (None, torch.float32, torch.bfloat16, {"forces": torch.float16}):
        dataset = apt.AtpDataset(paths, dtype=dtype)
        if dtype is None:
            assert {name: dataset.schema[name].dtype for name in floats} == floats
            assert dataset.schema["n"].dtype == torch.int64
            assert dataset.schema["m"].dtype == torch.int32
        for numbers in ([0], [1], [2], [], [0, 1], [2, 1, 0]):
            batch = dataset.batch(numbers)
            assert set(dataset.schema) <= set(batch.keys())
            for name, spec in dataset.schema.items():
                assert batch[name].dtype == spec.dtype, (name, numbers, dtype)
        for number in range(3):
            one = dataset[number]
            for name in set(one.keys()) & dataset.schema.keys():
                assert one[name].dtype == dataset.schema[name].dtype, name


def test_options_of_the_wrong_type_say_what_to_pass(new_path: NewPath) -> None:
    path = write(new_path(), open_and_periodic())
    with pytest.raises(TypeError, match=r"neighbors: expected a NeighborList, got str"):
        apt.AtpDataset(path, neighbors="5")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got float: pass neighbors=NeighborList\(5.0\)"):
        apt.AtpDataset(path, neighbors=5.0)  # type: ignore[arg-type]


def test_nan_in_a_feature_cache(new_path: NewPath, tmp_path: Path) -> None:
    """Forces of NaN are stored in structures as they come; features are not judged."""
    numbers = {"atomic_numbers": [1, 1]}
    positions = np.array([[0.0, 0, 0], [0, 0, 1.0]])
    molecules = [
        apt.Molecule(positions, **numbers, energy=1.0, forces=np.full((2, 3), value))
        for value in (1.0, NAN)
    ]
    path = write(new_path(), molecules)
    descriptor = apt.ChebyshevDescriptor(["H"], 2, 3.0, 1, 2.0)
    cache = tmp_path / "c.h5"
    apt.build_cache(apt.AtpDataset(path), descriptor, cache, progress=False)
    assert apt.TorchCacheDataset(cache)[:].mask("forces").tolist() == [True, True]
    judged = apt.TorchCacheDataset(cache, nan_is_missing=True)
    assert judged[:].mask("forces").tolist() == [True, False]
    assert judged[:].mask("features").tolist() == [True, True]
    with pytest.raises(apt.FieldError, match="no field 'charges'"):
        apt.TorchCacheDataset(cache, fields=["charges"])
    joined = apt.AtpDataset(path, features=apt.TorchCache(cache), nan_is_missing=True)[:]
    assert joined.mask("forces").tolist() == [True, False]
    assert joined.mask("features").tolist() == [True, True]


@pytest.fixture
def half(new_path: Callable[[], Path]) -> apt.AtpDataset:
    """Molecules 0 to 3 and 90 have an energy, of 100."""
    path = new_path()
    with apt.AtpWriter(path) as writer:
        for k in range(100):
            energy = float(k) if k < 4 or k == 90 else None
            writer.write(apt.Molecule(np.zeros((2, 3)), [1, 1], energy=energy))
    return apt.AtpDataset(path, fields=["energy"], missing="drop")


@pytest.mark.filterwarnings("ignore:missing='drop'")
@pytest.mark.parametrize("resident", [False, True])
def test_no_empty_batches_in_a_loader(half: apt.AtpDataset, resident: bool) -> None:
    """They are skipped, also at the end of the pass, and a state counts them."""
    dataset = apt.ResidentDataset(half) if resident else half
    loader = apt.Loader(dataset, 4)
    assert [batch.index.tolist() for batch in loader] == [[0, 1, 2, 3], [90]]
    assert (loader.epoch, len(dataset.batch([5, 6]))) == (1, 0)
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    assert (state["batches"], state["consumed"]) == (2, 92)
    resumed = apt.Loader(dataset, 3)
    resumed.load_state_dict(state)
    assert list(resumed) == []
    with pytest.warns(UserWarning, match="dropped 95 molecules in this pass"):
        list(apt.Loader(dataset, 4))


@pytest.mark.filterwarnings("ignore:missing='drop'")
@pytest.mark.parametrize("n_workers", [0, 2])
def test_no_empty_batches_in_a_dataloader(half: apt.AtpDataset, n_workers: int) -> None:
    """Another molecule is drawn, each with the same probability."""
    loader = DataLoader(half, 4, num_workers=n_workers, collate_fn=apt.collate_identity)
    found = [batch.index.tolist() for batch in loader]
    assert found == [batch.index.tolist() for batch in loader]
    assert (found[0], found[22], len(found)) == ([0, 1, 2, 3], [90], 25)
    drawn = [number for batch in found[1:22] + found[23:] for number in batch]
    assert len(drawn) == 23
    assert set(drawn) == {0, 1, 2, 3, 90}
    assert all(torch.isfinite(batch.energy.square().mean()) for batch in loader)
    with pytest.raises(apt.FieldError, match="expected a molecule that has all labels"):
        half.subset(range(4, 90)).__getitems__([3, 4])


@pytest.mark.filterwarnings("ignore:missing='drop'")
def test_ranks_get_equally_many_batches(half: apt.AtpDataset) -> None:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        found = [len(batch) for batch in apt.Loader(half, 4)]
    finally:
        torch.distributed.destroy_process_group()
    assert len(found) == 25
    assert min(found) == 1
