"""Small models of MatGL, and batches as its own path makes them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import ase
import lightning
import matgl
import numpy as np
import torch
from matgl.ext.ase import Atoms2Graph
from matgl.graph.data import MGLDataset, collate_fn_pes
from matgl.models import CHGNet, M3GNet, SO3Net, TensorNet
from matgl.utils.constants import EV_PER_ANG3_TO_GPA
from matgl.utils.training import PotentialLightningModule
from pages import LIGHTNING
from structures import CUTOFF
from torch.utils.data import DataLoader

BATCH = 4
ELEMENTS = ("H", "C", "O", "Al", "Cu")
MODELS: dict[str, Callable[[], Any]] = {
    "TensorNet": lambda: TensorNet(
        ELEMENTS,
        units=8,
        nblocks=1,
        num_rbf=4,
        cutoff=CUTOFF,
        is_intensive=False,
        dtype=matgl.float_th,
    ),
    "M3GNet": lambda: M3GNet(
        ELEMENTS,
        dim_node_embedding=8,
        dim_edge_embedding=8,
        units=8,
        nblocks=2,
        cutoff=CUTOFF,
        threebody_cutoff=3.2,
        is_intensive=False,
    ),
    "CHGNet": lambda: CHGNet(
        ELEMENTS,
        dim_atom_embedding=8,
        dim_bond_embedding=8,
        dim_angle_embedding=8,
        num_blocks=2,
        atom_conv_hidden_dims=(8,),
        bond_conv_hidden_dims=(8,),
        final_hidden_dims=(8,),
        cutoff=CUTOFF,
        threebody_cutoff=3.0,
    ),
    "SO3Net": lambda: SO3Net(ELEMENTS, cutoff=CUTOFF, is_intensive=False, lmax=1, nlayers=1),
}


def new_module(model: str = "TensorNet", **options: Any) -> PotentialLightningModule:
    """A potential with random weights, the same ones each time."""
    torch.manual_seed(3)
    made = MODELS[model]()
    refs = np.linspace(-4.5, -3.5, len(ELEMENTS))
    weights = {"stress_weight": 0.1, "force_weight": 1.0} | options
    return PotentialLightningModule(made, element_refs=refs, lr=1e-3, **weights)


def stock_loader(
    made: Sequence[ase.Atoms],
    *,
    batch_size: int = BATCH,
    include_stress: bool = True,
    magmoms: bool = False,
    charges: bool = False,
) -> Any:
    """MatGL's own loader, in the stored order."""
    labels: dict[str, list[Any]] = {"energies": [], "forces": [], "stresses": []}
    labels |= {name: [] for name, has in (("magmoms", magmoms), ("charges", charges)) if has}
    for atoms in made:
        results = atoms.calc.results
        stress = atoms.get_stress(voigt=False) if "stress" in results else np.full((3, 3), np.nan)
        labels["energies"].append(results.get("energy", np.nan))
        labels["forces"].append(np.asarray(atoms.get_forces()).tolist())
        labels["stresses"].append((stress * EV_PER_ANG3_TO_GPA).tolist())
        for name in ("magmoms", "charges"):
            if name in labels:
                labels[name].append(results[name].tolist())
    with tempfile.TemporaryDirectory() as folder:
        dataset = MGLDataset(
            structures=list(made),
            converter=Atoms2Graph(ELEMENTS, CUTOFF),
            labels=labels,
            save_cache=False,
            root=folder,
        )
    collate = partial(
        collate_fn_pes,
        include_stress=include_stress,
        include_magmom=magmoms,
        include_charge=charges,
    )
    return DataLoader(dataset, batch_size=batch_size, collate_fn=collate)


class Noting(lightning.Callback):
    """Notes loss and molecules of each step, by epoch; writes a checkpoint after some steps."""

    def __init__(self, checkpoint: Any = None, after: int = 0) -> None:
        self.losses: list[float] = []
        self.epochs: dict[int, list[list[int]]] = {}
        self.checkpoint, self.after = checkpoint, after

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int
    ) -> None:
        self.losses.append(float(outputs["loss"]))
        indices = getattr(batch[0], "sample_idx", None)
        if indices is not None:
            self.epochs.setdefault(trainer.current_epoch, []).append(indices.tolist())
        if self.checkpoint is not None and trainer.global_step == self.after:
            trainer.save_checkpoint(self.checkpoint)


def fit(
    module: Any, loader: Iterable[Any], *, noting: Noting | None = None, **options: Any
) -> Noting:
    """Trains by Lightning; returns what came of each step."""
    noting = noting or Noting()
    fit_options = {name: options.pop(name) for name in ("ckpt_path",) if name in options}
    fixed = {"devices": 1, "max_epochs": 100, "inference_mode": False, "callbacks": [noting]}
    trainer = lightning.Trainer(**LIGHTNING | fixed | options)
    trainer.fit(module, loader, **fit_options)
    return noting


def use_dtype(bits: int) -> None:
    """Sets MatGL's dtype, and torch's default one."""
    matgl.set_default_dtype("float", bits)
