"""TorchMD-Net: batches for its models, loaders, and a data module for its ``LNNP``.

    data = DataModule("train.atp", "val.atp", batch_size=32)
    lightning.Trainer().fit(LNNP(hparams), datamodule=data)

Needs the package ``torchmd-net``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

try:
    import torchmdnet as _torchmdnet
    from lightning import LightningDataModule
    from torch_geometric.data import Batch
    from torch_geometric.data import Data as Graph
except ImportError as error:
    raise ImportError("atompack_torch.trainers.torchmdnet: install torchmd-net") from error

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets._outputs import Output, by_atomic_number
from atompack_torch.loading.loader import Loader
from atompack_torch.trainers._data_module import DataHooks
from atompack_torch.trainers._epochs import epoch_loader
from atompack_torch.trainers._labels import with_labels
from atompack_torch.trainers._layout import Data, Layout, float_dtype, open_dataset

__all__ = ["DataModule", "TorchMDNetLayout", "batch", "loader"]

del _torchmdnet

ENERGY, FORCES = "energy", "forces"
_N_ELEMENTS = 128  # entries of TorchMD-Net's tables of reference energies


@dataclass(frozen=True)
class TorchMDNetLayout(Layout):
    """Layout of the batches.

    Attributes:
        energy: field with the energies, or None.
        forces: field with the forces, or None.
        box: add the cells, for models with periodic boundaries.
        references: energy of each element by atomic number, which is removed.
        dtype: of floating values.
    """

    energy: str | None = ENERGY
    forces: str | None = FORCES
    box: bool = False
    references: tuple[float, ...] = ()
    dtype: torch.dtype = torch.float32

    @property
    def neighbors(self) -> None:
        """No edges: the models make their own."""
        return None

    @property
    def labels(self) -> list[str]:
        """Fields of the labels."""
        return [name for name in (self.energy, self.forces) if name is not None]

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors from which the batch is made."""
        made = [
            Output("z", "value", torch.int64, "atomic_numbers"),
            Output("pos", "value", self.dtype, "positions"),
        ]
        if self.energy is not None:
            made.append(Output("y", "value", self.dtype, self.energy, references=self.references))
        if self.forces is not None:
            made.append(Output("neg_dy", "value", self.dtype, self.forces))
        if self.box:
            made.append(Output("box", "cell", self.dtype))
        return tuple(made)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> Any:
        """Returns the batch of TorchMD-Net.

        Args:
            batch: gives ``batch``, ``ptr`` and ``index``.
            made: the outputs.

        Returns:
            The batch; see ``atompack_torch.trainers.torchmdnet.batch``.
        """
        if "y" in made:
            made["y"] = made["y"].unsqueeze(1)
        graphs = Batch(_base_cls=Graph, **made, index=batch.index)
        graphs.batch, graphs.ptr = batch.batch, batch.ptr
        graphs._num_graphs = len(batch)
        return graphs


def batch(
    molecules: MoleculeBatch,
    *,
    energy: str | None = ENERGY,
    forces: str | None = FORCES,
    box: bool = False,
    atomref: Mapping[int, float] | None = None,
    dtype: torch.dtype | None = torch.float32,
) -> Any:
    """Converts a batch to that of TorchMD-Net.

    Args:
        molecules: a batch on the CPU.
        energy: field with the energies in eV; None: none.
        forces: field with the forces in eV/Å; None: none.
        box: add the cells.
        atomref: energy of each element, removed in float64.
        dtype: of floating values; None: torch's default one.

    Returns:
        A torch-geometric batch of B structures and N atoms: ``z`` (N,) int64, ``pos`` (N, 3),
        ``batch`` (N,), ``ptr`` (B + 1,), ``y`` (B, 1), ``neg_dy`` (N, 3) = forces, ``box``
        (B, 3, 3), and ``index`` (B,), the numbers of the structures. A missing value is NaN.

    Raises:
        FieldError: there is no such field, or an element has no reference energy.
        ValueError: another dtype.
    """
    return _layout(energy, forces, box, atomref, dtype).batch(molecules)


