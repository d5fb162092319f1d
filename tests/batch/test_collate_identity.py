"""What collate functions, ours and others', make of finished batches."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, default_collate
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader as PygLoader
from torch_geometric.loader.dataloader import Collater as PygCollater

import atompack_torch as apt

N = 12
Pair = namedtuple("Pair", ["energy", "positions"])


class Custom:
    """A result of nobody's class."""

    def __init__(self, batch: apt.MoleculeBatch) -> None:
        self.energy, self.positions = batch.energy, batch.positions


def as_dict(batch: apt.MoleculeBatch) -> Any:
    inner = {"positions": batch.positions, "n": 3}
    return {"energy": batch.energy, "n": 2, "names": ["a", "b"], "inner": inner, "x": 0.5}


def as_ordered(batch: apt.MoleculeBatch) -> Any:
    return OrderedDict(as_dict(batch))


def as_user_dict(batch: apt.MoleculeBatch) -> Any:
    return UserDict(as_dict(batch))


def as_pyg(batch: apt.MoleculeBatch) -> Any:
    return batch.to_pyg()


def as_tuple(batch: apt.MoleculeBatch) -> Any:
    return batch.energy, [batch.positions, "text"], 3


def as_named_tuple(batch: apt.MoleculeBatch) -> Any:
    return Pair(batch.energy, batch.positions)


def as_list(batch: apt.MoleculeBatch) -> Any:
    return [batch.energy, batch.positions]


def as_tensor(batch: apt.MoleculeBatch) -> Any:
    return batch.energy


def as_number(batch: apt.MoleculeBatch) -> Any:
    return batch.energy.sum().item()


def as_text(batch: apt.MoleculeBatch) -> Any:
    return f"{len(batch)} molecules"


def as_batch(batch: apt.MoleculeBatch) -> Any:
    return batch


MAPPINGS: list[Callable[[apt.MoleculeBatch], Any]] = [as_dict, as_ordered, as_user_dict]
OTHERS = [as_pyg, as_tuple, as_named_tuple, as_list, as_tensor, as_number, as_text, Custom]
every_result = pytest.mark.parametrize("transform", [*MAPPINGS, *OTHERS])


class MaceCollater:
    """Collates as the loader of MACE does: by type of the first item, recursively."""

    def __call__(self, items: Any) -> Any:
        first = items[0]
        if isinstance(first, torch.Tensor):
            return default_collate(items)
        if isinstance(first, float):
            return torch.tensor(items, dtype=torch.float)
        if isinstance(first, int):
            return torch.tensor(items)
        if isinstance(first, str):
            return items
        if isinstance(first, Mapping):
            return {key: self([item[key] for item in items]) for key in first}
        if isinstance(first, tuple) and hasattr(first, "_fields"):
            return type(first)(*(self(column) for column in zip(*items, strict=True)))
        if isinstance(first, Sequence):
            return [self(column) for column in zip(*items, strict=True)]
        raise TypeError(f"invalid type: {type(first)}")


