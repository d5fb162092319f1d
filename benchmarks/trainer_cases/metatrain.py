"""metatrain: its folder of arrays and its neighbor lists, compared with our batches."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import torch
from metatomic.torch import NeighborListOptions
from metatrain.pet import PET  # type: ignore[attr-defined]
from metatrain.utils.architectures import get_default_hypers
from metatrain.utils.data.dataset import CollateFn, DatasetInfo, MemmapDataset
from metatrain.utils.data.target_info import get_energy_target_info
from metatrain.utils.evaluate_model import evaluate_model
from metatrain.utils.neighbor_lists import get_system_with_neighbor_lists_transform
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.trainers.metatrain import loader

N = 512
LISTS = [NeighborListOptions(cutoff=common.CUTOFF, full_list=True, strict=True)]
TARGETS = {
    "energy": {
        "key": "e",
        "quantity": "energy",
        "sample_kind": "system",
        "type": "scalar",
        "num_subtargets": 1,
        "unit": "eV",
        "forces": {"key": "f"},
        "stress": {"key": "s"},
        "virial": False,
    }
}
SMALL = {
    "cutoff": common.CUTOFF,
    "d_pet": 16,
    "d_node": 16,
    "d_head": 16,
    "d_feedforward": 16,
    "num_heads": 2,
    "num_attention_layers": 1,
    "num_gnn_layers": 1,
}


def small_model() -> tuple[Any, Callable[[Any], None]]:
    """A small PET, and its training step."""
    hypers = get_default_hypers("pet")["model"] | SMALL
    info = get_energy_target_info(
        "energy", {"unit": "eV"}, add_position_gradients=True, add_strain_gradients=True
    )
    infos = {"energy": info}
    data = DatasetInfo(length_unit="angstrom", atomic_types=[13, 29], targets=infos)
    model = PET(hypers, data).to(torch.float64)

    def loss_of(batch: Any) -> torch.Tensor:
        systems, targets = batch
        predicted = evaluate_model(model, systems, infos, is_training=True)
        found, wanted = predicted["energy"].block(), targets["energy"].block()
        loss = (found.values - wanted.values).square().mean()
        for name in ("positions", "strain"):
            error = found.gradient(name).values - wanted.gradient(name).values
            loss = loss + error.square().mean()
        return loss

    return model, common.step_of(torch.optim.Adam(model.parameters()), loss_of)


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = common.write_atp(folder / "data.atp", common.structures(N))
        apt.convert(path, folder / "data", target="metatrain", progress=False)
        options = {"stress": True, "shuffle": False, "num_threads": 1}
        for lists in (LISTS, []):
            searches = [get_system_with_neighbor_lists_transform(lists)] if lists else []
            own = DataLoader(
                MemmapDataset(folder / "data", OmegaConf.create(TARGETS)),
                batch_size=common.BATCH,
                collate_fn=CollateFn(target_keys=["energy"], callables=searches),
            )
            ours = loader(path, common.BATCH, lists, **options)
            what = "memory maps, neighbor lists" if lists else "memory maps, no lists"
            common.compare("metatrain", {what: own}, ours, N)
        model, step = small_model()
        lists = model.requested_neighbor_lists()
        few = apt.open(path).subset(range(8 * common.BATCH))
        for _ in range(2):  # the first is not counted
            batches = loader(few, common.BATCH, lists, stress=True, num_threads=1)
            share = common.waiting_share(batches, step)
        common.report_waiting("metatrain", "ours, a small PET", share)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
