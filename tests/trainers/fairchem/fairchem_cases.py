"""Datasets, tasks and a small model of fairchem, for its own loader and for ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ase
import ase.db
import torch
from fairchem.core.components.common.dataloader_builder import get_dataloader
from fairchem.core.datasets.mt_concat_dataset import create_concat_dataset
from fairchem.core.datasets.samplers.max_atom_distributed_sampler import (
    MaxAtomDistributedBatchSampler,
)
from fairchem.core.models.base import HydraModel
from fairchem.core.modules.loss import DDPMTLoss, L2NormLoss, MAELoss, PerAtomMAELoss
from fairchem.core.modules.normalization.normalizer import Normalizer
from fairchem.core.units.mlip_unit.mlip_unit import (
    MLIPTrainEvalUnit,
    OutputSpec,
    Task,
    _get_consine_lr_scheduler,
    mt_collater_adapter,
)
from omegaconf import OmegaConf
from structures import CUTOFF
from torchtnt.framework.callback import Callback
from torchtnt.framework.train import train

OURS = "atompack_torch.trainers.fairchem.Dataset"
LABELS = ("energy", "forces", "stress")


def write_aselmdb(path: Path, structures: Iterable[ase.Atoms], **data: Sequence[Any]) -> Path:
    """Writes structures, with ``data`` for each of them, as fairchem does; returns the path."""
    with ase.db.connect(path, type="aselmdb") as database:
        for number, atoms in enumerate(structures):
            row = {name: values[number] for name, values in data.items()}
            database.write(atoms, data=row)
    return path


def source(name: str, path: Path, kind: str = OURS, **options: Any) -> dict[str, Any]:
    """Configuration of one dataset, whose labels have the name as a prefix."""
    graph = {"r_edges": True, "radius": CUTOFF, "max_neigh": 300, "target_dtype": "float32"}
    graph |= {"r_data_keys": ["charge", "spin"], **options.pop("a2g_args", {})}
    if kind != OURS:
        graph["target_dtype"] = getattr(torch, str(graph["target_dtype"]))
    return {
        "format": kind,
        "splits": {"train": {"src": str(path)}},
        "a2g_args": graph,
        "key_mapping": {label: f"{name}_{label}" for label in LABELS},
        "transforms": {"common_transform": {"dataset_name": name}, "stress_reshape_transform": {}},
        **options,
    }


def concatenated(sources: Mapping[str, Mapping[str, Any]], **ratios: float) -> Any:
    """Dataset of fairchem over configured ones, each once unless ``ratios`` say otherwise."""
    config = OmegaConf.create(flags={"allow_objects": True})
    for name, options in sources.items():
        config[name] = options
    given = {f"{name}.train": ratios.get(name, 1.0) for name in sources}
    return create_concat_dataset(config, {"sampling": {"type": "explicit", "ratios": given}})


def tasks(labels: Mapping[str, Sequence[str]], dtype: str = "float32") -> list[Task]:
    """Tasks of each dataset: its name → its labels."""
    losses = {"energy": PerAtomMAELoss, "forces": L2NormLoss, "stress": MAELoss}
    shapes = {"energy": [1], "forces": [3], "stress": [1, 9]}
    return [
        Task(
            name=f"{name}_{label}",
            level="atom" if label == "forces" else "system",
            property=label,
            out_spec=OutputSpec(shapes[label], dtype),
            normalizer=Normalizer(0.0, 0.5),
            datasets=[name],
            loss_fn=DDPMTLoss(losses[label](), coefficient=2.0),
            metrics=["mae"],
        )
        for name, of_data_set in labels.items()
        for label in of_data_set
    ]


def sampler(dataset: Any, *, max_atoms: int = 24, **ranks: int) -> Any:
    """Batch sampler of fairchem."""
    return MaxAtomDistributedBatchSampler(dataset, max_atoms, seed=0, **ranks)


def stock_loader(dataset: Any, of_tasks: Sequence[Task]) -> Any:
    """Loader that fairchem's configurations build."""
    return get_dataloader(dataset, sampler, mt_collater_adapter(list(of_tasks)), 0)


def model(
    names: Sequence[str], dtype: torch.dtype = torch.float32, *, makes_edges: bool = False
) -> Any:
    """Small eSCN-MD model of random weights; energy, forces and stress are conservative."""
    torch.manual_seed(0)
    backbone = {
        "model": "fairchem.core.models.uma.escn_md.eSCNMDBackbone",
        "sphere_channels": 8,
        "edge_channels": 8,
        "hidden_channels": 8,
        "num_distance_basis": 8,
        "num_layers": 1,
        "lmax": 1,
        "mmax": 1,
        "cutoff": CUTOFF,
        "otf_graph": makes_edges,
        "direct_forces": False,
        "regress_stress": True,
        "always_use_pbc": False,
        "dataset_mapping": {name: name for name in names},
    }
    head = {"module": "fairchem.core.models.uma.escn_md.MLP_EFS_Head"}
    heads = {name: {**head, "prefix": name} for name in names}
    return HydraModel(backbone, heads, otf_graph=makes_edges, pass_through_head_outputs=True).to(
        dtype
    )


class Record(Callback):
    """Records the loss of every training step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_step_end(self, state: Any, unit: Any) -> None:
        """Takes the loss from the unit."""
        self.losses.append(float(unit.last_loss))


def unit(net: Any, of_tasks: Sequence[Task], **options: Any) -> MLIPTrainEvalUnit:
    """Training unit of fairchem, without a logger."""
    return MLIPTrainEvalUnit(
        job_config=SimpleNamespace(debug=True, logger=None),
        model=net,
        optimizer_fn=partial(torch.optim.AdamW, lr=1e-3),
        cosine_lr_scheduler_fn=partial(
            _get_consine_lr_scheduler,
            warmup_factor=0.2,
            warmup_epochs=0.01,
            lr_min_factor=0.1,
            epochs=10,
        ),
        tasks=list(of_tasks),
        print_every=1000,
        **options,
    )


def losses_of(of_unit: MLIPTrainEvalUnit, batches: Any, **limits: Any) -> list[float]:
    """Trains by the loop of fairchem's runner; returns the loss of each step."""
    record = Record()
    train(of_unit, train_dataloader=batches, callbacks=[record], **limits)
    return record.losses
