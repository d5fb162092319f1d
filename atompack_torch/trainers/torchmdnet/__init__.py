"""TorchMD-Net: batches for its models, loaders, and a data module for its ``LNNP``.

    data = DataModule("train.atp", "val.atp", batch_size=32)
    lightning.Trainer().fit(LNNP(hparams), datamodule=data)

``python -m atompack_torch.trainers.torchmdnet ARGS`` is ``torchmd-train ARGS``, with one more
dataset: ``--dataset Atompack --dataset-root train.atp``.

Needs the package ``torchmd-net``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._data_module import DataHooks, Sets
from atompack_torch.trainers._labels import with_labels
from atompack_torch.trainers._layout import Data, Layout, float_dtype, open_dataset
from atompack_torch.trainers._samplers import all_batches, epoch_loader, loading_options

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


def make_layout(
    *,
    energy: str | None = ENERGY,
    forces: str | None = FORCES,
    box: bool = False,
    atomref: Mapping[int, float] | None = None,
    dtype: torch.dtype | None = torch.float32,
) -> TorchMDNetLayout:
    """Returns the layout of batches.

    Args:
        energy: field with the energies in eV; None: none.
        forces: field with the forces in eV/Å; None: none.
        box: add the cells.
        atomref: energy of each element, removed in float64.
        dtype: of floating values; None: torch's default one.

    Returns:
        The layout.

    Raises:
        ValueError: any other dtype.
    """
    references = by_atomic_number(atomref or {}, math.nan)
    return TorchMDNetLayout(energy, forces, box, references, float_dtype(dtype))


def reference_table(references: Mapping[int, float]) -> Tensor | None:
    """Returns energies of elements as the prior model ``Atomref`` takes them.

    Args:
        references: atomic number → energy.

    Returns:
        (128, 1) by atomic number; None without any.
    """
    if not references:
        return None
    table = torch.zeros(_N_ELEMENTS, 1)
    for number, energy in references.items():
        table[number] = energy
    return table


@with_options(make_layout)
def batch(molecules: MoleculeBatch, **options: Any) -> Any:
    """Converts a batch to that of TorchMD-Net.

    Args:
        molecules: a batch on the CPU.
        **options: of the layout.

    Returns:
        A torch-geometric batch of B molecules and N atoms: ``z`` (N,) int64, ``pos`` (N, 3),
        ``batch`` (N,), ``ptr`` (B + 1,), ``y`` (B, 1), ``neg_dy`` (N, 3) = forces, ``box``
        (B, 3, 3), and ``index`` (B,), the indices of the molecules. A missing value is NaN.

    Raises:
        FieldError: there is no such field, or an element has no reference energy.
        ValueError: any other dtype.
    """
    return make_layout(**options).batch(molecules)


@with_options(make_layout, epoch_loader)
def loader(data: Data, *, key_map: Mapping[str, str] | None = None, **options: Any) -> Loader[Any]:
    """Makes a loader of batches for TorchMD-Net.

    Molecules that lack a label are dropped, with a warning: the losses do not support missing
    ones. An epoch has every other molecule once, shared by all ranks; ``state_dict`` resumes in
    the middle of an epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: those of ``batch``, and options of every trainer.

    Returns:
        The loader.

    Raises:
        FieldError: no molecule has all labels.
        TypeError: the data are not molecules.
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``.
    """
    loading = loading_options(options, make_layout)
    layout = make_layout(**options)
    dataset = with_labels(open_dataset(data, key_map), layout.labels)
    return epoch_loader(dataset, layout, **loading)


class DataModule(DataHooks, LightningDataModule):  # type: ignore[misc]
    """Data module for ``LNNP``, with the attributes of TorchMD-Net's own.

    Molecules that lack a label are dropped, with a warning.
    """

    @with_options(DataHooks.__init__, skip=("layout",))
    def __init__(
        self,
        train: Data | None = None,
        val: Sets | None = None,
        test: Sets | None = None,
        predict: Sets | None = None,
        *,
        energy: str | None = ENERGY,
        forces: str | None = FORCES,
        box: bool = False,
        atomref: Mapping[int, float] | None = None,
        remove_ref_energy: bool = False,
        dtype: torch.dtype | None = torch.float32,
        **options: Any,
    ) -> None:
        """Opens nothing yet.

        Args:
            train: a dataset of molecules, or anything that ``apt.open`` takes.
            val: likewise, but the entries of a list or a dict are separate sets.
            test: likewise.
            predict: likewise.
            energy: field with the energies in eV; None: none.
            forces: field with the forces in eV/Å; None: none.
            box: add the cells.
            atomref: energy of each element by atomic number, for the prior model ``Atomref``.
            remove_ref_energy: remove these energies from the labels, in float64; with the prior
                model ``Atomref`` they stay.
            dtype: of floating values.
            **options: those of Lightning's module.

        Raises:
            ValueError: not exactly one of ``batch_size`` and ``max_atoms``.
        """
        removed = atomref if remove_ref_energy else None
        layout = make_layout(energy=energy, forces=forces, box=box, atomref=removed, dtype=dtype)
        super().__init__(train, val, test, predict, layout=layout, **options)
        self._labels = layout.labels
        self._references = dict(atomref or {})

    @property
    def atomref(self) -> Tensor | None:
        """Energy of each element by atomic number: (128, 1); None if none is given."""
        return reference_table(self._references)

    @property
    def mean(self) -> Tensor:
        """Mean of the energies to train on, as in batches: () float64."""
        return self._moments[0]

    @property
    def std(self) -> Tensor:
        """Standard deviation of the energies to train on, as in batches: () float64."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        self.setup("fit")
        assert isinstance(self._layout, TorchMDNetLayout)
        layout = replace(self._layout, forces=None, box=False, dtype=torch.float64)
        batches = all_batches(layout, self._opened["train"])
        energies = torch.cat([batch.y[:, 0] for batch in batches])
        return energies.mean(), energies.std()
