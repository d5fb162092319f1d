"""Data module of NequIP, with its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import torch
from hydra.utils import instantiate
from nequip.data.datamodule import NequIPDataModule
from nequip.train import MeanSquaredError as _MeanSquaredError
from omegaconf import DictConfig, ListConfig, OmegaConf
from torch import Tensor
from torch.utils.data import random_split

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.loading.samplers import AtomBudgetBatchSampler
from atompack_torch.options import check_choice
from atompack_torch.trainers._data_module import DataHooks
from atompack_torch.trainers._labels import require_labels
from atompack_torch.trainers._layout import Data, open_dataset
from atompack_torch.trainers._samplers import epoch_loader
from atompack_torch.trainers.nequip._layout import make_layout


class MeanSquaredError(_MeanSquaredError):  # type: ignore[misc]
    """Mean squared error that is 0 instead of NaN for a batch without any label.

    For ``MetricsManager`` with ``ignore_nan: true``.
    """

    sum: Tensor
    count: Tensor

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds the labels of a batch.

        Args:
            preds: predictions, of any shape.
            target: labels of the same shape, without NaN.
        """
        if preds.numel():
            super().update(preds, target)
        else:
            self.sum = self.sum + preds.sum()  # 0, with a gradient of 0 for the step

    def compute(self) -> Tensor:
        """Returns the error.

        Returns:
            The mean over the values so far, or 0 without any.
        """
        if self.count == 0:
            return torch.as_tensor(self.sum, dtype=torch.get_default_dtype())
        error: Tensor = super().compute()
        return error


_NAMES: Final = ("train", "val", "test", "predict")
_ATOMS_AT_ONCE: Final = 8192  # for statistics


@dataclass(frozen=True)
class _Source:
    """One dataset of a config.

    Attributes:
        data: what ``open_dataset`` takes.
        lengths: sizes or fractions of all parts of a split.
        part: number of the part, if it is split.
    """

    data: Data
    lengths: tuple[float, ...] = ()
    part: int = 0

    def open(self, seed: int, options: Mapping[str, Any]) -> MoleculeDataset:
        """Opens the data, split as NequIP splits with this seed."""
        given = {} if isinstance(self.data, MoleculeDataset) else options
        dataset = open_dataset(self.data, **given)
        if not self.lengths:
            return dataset
        generator = torch.Generator().manual_seed(seed)
        numbers: Any = range(len(dataset))
        parts: list[Any] = random_split(numbers, self.lengths, generator=generator)
        return dataset.subset(parts[self.part].indices)


class _Base(NequIPDataModule):  # type: ignore[misc]
    """Data module of NequIP that counts the datasets, but opens none of them."""

    _sources: dict[str, list[_Source]]

    def __init__(self) -> None:
        counted: dict[str, list[Any]] = {
            f"{name}_dataset": [{}] * len(sets) for name, sets in self._sources.items()
        }
        super().__init__(seed=0, **counted)


