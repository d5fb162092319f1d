"""One rank of runs with the data module of Lightning: writes which molecules came."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from cases import BATCH, MAX_ATOMS
from pages import LIGHTNING

import atompack_torch as apt
from atompack_torch.datasets.outputs import Output
from atompack_torch.loading.samplers import _windows
from atompack_torch.trainers._layout import Layout
from atompack_torch.trainers.lightning import DataModule

EPOCHS = 2
STOP = 20  # steps before a stop in the middle of an epoch


class Model(lightning.LightningModule):
    """Notes the molecules of each step."""

    def __init__(self, checkpoint: Path | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.steps: dict[str, dict[int, list[list[int]]]] = {"train": {}, "val": {}, "test": {}}
        self.checkpoint = checkpoint  # written after so many steps

    def _note(self, stage: str, batch: Any) -> None:
        self.steps[stage].setdefault(self.current_epoch, []).append(batch["index"].tolist())

    def training_step(self, batch: Any, number: int) -> Any:
        self._note("train", batch)
        return self.weight * batch["positions"].sum()

    def on_train_batch_end(self, outputs: Any, batch: Any, number: int) -> None:
        if self.checkpoint is not None and self.global_step == STOP:
            self.trainer.save_checkpoint(self.checkpoint)

    def validation_step(self, batch: Any, number: int) -> None:
        self._note("val", batch)
        self.log("size", float(len(batch["index"])), batch_size=len(batch["index"]), sync_dist=True)

    def test_step(self, batch: Any, number: int) -> None:
        self._note("test", batch)

    def predict_step(self, batch: Any, number: int) -> Any:
        return batch["index"].tolist()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.0)


@dataclass(frozen=True)
class Positions(Layout):
    """Batches of another trainer: a dict of positions."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (Output("positions", "value", torch.float64, "positions"),)

    @property
    def neighbors(self) -> None:
        return None

    def assemble(self, batch: apt.MoleculeBatch, made: dict[str, torch.Tensor]) -> Any:
        assert type(batch) is apt.MoleculeBatch
        return {**made, "index": batch.index}


class Runs:
    """Runs of one rank, and what came of them."""

    def __init__(self, path: str, folder: Path, n_ranks: int) -> None:
        self.path, self.folder, self.n_ranks = path, folder, n_ranks
        self.found: dict[str, Any] = {}

    def trainer(self, **options: Any) -> lightning.Trainer:
        """A Trainer with its defaults."""
        return lightning.Trainer(
            devices=self.n_ranks,
            strategy="ddp" if self.n_ranks > 1 else "auto",
            max_epochs=EPOCHS,
            num_sanity_val_steps=0,
            default_root_dir=self.folder,
            **LIGHTNING,
            **options,
        )

    def note(self, name: str, epochs: Any) -> None:
        self.found[name] = {"epochs": list(epochs), "error": None}

    def fit(self, name: str, checkpoint: Path | None = None, **options: Any) -> Model:
        """Trains, and notes the epochs."""
        model, trainer = Model(checkpoint), self.trainer()
        trainer.fit(model, datamodule=DataModule(self.path, **options))
        self.note(name, model.steps["train"].values())
        return model

    def evaluate(self, name: str, **options: Any) -> None:
        """Trains with validation, then tests and predicts."""
        model, trainer = Model(), self.trainer(limit_train_batches=2)
        data = DataModule(self.path, self.path, self.path, self.path, **options)
        trainer.fit(model, datamodule=data)
        trainer.test(model, datamodule=data)
        self.note(f"{name}, validation", [model.steps["val"][0]])
        self.note(f"{name}, test", model.steps["test"].values())
        self.note(f"{name}, predictions", [trainer.predict(model, datamodule=data)])

    def resume(self, name: str, checkpoint: Path, **options: Any) -> None:
        """continues from a checkpoint with the rest of the epoch, and the next one."""
        model = Model()
        self.trainer().fit(
            model,
            datamodule=DataModule(self.path, **options),
            ckpt_path=checkpoint,
            weights_only=True,
        )
        self.note(name, model.steps["train"].values())


def main(path: str, ranks: str, part: str, out: str) -> None:
    logging.getLogger("lightning").setLevel(logging.ERROR)
    folder = Path(out).parent
    runs = Runs(path, folder, int(ranks))
    budgets: dict[str, dict[str, int]] = {
        "atoms": {"max_atoms": MAX_ATOMS},
        "molecules": {"batch_size": BATCH},
    }
    for name, budget in budgets.items():
        if part == "rest":
            runs.resume(name, folder / f"{name}1.ckpt", **budget)
            continue
        checkpoint = folder / f"{name}{ranks}.ckpt"
        runs.fit(name, checkpoint, **budget)
        runs.evaluate(name, **budget)
        runs.resume(f"{name}, resumed", checkpoint, **budget)
        if ranks == "1":
            runs.resume(f"{name}, resumed from 2 ranks", folder / f"{name}2.ckpt", **budget)
        if name == "molecules":
            runs.resume("smaller", checkpoint, batch_size=3)
            runs.resume("larger", checkpoint, batch_size=100)
    if part == "all" and ranks == "2":
        runs.fit("layout", max_atoms=MAX_ATOMS, layout=Positions())
        runs.fit("transform", max_atoms=MAX_ATOMS, transform=dict)
        _windows._WINDOW = 20  # so that the number of batches differs between epochs
        runs.fit("varying", max_atoms=40, seed=2)
    Path(out).write_text(json.dumps(runs.found))


if __name__ == "__main__":
    main(*sys.argv[1:])
