"""Batches for fairchem: its dataset of .aselmdb files and its collater, compared with ours.

Ours are made from files, with edges searched in every epoch, and from memory with their edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import ase.db
import common
import torch
from fairchem.core.components.common.dataloader_builder import get_dataloader
from fairchem.core.datasets.mt_concat_dataset import create_concat_dataset
from fairchem.core.datasets.samplers.max_atom_distributed_sampler import (
    MaxAtomDistributedBatchSampler,
)
from fairchem.core.models.base import HydraModel
from fairchem.core.modules.loss import DDPMTLoss, L2NormLoss, PerAtomMAELoss
from fairchem.core.modules.normalization.normalizer import Normalizer
from fairchem.core.units.mlip_unit.mlip_unit import (
    OutputSpec,
    Task,
    compute_loss,
    mt_collater_adapter,
)
from omegaconf import OmegaConf

from atompack_torch.trainers.fairchem import Loader

COUNT = 256
OURS = "atompack_torch.trainers.fairchem.Dataset"


def measure(folder: Path) -> None:
    made = common.structures(COUNT)
    write(folder, made)
    for edges in (True, False):
        ours = {
            ".atp": our_loader(folder / "made.atp", edges),
            ".aselmdb": our_loader(folder / "ours.aselmdb", edges),
            "in memory": our_loader(folder / "made.atp", edges, resident=True),
        }
        name = f"AseDBDataset and collater, {'with' if edges else 'without'} edges"
        stock = stock_loader(folder / f"stock{edges}.aselmdb", edges)
        common.compare("fairchem", {name: stock}, ours, COUNT)
    share = common.waiting_share(our_loader(folder / "made.atp", True), training_step())
    common.report_waiting("fairchem", "atompack_torch.trainers.fairchem.Loader", share)


def write(folder: Path, made: Iterable[Any]) -> None:
    common.write_atp(folder / "made.atp", made)
    for name in ("stockTrue", "stockFalse", "ours"):  # LMDB opens a file only once
        with ase.db.connect(folder / f"{name}.aselmdb", type="aselmdb") as database:
            for number, atoms in enumerate(made):
                database.write(atoms, data={"sid": str(number)})


def data_set(path: Path, kind: str, edges: bool) -> Any:
    config = {
        "format": kind,
        "splits": {"train": {"src": str(path)}},
        "a2g_args": {"r_edges": edges, "radius": common.CUTOFF, "max_neigh": 300},
        "transforms": {"common_transform": {"dataset_name": "mine"}},
    }
    sampling = {"sampling": {"type": "temperature", "temperature": 1.0}}
    return create_concat_dataset(OmegaConf.create({"mine": config}), sampling)


sampler = partial(MaxAtomDistributedBatchSampler, max_atoms=common.BATCH * common.N_ATOMS, seed=0)


def stock_loader(path: Path, edges: bool) -> Any:
    return get_dataloader(data_set(path, "ase_db", edges), sampler, mt_collater_adapter(TASKS), 0)


def our_loader(path: Path, edges: bool, resident: bool = False) -> Loader:
    collater = mt_collater_adapter(TASKS)
    return Loader(data_set(path, OURS, edges), sampler, collater, resident=resident)


def task(name: str, level: str, dim: list[int], loss: Any) -> Task:
    spec, normalizer = OutputSpec(dim, "float32"), Normalizer(0.0, 1.0)
    return Task(name, level, name, spec, normalizer, ["mine"], DDPMTLoss(loss))


TASKS = [
    task("energy", "system", [1], PerAtomMAELoss()),
    task("forces", "atom", [3], L2NormLoss()),
]


def training_step() -> Callable[[Any], None]:
    """Training step of a small model."""
    backbone = {
        "model": "fairchem.core.models.uma.escn_md.eSCNMDBackbone",
        **dict.fromkeys(("sphere_channels", "edge_channels", "hidden_channels"), 16),
        "num_distance_basis": 16,
        "num_layers": 1,
        "cutoff": common.CUTOFF,
        "direct_forces": False,
        "dataset_mapping": {"mine": "mine"},
    }
    heads = {"efs": {"module": "fairchem.core.models.uma.escn_md.MLP_EFS_Head"}}
    model = HydraModel(backbone, heads, otf_graph=False, pass_through_head_outputs=True)
    optimizer = torch.optim.AdamW(model.parameters())
    return common.step_of(
        optimizer, lambda data: sum(compute_loss(TASKS, model(data), data).values())
    )


if __name__ == "__main__":
    common.in_folder(measure)
