"""One rank of a Lightning run: trains with every loader, and writes which molecules came."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import torch
from cases import LOADERS, budget, loader_budget, loader_molecules, loader_shuffle, molecules
from pages import LIGHTNING

import atompack_torch as apt

EPOCHS = 2
STOP = 5  # steps before a stop inside of an epoch


class Model(lightning.LightningModule):
    """Notes the molecules of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.steps: dict[int, list[list[int]]] = {}  # epoch -> molecules of each step
        self.checkpoint: Path | None = None  # to be written after so many steps

    @property
    def epochs(self) -> list[list[list[int]]]:
        return list(self.steps.values())

    def training_step(self, batch: Any, number: int) -> Any:
        self.steps.setdefault(self.current_epoch, []).append(batch.index.tolist())
        return self.weight * batch.positions.sum()

    def on_train_batch_end(self, outputs: Any, batch: Any, number: int) -> None:
        if self.checkpoint is not None and self.global_step == STOP:
            self.trainer.save_checkpoint(self.checkpoint)

    def predict_step(self, batch: Any, number: int) -> Any:
        return batch.index.tolist()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Data(lightning.LightningDataModule):
    """Makes the loader inside of a hook."""

    def __init__(self, make: Any, dataset: Any) -> None:
        super().__init__()
        self.make, self.dataset = make, dataset

    def train_dataloader(self) -> Any:
        return self.make(self.dataset)


class Runs:
    """Runs of one rank, and what came of them."""

    def __init__(self, path: str, folder: Path) -> None:
        self.dataset, self.folder = apt.AtpDataset(path), folder
        self.found: dict[str, Any] = {}

    def trainer(self, **options: Any) -> lightning.Trainer:
        arguments: dict[str, Any] = {"max_epochs": EPOCHS, **LIGHTNING, **options}
        return lightning.Trainer(
            devices=2, strategy="ddp", default_root_dir=self.folder, **arguments
        )

    def note(self, name: str, run: Callable[[], list[list[list[int]]]]) -> None:
        """Notes the molecules of each epoch, or the error that stopped it, and our warnings."""
        found: dict[str, Any] = {"epochs": [], "error": None}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found["epochs"] = run()
            except Exception as raised:
                found["error"] = f"{type(raised).__name__}: {raised}"
        found["warnings"] = [str(w.message) for w in caught if "ranks" in str(w.message)]
        self.found[name] = found

    def fit(self, make: Any, *, in_hook: bool = False, **options: Any) -> list[list[list[int]]]:
        model = Model()
        if in_hook:
            self.trainer(**options).fit(model, datamodule=Data(make, self.dataset))
        else:
            self.trainer(**options).fit(model, train_dataloaders=make(self.dataset))
        return model.epochs

    def resume(self, make: Any) -> list[list[list[int]]]:
        """An epoch that is stopped and continued from a checkpoint, and the one after it."""
        first, second = Model(), Model()
        checkpoint = first.checkpoint = self.folder / f"{make.__name__}.ckpt"
        stopped = self.trainer(max_steps=STOP + 2)
        stopped.fit(first, train_dataloaders=make(self.dataset))
        again = self.trainer()
        again.fit(
            second, train_dataloaders=make(self.dataset), ckpt_path=checkpoint, weights_only=False
        )
        return [first.epochs[0][:STOP] + second.epochs[0], *second.epochs[1:]]

    def predict(self, make: Any) -> list[list[list[int]]]:
        predicted = self.trainer().predict(Model(), dataloaders=make(self.dataset))
        assert predicted is not None
        return [predicted]  # type: ignore[list-item]

    def fabric(self, make: Any, **options: Any) -> list[list[list[int]]]:
        fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
        fabric.launch()
        loader = fabric.setup_dataloaders(make(self.dataset), **options)
        return [[batch.index.tolist() for batch in loader] for _ in range(EPOCHS)]


def main(path: str, out: str) -> None:
    logging.getLogger("lightning").setLevel(logging.ERROR)
    runs = Runs(path, Path(out).parent)
    own = {"use_distributed_sampler": False}
    for name, make in LOADERS.items():
        runs.note(name, lambda make=make: runs.fit(make))
    runs.note("molecules, in a hook", lambda: runs.fit(molecules, in_hook=True))
    runs.note("molecules, own", lambda: runs.fit(molecules, **own))
    runs.note("budget, own", lambda: runs.fit(budget, **own))
    runs.note("budget, own, in a hook", lambda: runs.fit(budget, in_hook=True, **own))
    runs.note("molecules, overfit", lambda: runs.fit(molecules, overfit_batches=2))
    runs.note("budget, overfit", lambda: runs.fit(budget, overfit_batches=2, **own))
    runs.note("loader_budget, overfit", lambda: runs.fit(loader_budget, overfit_batches=2))
    reload = {"in_hook": True, "reload_dataloaders_every_n_epochs": 1}
    runs.note("budget, reload", lambda: runs.fit(budget, **own, **reload))
    for make in (loader_budget, loader_molecules, loader_shuffle):
        runs.note(f"{make.__name__}, reload", lambda make=make: runs.fit(make, **reload))
        runs.note(f"{make.__name__}, resumed", lambda make=make: runs.resume(make))
    runs.note("molecules, predict", lambda: runs.predict(molecules))
    runs.note("budget, predict", lambda: runs.predict(budget))
    runs.note("molecules, fabric", lambda: runs.fabric(molecules))
    runs.note("budget, fabric", lambda: runs.fabric(budget, **own))
    Path(out).write_text(json.dumps(runs.found))


if __name__ == "__main__":
    main(*sys.argv[1:])
