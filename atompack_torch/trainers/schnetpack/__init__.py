"""SchNetPack: batches for its models, loaders, and a data module for its tasks.

    data = DataModule("train.atp", "val.atp", batch_size=16, cutoff=5.0, remove_mean=["energy"])
    trainer.fit(task, datamodule=data)  # schnetpack.task.AtomisticTask

``python -m atompack_torch.trainers.schnetpack ARGS`` is ``spktrain ARGS``, with this data module by
``_target_`` in the config.

Needs the package ``schnetpack``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import dataloader

if not hasattr(dataloader, "T_co"):  # SchNetPack 2.1 imports it, torch 2.13 has renamed it
    dataloader.T_co = TypeVar("T_co", covariant=True)  # type: ignore[attr-defined]
try:
    import schnetpack as _schnetpack
    from pytorch_lightning import LightningDataModule
except ImportError as error:
    raise ImportError("atompack_torch.trainers.schnetpack: install schnetpack") from error

from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._data_module import DataHooks, EpochLoader, Sets
from atompack_torch.trainers._labels import with_labels
from atompack_torch.trainers._layout import Data, Layout, fields_by_name, float_dtype, open_dataset
from atompack_torch.trainers._samplers import all_batches, epoch_loader, loading_options

__all__ = ["DataModule", "SchNetPackLayout", "batch", "loader"]

del _schnetpack

LABELS = ("energy", "forces")
_N_ELEMENTS = 100  # entries of SchNetPack's tables of atomic references


@dataclass(frozen=True)
class SchNetPackLayout(Layout):
    """Layout of the batches.

    Attributes:
        cutoff: of the neighbor lists, in Å.
        properties: name in SchNetPack → field of the data.
        offsets: property → energy of each element by atomic number, which is removed.
        dtype: of all floating values.
    """

    cutoff: float
    properties: Mapping[str, str]
    offsets: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors from which the batch is made."""
        made = [
            Output("_positions", "value", self.dtype, "positions"),
            Output("_atomic_numbers", "value", torch.int64, "atomic_numbers"),
            Output("_offsets", "edge_offset", self.dtype),
            Output("_cell", "cell", self.dtype),
            Output("_pbc", "value", torch.bool, "pbc"),
        ]
        for name, stored in self.properties.items():
            removed = self.offsets.get(name, ())
            made.append(Output(name, "value", self.dtype, stored, references=removed))
        return tuple(made)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> dict[str, Tensor]:
        """Returns the batch of SchNetPack.

        Args:
            batch: gives edges, ``batch``, ``n_atoms`` and ``index``.
            made: the outputs.

        Returns:
            The batch; see ``atompack_torch.trainers.schnetpack.batch``.
        """
        made["_pbc"] = made["_pbc"].view(-1)
        made["_n_atoms"], made["_idx_m"] = batch.n_atoms, batch.batch
        made["_idx_i"], made["_idx_j"] = batch.edge_index
        made["_idx"] = batch.index
        return made


def make_layout(
    cutoff: float,
    *,
    properties: Mapping[str, str] | Sequence[str] = LABELS,
    offsets: Mapping[str, Mapping[int, float]] | None = None,
    dtype: torch.dtype | None = torch.float32,
) -> SchNetPackLayout:
    """Makes the layout.

    Args:
        cutoff: of the model, in Å.
        properties: names of labels, or name in SchNetPack → field.
        offsets: property → energy of each element, removed in float64.
        dtype: of floating values; None: torch's default one.

    Returns:
        The layout.

    Raises:
        ValueError: any other dtype.
    """
    named = fields_by_name(properties)
    tables = {name: by_atomic_number(of, math.nan) for name, of in (offsets or {}).items()}
    return SchNetPackLayout(float(cutoff), named, tables, float_dtype(dtype))


@with_options(make_layout)
def batch(molecules: MoleculeBatch, cutoff: float, **options: Any) -> dict[str, Tensor]:
    """Converts a batch with edges to the inputs of SchNetPack's models.

    Args:
        molecules: a batch on the CPU, of a dataset with ``neighbors=NeighborList(cutoff)``.
        cutoff: of the model, in Å.
        **options: of the layout.

    Returns:
        For B molecules, N atoms and E pairs: ``_positions`` (N, 3), ``_atomic_numbers`` (N,)
        int64, ``_idx_m`` (N,), ``_idx_i`` and ``_idx_j`` (E,), ``_offsets`` (E, 3) = S·cell,
        ``_cell`` (B, 3, 3), ``_pbc`` (3B,) bool, ``_n_atoms`` (B,), ``_idx`` (B,) the numbers of
        the molecules, and the properties: energies (B,), forces (N, 3). A missing value is NaN.

    Raises:
        FieldError: there are no edges or no such field, or an element has no offset.
        ValueError: any other dtype.
    """
    made: dict[str, Tensor] = make_layout(cutoff, **options).batch(molecules)
    return made


@with_options(make_layout, epoch_loader)
def loader(
    data: Data, cutoff: float, *, key_map: Mapping[str, str] | None = None, **options: Any
) -> Loader[Any]:
    """Makes a loader of batches for SchNetPack.

    Molecules that lack one of the properties are dropped, with a warning: SchNetPack's losses
    do not support missing labels. An epoch has every other molecule once, shared by all ranks;
    ``state_dict`` resumes in the middle of an epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        cutoff: of the model, in Å.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: those of ``batch``, and options of every trainer.

    Returns:
        The loader.

    Raises:
        FieldError: no molecule has all properties.
        TypeError: the data are not molecules.
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``.
    """
    loading = loading_options(options, make_layout)
    layout = make_layout(cutoff, **options)
    dataset = with_labels(open_dataset(data, key_map), list(layout.properties.values()))
    return epoch_loader(dataset, layout, **loading)