def loader(
    data: Data,
    *,
    batch_size: int | None = None,
    max_atoms: float | None = None,
    batch_sampler: Iterable[Sequence[int]] | None = None,
    shuffle: bool = True,
    seed: int = 0,
    energy: str | None = ENERGY,
    forces: str | None = FORCES,
    box: bool = False,
    atomref: Mapping[int, float] | None = None,
    dtype: torch.dtype | None = torch.float32,
    **options: Any,
) -> Loader[Any]:
    """Makes a loader of batches for TorchMD-Net.

    Structures that lack a label are left out, with a warning: the losses know no missing ones. An
    epoch has every other structure once, shared by all ranks; ``state_dict`` resumes inside an
    epoch.

    Args:
        data: a data set of molecules, or anything that ``apt.open`` takes.
        batch_size: maximum number of structures in a batch.
        max_atoms: maximum number of atoms in a batch, in place of ``batch_size``.
        batch_sampler: yields lists of numbers of the structures that are left.
        shuffle: use a random order in every epoch.
        seed: seed of these orders.
        energy: as for ``batch``.
        forces: as for ``batch``.
        box: as for ``batch``.
        atomref: as for ``batch``.
        dtype: as for ``batch``.
        **options: of ``Loader``: ``num_threads``, ``prefetch``, ``pin_memory``, ``device``.

    Returns:
        The loader.

    Raises:
        FieldError: no structure has all labels.
        TypeError: the data are not molecules.
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``.
    """
    layout = _layout(energy, forces, box, atomref, dtype)
    dataset = open_dataset(data)
    if layout.labels:
        dataset = with_labels(dataset, layout.labels)
    return epoch_loader(
        dataset,
        layout,
        batch_size=batch_size,
        max_atoms=max_atoms,
        batch_sampler=batch_sampler,
        shuffle=shuffle,
        seed=seed,
        **options,
    )


class DataModule(DataHooks, LightningDataModule):  # type: ignore[misc]
    """Data module for ``LNNP``, with the attributes of TorchMD-Net's own.

    Structures that lack a label are left out, with a warning.

    Args:
        train: a data set of molecules, or anything that ``apt.open`` takes.
        val: likewise; None: no validation.
        test: likewise.
        predict: likewise.
        batch_size: maximum number of structures in a batch.
        max_atoms: maximum number of atoms in a batch.
        energy: field with the energies in eV; None: none.
        forces: field with the forces in eV/Å; None: none.
        box: add the cells.
        atomref: energy of each element by atomic number, for the prior model ``Atomref``.
        remove_ref_energy: remove these energies from the labels, in float64; with the prior model
            ``Atomref`` they stay.
        dtype: of floating values.
        **options: ``shuffle``, ``seed``, ``num_threads`` and ``prefetch`` as for Lightning's
            module, and options of data sets that are opened here.

    Raises:
        ValueError: not exactly one of ``batch_size`` and ``max_atoms``.
    """

    def __init__(
        self,
        train: Data | None = None,
        val: Data | None = None,
        test: Data | None = None,
        predict: Data | None = None,
        *,
        batch_size: int | None = None,
        max_atoms: float | None = None,
        energy: str | None = ENERGY,
        forces: str | None = FORCES,
        box: bool = False,
        atomref: Mapping[int, float] | None = None,
        remove_ref_energy: bool = False,
        dtype: torch.dtype | None = torch.float32,
        **options: Any,
    ) -> None:
        layout = _layout(energy, forces, box, atomref if remove_ref_energy else None, dtype)
        super().__init__(
            train,
            val,
            test,
            predict,
            batch_size=batch_size,
            max_atoms=max_atoms,
            layout=layout,
            **options,
        )
        self._labels = layout.labels
        self._references = dict(atomref or {})
        self._moments: tuple[Tensor, Tensor] | None = None

    @property
    def atomref(self) -> Tensor | None:
        """Energy of each element by atomic number: (128, 1); None if none is given."""
        if not self._references:
            return None
        table = torch.zeros(_N_ELEMENTS, 1)
        for number, energy in self._references.items():
            table[number] = energy
        return table

    @property
    def mean(self) -> Tensor:
        """Mean of the energies to train on, as in batches: () float64."""
        return self._mean_and_std()[0]

    @property
    def std(self) -> Tensor:
        """Standard deviation of the energies to train on, as in batches: () float64."""
        return self._mean_and_std()[1]

    def _mean_and_std(self) -> tuple[Tensor, Tensor]:
        if self._moments is None:
            self.setup("fit")
            assert isinstance(self._layout, TorchMDNetLayout)
            layout = TorchMDNetLayout(
                self._layout.energy, None, False, self._layout.references, torch.float64
            )
            batches = Loader(layout.dataset(self._opened["train"]), 4096)
            energies = torch.cat([batch.y[:, 0] for batch in batches])
            self._moments = energies.mean(), energies.std()
        return self._moments


def _layout(
    energy: str | None,
    forces: str | None,
    box: bool,
    atomref: Mapping[int, float] | None,
    dtype: torch.dtype | None,
) -> TorchMDNetLayout:
    references = by_atomic_number(atomref or {}, math.nan)
    return TorchMDNetLayout(energy, forces, box, references, float_dtype(dtype))
