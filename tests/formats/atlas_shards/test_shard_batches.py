"""Batches of examples: as default_collate makes them, or molecules, whatever makes them."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.shards import Reader, assert_same, collated
from torch.utils.data import DataLoader

import atompack_torch as apt

_TIMEOUT = 200  # seconds: a worker that hangs fails the test

Make = Callable[[np.random.Generator, int], Any]


def image(rng: np.random.Generator, i: int) -> Any:
    return {
        "image": rng.integers(0, 256, (3, 8, 8), dtype=np.uint8),
        "label": i % 10,
        "weight": float(rng.normal()),
        "name": f"image {i} é",
        "raw": bytes([i % 256]),
        "flag": i % 2 == 0,
        "score": np.float32(i / 7),
        "nested": {"list": [i, np.arange(4, dtype=np.int16)], "pair": (i, i / 2)},
    }


def atoms(rng: np.random.Generator, i: int) -> Any:
    n = int(rng.integers(1, 9))
    return {
        "positions": rng.normal(size=(n, 3)).astype(np.float32),
        "atomic_numbers": rng.integers(1, 20, n),
        "energy": float(rng.normal()),
        "forces": rng.normal(size=(n, 3)),
        "cell": np.eye(3) * i,
        "pbc": np.array([True, False, i % 2 == 0]),
        "name": f"molecule {i}",
        "magmoms": rng.normal(size=n).astype(np.float32),
        "spin": i,
        "moment": rng.normal(size=(7,)),
    }


def some_labels(rng: np.random.Generator, i: int) -> Any:
    example = atoms(rng, i)
    if i % 3 == 0:
        del example["forces"], example["energy"], example["name"], example["magmoms"]
    if i % 4 == 0:
        del example["spin"], example["cell"], example["pbc"]
    return example


def tensors(rng: np.random.Generator, i: int) -> Any:
    return [
        torch.from_numpy(rng.normal(size=(2, 3))),
        torch.tensor(i, dtype=torch.int32),
        torch.full((4,), i, dtype=torch.bfloat16),
        np.full((2, 2), i, dtype=np.complex64),
        np.asfortranarray(rng.normal(size=(3, 4))),
        np.full(3, i, dtype=np.uint16),
    ]


def ragged(rng: np.random.Generator, i: int) -> Any:
    return {"a": rng.normal(size=(i % 5, 2)), "b": np.arange(3), "c": [np.ones(i % 2 + 1)]}


def labels_of_two_widths(rng: np.random.Generator, i: int) -> Any:
    """Types and shapes that differ from molecule to molecule, and molecules without atoms."""
    n = i % 4
    wide = i % 3 == 0
    example = {
        "positions": np.asfortranarray(rng.normal(size=(n, 3)).astype("f8" if wide else "f4")),
        "atomic_numbers": np.ones(n, "u1" if wide else "i4"),
        "forces": rng.normal(size=(n, 3)).astype(">f4" if wide else "f8"),
        "charge": np.int8(i) if wide else i,
        "half": np.float16(0.5),
        "states": np.arange(2 + i % 2, dtype="f8" if wide else "f4"),
        "amplitude": np.complex64(1 + 2j),
        "text": f"lone \ud800 surrogate {i}",
    }
    if i % 5 == 0:
        del example["amplitude"], example["forces"]
    return example


def nested_molecules(rng: np.random.Generator, i: int) -> Any:
    return {"system": atoms(rng, i), "target": i}


def numbers(rng: np.random.Generator, i: int) -> Any:
    return i


def of_two_types(rng: np.random.Generator, i: int) -> Any:
    return {"x": np.full(3, i, dtype=np.float32 if i % 2 else np.float64), "y": i if i % 2 else 0.5}


def labels_of_two_types(rng: np.random.Generator, i: int) -> Any:
    example = some_labels(rng, i)
    example["positions"] = example["positions"].astype(np.float32 if i % 2 else np.float64)
    example["forces"] = None
    return example


KINDS = [
    image,
    atoms,
    some_labels,
    tensors,
    ragged,
    nested_molecules,
    numbers,
    labels_of_two_widths,
]
ODD_KINDS = [of_two_types, labels_of_two_types]  # left to Python


@pytest.fixture(scope="module")
def root_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], Path]:
    folder = tmp_path_factory.mktemp("batches")

    def make(kind: Make) -> Path:
        root = folder / kind.__name__
        if not root.exists():
            rng = np.random.default_rng(0)
            with apt.ShardWriter(root, shard_size=30, block_size=7, strategy=1) as writer:
                for i in range(64):
                    writer.write(kind(rng, i))
        return root

    return make


@pytest.mark.parametrize("kind", KINDS + ODD_KINDS)
def test_a_batch_is_that_of_the_reference(root_of: Callable[[Make], Path], kind: Make) -> None:
    root = root_of(kind)
    dataset, reference = apt.ShardDataset(root), Reader(root)
    for numbers in ([0, 1, 2], [5], list(range(64)), [3, 60, 3, 17], [1, 3, 5]):
        want = collated([reference[i] for i in numbers], numbers)
        assert_same(dataset.batch(numbers), want)
        assert_same(dataset.batch([i - 64 for i in numbers]), want)


@pytest.mark.parametrize("kind", KINDS)
def test_the_native_core_makes_them(
    root_of: Callable[[Make], Path], kind: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes the long way through Python would be as right, and slow."""
    dataset = apt.ShardDataset(root_of(kind))

    def refuse(self: Any, numbers: Any) -> Any:
        raise AssertionError(f"{kind.__name__}: one by one")

    monkeypatch.setattr(
        "atompack_torch.formats.atlas_shards.dataset.OpenShards.collate_in_python", refuse
    )
    dataset.batch(range(10))


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_on_request(root_of: Callable[[Make], Path], kind: Make) -> None:
    root = root_of(kind)
    numbers = [0, 9, 4]
    got = apt.ShardDataset(root, allow_pickle=True).batch(numbers)
    assert_same(got, apt.ShardDataset(root).batch(numbers))


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        *((kind, "fork") for kind in (image, atoms, tensors, of_two_types)),
        pytest.param(nested_molecules, "spawn", marks=pytest.mark.exhaustive),
    ],
)
def test_dataloader(root_of: Callable[[Make], Path], kind: Make, start: str) -> None:
    root = root_of(kind)
    dataset, reference = apt.ShardDataset(root), Reader(root)
    dataset.batch([0, 40])  # read before the fork
    options: dict[str, Any] = {"multiprocessing_context": start, "timeout": _TIMEOUT}
    batches = list(DataLoader(dataset, batch_size=10, num_workers=2, **options))
    assert len(batches) == 7
    for k, batch in enumerate(batches):
        numbers = list(range(10 * k, min(10 * k + 10, 64)))
        assert_same(batch, collated([reference[i] for i in numbers], numbers))


