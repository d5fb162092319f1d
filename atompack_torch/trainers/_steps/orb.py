"""Orb: a training step of a small model, and the dataset and loader of its ``finetune.py``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ase.db
import torch
from orb_models.common.dataset.ase_sqlite_dataset import AseSqliteDataset
from orb_models.common.dataset.property_definitions import PropertyConfig
from orb_models.forcefield import pretrained
from orb_models.forcefield.forcefield_adapter import ForcefieldAtomsAdapter
from torch.utils.data import DataLoader

from atompack_torch.loading.loader import Loader
from atompack_torch.trainers.orb import loader


class Training:
    """Training of a small Orb v3: two layers of 32 channels, float32.

    Args:
        elements: atomic numbers, which do not matter: a model has all of them.
        cutoff: in Å.
        device: of the model.
    """

    def __init__(self, elements: Sequence[int], cutoff: float, device: torch.device) -> None:
        self.adapter = ForcefieldAtomsAdapter(radius=cutoff, max_num_neighbors=120)
        self._device = device
        self.model = pretrained.orb_v3_conservative_architecture(
            latent_dim=32,
            base_mlp_hidden_dim=64,
            base_mlp_depth=1,
            head_mlp_hidden_dim=32,
            num_message_passing_steps=2,
            has_stress=False,
            device=device,
        )
        self.model.loss_weights = {"energy": 1.0, "grad_forces": 1.0, "confidence": 1.0}
        self._optimizer = torch.optim.Adam(self.model.parameters())

    def stock(self, molecules: Sequence[ase.Atoms], batch_size: int, workers: int) -> Any:
        """Makes Orb's own loader, which reads a database and makes edges in every epoch."""
        self._folder = tempfile.TemporaryDirectory()  # for as long as the loader reads it
        path = Path(self._folder.name) / "molecules.db"
        with ase.db.connect(path) as database:
            for atoms in molecules:
                # Its dataset fails without a label; ours drops the molecule.
                if atoms.calc and {"energy", "forces"} <= atoms.calc.results.keys():
                    database.write(atoms)
        labels = PropertyConfig(node_names=["forces"], graph_names=["energy"])
        return DataLoader(
            AseSqliteDataset("molecules", path, self.adapter, labels),
            batch_size,
            shuffle=True,
            num_workers=workers,
            collate_fn=self.adapter.batch,
        )

    def ours(self, molecules: Any, batch_size: int) -> Loader[Any]:
        """Makes our loader."""
        adapter = self.adapter
        return loader(molecules, adapter.radius, adapter.max_num_neighbors, batch_size=batch_size)

    def step(self, batch: Any) -> None:
        """Runs one training step."""
        loss = self.model.loss(batch.to(self._device)).loss
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
