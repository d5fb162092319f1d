"""`missing="drop"` says once how many molecules it omits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.datasets import batches as _batches

N = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        for i in range(N):
            forces = None if i % 4 == 0 else torch.ones(2, 3)
            writer.write(
                apt.Molecule(torch.zeros(2, 3), torch.tensor([1, 1]), energy=1.0, forces=forces)
            )
    return tmp_path / "x.atp"


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def messages(seen: list[Any]) -> list[str]:
    return [str(w.message) for w in seen if "missing=" in str(w.message)]


def test_a_loader_tells_the_total_of_its_first_pass(path: Path, seen: list[Any]) -> None:
    loader = apt.Loader(apt.AtpDataset(path, missing="drop"), batch_size=8, shuffle=True)
    iterator = iter(loader)
    next(iterator)
    assert not messages(seen)
    assert sum(len(batch) for batch in iterator) < 30
    (text,) = messages(seen)
    assert text.startswith("missing='drop': dropped 10 molecules in this pass")
    assert sum(len(batch) for batch in loader) == 30
    assert len(messages(seen)) == 1


@pytest.mark.parametrize(
    "indices", [range(8), [0, 1, 4, 5, 6, 7, 8, 9], torch.arange(8), torch.arange(N) < 8]
)
def test_a_data_set_tells_of_the_first_batch(path: Path, seen: list[Any], indices: Any) -> None:
    dataset = apt.AtpDataset(path, missing="drop")
    dataset.batch([1, 2, 3])
    assert not messages(seen)
    n = 8 - len(dataset.batch(indices))
    dataset.batch(indices)
    (text,) = messages(seen)
    assert text.startswith(f"missing='drop': dropped {n} of 8 molecules of a batch")
    assert len(dataset.filter("has(forces)")) == 30


def test_a_dataloader(path: Path, seen: list[Any]) -> None:
    loader = DataLoader(apt.AtpDataset(path, missing="drop"), batch_size=4)
    assert sum(len(batch) for batch in loader) == 30
    (text,) = messages(seen)
    assert "dropped 1 of 4 molecules" in text


@pytest.mark.parametrize(("worker", "n"), [(0, 1), (1, 0)])
def test_one_worker_speaks_for_all(
    path: Path, seen: list[Any], worker: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = SimpleNamespace(id=worker)
    monkeypatch.setattr(_batches, "get_worker_info", lambda: info)
    apt.AtpDataset(path, missing="drop").batch(range(8))
    assert len(messages(seen)) == n


@pytest.mark.parametrize("missing", ["nan", "drop"])
def test_nothing_is_said_of_what_is_not_dropped(path: Path, seen: list[Any], missing: Any) -> None:
    fields = None if missing == "nan" else ["energy"]
    dataset = apt.AtpDataset(path, missing=missing, fields=fields)
    assert sum(len(batch) for batch in apt.Loader(dataset, batch_size=8)) == N
    assert len(dataset.batch(range(N))) == N
    assert not messages(seen)
