"""SchNetPack: batches, results and losses of its own data path; ranks, resuming, missing labels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pages import LIGHTNING
from ranks import run_ranks
from schnetpack_cases import model, stock_batches, stock_data, task, trainer, trn
from structures import CUTOFF, structures, write_atp

import atompack_torch as apt

N = 30
PAIRS = ("_idx_i", "_idx_j", "_offsets", "_idx_i_local", "_idx_j_local")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schnetpack")
    write_atp(folder / "a.atp", structures(N))
    return folder


@pytest.fixture(scope="module")
def stock(folder: Path) -> Any:
    return stock_data(folder / "a.db", structures(N))


def sorted_pairs(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    columns = (batch["_idx_i"][:, None], batch["_idx_j"][:, None], batch["_offsets"])
    rows = torch.cat([column.double() for column in columns], 1)
    return rows[np.lexsort(rows.round(decimals=4).T.numpy()[::-1])]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_tensor_and_the_results(folder: Path, stock: Any, dtype: torch.dtype) -> None:
    batches = [[*range(7)], [25, 3], [11]]
    expected = stock_batches(stock, batches, dtype)
    ours = trainer.loader(folder / "a.atp", CUTOFF, batch_sampler=batches, dtype=dtype)
    edges = apt.AtpDataset(folder / "a.atp", neighbors=apt.NeighborList(CUTOFF))
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    network = model().to(dtype)
    for made, one, numbers in zip(ours, expected, batches, strict=True):
        assert made.keys() == one.keys() - {"_idx_i_local", "_idx_j_local"}
        assert made["_idx"].tolist() == numbers
        for name in made.keys() - {*PAIRS, "_idx"}:
            # SchNetPack reads labels as float32.
            bound = 1e-6 if name in trainer.LABELS else tolerance
            torch.testing.assert_close(made[name], one[name], rtol=bound, atol=bound)
        torch.testing.assert_close(sorted_pairs(made), sorted_pairs(one), rtol=0, atol=1e-5)
        finished = trainer.batch(edges.batch(numbers), CUTOFF, dtype=dtype)
        assert finished.keys() == made.keys()
        assert all(torch.equal(finished[name], made[name]) for name in made)
        results = [network(dict(batch)) for batch in (made, one)]
        for name in ("energy", "forces"):
            found, wanted = (result[name] for result in results)
            torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_losses_of_twenty_steps(folder: Path, stock: Any, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    batches = [rng.permutation(N)[:4].tolist() for _ in range(20)]

    def losses(data: Any) -> list[float]:
        trained = task().to(dtype)
        trained.log = lambda *_, **__: None
        optimizer = trained.configure_optimizers()
        found = []
        for number, batch in enumerate(data):
            optimizer.zero_grad()
            loss = trained.training_step(dict(batch), number)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    expected = losses(stock_batches(stock, batches, dtype))
    ours = trainer.loader(folder / "a.atp", CUTOFF, batch_sampler=batches, dtype=dtype)
    np.testing.assert_allclose(losses(ours), expected, rtol=1e-6 if dtype.itemsize == 8 else 1e-4)


def fit(data: Any, trained: Any, **options: Any) -> pl.Trainer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = pl.Trainer(**LIGHTNING | options)
        runner.fit(trained, datamodule=data)
    return runner


def test_offsets_of_the_data_module(folder: Path) -> None:
    """What `AddOffsets` adds to predictions is what was removed from the labels."""
    refs = {"energy": {"H": -3.0, "C": -4.0, "O": -4.5, "Al": -4.1, "Cu": -3.9}}
    data = trainer.DataModule(
        folder / "a.atp",
        folder / "a.atp",
        cutoff=CUTOFF,
        batch_size=4,
        remove_mean=["energy"],
        atomrefs=refs,
    )
    offsets = trn.AddOffsets("energy", add_mean=True, add_atomrefs=True)
    trained = task(postprocessors=[trn.CastTo64(), offsets])
    fit(data, trained, max_epochs=1)
    made = structures(N)
    table = {
        number: refs["energy"][symbol]
        for symbol, number in {"H": 1, "C": 6, "O": 8, "Al": 13, "Cu": 29}.items()
    }
    rest = np.array(
        [(a.calc.results["energy"] - sum(table[z] for z in a.numbers)) / len(a) for a in made]
    )
    mean, std = data.get_stats("energy", True, True)
    np.testing.assert_allclose([mean, std], [rest.mean(), rest.std()], rtol=1e-12)
    assert float(offsets.mean) == pytest.approx(rest.mean(), rel=1e-12)
    for batch in data.val_dataloader():
        for number, energy in zip(batch["_idx"].tolist(), batch["energy"].tolist(), strict=True):
            wanted = (rest[number] - rest.mean()) * len(made[number])
            assert energy == pytest.approx(wanted, abs=1e-5)


def test_two_ranks(folder: Path, tmp_path: Path) -> None:
    ranks = run_ranks(tmp_path, Path(__file__).with_name("schnetpack_rank.py"), folder / "a.atp")
    for epoch in range(2):
        seen = [number for rank in ranks for number in rank["epochs"][epoch]]
        assert sorted(seen) == list(range(N))
    assert ranks[0]["epochs"][0] != ranks[0]["epochs"][1]


def test_structures_without_labels_are_left_out(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(12, without=("forces",)))
    with pytest.warns(UserWarning, match="dropped 4 of 12 molecules that lack energy, forces"):
        loader = trainer.loader(path, CUTOFF, batch_size=3)
    batches = list(loader)
    seen = sorted(number for batch in batches for number in batch["_idx"].tolist())
    assert seen == [number for number in range(12) if number % 3 != 1]
    assert all(torch.isfinite(batch["forces"]).all() for batch in batches)
    (energies,) = trainer.loader(path, CUTOFF, batch_size=12, properties=["energy"])
    assert len(energies["energy"]) == 12
    bare = write_atp(tmp_path / "b.atp", structures(1, seed=1, without=()))
    with pytest.raises(apt.FieldError, match="no molecule has 'dipole'; the file has 'energy'"):
        trainer.loader(bare, CUTOFF, batch_size=1, properties=["dipole"])
    with pytest.raises(apt.FieldError, match="no molecule has 'velocities'"):
        trainer.loader(bare, CUTOFF, batch_size=1, properties=["velocities"])


def test_an_element_without_a_reference(folder: Path) -> None:
    loader = trainer.loader(folder / "a.atp", CUTOFF, batch_size=2, offsets={"energy": {13: -4.0}})
    with pytest.raises(apt.FieldError, match="no reference energy of element"):
        list(loader)
