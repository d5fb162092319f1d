"""NequIP: a training step of a small model, and its own dataset and loader."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ase.io
import torch
from nequip.data import AtomicDataDict
from nequip.data.dataset import ASEDataset
from nequip.data.transforms import ChemicalSpeciesToAtomTypeMapper, NeighborListTransform
from nequip.model import NequIPGNNModel
from nequip.train import EnergyForceLoss
from nequip.utils.global_state import set_global_state
from torch.utils.data import DataLoader

from atompack_torch.batch.elements import symbol
from atompack_torch.loading.loader import Loader
from atompack_torch.trainers.nequip import loader

if TYPE_CHECKING:
    from nequip.data.transforms import Transform


class Training:
    """Training of a small model: two layers of 8 features up to l = 1, float32.

    Args:
        elements: atomic numbers.
        cutoff: in Å.
        device: of the model.
    """

    def __init__(self, elements: Sequence[int], cutoff: float, device: torch.device) -> None:
        set_global_state()
        self.types, self.cutoff, self._device = list(map(symbol, elements)), cutoff, device
        self._model = NequIPGNNModel(
            seed=1,
            model_dtype="float32",
            type_names=self.types,
            r_max=cutoff,
            num_layers=2,
            l_max=1,
            num_features=8,
            avg_num_neighbors=60.0,
        ).to(device)
        self._loss = EnergyForceLoss(type_names=self.types)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=1e-3)

    def transforms(self) -> list[Transform]:
        """Returns what NequIP does to each molecule: types and edges."""
        return [ChemicalSpeciesToAtomTypeMapper(self.types), NeighborListTransform(self.cutoff)]

    def stock(self, molecules: Sequence[ase.Atoms], batch_size: int, workers: int) -> Any:
        """Makes NequIP's own loader: molecules in memory, whose edges it makes in every epoch."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "molecules.extxyz"
            ase.io.write(path, molecules)
            # Some molecules may lack a stress, which its batches need in all or in none.
            dataset = ASEDataset(str(path), self.transforms(), exclude_keys=["stress"])
        return DataLoader(
            dataset,
            batch_size,
            shuffle=True,
            num_workers=workers,
            collate_fn=AtomicDataDict.batched_from_list,
        )

    def ours(self, molecules: Any, batch_size: int) -> Loader[Any]:
        """Makes our loader."""
        return loader(molecules, self.types, self.cutoff, batch_size=batch_size)

    def step(self, batch: Any) -> None:
        """Runs one training step."""
        batch = AtomicDataDict.to_(batch, self._device)
        loss = self._loss(self._model(batch), batch)["weighted_sum"]
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