def nequip_collate(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Batches as NequIP does: a list of one dict is a copy of that dict."""
    assert len(items) == 1
    made = items[0].copy()
    made.setdefault("batch", torch.zeros(1))
    return made


@pytest.fixture(scope="module")
def path(new_path: Callable[[], Path]) -> Path:
    """A file of molecules of one to six atoms."""
    made = new_path()
    rng = np.random.default_rng(0)
    with apt.AtpWriter(made) as writer:
        for number in range(N):
            positions = rng.normal(size=(number % 6 + 1, 3)).astype(np.float32)
            writer.write(apt.Molecule(positions, np.full(len(positions), 6), energy=float(number)))
    return made


def plain(value: Any) -> Any:
    """Nested lists and numbers, with the class of everything that is not a tensor."""
    if isinstance(value, torch.Tensor):
        return "tensor", tuple(value.shape), str(value.dtype), value.tolist()
    if isinstance(value, Batch):
        return "pyg", plain(value.to_dict())
    if isinstance(value, Custom):
        return "custom", plain(vars(value))
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [plain(entry) for entry in value]
    return value


COLLATERS = (default_collate, apt.collate_identity, PygCollater([]), MaceCollater())


@every_result
def test_results_come_through_unchanged(path: Path, transform: Any) -> None:
    dataset = apt.AtpDataset(path, transform=transform)
    indices = [3, 1, 4, 1]
    for source, collate in itertools.product((dataset, Subset(dataset, range(N))), COLLATERS):
        made = collate(source.__getitems__(indices))
        assert plain(made) == plain(dataset.batch(indices))
        if transform not in MAPPINGS:
            assert type(made) is type(dataset.batch(indices))
        else:
            assert isinstance(made, dict | UserDict)
            assert type(made).__module__ != "atompack_torch.datasets.collated"


@every_result
@pytest.mark.parametrize("num_workers", [0, 2])
def test_in_loaders(path: Path, transform: Any, num_workers: int) -> None:
    dataset = apt.AtpDataset(path, transform=transform)
    expected = [plain(dataset.batch(range(k, k + 4))) for k in range(0, N, 4)]
    loaders = [
        DataLoader(dataset, 4, num_workers=num_workers),
        DataLoader(dataset, 4, num_workers=num_workers, collate_fn=apt.collate_identity),
        DataLoader(dataset, 4, num_workers=num_workers, collate_fn=MaceCollater()),
        PygLoader(dataset, 4, num_workers=num_workers),
    ]
    for loader in loaders:
        assert [plain(batch) for batch in loader] == expected
    assert [plain(batch) for batch in apt.Loader(dataset, 4)] == expected


@pytest.mark.parametrize("transform", MAPPINGS)
def test_a_list_of_one_dict_is_taken_as_such(path: Path, transform: Any) -> None:
    dataset = apt.AtpDataset(path, transform=transform)
    expected = plain(dataset.batch([0, 5]))
    made = nequip_collate(dataset.__getitems__([0, 5]))
    assert plain({key: value for key, value in made.items() if key != "batch"}) == expected
    (batch,) = dataset.__getitems__([0, 5])
    assert plain(batch) == expected
    assert [plain(batch) for batch in dataset.__getitems__([0, 5])] == [expected]
    assert plain(dataset.__getitems__([0, 5])[0]["energy"]) == expected["energy"]


def test_molecule_batches(path: Path) -> None:
    for dataset in (apt.AtpDataset(path), apt.AtpDataset(path, transform=as_batch)):
        items = dataset.__getitems__([1, 2])
        assert type(items) is list
        assert apt.collate_identity(items) is items[0]
        assert apt.collate_identity(items[0]) is items[0]
        loader = PygLoader(dataset, 4)
        loader.collate_fn = apt.collate_identity
        assert [batch.energy.tolist() for batch in loader] == [
            [float(k + i) for i in range(4)] for k in range(0, N, 4)
        ]


def test_what_is_not_finished_is_refused(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    with pytest.raises(TypeError, match=r"list of one finished batch, got 2 items; apt\.collate"):
        apt.collate_identity([dataset[0], dataset[1]])
    assert apt.collate_identity(3) == 3


@every_result
def test_items_pickle_and_copy(path: Path, transform: Any) -> None:
    dataset = apt.AtpDataset(path, transform=transform)
    items = dataset.__getitems__([2, 3])
    expected = plain(dataset.batch([2, 3]))
    for twin in (pickle.loads(pickle.dumps(items)), copy.deepcopy(items), copy.copy(items)):
        assert plain(apt.collate_identity(twin)) == expected


def shifted(items: list[Any]) -> Any:
    """A collate function that continues with what it got."""
    batch = apt.collate_identity(items)
    return {**batch, "image": batch["image"] + 1}


def changed(items: list[Any]) -> Any:
    """Another one, that changes the dict in its place."""
    items[0]["image"] = items[0]["image"] + 1
    return items[0]


@pytest.mark.parametrize("collate", [shifted, changed])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_own_collate_functions_of_dicts(tmp_path: Path, collate: Any, num_workers: int) -> None:
    """Also in workers, where dicts travel as one piece if nobody touches them."""
    with apt.ShardWriter(tmp_path / "shards", 20, 5) as writer:
        for i in range(20):
            writer.write({"image": np.full((2, 2), i, np.int64), "label": i})
    dataset = apt.ShardDataset(tmp_path / "shards")
    batches = list(DataLoader(dataset, 5, num_workers=num_workers, collate_fn=collate))
    assert [batch["image"][:, 0, 0].tolist() for batch in batches] == [
        [k + i + 1 for i in range(5)] for k in range(0, 20, 5)
    ]
    assert torch.cat([batch["label"] for batch in batches]).tolist() == list(range(20))
    kept = list(DataLoader(dataset, 5, num_workers=num_workers, collate_fn=apt.collate_identity))
    assert all(type(batch) is dict for batch in kept)
    assert torch.cat([batch["label"] for batch in kept]).tolist() == list(range(20))
