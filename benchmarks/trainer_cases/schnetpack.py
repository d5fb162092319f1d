"""SchNetPack: batches from ``.atp`` compared with its ASE database and matscipy."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import common
import torch

from atompack_torch.trainers import schnetpack as trainer  # first: SchNetPack needs it to import

import schnetpack as spk  # isort: skip
import schnetpack.task  # isort: skip
import schnetpack.transform as trn  # isort: skip

N = 256
BATCH = 64
UNITS = {"energy": "eV", "forces": "eV/Ang"}


def write(folder: Path) -> tuple[Path, Any]:
    made = common.structures(N)
    path = common.write_atp(folder / "data.atp", made)
    database = str(folder / "data.db")
    stock = spk.data.ASEAtomsData.create(database, distance_unit="Ang", property_unit_dict=UNITS)
    labels = [
        {"energy": [a.calc.results["energy"]], "forces": a.calc.results["forces"]} for a in made
    ]
    stock.add_systems(atoms_list=made, property_list=labels)
    stock.transforms = [trn.MatScipyNeighborList(cutoff=common.CUTOFF), trn.CastTo32()]
    return path, stock


def task() -> Any:
    radial = spk.nn.GaussianRBF(n_rbf=20, cutoff=common.CUTOFF)
    network = spk.model.NeuralNetworkPotential(
        representation=spk.representation.PaiNN(
            n_atom_basis=64,
            n_interactions=3,
            radial_basis=radial,
            cutoff_fn=spk.nn.CosineCutoff(common.CUTOFF),
        ),
        input_modules=[spk.atomistic.PairwiseDistances()],
        output_modules=[
            spk.atomistic.Atomwise(n_in=64, output_key="energy"),
            spk.atomistic.Forces(energy_key="energy", force_key="forces"),
        ],
    )
    outputs = [
        spk.task.ModelOutput(name, torch.nn.MSELoss(), 0.5, metrics={})
        for name in ("energy", "forces")
    ]
    made = spk.task.AtomisticTask(model=network, outputs=outputs, optimizer_args={"lr": 1e-3})
    made.log = lambda *_, **__: None
    return made


def main() -> None:
    torch.set_num_threads(1)
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as name:
        path, stock = write(Path(name))
        loader = trainer.loader(path, common.CUTOFF, batch_size=BATCH, shuffle=False, num_threads=1)
        own = spk.data.AtomsLoader(stock, batch_size=BATCH)
        common.compare("SchNetPack", {"its ASE database": own}, loader, N)
        trained = task()
        optimizer = trained.configure_optimizers()
        step = common.step_of(optimizer, lambda batch: trained.training_step(batch, 0))
        common.report_waiting("SchNetPack", "ours", common.waiting_share(loader, step))


if __name__ == "__main__":
    main()
