"""TorchMD-Net: batches, results and losses of PyG's loader; ranks, resuming, missing labels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from pages import LIGHTNING
from structures import KEY_MAP, misnamed_as, structures, write_atp
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torchmdnet_cases import losses, task

import atompack_torch as apt
from atompack_torch.trainers import torchmdnet
from atompack_torch.trainers.torchmdnet._command import Structures

N = 30


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_atp(tmp_path_factory.mktemp("torchmdnet") / "a.atp", structures(N))


def stock_batches(batches: list[list[int]], dtype: torch.dtype) -> list[Any]:
    """Batches of torch-geometric's loader, as TorchMD-Net makes them."""
    graphs = [
        Data(
            z=torch.tensor(atoms.numbers),
            pos=torch.tensor(atoms.positions, dtype=dtype),
            y=torch.tensor([[atoms.calc.results["energy"]]], dtype=dtype),
            neg_dy=torch.tensor(atoms.calc.results["forces"], dtype=dtype),
        )
        for atoms in structures(N)
    ]
    return [next(iter(DataLoader([graphs[i] for i in batch], len(batch)))) for batch in batches]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_tensor_and_the_results(path: Path, dtype: torch.dtype) -> None:
    batches = [[*range(7)], [25, 3], [11]]
    expected = stock_batches(batches, dtype)
    network = task(dtype).model
    ours = torchmdnet.loader(path, batch_sampler=batches, dtype=dtype)
    for made, stock, numbers in zip(ours, expected, batches, strict=True):
        assert made.index.tolist() == numbers
        assert made.num_graphs == stock.num_graphs
        finished = torchmdnet.batch(apt.AtpDataset(path)[numbers], dtype=dtype)
        for name in ("z", "pos", "y", "neg_dy", "batch", "ptr"):
            assert torch.equal(made[name], stock[name]), name
            assert torch.equal(finished[name], stock[name]), name
        results = [network(one.z, one.pos, batch=one.batch) for one in (made, stock)]
        for found, wanted in zip(*results, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_losses_of_twenty_steps(path: Path, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    batches = [rng.permutation(N)[:4].tolist() for _ in range(20)]
    expected = losses(stock_batches(batches, dtype), dtype)
    found = losses(torchmdnet.loader(path, batch_sampler=batches, dtype=dtype), dtype)
    assert len(found) == 20
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype.itemsize == 8 else 1e-4)


def test_moments_and_references(path: Path) -> None:
    refs = {1: -3.0, 6: -4.0, 8: -4.5, 13: -4.1, 29: -3.9}
    data = torchmdnet.DataModule(path, batch_size=4, atomref=refs, remove_ref_energy=True)
    rest = np.array(
        [a.calc.results["energy"] - sum(refs[z] for z in a.numbers) for a in structures(N)]
    )
    assert float(data.mean) == pytest.approx(rest.mean(), rel=1e-12)
    assert float(data.std) == pytest.approx(rest.std(ddof=1), rel=1e-12)
    table = data.atomref
    assert table is not None
    assert table.shape == (128, 1)
    assert float(table[13]) == pytest.approx(-4.1)
    (batch,) = torchmdnet.loader(path, batch_size=N, shuffle=False, atomref=refs)
    np.testing.assert_allclose(batch.y[:, 0].numpy(), rest.astype(np.float32))


def test_the_data_module_in_lightning(path: Path) -> None:
    data = torchmdnet.DataModule(path, path, batch_size=8)
    trainer = lightning.Trainer(max_epochs=2, **LIGHTNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(task(torch.float32), datamodule=data)
    assert trainer.global_step == 8


def test_structures_without_labels_are_left_out(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(12, without=("forces",)))
    with pytest.warns(UserWarning, match="dropped 4 of 12 molecules that lack energy, forces"):
        loader = torchmdnet.loader(path, batch_size=3)
    batches = list(loader)
    seen = sorted(number for batch in batches for number in batch.index.tolist())
    assert seen == [number for number in range(12) if number % 3 != 1]
    assert all(torch.isfinite(batch.neg_dy).all() for batch in batches)
    (energies,) = torchmdnet.loader(path, batch_size=12, forces=None)
    assert len(energies.y) == 12
    assert "neg_dy" not in energies


def test_an_element_without_a_reference(path: Path) -> None:
    with pytest.raises(apt.FieldError, match="no reference energy of element"):
        list(torchmdnet.loader(path, batch_size=2, atomref={13: -4.0}))


def test_key_map_of_the_command(tmp_path: Path) -> None:
    path, energies = misnamed_as(".xyz", tmp_path)
    assert len(Structures(path, key_map=KEY_MAP)) == len(energies)
