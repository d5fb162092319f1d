"""A ``Loader`` in a program with accelerate: accumulation, checkpoints, skipping."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt

accelerate = pytest.importorskip("accelerate")


@pytest.fixture
def accelerator() -> Iterator[Any]:
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    yield accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


@pytest.fixture
def dataset(tmp_path: Path) -> apt.AtpDataset:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write_arrays(positions=np.zeros((24, 1, 3)), atomic_numbers=np.ones((24, 1), int))
    return apt.AtpDataset(tmp_path / "a.atp")


@pytest.mark.parametrize("is_prepared", [True, False])
@pytest.mark.parametrize("prefetch", [1, 4])
def test_the_last_window_takes_a_step(
    accelerator: Any, dataset: apt.AtpDataset, prefetch: int, is_prepared: bool
) -> None:
    loader = apt.Loader(dataset, 4, num_threads=1, prefetch=prefetch)
    model = accelerator.prepare(torch.nn.Linear(1, 1))
    loader = accelerator.prepare(loader) if is_prepared else loader
    next(iter(loader))
    for _ in range(2):
        steps = []
        for _batch in loader:
            list(apt.Loader(dataset, 12))  # another in between, as for validation
            with accelerator.accumulate(model):
                steps.append(accelerator.sync_gradients)
        assert steps == [False, False, False, True, False, True]
    assert accelerator.gradient_state.dataloader_references == [None]


def test_checkpoints_hold_the_position(
    accelerator: Any, dataset: apt.AtpDataset, tmp_path: Path
) -> None:
    def loader() -> apt.Loader:
        made = apt.Loader(dataset, 4, shuffle=True)
        accelerator._custom_objects.clear()
        accelerator.register_for_checkpointing(made)
        return made

    whole = [k for batch in apt.Loader(dataset, 4, shuffle=True) for k in batch.index.tolist()]
    seen = [k for batch in islice(loader(), 2) for k in batch.index.tolist()]
    first = loader()
    assert [k for batch in islice(first, 2) for k in batch.index.tolist()] == seen
    accelerator.save_state(str(tmp_path / "checkpoint"))
    second = loader()
    accelerator.load_state(str(tmp_path / "checkpoint"))
    assert seen + [k for batch in second for k in batch.index.tolist()] == whole


def test_skipping_names_the_way(accelerator: Any, dataset: apt.AtpDataset) -> None:
    loader = accelerator.prepare(apt.Loader(dataset, 4))
    with pytest.raises(ValueError, match=r"register_for_checkpointing\(loader\)"):
        accelerator.skip_first_batches(loader, 3)
