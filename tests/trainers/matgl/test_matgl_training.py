"""Training by Lightning and MatGL's module with these batches, next to its own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import lightning
import pytest
from matgl_cases import BATCH, ELEMENTS, Noting, fit, new_module, stock_loader, use_dtype
from pages import LIGHTNING
from structures import CUTOFF, structures, write_atp

from atompack_torch.trainers import matgl
from atompack_torch.trainers.lightning import DataModule

N = 16


def ours(data: Any, **options: Any) -> Any:
    options = {"batch_size": BATCH, "shuffle": False} | options
    return matgl.loader(data, ELEMENTS, CUTOFF, **options)


@pytest.mark.parametrize(("bits", "rel"), [(32, 1e-4), (64, 1e-6)])
@pytest.mark.parametrize("model", ["TensorNet", "M3GNet"])
def test_the_same_losses(tmp_path: Path, model: str, bits: int, rel: float) -> None:
    made = structures(N, periodic=True)
    path = write_atp(tmp_path / "a.atp", made)
    use_dtype(bits)
    try:
        found = fit(new_module(model), ours(path), max_steps=20)
        expected = fit(new_module(model), stock_loader(made), max_steps=20)
    finally:
        use_dtype(32)
    assert len(found.losses) == 20
    assert found.losses == pytest.approx(expected.losses, rel=rel)


@pytest.mark.parametrize("without", ["energy", "forces", "stress"])
def test_missing_labels_do_not_count(tmp_path: Path, without: str) -> None:
    """Not even where they are missing in a whole batch, here the first."""
    path = write_atp(tmp_path / "a.atp", structures(6, periodic=True, without=(without,)))

    def train(module: Any, order: list[list[int]]) -> list[float]:
        loader = ours(path, batch_sampler=order, batch_size=None, allow_missing=True)
        return fit(module, loader, max_steps=len(order)).losses

    found = train(matgl.ignore_missing_labels(new_module()), [[1, 4], [0, 1, 2], [2, 3]])
    assert all(map(math.isfinite, found))
    (found_of_some,) = train(matgl.ignore_missing_labels(new_module()), [[0, 1, 2]])
    (expected,) = train(new_module(allow_missing_labels=True), [[0, 1, 2]])
    assert found_of_some == pytest.approx(expected)


def test_resuming_inside_an_epoch(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N, periodic=True))
    checkpoint = tmp_path / "inside.ckpt"
    options = {"shuffle": True, "seed": 5}
    noting = Noting(checkpoint, after=6)
    whole = fit(new_module(), ours(path, **options), noting=noting, max_epochs=3)
    resumed = fit(new_module(), ours(path, **options), max_epochs=3, ckpt_path=checkpoint)
    assert whole.epochs[1] != whole.epochs[0]
    assert resumed.epochs == {1: whole.epochs[1][2:], 2: whole.epochs[2]}
    assert resumed.losses == whole.losses[6:]


def test_a_data_module_with_validation(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N, periodic=True))
    layout = matgl.layout(ELEMENTS, CUTOFF)
    data = DataModule(path, path, max_atoms=20, layout=layout)
    trainer = lightning.Trainer(max_epochs=2, inference_mode=False, **LIGHTNING)
    trainer.fit(new_module(), datamodule=data)
    assert math.isfinite(trainer.callback_metrics["val_Force_MAE"])
