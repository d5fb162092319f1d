"""Properties, methods, options and checks that every public dataset has in common."""

from __future__ import annotations

import inspect
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

import atompack_torch as apt
from atompack_torch.fields import FieldSpec

INNER = Path(__file__).resolve().parents[1] / "fixtures"
N = 4  # items of each dataset below

Make = Callable[..., Any]


def molecules(n: int) -> list[apt.Molecule]:
    """Molecules with energies; only every second one has forces."""
    return [
        apt.Molecule(
            torch.full((2, 3), float(i)),
            torch.tensor([1, 8]),
            energy=float(i),
            forces=torch.full((2, 3), float(i)) if i % 2 == 0 else None,
        )
        for i in range(n)
    ]


def write_atp(path: Path, n: int) -> None:
    with apt.AtpWriter(path, mode="w") as writer:
        writer.write(molecules(n))


def write_xyz(path: Path, n: int) -> None:
    text = ""
    for i in range(n):
        forces, values = (":forces:R:3", f" {i} {i} {i}") if i % 2 == 0 else ("", "")
        text += f"2\nProperties=species:S:1:pos:R:3{forces} energy={i}\n"
        text += "".join(f"{symbol} {i} {i} {i}{values}\n" for symbol in "HO")
    path.write_text(text)


def write_aselmdb(path: Path, n: int) -> None:
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase_db_backends.aselmdb import LMDBDatabase

    path.unlink(missing_ok=True)
    with LMDBDatabase(path) as database:
        for i in range(n):
            atoms = Atoms("HO", np.full((2, 3), float(i)))
            forces = {"forces": atoms.positions} if i % 2 == 0 else {}
            atoms.calc = SinglePointCalculator(atoms, energy=float(i), **forces)
            database.write(atoms)


def write_cache(path: Path, n: int) -> None:
    shutil.copy(INNER / "cache" / "water.h5", path)


