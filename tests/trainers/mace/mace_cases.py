"""Structures, batches and small models of MACE that the tests share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ase
import mace  # before e3nn, whose constants torch.load refuses otherwise
import numpy as np
import torch
from e3nn import o3
from mace import data, modules, tools
from mace.tools import torch_geometric
from mace.tools.train import take_step
from structures import CUTOFF, ELEMENTS

assert mace
Z_TABLE = tools.AtomicNumberTable(sorted(ELEMENTS))
OUTPUTS = {"forces": True, "virials": False, "stress": True}


def with_keys(made: Sequence[ase.Atoms]) -> list[ase.Atoms]:
    """Structures with their labels under MACE's default keys."""
    for atoms in made:
        results = atoms.calc.results
        for name in ("energy", "stress"):
            if name in results:
                atoms.info[f"REF_{name}"] = results[name]
        if "forces" in results:
            atoms.arrays["REF_forces"] = results["forces"]
        atoms.calc = None
    return list(made)


def stock_graphs(made: Sequence[ase.Atoms], heads: Sequence[str] = ("Default",)) -> list[Any]:
    """Graphs as MACE makes them of structures."""
    keys = data.KeySpecification.from_defaults()
    configurations = data.config_from_atoms_list(made, key_specification=keys, head_name=heads[0])
    return [
        data.AtomicData.from_config(one, z_table=Z_TABLE, cutoff=CUTOFF, heads=list(heads))
        for one in configurations
    ]


def stock_loader(made: Sequence[ase.Atoms], batch_sampler: Any) -> Any:
    """MACE's own loader of batches in a given order."""
    graphs = stock_graphs(made)
    return [
        next(iter(torch_geometric.dataloader.DataLoader([graphs[i] for i in batch], len(batch))))
        for batch in batch_sampler
    ]


def model(seed: int = 0) -> torch.nn.Module:
    """A small MACE with random weights, in torch's default dtype."""
    torch.manual_seed(seed)
    return modules.ScaleShiftMACE(
        r_max=CUTOFF,
        num_bessel=4,
        num_polynomial_cutoff=5,
        max_ell=2,
        interaction_cls=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
        interaction_cls_first=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
        num_interactions=2,
        num_elements=len(Z_TABLE),
        hidden_irreps=o3.Irreps("4x0e + 4x1o"),
        MLP_irreps=o3.Irreps("4x0e"),
        gate=torch.nn.functional.silu,
        atomic_energies=np.full(len(Z_TABLE), -4.0),
        avg_num_neighbors=10.0,
        atomic_numbers=Z_TABLE.zs,
        correlation=2,
        radial_type="bessel",
        atomic_inter_scale=1.0,
        atomic_inter_shift=0.0,
    )


def losses_of_steps(batches: Any, loss: torch.nn.Module, steps: int = 20) -> list[float]:
    """Losses of steps of MACE's training loop on the first batches."""
    trained = model()
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01, amsgrad=True)
    found = []
    for batch, _ in zip(batches, range(steps), strict=False):
        value, _ = take_step(
            model=trained,
            loss_fn=loss,
            batch=batch,
            optimizer=optimizer,
            ema=None,
            output_args=OUTPUTS,
            max_grad_norm=10.0,
            device=torch.device("cpu"),
        )
        found.append(value.item())
    return found