class DataModule(DataHooks, LightningDataModule):  # type: ignore[misc]
    """Data module for ``AtomisticTask``, also as ``_target_`` in a config of SchNetPack.

    Molecules that lack a property are dropped, with a warning. ``AddOffsets`` of the model finds
    mean and atomic references here; what it adds is removed from the batches in float64 first.
    """

    @with_options(DataHooks.__init__, skip=("layout",))
    def __init__(
        self,
        train: Data | None = None,
        val: Sets | None = None,
        test: Sets | None = None,
        predict: Sets | None = None,
        *,
        cutoff: float,
        properties: Mapping[str, str] | Sequence[str] = LABELS,
        remove_mean: Sequence[str] = (),
        atomrefs: Mapping[str, Mapping[Any, float]] | None = None,
        dtype: torch.dtype | None = torch.float32,
        train_sampler_cls: None = None,
        **options: Any,
    ) -> None:
        """Opens nothing yet.

        Args:
            train: a dataset of molecules, or anything that ``apt.open`` takes.
            val: likewise, but the entries of a list or a dict are separate sets.
            test: likewise.
            predict: likewise.
            cutoff: of the model, in Å.
            properties: names of labels, or name in SchNetPack → field.
            remove_mean: properties whose mean of an atom is removed.
            atomrefs: property → energy of each element, by symbol or atomic number, which is
                removed.
            dtype: of floating values.
            train_sampler_cls: an argument of ``spktrain``; None: samplers of this package.
            **options: those of Lightning's module.

        Raises:
            ValueError: not exactly one of ``batch_size`` and ``max_atoms``, or another sampler.
        """
        if train_sampler_cls is not None:
            raise ValueError(f"train_sampler_cls: expected None, got {train_sampler_cls}")
        super().__init__(train, val, test, predict, **options)
        self._plain = make_layout(cutoff, properties=properties, dtype=dtype)
        self._labels = list(self._plain.properties.values())
        self._remove_mean = tuple(remove_mean)
        self._references = {
            name: {_number(element): float(energy) for element, energy in of_elements.items()}
            for name, of_elements in (atomrefs or {}).items()
        }
        self._stats: dict[tuple[str, bool, bool], tuple[Tensor, Tensor]] = {}

    def setup(self, stage: str) -> None:
        """Opens the data of a stage; see ``lightning.DataModule``.

        Args:
            stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.

        Raises:
            FieldError: no molecule has all properties.
            ValueError: there is no data for the stage.
        """
        super().setup(stage)
        self._layout = self._with_offsets()

    def _with_offsets(self) -> SchNetPackLayout:
        offsets = {}
        for name in {*self._references, *self._remove_mean}:
            mean = 0.0
            if name in self._remove_mean and "train" in self._opened:
                mean = float(self.get_stats(name, True, name in self._references)[0])
            energies = self._references.get(name) or dict.fromkeys(range(_N_ELEMENTS), 0.0)
            offsets[name] = {number: energy + mean for number, energy in energies.items()}
        tables = {name: by_atomic_number(of, math.nan) for name, of in offsets.items()}
        return replace(self._plain, offsets=tables)

    @property
    def train_dataset(self) -> SimpleNamespace:
        """The atomic references, as ``AddOffsets`` looks for them."""
        tables = {}
        for name, energies in self._references.items():
            tables[name] = torch.zeros(_N_ELEMENTS, dtype=torch.float64)
            for number, energy in energies.items():
                tables[name][number] = energy
        return SimpleNamespace(atomrefs=tables)

    def get_stats(
        self, name: str, divide_by_atoms: bool, remove_atomref: bool
    ) -> tuple[Tensor, Tensor]:
        """Returns mean and standard deviation of a property of the molecules to train on.

        Args:
            name: of a property with one number per molecule.
            divide_by_atoms: of the value for each atom.
            remove_atomref: of the value without atomic references.

        Returns:
            Two float64 numbers, () each.
        """
        key = (name, divide_by_atoms, remove_atomref)
        if key not in self._stats:
            removed = self._references[name] if remove_atomref else {}
            field, references = self._plain.properties[name], by_atomic_number(removed, math.nan)
            output = Output(name, "value", torch.float64, field, references=references)
            values = all_batches(_Values(output), self._opened["train"])
            rows = torch.cat([v / n if divide_by_atoms else v for v, n in values])
            self._stats[key] = rows.mean(), rows.std(correction=0)
        return self._stats[key]

    def _loader(self, name: str, shuffle: bool) -> EpochLoader:
        if name.startswith("predict"):
            self._layout = replace(self._plain, properties={})
        return super()._loader(name, shuffle)


@dataclass(frozen=True)
class _Values(Layout):
    """Layout of the values of one property, and of numbers of atoms."""

    output: Output

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (self.output,)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return made[self.output.name], batch.n_atoms


def _number(element: Any) -> int:
    return SYMBOLS.index(element) if isinstance(element, str) else int(element)
