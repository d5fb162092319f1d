"""Batches for fairchem: its ``AtomicData``, made natively, and datasets for its config files.

    train_loader = loader("omol.atp", max_atoms=700, task="omol", cutoff=6.0)
    for data in train_loader:  # AtomicData
        predictions = model(data)

In a config of fairchem, ``format: atompack_torch.trainers.fairchem.Dataset`` names a dataset and
``_target_: atompack_torch.trainers.fairchem.Loader`` the loader.
"""

from __future__ import annotations

try:
    import fairchem.core as _core
except ModuleNotFoundError as error:
    raise ImportError("atompack_torch.trainers.fairchem: install fairchem-core") from error

from atompack_torch.trainers.fairchem.config import Dataset
from atompack_torch.trainers.fairchem.layout import batch
from atompack_torch.trainers.fairchem.loading import Loader, loader

__all__ = ["Dataset", "Loader", "batch", "loader"]

del _core