def test_many_batches_from_workers(root_of: Callable[[Make], Path]) -> None:
    """More than the slots of a ring, all kept, so that none may be used twice."""
    root = root_of(nested_molecules)
    dataset, reference = apt.ShardDataset(root), Reader(root)
    order = [int(i) for i in np.random.default_rng(1).integers(0, 64, 400)]
    loader = DataLoader(dataset, batch_size=8, sampler=order, num_workers=2, timeout=_TIMEOUT)
    batches = list(loader)
    for k, batch in enumerate(batches):
        numbers = order[8 * k : 8 * k + 8]
        assert_same(batch, collated([reference[i] for i in numbers], numbers))


@pytest.mark.parametrize("kind", [atoms, of_two_types])
def test_loader(root_of: Callable[[Make], Path], kind: Make) -> None:
    root = root_of(kind)
    reference = Reader(root)
    loader = apt.Loader(apt.ShardDataset(root), batch_size=10, num_threads=2)
    for k, batch in enumerate(loader):
        numbers = list(range(10 * k, min(10 * k + 10, 64)))
        assert_same(batch, collated([reference[i] for i in numbers], numbers))
    assert k == 6


@pytest.mark.parametrize("kind", [atoms, of_two_types])
def test_a_batch_of_a_subset_is_one_native_call(
    root_of: Callable[[Make], Path], kind: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = Reader(root_of(kind))
    subset = apt.ShardDataset(root_of(kind)).subset([40, 3, 9])

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("another native call")

    monkeypatch.setattr("atompack_torch.formats.atlas_shards.dataset.read_example", refuse)
    for name in ("resolve_indices", "resolve_index"):
        monkeypatch.setattr(f"atompack_torch.formats.atlas_shards.dataset.{name}", refuse)
    assert_same(subset.batch([2, 0]), collated([reference[9], reference[40]], [9, 40]))


def test_jagged(root_of: Callable[[Make], Path]) -> None:
    root = root_of(ragged)
    dataset, reference = apt.ShardDataset(root, layout="jagged"), Reader(root)
    for made in (dataset.batch(range(6)), dataset._open().collate_in_python(range(6))):
        assert list(made) == ["a", "a_offsets", "b", "c"]
        examples = [reference[i] for i in range(6)]
        assert_same(made["a"], torch.cat([torch.as_tensor(e["a"]) for e in examples]))
        assert made["a_offsets"].tolist() == [0, 0, 1, 3, 6, 10, 10]
        values, offsets = made["c"][0]
        assert values.tolist() == [1.0] * 9
        assert offsets.tolist() == [0, 1, 3, 4, 6, 7, 9]


def test_levels_are_those_of_the_data_set(tmp_path: Path) -> None:
    """A molecule of three atoms with a moment: its row is not a row of atoms."""
    with apt.ShardWriter(tmp_path / "set", 100, 10, 0) as writer:
        for n in (3, 4, 3, 5):
            writer.write(
                {
                    "positions": np.zeros((n, 3)),
                    "atomic_numbers": np.ones(n, dtype=np.int64),
                    "moment": np.zeros(3),
                    "spins": np.zeros(n),
                }
            )
    dataset = apt.ShardDataset(tmp_path / "set")
    batch = dataset.batch([0, 2])
    assert batch.level("moment") == "molecule"
    assert batch.level("spins") == "atom"
    assert tuple(batch.moment.shape) == (2, 3)
    told = apt.ShardDataset(tmp_path / "set", levels={"spins": "molecule"}).batch([0, 2])
    assert told.level("spins") == "molecule"


def test_what_no_batch_can_hold(tmp_path: Path) -> None:
    examples = [None, {"a": 1}, {"b": 1}, {"positions": 1, "atomic_numbers": 2}]
    with apt.ShardWriter(tmp_path / "set", 100, 10, 0) as writer:
        for example in examples:
            writer.write(example)
    dataset = apt.ShardDataset(tmp_path / "set")
    with pytest.raises(TypeError, match="NoneType"):
        dataset.batch([0])
    with pytest.raises(KeyError, match="a"):
        dataset.batch([1, 2])
    with pytest.raises(apt.FieldError, match="positions: expected"):
        dataset.batch([3])
    with pytest.raises(IndexError, match="example 4 is out of range"):
        dataset.batch([0, 4])


def molecule_with(value: Any) -> dict[str, Any]:
    return {"positions": np.zeros((2, 3)), "atomic_numbers": np.ones(2, np.int64), "p": value}


def test_lists_of_molecules_keep_their_numbers(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "set", 100, 10, 0) as writer:
        writer.write(
            {
                "positions": [[0.1, 0.2, 0.3]],
                "atomic_numbers": [1],
                "forces": [(0.1, 0.2, 0.3)],
                "p": [0.1, 0.2],
            }
        )
        writer.write(molecule_with([[1, 2], [3]]))
    dataset = apt.ShardDataset(tmp_path / "set")
    batch = dataset.batch([0])
    for name in ("positions", "forces", "p"):
        assert batch[name].dtype == torch.float64
    assert batch.p.tolist() == [[0.1, 0.2]]
    with pytest.raises(apt.FieldError, match="p: expected rows of equal length"):
        dataset.batch([1])


def test_numbers_of_molecules_that_no_int64_or_float64_holds(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "set", 100, 10, 0) as writer:
        for value in (np.complex64(1 + 2j), np.uint64(2**63), np.uint64(7)):
            writer.write(molecule_with(value))
        writer.write(molecule_with(0) | {"energy": np.complex64(1 + 2j)})
    dataset = apt.ShardDataset(tmp_path / "set")
    assert dataset.batch([0]).p.tolist() == [1 + 2j]
    with pytest.raises(apt.FieldError, match=r"p: expected an integer below 2\*\*63, got 92233"):
        dataset.batch([1])
    assert dataset.batch([2]).p.tolist() == [7]
    with pytest.raises(apt.FieldError, match="energy: expected real numbers, got"):
        dataset.batch([3])


def test_pickles_of_the_data_set_are_small(root_of: Callable[[Make], Path]) -> None:
    dataset = apt.ShardDataset(root_of(image))
    dataset.batch(range(20))
    assert len(pickle.dumps(dataset)) < 1000
    assert_same(pickle.loads(pickle.dumps(dataset))[3], dataset[3])


def _read_in_child(dataset: apt.ShardDataset, results: Any) -> None:
    results.put([dataset[i] for i in range(64)])


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.exhaustive)])
def test_other_processes_after_a_read(root_of: Callable[[Make], Path], start: str) -> None:
    dataset = apt.ShardDataset(root_of(numbers))
    assert dataset[5] == 5
    context: Any = multiprocessing.get_context(start)
    results = context.Queue()
    children = [context.Process(target=_read_in_child, args=(dataset, results)) for _ in range(2)]
    for child in children:
        child.start()
    assert dataset[63] == 63
    for _ in children:
        assert results.get(timeout=_TIMEOUT) == list(range(64))
    for child in children:
        child.join(_TIMEOUT)
        assert child.exitcode == 0


def test_other_options_are_refused(root_of: Callable[[Make], Path]) -> None:
    root = root_of(numbers)
    refused: Iterator[dict[str, Any]] = iter(
        [
            {"cache_blocks": -1},
            {"layout": "stacked"},
            {"levels": {"x": "edge"}},
            {"num_threads": 0},
        ]
    )
    for options in refused:
        with pytest.raises(ValueError, match=f"{next(iter(options))}: expected"):
            apt.ShardDataset(root, **options)
