"""Batches of Orb's own adapter, and a small model, that the tests share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from orb_models.common.models.gns import MoleculeGNS
from orb_models.common.models.rbf import BesselBasis
from orb_models.forcefield.forcefield_adapter import ForcefieldAtomsAdapter
from orb_models.forcefield.models.conservative_regressor import (
    ConservativeForcefieldRegressor,
)
from orb_models.forcefield.models.forcefield_heads import EnergyHead
from structures import CUTOFF, structures


def stock_batch(numbers: Sequence[int], n: int, most: int, dtype: torch.dtype) -> Any:
    """The batch of the adapter, as its dataset and collate function make it."""
    adapter = ForcefieldAtomsAdapter(radius=CUTOFF, max_num_neighbors=most)
    made = structures(n)
    graphs = []
    for number in numbers:
        atoms = made[number]
        results = atoms.calc.results
        atoms.info["graph_targets"] = {
            "energy": torch.tensor([results["energy"]], dtype=torch.float64)
        }
        atoms.info["node_targets"] = {"forces": torch.tensor(results["forces"])}
        graphs.append(
            adapter.from_ase_atoms(
                atoms,
                system_id=number,
                device="cpu",
                output_dtype=dtype,
                graph_construction_dtype=torch.float64,
                edge_method="knn_alchemi",
                half_supercell=False,
            )
        )
    return adapter.batch(graphs)


def model() -> ConservativeForcefieldRegressor:
    """A small conservative model with random weights, in float64."""
    torch.manual_seed(0)
    made = ConservativeForcefieldRegressor(
        heads={
            "energy": EnergyHead(
                latent_dim=8, num_mlp_layers=1, mlp_hidden_dim=8, predict_atom_avg=True
            )
        },
        model=MoleculeGNS(
            latent_dim=8,
            num_message_passing_steps=2,
            num_mlp_layers=1,
            mlp_hidden_dim=8,
            rbf_transform=BesselBasis(r_max=CUTOFF, num_bases=4),
            use_embedding=True,
            interaction_params={"distance_cutoff": True, "attention_gate": "sigmoid"},
            node_feature_names=["feat"],
            edge_feature_names=["feat"],
        ),
        has_stress=False,
        loss_weights={"energy": 1.0, "grad_forces": 1.0},
    )
    return made.double()
