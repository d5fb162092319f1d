"""The command of TorchMD-Net with one more dataset, whose batches are made natively."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torchmdnet.data
import torchmdnet.datasets
import torchmdnet.scripts.train
from torch import Tensor

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.loading.loader import Loader
from atompack_torch.trainers._labels import with_labels
from atompack_torch.trainers._layout import Data, open_dataset
from atompack_torch.trainers._samplers import epoch_loader
from atompack_torch.trainers.torchmdnet import ENERGY, FORCES, make_layout, reference_table

DATASET = "Atompack"  # option --dataset


def main() -> None:
    """Runs the command of TorchMD-Net with the arguments of this process."""
    torchmdnet.datasets.Atompack = Structures
    torchmdnet.datasets.__all__.append(DATASET)
    torchmdnet.scripts.train.DataModule = CommandDataModule
    torchmdnet.scripts.train.main()


class Structures:
    """Dataset of the command.

    Args:
        root: anything that ``apt.open`` takes; option ``--dataset-root``.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        energy: field with the energies in eV; None: none.
        forces: field with the forces in eV/Å; None: none.
        box: add the cells.
        atomref: energy of each element by atomic number.

    Raises:
        FieldError: no molecule has all labels.
        TypeError: the data are not molecules.
    """

    def __init__(
        self,
        root: Data,
        *,
        key_map: Mapping[str, str] | None = None,
        energy: str | None = ENERGY,
        forces: str | None = FORCES,
        box: bool = False,
        atomref: Mapping[int | str, float] | None = None,
    ) -> None:
        self.options: dict[str, Any] = {"energy": energy, "forces": forces, "box": box}
        self._references = {int(number): energy for number, energy in (atomref or {}).items()}
        labels = make_layout(**self.options).labels
        self.molecules: MoleculeDataset = with_labels(open_dataset(root, key_map), labels)

    def __len__(self) -> int:
        """Number of molecules that have all labels."""
        return len(self.molecules)

    def get_atomref(self) -> Tensor | None:
        """Returns energies of elements by atomic number: (128, 1); None if none are given."""
        return reference_table(self._references)


class CommandDataModule(torchmdnet.data.DataModule):  # type: ignore[misc]
    """TorchMD-Net's data module, with its splits, whose loaders are native for ``Atompack``."""

    def _get_dataloader(self, dataset: Any, stage: str, store_dataloader: bool = True) -> Any:
        structures = self.dataset
        if not isinstance(structures, Structures):
            return super()._get_dataloader(dataset, stage, store_dataloader)
        if stage in self._saved_dataloaders and store_dataloader:
            return self._saved_dataloaders[stage]
        made = self._native_loader(structures, dataset.indices, stage == "train")
        if store_dataloader:
            self._saved_dataloaders[stage] = made
        return made

    def _native_loader(self, structures: Structures, indices: Any, trains: bool) -> Loader[Any]:
        options = self.hparams
        dtype = torch.float64 if options["precision"] == 64 else torch.float32
        return epoch_loader(
            structures.molecules.subset(torch.as_tensor(indices)),
            make_layout(**structures.options, dtype=dtype),
            batch_size=options["batch_size" if trains else "inference_batch_size"],
            shuffle=trains,
            seed=options["seed"],
        )
