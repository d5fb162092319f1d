"""Batches for nvalchemi: its Zarr store and loader, compared with ours."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import common
import torch
from ase.neighborlist import neighbor_list
from nvalchemi.data import (
    AtomicData,
    AtomicDataZarrReader,
    AtomicDataZarrWriter,
    DataLoader,
    Dataset,
)
from nvalchemi.models.demo import DemoModel, DemoModelWrapper

import atompack_torch as apt
from atompack_torch.trainers.nvalchemi import loader

COUNT = 1024
STORED = 256  # of these, compared with nvalchemi's store, whose epochs take long
WIDTHS = (64, 512)  # of the demo model: of its default size, and one whose steps take longer


def measure(folder: Path) -> None:
    made = common.structures(COUNT)
    path = common.write_atp(folder / "made.atp", made)
    options: dict[str, Any] = {"batch_size": common.BATCH, "shuffle": False}
    for edges in (True, False):
        store = folder / f"made{edges}.zarr"
        few = [data_of(atoms, edges) for atoms in made[:STORED]]
        AtomicDataZarrWriter(str(store)).write(few)
        own = DataLoader(Dataset(AtomicDataZarrReader(str(store)), device="cpu"), **options)
        same = apt.AtpDataset(path).subset(range(STORED))
        ours = loader(same, cutoff=common.CUTOFF if edges else None, **options)
        name = "Zarr store, edges stored; ours computed" if edges else "Zarr store, no edges"
        common.compare("nvalchemi", {name: own}, ours, STORED)
    for width in WIDTHS:
        step = training_step(width)
        for _ in range(2):  # the first is not counted
            start = time.perf_counter()
            whole = common.waiting_share(loader(path, **options), step)
            seconds_of_step = (time.perf_counter() - start) * common.BATCH / COUNT
        steady = common.waiting_share(loader(path, **options), step, begins=False)
        name = f"demo model of width {width}, {1000 * seconds_of_step:.1f} ms"
        common.report_waiting("nvalchemi", f"{name}, whole epoch", whole)
        common.report_waiting("nvalchemi", f"{name}, after its first batch", steady)


def training_step(width: int) -> Callable[[Any], None]:
    """Training step of nvalchemi's demo model, which takes no edges."""
    net = DemoModelWrapper(DemoModel(hidden_dim=width))

    def loss_of(batch: Any) -> torch.Tensor:
        predicted = net(batch)
        loss = (predicted["energy"] - batch.energy).square().mean()
        return loss + (predicted["forces"] - batch.forces).square().mean()

    return common.step_of(torch.optim.Adam(net.parameters()), loss_of)


def data_of(atoms: ase.Atoms, edges: bool) -> AtomicData:
    fields: dict[str, Any] = {}
    if edges:
        i, j, shifts = neighbor_list("ijS", atoms, common.CUTOFF)
        fields["neighbor_list"] = torch.tensor([i, j]).T.contiguous()
        fields["neighbor_list_shifts"] = torch.tensor(shifts, dtype=torch.float32)
    return AtomicData(
        atomic_numbers=torch.tensor(atoms.numbers),
        positions=torch.tensor(atoms.positions, dtype=torch.float32),
        cell=torch.tensor(atoms.cell[:], dtype=torch.float32)[None],
        pbc=torch.tensor(atoms.pbc)[None],
        energy=torch.tensor([[atoms.get_potential_energy()]], dtype=torch.float32),
        forces=torch.tensor(atoms.get_forces(), dtype=torch.float32),
        stress=torch.tensor(atoms.get_stress(voigt=False)[None], dtype=torch.float32),
        **fields,
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    common.in_folder(measure)
