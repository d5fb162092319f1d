"""Batches of TorchMD-Net."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.trainers._layout import Layout, float_dtype

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
        graphs = Batch(_base_cls=Data, **made, index=batch.index)
        graphs.batch, graphs.ptr = batch.batch, batch.ptr
        graphs._num_graphs = len(batch)
        return graphs


def make_layout(
    energy: str | None,
    forces: str | None,
    box: bool = False,
    atomref: Mapping[int, float] | None = None,
    dtype: torch.dtype | None = torch.float32,
) -> TorchMDNetLayout:
    """Returns the layout of batches; arguments as for ``atompack_torch.trainers.torchmdnet.batch``.

    Args:
        energy: field with the energies; None: none.
        forces: field with the forces; None: none.
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