def write_shards(path: Path, n: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with apt.ShardWriter(path, 10, 2) as writer:
        for i in range(n):
            example = {
                "positions": torch.full((2, 3), float(i), dtype=torch.float64).numpy(),
                "atomic_numbers": torch.tensor([1, 8]).numpy(),
                "energy": float(i),
            }
            if i % 2 == 0:
                example["forces"] = example["positions"]
            writer.write(example)


def write_store(path: Path, n: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with apt.AtlasStore(path, "x") as store:
        for i in range(n):
            name = f"d{i}"
            store.create_dataset(name)
            store.define_array(name, "x", "float64", (2,))
            store.write(name, "x", torch.full((2,), float(i), dtype=torch.float64))
            if i % 2 == 0:
                store.define_array(name, "forces", "float64", (2,))
                store.write(name, "forces", torch.ones(2, dtype=torch.float64))


def open_atlas(path: Any, **options: Any) -> Any:
    return apt.AtlasDataset(path, ["x", "forces"], **options)


def open_mixture(path: Any, **options: Any) -> Any:
    parts = [apt.AtpDataset(path, **options).subset(half) for half in ([0, 1], [2, 3])]
    return apt.MixtureDataset(parts)


def open_resident(path: Any, **options: Any) -> Any:
    return apt.ResidentDataset(apt.AtpDataset(path, **options))


WRITE: dict[str, Callable[[Path, int], None]] = {
    "AtpDataset": write_atp,
    "AseLmdbDataset": write_aselmdb,
    "ExtxyzDataset": write_xyz,
    "TorchCacheDataset": write_cache,
    "ShardDataset": write_shards,
    "AtlasDataset": write_store,
    "MixtureDataset": write_atp,
    "ResidentDataset": write_atp,
}
OPEN: dict[str, Make] = {
    "AtpDataset": apt.AtpDataset,
    "AseLmdbDataset": apt.AseLmdbDataset,
    "ExtxyzDataset": apt.ExtxyzDataset,
    "TorchCacheDataset": apt.TorchCacheDataset,
    "ShardDataset": apt.ShardDataset,
    "AtlasDataset": open_atlas,
    "MixtureDataset": open_mixture,
    "ResidentDataset": open_resident,
}
OF_OTHERS = ("MixtureDataset", "ResidentDataset")  # made of datasets, not of a path
OPTIONS = {"dtype": None, "transform": None, "missing": "nan", "num_threads": None}
MISTAKES: list[tuple[str, Any, type[Exception], str]] = [
    ("num_threads", 0, ValueError, "num_threads: expected a positive number or None, got 0"),
    ("num_threads", 2**31, ValueError, r"num_threads: expected below 2\*\*31, got 2147483648"),
    ("num_threads", "2", TypeError, "num_threads: expected an int, got '2'"),
    ("num_threads", True, TypeError, "num_threads: expected an int, got True"),
    ("missing", "zero", ValueError, "missing: expected one of nan, error, drop, got 'zero'"),
    ("transform", 3, TypeError, "transform: expected a callable, got int"),
]


@pytest.fixture(params=OPEN)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(name: str, tmp_path: Path) -> Path:
    made = tmp_path / ("data.h5" if name == "TorchCacheDataset" else "data")
    WRITE[name](made, N)
    return made


def is_in(batch: Any, key: str) -> torch.Tensor:
    """The mask of a key."""
    return batch[f"{key}_mask"] if isinstance(batch, dict) else batch.mask(key)


def test_every_class_is_tested() -> None:
    public = {n for n in apt.__all__ if isinstance(getattr(apt, n), type)}
    assert {n for n in public if issubclass(getattr(apt, n), Dataset)} == set(OPEN)


def test_path(name: str, path: Path) -> None:
    for given in (path, str(path)):
        dataset = OPEN[name](given)
        shown = dataset.path if isinstance(dataset.path, tuple) else (dataset.path,)
        assert set(shown) == {path}
        assert all(isinstance(each, Path) for each in shown)
        assert pickle.loads(pickle.dumps(dataset)).path == dataset.path


def test_path_of_a_list(tmp_path: Path) -> None:
    write_atp(tmp_path / "a.atp", N)
    paths = (tmp_path / "a.atp",) * 2
    dataset = apt.AtpDataset(list(paths))
    assert dataset.path == paths
    assert dataset.block_sizes.tolist() == [N, N]


@pytest.mark.parametrize("kind", [n for n in OPEN if n not in OF_OTHERS])
def test_path_and_options_have_the_same_names(kind: str) -> None:
    parameters = inspect.signature(getattr(apt, kind)).parameters
    assert next(iter(parameters)) == "path"
    assert {n: parameters[n].default for n in OPTIONS} == OPTIONS
    assert all(parameters[n].kind is inspect.Parameter.KEYWORD_ONLY for n in OPTIONS)


@pytest.mark.parametrize(("option", "value", "error", "message"), MISTAKES)
def test_options_are_checked_alike(
    name: str, path: Path, option: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        OPEN[name](path, **{option: value})


def test_schema(name: str, path: Path) -> None:
    dataset = OPEN[name](path)
    batch = dataset[:]
    assert dataset.schema
    for key, spec in dataset.schema.items():
        assert isinstance(spec, FieldSpec)
        if isinstance(batch[key], torch.Tensor):
            assert batch[key].dtype == spec.dtype, key
            if spec.shape is not None:
                assert tuple(batch[key].shape[1:]) == spec.shape, key


def test_dtype(name: str, path: Path) -> None:
    dataset = OPEN[name](path, dtype=torch.float32)
    cast = [k for k in ("positions", "forces", "x") if k in dataset.schema]
    batch = dataset[:]
    assert len(cast) == 2
    assert {batch[key].dtype for key in cast} == {torch.float32}
    assert {dataset.schema[key].dtype for key in cast} == {torch.float32}
    if name != "AtlasDataset":
        assert batch["energy"].dtype == torch.float64
        named = OPEN[name](path, dtype={"energy": torch.float32})[:]
        assert named["energy"].dtype == torch.float32
        assert named["positions"].dtype != torch.float16


def test_missing(name: str, path: Path) -> None:
    whole = OPEN[name](path)[:]
    has = is_in(whole, "forces")
    expected = [i for i, flag in enumerate(has.tolist()) if flag]
    assert 0 < len(expected) < N
    options = {} if name in ("ShardDataset", "AtlasDataset") else {"fields": ["forces"]}
    with pytest.raises(apt.FieldError, match="forces"):
        OPEN[name](path, missing="error", **options)[:]
    dropping = OPEN[name](path, missing="drop", **options)
    for batch in (dropping[:], next(iter(apt.Loader(dropping, N)))):
        kept = batch["name"] if name == "AtlasDataset" else batch["index"].tolist()
        everything = whole["name"] if name == "AtlasDataset" else whole["index"].tolist()
        assert kept == [everything[i] for i in expected]
        assert bool(is_in(batch, "forces").all())


def test_transform(name: str, path: Path) -> None:
    dataset = OPEN[name](path, transform=lambda batch: ("changed", batch))
    assert dataset[:][0] == "changed"
    assert dataset.subset([1, 0]).batch([0])[0] == "changed"
    [loaded] = apt.Loader(dataset, N)
    assert loaded[0] == "changed"
    [loaded] = torch.utils.data.DataLoader(dataset, batch_size=N)
    assert loaded[0] == "changed"
    with pytest.raises(TypeError, match="transform: expected a batch, got None"):
        OPEN[name](path, transform=lambda batch: None)[:]
    ending = OPEN[name](path, transform=lambda batch: next(iter(())))
    for loader in (apt.Loader(ending, 1), torch.utils.data.DataLoader(ending)):
        with pytest.raises(RuntimeError, match="transform raised StopIteration"):
            list(loader)


def test_close_and_with(name: str, path: Path) -> None:
    with OPEN[name](path) as dataset:
        before = dataset[0]
        assert len(dataset) == N
    dataset.close()
    assert repr(dataset[0]) == repr(before)
    assert len(dataset[:]["name" if name == "AtlasDataset" else "index"]) == N


def test_subset_and_split(name: str, path: Path) -> None:
    dataset = OPEN[name](path)
    part = dataset.subset([3, 0])
    assert len(part) == 2
    assert part.path == dataset.path
    assert part.schema == dataset.schema
    parts = dataset.split([0.75, 0.25], seed=1)
    assert [len(each) for each in parts] == [3, 1]
    assert sorted(str(e[i]) for e in parts for i in range(len(e))) == sorted(
        str(dataset[i]) for i in range(N)
    )


def test_block_sizes(name: str, path: Path) -> None:
    dataset = OPEN[name](path)
    for each in (dataset, dataset.subset([0, 1, 3]), dataset.subset([])):
        sizes = each.block_sizes
        assert sizes.dtype == torch.int64
        assert sizes.sum() == len(each)
    order = [*apt.BlockShuffleSampler(dataset, window=1, seed=3)]
    assert sorted(order) == list(range(N))
    if hasattr(dataset, "n_atoms"):
        assert dataset.n_atoms.dtype == torch.int64
        assert dataset.n_atoms.shape == (N,)


def test_refresh(name: str, path: Path) -> None:
    dataset = OPEN[name](path)
    assert dataset.refresh() is False
    dataset[0]
    whole = dataset[:]
    if name in ("AtpDataset", "MixtureDataset"):
        with apt.AtpWriter(path, mode="a") as writer:
            writer.write(molecules(2))
    elif name == "TorchCacheDataset":
        other = path.with_name("other.h5")
        shutil.copy(path, other)
        other.rename(path)
    else:
        WRITE[name](path, N + 2)
    assert dataset.refresh() is True
    assert dataset.refresh() is False
    fixed = name in ("TorchCacheDataset", "MixtureDataset")  # a mixture of subsets stays as long
    assert len(dataset) == N + (0 if fixed else 2)
    again = dataset.batch(range(N))
    key = "x" if name == "AtlasDataset" else "positions"
    torch.testing.assert_close(again[key], whole[key])


@pytest.mark.parametrize("kind", ["AtpDataset", "ShardDataset", "AtlasDataset"])
def test_refresh_of_a_subset_that_lost_items(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    WRITE[kind](path, N)
    dataset = OPEN[kind](path).subset([3, 1])
    WRITE[kind](path, 2)
    with pytest.raises(IndexError, match=r"subset: expected at least 4 .*, got 2"):
        dataset.refresh()
    assert len(dataset) == 2


def test_refresh_of_a_mixture(tmp_path: Path) -> None:
    paths = [tmp_path / "a.atp", tmp_path / "b.atp"]
    for file in paths:
        write_atp(file, N)
    mixture = apt.MixtureDataset([apt.AtpDataset(file) for file in paths], weights=[0.5, 0.5])
    part = mixture.subset(range(2 * N))
    before = part[:]
    with apt.AtpWriter(paths[0], mode="a") as writer:
        writer.write(molecules(2))
    assert mixture.refresh()
    assert part.refresh()
    assert mixture.counts == (N, N)
    after = part[:]
    assert after["source"].tolist() == before["source"].tolist()
    assert after.index.tolist() == before.index.tolist()
    longest = apt.MixtureDataset(mixture.sources, epoch="max")
    assert longest.counts == (N + 2, N)


def test_a_cache_with_other_sections_is_not_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "cache.h5"
    write_cache(path, N)
    dataset = apt.TorchCacheDataset(path)
    batch = dataset[:]
    other = tmp_path / "other.h5"
    apt.build_cache(dataset, dataset.cache.descriptor, other, progress=False)  # type: ignore[arg-type]
    other.rename(path)
    with pytest.raises(apt.FieldError, match="open the dataset again"):
        dataset.refresh()
    del batch


def test_examples_of_other_keys(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "shards", 10, 2) as writer:
        writer.write({"x": 1, "y": 2})
        writer.write({"x": 1})
    dataset = apt.ShardDataset(tmp_path / "shards")
    with pytest.raises(apt.FieldError, match=r"expected the keys of the first one.*without 'y'"):
        dataset[:]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fields": [1]}, TypeError, r"fields: expected names \(str\), got 1"),
        ({"exclude": [1]}, TypeError, r"exclude: expected names \(str\), got 1"),
        ({"dtype": {1: torch.float32}}, TypeError, r"dtype: expected names \(str\), got 1"),
        ({"dtype": {"name": torch.float32}}, apt.FieldError, "dtype: strings cannot be cast"),
        ({"dtype": {"kind": torch.float32}}, apt.FieldError, r"cast \(field 'kind'\)"),
    ],
)
def test_names_in_options(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "named.atp"
    with apt.AtpWriter(path) as writer:
        properties = {"kind": "a"}
        one = apt.Molecule(torch.zeros(1, 3), [1], name="a", properties=properties)
        writer.write(one)
    with pytest.raises(error, match=message):
        apt.AtpDataset(path, **options)


@pytest.mark.parametrize("epoch", [-1, "1", 1.0])
def test_epochs_are_checked_alike(epoch: Any, tmp_path: Path) -> None:
    write_atp(tmp_path / "a.atp", N)
    dataset = apt.AtpDataset(tmp_path / "a.atp")
    everyone = (
        dataset,
        apt.MixtureDataset([dataset]),
        apt.Loader(dataset, 2, shuffle=True),
        apt.AtomBudgetBatchSampler(dataset, 8),
        apt.BlockShuffleSampler(dataset, window=1),
        apt.DistributedMoleculeSampler(dataset),
    )
    for each in everyone:
        error = ValueError if epoch == -1 else TypeError
        with pytest.raises(error, match=r"^epoch: expected "):
            each.set_epoch(epoch)
        each.set_epoch(1)
