"""Batches for SevenNet: its datasets in memory and from structures, compared with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ase.io
import common
import torch
from sevenn import _const, _keys
from sevenn.model_build import build_E3_equivariant_model
from sevenn.train.atoms_dataset import SevenNetAtomsDataset
from sevenn.train.graph_dataset import SevenNetGraphDataset
from sevenn.train.trainer import Trainer
from sevenn.util import chemical_species_preprocess
from torch_geometric.loader import DataLoader

from atompack_torch.trainers import sevennet

COUNT = 512
CONFIG: dict[str, Any] = {
    **_const.DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG,
    **_const.DEFAULT_TRAINING_CONFIG,
    **chemical_species_preprocess(["Al", "Cu"]),
    _keys.CUTOFF: common.CUTOFF,
    _keys.NODE_FEATURE_MULTIPLICITY: 16,
    _keys.RADIAL_BASIS: {"radial_basis_name": "bessel", "bessel_basis_num": 8},
    _keys.CUTOFF_FUNCTION: {"cutoff_function_name": "poly_cut", "poly_cut_p_value": 6},
    _keys.SHIFT: -4.0,
    _keys.SCALE: 1.0,
    _keys.CONV_DENOMINATOR: 50.0,
    _keys.DEVICE: "cpu",
    _keys.SCHEDULER_PARAM: {"gamma": 0.99},
}


def measure(folder: Path) -> None:
    made = common.structures(COUNT)
    ase.io.write(folder / "made.extxyz", made)
    path = common.write_atp(folder / "made.atp", made)
    files = str(folder / "made.extxyz")
    stock = {
        "SevenNetGraphDataset in memory and PyG's DataLoader": SevenNetGraphDataset(
            common.CUTOFF, str(folder), files
        ),
        "SevenNetAtomsDataset and PyG's DataLoader": SevenNetAtomsDataset(common.CUTOFF, files),
    }
    loaders = {
        name: DataLoader(dataset, batch_size=common.BATCH) for name, dataset in stock.items()
    }
    common.compare("sevennet", loaders, our_loader(path, shuffle=False), COUNT)
    torch.manual_seed(0)
    trainer = Trainer.from_config(build_E3_equivariant_model(dict(CONFIG)), dict(CONFIG))
    share = common.waiting_share(
        our_loader(path), lambda batch: trainer.run_one_epoch([batch], is_train=True)
    )
    common.report_waiting("sevennet", "atompack_torch.trainers.sevennet.loader", share)


def our_loader(path: Path, **options: Any) -> Any:
    return sevennet.loader(
        path, CONFIG[_keys.TYPE_MAP], common.CUTOFF, batch_size=common.BATCH, **options
    )


if __name__ == "__main__":
    common.in_folder(measure)
