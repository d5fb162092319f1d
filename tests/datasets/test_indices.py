"""Indices and masks: every dataset and every way in takes and refuses the same ones."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from fixtures import make_cache
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch._core import resolve_index, resolve_indices

N = 4
CACHE = make_cache.FOLDER / "water.h5"


class Labelled:
    """A column of a data frame: looks items up by label, and comes as an array by place."""

    def __init__(self, values: list[int]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, label: int) -> int:
        return self._values[-1 - label]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._values, dtype=dtype)


def negated() -> torch.Tensor:
    """3, 1, 0 in memory that holds -3, -1, 0."""
    return torch._neg_view(torch.tensor([-3, -1, 0]))


KINDS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
WHOLE = [3, 1, 0]
MASK = [True, True, False, True]
TAKEN: dict[str, tuple[Any, list[int]]] = {
    "list": ([3, -3, 0], WHOLE),
    "tuple": ((3, 1, -4), WHOLE),
    "range": (range(3, 0, -2), [3, 1]),
    "repeats": ([2, 2, -2], [2, 2, 2]),
    "empty list": ([], []),
    "empty tensor": (torch.tensor([]), []),
    "empty array": (np.array([]), []),
    "NumPy scalars": ([np.int64(3), np.uint8(1), np.int8(-4)], WHOLE),
    "tensors without dimensions": (list(torch.tensor([3, 1, -4])), WHOLE),
    "tensors of uint64": ([torch.tensor(3, dtype=torch.uint64)], [3]),
    "objects": (np.array([3, 1, 0], dtype=object), WHOLE),
    "labelled column": (Labelled(WHOLE), WHOLE),
    "big-endian array": (np.array([3, 1, -4], dtype=">i8"), WHOLE),
    "unaligned array": (np.frombuffer(b"\0" + np.array(WHOLE).tobytes(), "<i8", 3, 1), WHOLE),
    "reversed array": (np.arange(4)[::-1], [3, 2, 1, 0]),
    "strided array": (np.arange(4)[1::2], [1, 3]),
    "strided tensor": (torch.tensor([3, 9, 1, 9, 0, 9])[::2], WHOLE),
    "column of a tensor": (torch.tensor([[3, 9], [1, 9], [0, 9]])[:, 0], WHOLE),
    "expanded tensor": (torch.tensor(2).expand(3), [2, 2, 2]),
    "negated tensor": (negated(), WHOLE),
    "mask": (MASK, [0, 1, 3]),
    "mask of NumPy bools": ([np.bool_(flag) for flag in MASK], [0, 1, 3]),
    "mask of tensors": (list(torch.tensor(MASK)), [0, 1, 3]),
    "mask in a tuple": (tuple(MASK), [0, 1, 3]),
    "mask in an array": (np.array(MASK), [0, 1, 3]),
    "mask in a strided array": (np.array([MASK, MASK]).T[:, 0], [0, 1, 3]),
    "mask in a tensor": (torch.tensor(MASK), [0, 1, 3]),
    "mask in a strided tensor": (torch.tensor([MASK, MASK]).T[:, 0], [0, 1, 3]),
    "mask of nothing": (torch.zeros(N, dtype=torch.bool), []),
    **{f"array of {t}": (np.array(WHOLE, t), WHOLE) for t in KINDS},
    **{
        f"tensor of {t}": (torch.tensor(WHOLE).to(t), WHOLE)
        for t in (
            *(torch.uint8, torch.int8, torch.uint16, torch.int16),
            *(torch.uint32, torch.int32, torch.uint64, torch.int64),
        )
    },
}


def sparse_csr() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.eye(2, dtype=torch.int64).to_sparse_csr()


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.tensor([0]), torch.tensor([1, 2])])


def quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "float": ([1.0], TypeError, "expected integers, got float"),
    "string": (["1"], TypeError, "expected integers, got str"),
    "None": ([None], TypeError, "expected integers, got NoneType"),
    "nested list": ([[0, 1], [2, 3]], TypeError, "expected integers, got list"),
    "list of tensors": ([torch.tensor([1])], TypeError, r"got a tensor of shape \[1\]"),
    "bools and numbers": ([True, 0, 1, 2], TypeError, "got a list of bools and numbers"),
    "numbers and bools": ([0, True, 1, 2], TypeError, "got a list of bools and numbers"),
    "array of floats": (np.array([1.0]), TypeError, "got float64"),
    "array of complex": (np.array([1 + 1j]), TypeError, "got complex128"),
    "array of dates": (np.array([1], "M8[s]"), TypeError, r"got datetime64\[s\]"),
    "two dimensions": (np.zeros((2, 2), int), TypeError, "got an array of 2 dimensions"),
    "masked array": (np.ma.array([0, 1], mask=[True, False]), TypeError, "got a masked array"),
    "tensor of floats": (torch.tensor([1.0]), TypeError, "got a tensor of Float"),
    "tensor of complex": (torch.tensor([1j]), TypeError, "got a tensor of ComplexFloat"),
    "tensor of two dimensions": (torch.zeros(2, 2).long(), TypeError, r"of shape \[2, 2\]"),
    "mask of two dimensions": (torch.ones(4, 1).bool(), TypeError, r"of shape \[4, 1\]"),
    "meta tensor": (torch.zeros(2, dtype=torch.int64, device="meta"), TypeError, "a meta tensor"),
    "sparse tensor": (torch.tensor([0, 1]).to_sparse(), TypeError, "of layout Sparse"),
    "sparse rows": (sparse_csr(), TypeError, "of layout SparseCsr"),
    "nested tensor": (nested(), TypeError, "a nested tensor"),
    "quantized tensor": (
        quantized(),
        TypeError,
        "a quantized tensor",
    ),
    "too large": ([N], IndexError, "4 is out of range for a dataset of 4"),
    "too small": ([0, -N - 1], IndexError, "-5 is out of range for a dataset of 4"),
    "beyond int64": ([2**63], IndexError, "of more than 64 bits is out of range"),
    "far below": ([-(2**70)], IndexError, "of more than 64 bits is out of range"),
    "array of uint64": (np.array([2**64 - 1], "u8"), IndexError, f"{2**64 - 1} is out of range"),
    "tensor of uint64": (
        torch.tensor([-1]).view(torch.uint64),
        IndexError,
        f"{2**64 - 1} is out of range",
    ),
    "strided tensor": (torch.tensor([0, 1, 9, 1])[::2], IndexError, "9 is out of range"),
    "short mask": ([True], IndexError, "expected a mask of 4 bools, one for each .*, got 1"),
    "long mask": ([False] * 5, IndexError, "expected a mask of 4 bools, one for each .*, got 5"),
    "short array": (np.ones(3, bool), IndexError, "expected a mask of 4 bools.*got 3"),
    "long tensor": (torch.zeros(5).bool(), IndexError, "expected a mask of 4 bools.*got 5"),
    "empty mask": (torch.zeros(0).bool(), IndexError, "expected a mask of 4 bools.*got 0"),
}

# What is not a sequence at all, or names one item where several are expected.
NO_SEQUENCES: dict[str, Any] = {
    "number": 1,
    "string": "01",
    "bytes": b"\0\1",
    "set": {0, 1},
    "dict": {0: 1},
    "iterator": iter([0, 1]),
    "None": None,
    "tensor without dimensions": torch.tensor(1),
    "array without dimensions": np.array(1),
}


class Way(NamedTuple):
    """One way to select items of a dataset of four; ``numbers`` tells which came."""

    select: Callable[[Any], Any]
    numbers: Callable[[Any], list[int]]


def error_of(call: Callable[[Any], Any], argument: Any) -> Exception | None:
    try:
        call(argument)
    except Exception as error:
        return error
    return None


def of_molecules(batch: Any) -> list[int]:
    return [int(i) for i in batch.index]


def of_names(batch: Any) -> list[int]:
    return [int(name[1:]) for name in batch["name"]]


def of_examples(batch: Any) -> list[int]:
    return [int(n) for n in batch["n"]] if batch else []


def write_molecules(path: Path, n: int) -> Path:
    with apt.AtpWriter(path) as writer:
        writer.write_arrays(
            positions=np.zeros((n, 3), np.float32),
            atomic_numbers=np.full(n, 6),
            n_atoms=np.ones(n, int),
            energy=np.arange(n, dtype=np.float64),
        )
    return path


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """Datasets of four items, also as subsets, and how their batches tell which they hold."""
    folder = tmp_path_factory.mktemp("indices")
    atp = apt.AtpDataset(write_molecules(folder / "a.atp", N))
    with apt.AtlasStore(folder / "store", "x") as store:
        for i in range(N):
            store.create_dataset(f"d{i}")
            store.define_array(f"d{i}", "x", "int64", (2,))
            store.write(f"d{i}", "x", np.array([i, -i]))
    with apt.ShardWriter(folder / "shards", 3, 2, 0) as writer:
        for i in range(N):
            writer.write({"n": i})
    atlas = apt.AtlasDataset(folder / "store", ["x"])
    shards = apt.ShardDataset(folder / "shards")
    pickles = apt.ShardDataset(folder / "shards", allow_pickle=True)
    more = apt.AtpDataset(write_molecules(folder / "b.atp", 2 * N))
    return {
        "AtpDataset": (atp, of_molecules),
        "TorchCacheDataset": (apt.TorchCacheDataset(CACHE), of_molecules),
        "MixtureDataset": (apt.MixtureDataset([atp]), of_molecules),
        "AtlasDataset": (atlas, of_names),
        "ShardDataset": (shards, of_examples),
        "ShardDataset with pickles": (pickles, of_examples),
        # The numbers of these are 2 i + 1 in the whole set.
        "subset": (
            more.subset(range(1, 2 * N, 2)),
            lambda batch: [(i - 1) // 2 for i in of_molecules(batch)],
        ),
        "subset of pickles": (
            pickles.subset([3, 2, 1, 0]),
            lambda batch: [3 - i for i in of_examples(batch)],
        ),
        "subset of a store": (
            atlas.subset([3, 2, 1, 0]),
            lambda batch: [3 - i for i in of_names(batch)],
        ),
    }


DATASETS = [
    *("AtpDataset", "TorchCacheDataset", "MixtureDataset", "AtlasDataset", "ShardDataset"),
    *("ShardDataset with pickles", "subset", "subset of pickles", "subset of a store"),
]


def only(batches: Iterator[Any] | list[Any]) -> Any:
    (batch,) = batches
    return batch


def ways_of(datasets: dict[str, tuple[Any, Any]], name: str) -> dict[str, Way]:
    if name == "elsewhere":
        store = datasets["AtlasDataset"][0].store
        return {
            "TorchCache.batch": Way(apt.TorchCache(CACHE).batch, of_molecules),
            "AtlasStore.scan": Way(
                lambda i: store.scan("x", i), lambda scan: [int(name[1:]) for name in scan.datasets]
            ),
        }
    dataset, numbers = datasets[name]
    return {
        "batch": Way(dataset.batch, numbers),
        "[...]": Way(dataset.__getitem__, numbers),
        "subset": Way(lambda i: dataset.subset(i)[:], numbers),
        "DataLoader": Way(
            lambda i: only(DataLoader(dataset, batch_sampler=[i], num_workers=0)), numbers
        ),
        "Loader": Way(
            lambda i: only(list(apt.Loader(dataset, batch_sampler=[i], num_threads=1))), numbers
        ),
    }


@pytest.mark.parametrize("name", [*DATASETS, "elsewhere"])
def test_taken(datasets: dict[str, tuple[Any, Any]], name: str) -> None:
    for way, (select, told) in ways_of(datasets, name).items():
        for case, (indices, expected) in TAKEN.items():
            assert told(select(indices)) == expected, (way, case)


@pytest.mark.parametrize("name", [*DATASETS, "elsewhere"])
def test_refused(datasets: dict[str, tuple[Any, Any]], name: str) -> None:
    for way, (select, _) in ways_of(datasets, name).items():
        for case, (indices, error, message) in REFUSED.items():
            if way == "AtlasStore.scan" and case == "string":
                continue  # a name
            refused = error_of(select, indices)
            assert isinstance(refused, error), (way, case, refused)
            assert re.search(message, str(refused)), (way, case)


@pytest.mark.parametrize("name", DATASETS)
def test_no_sequences(datasets: dict[str, tuple[Any, Any]], name: str) -> None:
    dataset = datasets[name][0]
    for case, value in NO_SEQUENCES.items():
        for select in (dataset.batch, dataset.subset):
            refused = error_of(select, value)
            assert isinstance(refused, TypeError), (case, refused)
            assert "indices: expected integers, got " in str(refused), (case, refused)


@pytest.mark.parametrize("name", DATASETS)
def test_single_items(datasets: dict[str, tuple[Any, Any]], name: str) -> None:
    dataset, numbers = datasets[name]
    one = dataset[-2]
    key = "name" if "store" in name or name == "AtlasDataset" else "n"
    for index in (
        2,
        np.int8(-2),
        np.uint64(2),
        torch.tensor(2),
        torch.tensor(2, dtype=torch.uint8),
    ):
        if isinstance(one, dict):
            assert dataset[index][key] == one[key]
        else:
            assert torch.equal(dataset[index].positions, one.positions)
            assert torch.equal(dataset[index].index, one.index)
    assert numbers(dataset[torch.tensor([2])]) == [2]
    for wrong in (1.0, True, np.True_, torch.tensor(True), torch.tensor(1.0), None, ...):
        with pytest.raises(TypeError, match="indices: expected integers, got "):
            dataset[wrong]
    with pytest.raises((TypeError, apt.FieldError), match=r"'1'|expected integers"):
        dataset["1"]  # the name of a field, for molecules
    for beyond in (N, -N - 1, 2**64, np.uint64(2**64 - 1)):
        with pytest.raises(IndexError, match="is out of range for a dataset of 4"):
            dataset[beyond]


def test_single_entries() -> None:
    cache = apt.TorchCache(CACHE)
    assert torch.equal(cache.load_features(torch.tensor(1)), cache.load_features(-3))
    for wrong in (1.0, True, "1"):
        with pytest.raises(TypeError, match="indices: expected integers, got "):
            cache.load_features(wrong)
    with pytest.raises(IndexError, match=r"water\.h5: entry 4 is out of range"):
        cache.load_features(4)


def test_empty_datasets(tmp_path: Path) -> None:
    empty = apt.AtpDataset(write_molecules(tmp_path / "a.atp", 1)).subset([])
    for nothing in ([], (), range(0), torch.zeros(0).bool(), np.zeros(0, bool), torch.tensor([])):
        assert len(empty.batch(nothing)) == len(empty.subset(nothing)) == 0
    with pytest.raises(IndexError, match="0 is out of range for a dataset of 0"):
        empty.batch([0])
    with pytest.raises(IndexError, match="expected a mask of 0 bools"):
        empty.batch([True])


def test_a_permutation_in_strides(tmp_path: Path) -> None:
    """The batches of a sampler that are views of one tensor."""
    dataset = apt.AtpDataset(write_molecules(tmp_path / "a.atp", 100))
    batches = list(torch.randperm(100, generator=torch.Generator().manual_seed(1))[1::2].split(10))
    for found, expected in zip(apt.Loader(dataset, batch_sampler=batches), batches, strict=True):
        assert found.index.tolist() == expected.tolist()
        assert found.energy.tolist() == expected.tolist()


def test_a_subset_has_its_own_numbers(tmp_path: Path) -> None:
    dataset = apt.AtpDataset(write_molecules(tmp_path / "a.atp", N))
    indices = torch.tensor([2, 1])
    part = dataset.subset(indices)
    indices.zero_()
    assert part[:].index.tolist() == [2, 1]


def test_objects_that_change_a_list_while_it_is_read() -> None:
    class Shrinking:
        def __init__(self, items: list[Any]) -> None:
            self._items = items

        def __index__(self) -> int:
            self._items.clear()
            return 0

    items: list[Any] = []
    items += [Shrinking(items), *range(1, 1000)]
    assert resolve_indices(items, 1000, None, "molecule").tolist() == [0]


def test_errors_of_objects_come_through() -> None:
    class Broken:
        def __index__(self) -> int:
            raise RuntimeError("no number")

    for call in (resolve_indices, resolve_index):
        with pytest.raises(RuntimeError, match="no number"):
            call([Broken()] if call is resolve_indices else Broken(), 4, None, "molecule")


def test_selections_are_plain_memory() -> None:
    for wrong in (torch.arange(4)[::2], torch.arange(2).int(), torch.zeros(1, 1).long(), negated()):
        with pytest.raises(AssertionError, match="a selection is not contiguous int64"):
            resolve_indices([0], 4, wrong, "molecule")
