"""Batches by nvalchemi's own classes, and a small model of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ase
import torch
from ase.neighborlist import neighbor_list
from nvalchemi.data import AtomicData, Batch
from nvalchemi.models.demo import DemoModel, DemoModelWrapper
from nvalchemi.training import (
    EnergyMSELoss,
    ForceMSELoss,
    OptimizerConfig,
    TrainingStage,
    TrainingStrategy,
    default_training_fn,
)
from structures import CUTOFF


def own_batch(made: Sequence[ase.Atoms], dtype: torch.dtype) -> Batch:
    """Batch of structures by the constructor of nvalchemi, with edges."""
    return Batch.from_data_list([own_data(atoms, dtype) for atoms in made])


def own_data(atoms: ase.Atoms, dtype: torch.dtype) -> AtomicData:
    """One structure by the constructor of nvalchemi, with edges."""
    i, j, shifts = neighbor_list("ijS", atoms, CUTOFF)
    results = {name: torch.tensor(value, dtype=dtype) for name, value in labels(atoms).items()}
    return AtomicData(
        atomic_numbers=torch.tensor(atoms.numbers),
        positions=torch.tensor(atoms.positions, dtype=dtype),
        cell=torch.tensor(atoms.cell[:], dtype=dtype)[None],
        pbc=torch.tensor(atoms.pbc)[None],
        neighbor_list=torch.tensor([i, j]).T.contiguous(),
        neighbor_list_shifts=torch.tensor(shifts, dtype=dtype),
        **results,
    )


def labels(atoms: ase.Atoms) -> dict[str, Any]:
    """Labels of a structure in the shapes of nvalchemi."""
    return {
        "energy": [[atoms.get_potential_energy()]],
        "forces": atoms.get_forces(),
        "stress": atoms.get_stress(voigt=False)[None],
    }


def model(dtype: torch.dtype) -> DemoModelWrapper:
    """Small model of random weights, which needs no edges."""
    torch.manual_seed(0)
    return DemoModelWrapper(DemoModel(hidden_dim=8).to(dtype))


class Record:
    """Hook that records the loss of every training step."""

    frequency = 1
    stage = TrainingStage.AFTER_LOSS

    def __init__(self) -> None:
        self.losses: list[float] = []

    def __call__(self, ctx: Any, stage: Any) -> None:
        self.losses.append(float(ctx.loss))


def strategy(dtype: torch.dtype, hook: Record, **options: Any) -> TrainingStrategy:
    """Training of the small model by nvalchemi's loop."""
    return TrainingStrategy(
        models=model(dtype),
        optimizer_configs=OptimizerConfig(
            optimizer_cls=torch.optim.Adam, optimizer_kwargs={"lr": 1e-3}
        ),
        training_fn=default_training_fn,
        loss_fn=EnergyMSELoss(ignore_nonfinite=True) + ForceMSELoss(ignore_nonfinite=True),
        devices=[torch.device("cpu")],
        hooks=[hook],
        **options,
    )


def losses_of(batches: Iterable[Batch], dtype: torch.dtype, **options: Any) -> list[float]:
    """Trains; returns the loss of each step."""
    record = Record()
    strategy(dtype, record, **options).run(batches)
    return record.losses
