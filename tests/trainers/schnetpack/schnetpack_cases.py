"""Data, loaders and a small model of SchNetPack that the tests share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ase
import torch
from structures import CUTOFF

from atompack_torch.trainers import schnetpack as trainer  # first: SchNetPack needs it to import

import schnetpack as spk  # isort: skip
import schnetpack.task  # isort: skip
import schnetpack.transform as trn  # isort: skip

assert trainer


def stock_data(path: Path, made: Sequence[ase.Atoms]) -> Any:
    """Structures as SchNetPack's own dataset, with its neighbor lists."""
    data = spk.data.ASEAtomsData.create(
        str(path), distance_unit="Ang", property_unit_dict={"energy": "eV", "forces": "eV/Ang"}
    )
    labels = [
        {"energy": [a.calc.results["energy"]], "forces": a.calc.results["forces"]} for a in made
    ]
    data.add_systems(atoms_list=list(made), property_list=labels)
    data.transforms = [trn.MatScipyNeighborList(cutoff=CUTOFF)]
    return data


def stock_batches(data: Any, batches: Sequence[Sequence[int]], dtype: torch.dtype) -> list[Any]:
    """Batches of its own loader in a given order."""
    found = []
    for batch in batches:
        (made,) = spk.data.AtomsLoader(data.subset(list(batch)), batch_size=len(batch))
        for name, value in made.items():
            made[name] = value.to(dtype) if value.is_floating_point() else value
        found.append(made)
    return found


def model(*, postprocessors: Sequence[Any] = ()) -> Any:
    """A small SchNet with random weights."""
    torch.manual_seed(0)
    radial = spk.nn.GaussianRBF(n_rbf=8, cutoff=CUTOFF)
    return spk.model.NeuralNetworkPotential(
        representation=spk.representation.SchNet(
            n_atom_basis=16,
            n_interactions=2,
            radial_basis=radial,
            cutoff_fn=spk.nn.CosineCutoff(CUTOFF),
        ),
        input_modules=[spk.atomistic.PairwiseDistances()],
        output_modules=[
            spk.atomistic.Atomwise(n_in=16, output_key="energy"),
            spk.atomistic.Forces(energy_key="energy", force_key="forces"),
        ],
        postprocessors=list(postprocessors),
    )


def task(*, postprocessors: Sequence[Any] = ()) -> Any:
    """A task on energies and forces."""
    outputs = [
        spk.task.ModelOutput(name, torch.nn.MSELoss(), weight, metrics={})
        for name, weight in (("energy", 0.01), ("forces", 0.99))
    ]
    return spk.task.AtomisticTask(
        model=model(postprocessors=postprocessors),
        outputs=outputs,
        optimizer_cls=torch.optim.Adam,
        optimizer_args={"lr": 1e-3},
    )
