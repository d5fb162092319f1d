"""MACE: the step of its training loop on a small model, and its loader of graphs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mace  # before e3nn, whose constants torch.load refuses otherwise
import numpy as np
import torch
from e3nn import o3
from mace import data, modules, tools
from mace.tools import torch_geometric
from mace.tools.train import take_step

from atompack_torch.loading.loader import Loader
from atompack_torch.trainers.mace import loader

if TYPE_CHECKING:
    import ase

assert mace
_INTERACTION = modules.interaction_classes["RealAgnosticResidualInteractionBlock"]


class Training:
    """Training of a small model: two layers of 16 scalars and vectors, correlation 2, float32.

    Args:
        elements: atomic numbers.
        cutoff: in Å.
        device: of the model.
    """

    def __init__(self, elements: Sequence[int], cutoff: float, device: torch.device) -> None:
        self.z_table, self.cutoff = tools.AtomicNumberTable(sorted(elements)), cutoff
        self._device = device
        self._model = modules.ScaleShiftMACE(
            r_max=cutoff,
            num_bessel=8,
            num_polynomial_cutoff=5,
            max_ell=3,
            interaction_cls=_INTERACTION,
            interaction_cls_first=_INTERACTION,
            num_interactions=2,
            num_elements=len(self.z_table),
            hidden_irreps=o3.Irreps("16x0e + 16x1o"),
            MLP_irreps=o3.Irreps("16x0e"),
            gate=torch.nn.functional.silu,
            atomic_energies=np.zeros(len(self.z_table)),
            avg_num_neighbors=40.0,
            atomic_numbers=self.z_table.zs,
            correlation=2,
            radial_type="bessel",
            atomic_inter_scale=1.0,
            atomic_inter_shift=0.0,
        ).to(device)
        self._optimizer = torch.optim.Adam(self._model.parameters())
        self._loss = modules.WeightedEnergyForcesStressLoss(1.0, 10.0, 1.0)

    def stock(self, molecules: Sequence[ase.Atoms], batch_size: int, workers: int) -> Any:
        """Makes MACE's own loader, whose graphs it makes before the first epoch."""
        for atoms in molecules:
            results, atoms.calc = atoms.calc.results if atoms.calc else {}, None
            atoms.info |= {f"REF_{k}": results[k] for k in ("energy", "stress") if k in results}
            if "forces" in results:
                atoms.arrays["REF_forces"] = results["forces"]
        keys = data.KeySpecification.from_defaults()
        graphs = [
            data.AtomicData.from_config(one, z_table=self.z_table, cutoff=self.cutoff)
            for one in data.config_from_atoms_list(molecules, key_specification=keys)
        ]
        return torch_geometric.dataloader.DataLoader(
            graphs, batch_size, shuffle=True, num_workers=workers
        )

    def ours(self, molecules: Any, batch_size: int) -> Loader[Any]:
        """Makes our loader."""
        return loader(molecules, self.z_table, self.cutoff, batch_size=batch_size)

    def step(self, batch: Any) -> None:
        """Runs one step of MACE's training loop."""
        take_step(
            model=self._model,
            loss_fn=self._loss,
            batch=batch,
            optimizer=self._optimizer,
            ema=None,
            output_args={"forces": True, "virials": False, "stress": True},
            max_grad_norm=10.0,
            device=self._device,
        )
