"""Hooks of Lightning's data modules, for ``lightning`` and ``pytorch_lightning`` alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed
from torch.utils.data import SequentialSampler

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.resident.dataset import ResidentDataset
from atompack_torch.fields import DERIVED, GEOMETRY, STRUCTURE
from atompack_torch.loading.loader import Loader
from atompack_torch.options import check_choice
from atompack_torch.trainers._labels import Wanted, require_labels, with_labels
from atompack_torch.trainers._layout import Data, Layout, open_dataset
from atompack_torch.trainers._samplers import check_budget, once_each

Sets = Data | Sequence[Data] | Mapping[str, Data]
_NO_LABELS = (*STRUCTURE, *GEOMETRY, *DERIVED)

NAMES_OF_STAGE = {
    "fit": ("train", "val"),
    "validate": ("val",),
    "test": ("test",),
    "predict": ("predict",),
}


class EpochLoader(Loader[Any]):
    """Loader whose length includes batches of this epoch from before another cut.

    Other ranks, or a different batch size, cut the rest of an epoch into a different number of
    batches. Lightning counts the batches of an epoch across a restart, and ends the epoch at
    ``len``.
    """

    _n_batches: int | None = None  # of the epoch that is resumed

    def __len__(self) -> int:
        """Number of batches of this rank in the epoch."""
        return super().__len__() if self._n_batches is None else self._n_batches

    def resume(self, state: Mapping[str, Any]) -> None:
        """Loads a state, and counts the batches that are left.

        Args:
            state: result of ``state_dict``.

        Raises:
            ValueError: the state belongs to other data or options.
        """
        sampler: Any = self.batch_sampler
        sampler.load_state_dict(state["sampler"])
        self._n_batches = state["batches"] + sum(1 for _ in sampler)
        self.load_state_dict(state)


class DataHooks:
    """Hooks of a data module: loaders for each stage and the position in checkpoints.

    A first base class next to a ``LightningDataModule``, which calls the hooks.
    """

    trainer: Any = None  # attached by Lightning
    _labels: Sequence[str] = ()  # fields without which molecules are dropped

    def __init__(
        self,
        train: Data | None = None,
        val: Sets | None = None,
        test: Sets | None = None,
        predict: Sets | None = None,
        *,
        max_atoms: float | None = None,
        batch_size: int | None = None,
        layout: Layout | None = None,
        key_map: Mapping[str, str] | None = None,
        shuffle: bool = True,
        seed: int = 0,
        num_threads: int | None = None,
        prefetch: int = 4,
        resident: bool = False,
        **options: Any,
    ) -> None:
        """Opens nothing yet.

        Args:
            train: a dataset of molecules, or anything that ``apt.open`` takes: a path, a URL, a
                list.
            val: likewise, but the entries of a list or a dict are separate sets, of which Lightning
                gets a list or a dict of loaders; None: no validation.
            test: likewise.
            predict: likewise.
            max_atoms: maximum number of atoms in a batch.
            batch_size: maximum number of molecules in a batch, instead of ``max_atoms``.
            layout: makes the batches of another trainer; None: ``MoleculeBatch``, or the result of
                the dataset's ``transform``.
            key_map: name in the data → label or property here, as ``{"REF_energy": "energy"}``, in
                data of any format, or a dataset that is already open; every set must have the
                names. Other options use the names here. A label whose name another field gets stays
                as a property: ``energy`` as ``properties/energy``.
            shuffle: use a random order in every epoch of training.
            seed: seed of these orders.
            num_threads: threads of each rank that make batches; see ``Loader``.
            prefetch: batches made ahead.
            resident: keep the molecules and their edges in memory, on each rank all of them, so
                that edges are searched once instead of in every epoch; see ``ResidentDataset``.
            **options: of the datasets that are opened here: ``fields``, ``neighbors``, ``missing``,
                ``transform`` and so on.

        Raises:
            ValueError: neither or both of ``max_atoms`` and ``batch_size`` are given.
        """
        super().__init__()
        check_budget(max_atoms, batch_size)
        self._given = {"train": train, "val": val, "test": test, "predict": predict}
        self._max_atoms, self._batch_size = max_atoms, batch_size
        self._layout = layout
        self._key_map = key_map
        self._shuffle, self._seed = shuffle, seed
        self._num_threads, self._prefetch = num_threads, prefetch
        self._resident = resident
        self._options = options
        self._opened: dict[str, MoleculeDataset] = {}
        self._in_memory: dict[str, tuple[Layout | None, ResidentDataset]] = {}
        self._training: EpochLoader | None = None
        self._resumed: Mapping[str, Any] | None = None  # of a checkpoint

    def setup(self, stage: str) -> None:
        """Opens the data of a stage, equally long on all ranks while a writer appends.

        Args:
            stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.

        Raises:
            FieldError: the trainer wants labels that no molecule has.
            ValueError: there is no data for the stage, or no such stage.
        """
        check_choice("stage", stage, list(NAMES_OF_STAGE))
        names = NAMES_OF_STAGE[stage]
        if not self._sets(names[0]):
            raise ValueError(f"{names[0]}: expected data, got None")
        for name in names:
            for key, data in self._sets(name).items():
                if key not in self._opened:
                    self._opened[key] = equally_long(self._open(key, data, name != "predict"))
        if stage == "fit" and self.trainer is not None:
            # Otherwise Lightning ends every epoch after as many batches as the first one has.
            self.trainer.reload_dataloaders_every_n_epochs = 1

    def _sets(self, name: str) -> dict[str, Any]:
        """Returns the datasets of a split, by the keys under which they are opened."""
        data = self._given[name]
        if data is None:
            return {}
        if isinstance(data, Mapping):
            return {f"{name} {key}": one for key, one in data.items()}
        if isinstance(data, (list, tuple)) and name != "train":
            return {f"{name}{number}": one for number, one in enumerate(data)}
        return {name: data}

    def _open(self, key: str, data: Any, needs_labels: bool) -> MoleculeDataset:
        options = {} if isinstance(data, MoleculeDataset) else self._options
        opened = open_dataset(data, self._key_map, **options)
        if not needs_labels:
            return opened
        if self._labels:
            return with_labels(opened, self._labels)
        require_labels(opened, self._wanted(opened))
        return opened

    def _wanted(self, dataset: MoleculeDataset) -> Wanted:
        """Returns groups of fields to train on: those of the layout, or those that are named."""
        if self._layout is not None:
            return self._layout.wanted
        request = dataset.request
        named = () if request.transform is not None else request.fields or ()
        return [[name] for name in named if name not in _NO_LABELS]

    def train_dataloader(self) -> Loader[Any]:
        """Returns the loader of the next epoch.

        Returns:
            A loader over the share of this rank.
        """
        epoch = 0 if self.trainer is None else self.trainer.current_epoch
        self._opened["train"].follow_epoch(epoch)  # mixtures and chosen forces draw others
        self._training = loader = self._loader("train", self._shuffle)
        loader.set_epoch(epoch)
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed["loader"]["epoch"] == epoch:
            loader.resume(resumed["loader"])
        return loader

    def val_dataloader(self) -> Any:
        """Returns the loaders for validation.

        Returns:
            A loader over the share of this rank, in the stored order; a list or dict of them for
            several sets, an empty list without data.
        """
        return self._loaders("val")

    def test_dataloader(self) -> Any:
        """Returns the loaders for tests.

        Returns:
            As ``val_dataloader``.
        """
        return self._loaders("test")

    def predict_dataloader(self) -> Any:
        """Returns the loaders for predictions.

        Returns:
            As ``val_dataloader``.
        """
        return self._loaders("predict")

    def _loaders(self, name: str) -> Any:
        data = self._given[name]
        loaders = [self._loader(key, shuffle=False) for key in self._sets(name)]
        if isinstance(data, Mapping):
            return dict(zip(data, loaders, strict=True))
        return loaders if data is None or isinstance(data, (list, tuple)) else loaders[0]

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the epoch, for checkpoints.

        Lightning keeps the state of loaders itself, but loads it after it has asked for their
        lengths, which is too late if ranks or batch size have changed.

        Returns:
            A dict of numbers and strings; empty before training.
        """
        if self._training is None:
            return {}
        return {"loader": self._training.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Keeps the position of a checkpoint for the next training loader.

        Args:
            state_dict: result of ``state_dict``.
        """
        self._resumed = state_dict or None

    def _loader(self, name: str, shuffle: bool) -> EpochLoader:
        dataset = self._opened[name]
        overfits = self.trainer is not None and self.trainer.overfit_batches > 0
        sampler = once_each(
            dataset,
            max_atoms=self._max_atoms,
            batch_size=self._batch_size,
            shuffle=shuffle and not overfits,
            seed=self._seed,
        )
        device = self._device()
        made = dataset if self._layout is None else self._layout.dataset(dataset)
        loader = EpochLoader(
            self._load(name, made) if self._resident else made,
            batch_sampler=sampler,
            seed=self._seed,
            num_threads=self._num_threads,
            prefetch=self._prefetch,
            pin_memory=device is not None,
            device=device,
        )
        if overfits:  # Lightning replaces other samplers
            loader.sampler = SequentialSampler(dataset)
        return loader

    def _load(self, name: str, dataset: MoleculeDataset) -> ResidentDataset:
        """Returns a dataset that is loaded into memory once, for all epochs."""
        layout, loaded = self._in_memory.get(name, (None, None))
        if loaded is None or layout != self._layout:
            loaded = ResidentDataset(dataset)
            self._in_memory[name] = (self._layout, loaded)
        loaded.follow_epoch(dataset.current_epoch)
        return loaded

    def _device(self) -> torch.device | None:
        """Returns the CUDA device of the trainer, if it has one.

        Batches move there before ``transform`` and ``layout``, in one transfer that overlaps
        with the previous step; Lightning's own transfer then has nothing to do.
        """
        if self.trainer is None:
            return None
        device: torch.device = self.trainer.strategy.root_device
        return device if device.type == "cuda" else None


def equally_long(dataset: MoleculeDataset) -> MoleculeDataset:
    """Returns as many molecules as the rank has that sees the fewest.

    Args:
        dataset: what this rank sees; more than others if a writer appends in the meantime.

    Returns:
        The dataset, or its first molecules.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return dataset
    lengths = [0] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(lengths, len(dataset))
    n = min(lengths)
    return dataset if n == len(dataset) else dataset.subset(range(n))
