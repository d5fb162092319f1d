"""Batches for SevenNet: its datasets in memory and from structures, compared with ours."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ase.io
import torch
from common import BATCH, CUTOFF, compare, report_waiting, structures, waiting_share, write_atp
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
    _keys.CUTOFF: CUTOFF,
    _keys.NODE_FEATURE_MULTIPLICITY: 16,
    _keys.RADIAL_BASIS: {"radial_basis_name": "bessel", "bessel_basis_num": 8},
    _keys.CUTOFF_FUNCTION: {"cutoff_function_name": "poly_cut", "poly_cut_p_value": 6},
    _keys.SHIFT: -4.0,
    _keys.SCALE: 1.0,
    _keys.CONV_DENOMINATOR: 50.0,
    _keys.DEVICE: "cpu",
    _keys.SCHEDULER_PARAM: {"gamma": 0.99},
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))


def measure(folder: Path) -> None:
    made = structures(COUNT)
    ase.io.write(folder / "made.extxyz", made)
    path = write_atp(folder / "made.atp", made)
    files = str(folder / "made.extxyz")
    stock = {
        "SevenNetGraphDataset in memory and PyG's DataLoader": SevenNetGraphDataset(
            CUTOFF, str(folder), files
        ),
        "SevenNetAtomsDataset and PyG's DataLoader": SevenNetAtomsDataset(CUTOFF, files),
    }
    loaders = {name: DataLoader(dataset, batch_size=BATCH) for name, dataset in stock.items()}
    compare("sevennet", loaders, our_loader(path, shuffle=False), COUNT)
    share = waiting_share(our_loader(path), Step())
    report_waiting("sevennet", "atompack_torch.trainers.sevennet.loader", share)


def our_loader(path: Path, **options: Any) -> Any:
    return sevennet.loader(path, CONFIG[_keys.TYPE_MAP], CUTOFF, batch_size=BATCH, **options)


class Step:
    """A training step of a small model."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.trainer = Trainer.from_config(build_E3_equivariant_model(dict(CONFIG)), dict(CONFIG))

    def __call__(self, batch: Any) -> None:
        self.trainer.run_one_epoch([batch], is_train=True)


if __name__ == "__main__":
    main()