class DataModule(DataHooks, _Base):
    """Data module of NequIP over anything that holds molecules.

        data:
          _target_: atompack_torch.trainers.nequip.DataModule
          split: {path: data.atp, train: 0.9, val: 0.1}
          max_atoms: 512
          model_type_names: ${model_type_names}
          cutoff: ${cutoff_radius}
          stats_manager:
            _target_: nequip.data.CommonDataStatisticsManager
            type_names: ${model_type_names}

    An epoch yields every molecule once, shared by all ranks, which take the same number of steps.
    Validation and tests use the stored order and are complete too. A run that is resumed in the
    middle of an epoch continues with the molecules that are left, even on a different number of
    ranks.

    Batches have ``total_energy``, ``forces`` and ``stress``, NaN for molecules without. If a loss
    or a weighted metric of the training module would be NaN for it, a missing label is an error;
    statistics leave missing labels out.

    Args:
        train: a dataset of molecules, or anything that ``apt.open`` takes: a path, a URL, or a
            list of them for one set of several files.
        val: likewise; the entries of a list are separate sets, with metrics of their own.
        test: likewise.
        predict: likewise.
        model_type_names: types of the model, in its order.
        cutoff: ``r_max`` of the model, in Å.
        split: data under the key ``path``, and under ``train``, ``val``, ``test``, ``predict`` the
            sizes of its parts, or fractions of 1; or a list of such dicts. The parts are those
            that NequIP makes with ``seed``, and follow the sets above.
        batch_size: maximum number of molecules in a batch.
        max_atoms: maximum number of atoms in a batch, instead of ``batch_size``.
        chemical_species_to_atom_type_map: symbol of an element → type; None: types are symbols.
        key_map: name in the data → ``energy``, ``forces``, ``stress`` or another key of NequIP.
        transforms: of NequIP, applied to whole batches in turn.
        stats_manager: ``DataStatisticsManager`` of NequIP.
        train_dataloader: added by ``nequip-package`` and ``nequip-compile``: its ``batch_size``
            replaces the limits above, and the order is the stored one.
        shuffle: use a random order in every epoch of training.
        seed: of these orders and of splits.
        **options: ``num_threads``, ``prefetch`` and ``resident`` as for Lightning's module, and
            options of datasets that are opened here.

    Raises:
        ValueError: neither or both of ``max_atoms`` and ``batch_size`` are given, there are two
            sets for training, or an option does not fit the types or keys of NequIP.
    """

    def __init__(
        self,
        train: Data | None = None,
        val: Data | Sequence[Data] | None = None,
        test: Data | Sequence[Data] | None = None,
        predict: Data | Sequence[Data] | None = None,
        *,
        model_type_names: Sequence[str],
        cutoff: float,
        split: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        batch_size: int | None = None,
        max_atoms: float | None = None,
        chemical_species_to_atom_type_map: Mapping[str, str] | None = None,
        key_map: Mapping[str, str] | None = None,
        transforms: Sequence[Any] = (),
        stats_manager: Mapping[str, Any] | None = None,
        train_dataloader: Mapping[str, Any] | None = None,
        shuffle: bool = True,
        seed: int = 0,
        **options: Any,
    ) -> None:
        sets = ([_primitive(train)], _listed(val), _listed(test), _listed(predict))
        given = dict(zip(_NAMES, sets, strict=True))
        self._sources = {
            name: [_Source(data) for data in listed if data is not None]
            for name, listed in given.items()
        }
        split = _primitive(split)
        for one in [split] if isinstance(split, Mapping) else split:
            for name, source in _parts(one):
                self._sources[name].append(source)
        if (n_sets := len(self._sources["train"])) > 1:
            raise ValueError(f"train: expected one dataset, as NequIP takes one, got {n_sets}")
        for name, value in (_primitive(train_dataloader) or {}).items():
            check_choice("train_dataloader", name, ["_target_", "batch_size"])
            if name == "batch_size":
                max_atoms, batch_size, shuffle = None, value, False
        of_train, *others = cast("Any", self._sources.values())
        super().__init__(
            of_train[0] if of_train else None,
            *others,
            max_atoms=max_atoms,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            **{name: _primitive(option) for name, option in options.items()},
        )
        made = (instantiate(t) if isinstance(t, Mapping) else t for t in _primitive(transforms))
        self._plain = make_layout(
            model_type_names,
            cutoff,
            chemical_species_to_atom_type_map=_primitive(chemical_species_to_atom_type_map),
            key_map=_primitive(key_map),
            transforms=tuple(made),
        )
        self.stats_manager_cfg = stats_manager

    def _open(self, key: str, data: _Source, needs_labels: bool) -> MoleculeDataset:
        return data.open(self._seed, self._options)  # losses decide on labels later

    def teardown(self, stage: str) -> None:
        """Keeps the data open for a later stage.

        Args:
            stage: not used.
        """

    def get_statistics(self, dataset: str = "train", dataset_idx: int = 0) -> dict[str, Any]:
        """Computes statistics of a dataset, for ``${training_data_stats:...}``.

        Args:
            dataset: ``"train"``, ``"val"``, ``"test"`` or ``"predict"``.
            dataset_idx: number among the sets of that name.

        Returns:
            Name → value, from the molecules that have the label; empty without ``stats_manager``.

        Raises:
            ValueError: there is no such dataset.
        """
        if self.stats_manager_cfg is None:
            return {}
        check_choice("dataset", dataset, list(_NAMES))
        if not 0 <= dataset_idx < len(self._sources[dataset]):
            raise ValueError(f"{dataset}: expected data for statistics, got None")
        manager = instantiate(self.stats_manager_cfg)
        labels = [key for key, _ in self._plain.labels]
        manager.ignore_nans = [
            ignored or getattr(field, "field", None) in labels
            for ignored, field in zip(manager.ignore_nans, manager.fields, strict=True)
        ]
        opened = self._sources[dataset][dataset_idx].open(self._seed, self._options)
        order = AtomBudgetBatchSampler(  # every rank reads all
            opened, _ATOMS_AT_ONCE, shuffle=False, num_replicas=1, rank=0
        )
        batches = epoch_loader(opened, self._plain, batch_sampler=order, shuffle=False)
        statistics: dict[str, Any] = manager.get_statistics(batches)
        return statistics

    def _loader(self, name: str, shuffle: bool) -> Any:
        complete, present = self._needed_labels(name)
        self._layout = replace(self._plain, complete=complete, present=present)
        return super()._loader(name, shuffle)

    def _needed_labels(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns labels that all molecules of a dataset, or one of each batch, must have.

        Those that none of its molecules has are an error.
        """
        module = None if self.trainer is None else self.trainer.lightning_module
        if module is None or name.startswith("predict"):
            return (), ()
        manager = module.loss
        if name != "train":
            kind = name.rstrip("0123456789")
            manager = getattr(module, f"{kind}_metrics")[int(name.removeprefix(kind))]
        needed, complete, present = [], [], []
        fields = dict(self._plain.labels)
        for metric, entry in ({} if manager is None else manager.entries).items():
            label = getattr(entry.field, "target_field", getattr(entry.field, "field", None))
            if entry.coeff is None or label not in fields:
                continue
            needed.append((fields[label],))
            if not entry.ignore_nan:
                complete.append(label)
            elif name == "train" and not isinstance(manager[metric], MeanSquaredError):
                present.append(label)
        if not self._plain.transforms:  # which may make labels of other fields
            require_labels(self._opened[name], needed)
        return tuple(dict.fromkeys(complete)), tuple(dict.fromkeys(present))


def _primitive(value: Any) -> Any:
    """Returns a list or a dict instead of one of Hydra's."""
    if isinstance(value, (DictConfig, ListConfig)):
        return OmegaConf.to_container(value, resolve=True)
    return value


def _listed(data: Any) -> list[Any]:
    data = _primitive(data)
    return list(data) if isinstance(data, (list, tuple)) else [data]


def _parts(split: Mapping[str, Any]) -> Iterator[tuple[str, _Source]]:
    names = [name for name in split if name != "path"]
    for name in names:
        check_choice("split", name, list(_NAMES))
    if "path" not in split:
        raise ValueError(f"split: expected data under 'path', got {', '.join(names)}")
    lengths = tuple(split[name] for name in names)
    for number, name in enumerate(names):
        yield name, _Source(split["path"], lengths, number)
