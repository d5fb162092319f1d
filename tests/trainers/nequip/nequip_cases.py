"""Models, batches and runs of NequIP that its tests share."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import ase
import lightning
import nequip.utils  # noqa: F401  # registers the resolvers of configs
import torch
from allegro.model import AllegroModel
from nequip.data import AtomicDataDict
from nequip.data.ase import from_ase
from nequip.data.transforms import (
    AddNaNStressTransform,
    ChemicalSpeciesToAtomTypeMapper,
    NeighborListTransform,
)
from nequip.model import NequIPGNNModel
from nequip.utils.global_state import set_global_state
from omegaconf import OmegaConf
from pages import EXAMPLES
from ranks import environment
from structures import CUTOFF

TYPES = ("H", "C", "O", "Al", "Cu")
EXAMPLE = EXAMPLES / "nequip.yaml"
OURS = "atompack_torch.trainers.nequip.DataModule"
SECONDS = 300.0

set_global_state()  # as every command of NequIP does


def model(dtype: torch.dtype = torch.float64, kind: str = "nequip") -> Any:
    """A small model with random weights."""
    common = {
        "seed": 1,
        "model_dtype": str(dtype).removeprefix("torch."),
        "type_names": list(TYPES),
        "r_max": CUTOFF,
        "l_max": 1,
        "avg_num_neighbors": 10.0,
        "per_type_energy_shifts": -4.0,
        "per_type_energy_scales": 0.5,
    }
    if kind == "nequip":
        return NequIPGNNModel(num_layers=2, num_features=4, radial_mlp_width=8, **common)
    embedding = {"_target_": "allegro.nn.TwoBodyBesselScalarEmbed", "num_bessels": 4}
    return AllegroModel(
        radial_chemical_embed=embedding,
        radial_chemical_embed_dim=8,
        num_layers=1,
        num_scalar_features=8,
        num_tensor_features=4,
        allegro_mlp_hidden_layers_width=8,
        readout_mlp_hidden_layers_width=8,
        **common,
    )


def stock_batch(made: Iterable[ase.Atoms], types: Sequence[str] = TYPES) -> dict[str, Any]:
    """Batch by NequIP's own conversion, transforms and collate function."""
    transforms = [
        ChemicalSpeciesToAtomTypeMapper(list(types)),
        NeighborListTransform(CUTOFF),
        AddNaNStressTransform(),
    ]
    converted = []
    for atoms in made:
        data = from_ase(atoms)
        for transform in transforms:
            data = transform(data)
        converted.append(data)
    batch: dict[str, Any] = AtomicDataDict.batched_from_list(converted)
    return batch


def config(data: Mapping[str, Any], **changes: Any) -> Any:
    """The example with another section ``data`` and further changes by dotted name."""
    read = OmegaConf.load(EXAMPLE)
    read.data = OmegaConf.create(dict(data))
    for name, value in changes.items():
        OmegaConf.update(read, name.replace("__", "."), value, merge=False, force_add=True)
    return read


def our_data(**data: Any) -> dict[str, Any]:
    """Section ``data`` with our data module."""
    common = {"model_type_names": list(TYPES), "cutoff": CUTOFF, "stats_manager": statistics()}
    return {"_target_": OURS, **common, **data}


def statistics() -> dict[str, Any]:
    """The statistics of NequIP's tutorial."""
    kind = "nequip.data.CommonDataStatisticsManager"
    return {"_target_": kind, "type_names": list(TYPES)}


def metrics(ignore_nan: bool, kind: str, **coeffs: float) -> dict[str, Any]:
    """A ``MetricsManager`` with a weighted metric for each key."""
    entries = [
        {
            "name": key,
            "field": key,
            "coeff": coeff,
            "ignore_nan": ignore_nan,
            "metric": {"_target_": kind},
        }
        for key, coeff in coeffs.items()
    ]
    return {"_target_": "nequip.train.MetricsManager", "metrics": entries}


def train(folder: Path, settings: Any, *arguments: str, check: bool = True) -> str:
    """Runs ``nequip-train`` on a config file; returns what it prints."""
    folder.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(settings, folder / "config.yaml")
    options = ("-cp", str(folder), "-cn", "config.yaml", f"hydra.run.dir={folder}/out")
    return run_command(folder, "nequip-train", *options, *arguments, check=check)


def run_command(folder: Path, command: str, *arguments: str, check: bool = True) -> str:
    """Runs a command of NequIP in a folder; returns what it prints."""
    done = subprocess.run(
        [Path(sys.executable).with_name(command), *arguments],
        env=environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert (done.returncode == 0) == check, printed[-4000:]
    return printed


def logged(folder: Path, name: str = "train_loss_step/weighted_sum") -> list[float]:
    """Values of a metric in the log of ``train``, in order."""
    (path,) = (folder / "out").rglob("metrics.csv")
    with path.open(newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


class Notes(lightning.Callback):
    """Notes the molecules and the loss of each step, and writes a checkpoint after one of them."""

    made: ClassVar[list[Notes]] = []

    def __init__(self, checkpoint: str, after_step: int) -> None:
        self._checkpoint, self._after_step = checkpoint, after_step
        self.epochs: dict[int, list[list[int]]] = defaultdict(list)
        self.validated: dict[int, list[list[int]]] = defaultdict(list)
        self.losses: list[float] = []
        self.weights: list[float] = []
        Notes.made.append(self)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.epochs[trainer.current_epoch].append(batch["molecule_index"].flatten().tolist())
        self.losses.append(float(outputs["loss"]))
        if trainer.global_step == self._after_step:
            trainer.save_checkpoint(self._checkpoint)

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if not trainer.sanity_checking:
            numbers = batch["molecule_index"].flatten().tolist()
            self.validated[dataloader_idx].append(numbers)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self.weights = [float(weight.detach().sum()) for weight in pl_module.model.parameters()]
