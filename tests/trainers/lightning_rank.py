"""One rank of a Lightning run: trains with every loader, and writes which molecules came."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from cases import LOADERS

import atompack_torch as apt

EPOCHS = 2


class Model(lightning.LightningModule):
    """Notes the molecules of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.epochs: list[list[list[int]]] = []
        self.stop_after: int | None = None

    def on_train_epoch_start(self) -> None:
        self.epochs.append([])

    def training_step(self, batch: Any, number: int) -> Any:
        self.epochs[-1].append(batch.index.tolist())
        return self.weight * batch.positions.sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Data(lightning.LightningDataModule):
    """Makes the loader inside of a hook."""

    def __init__(self, make: Any, dataset: Any) -> None:
        super().__init__()
        self.make, self.dataset = make, dataset

    def train_dataloader(self) -> Any:
        return self.make(self.dataset)


def train(folder: Path, loader: Any, **options: Any) -> Any:
    """The molecules of each epoch, or the error that stopped it; and our warnings."""
    arguments: dict[str, Any] = {"max_epochs": EPOCHS, "use_distributed_sampler": True} | options
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **arguments,
    )
    data = {"datamodule": loader} if isinstance(loader, Data) else {"train_dataloaders": loader}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            trainer.fit(model, **data)
            error = None
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    ours = [str(w.message) for w in caught if "atompack" in w.filename or "rank" in str(w.message)]
    return {"epochs": model.epochs, "error": error, "warnings": ours}


def fabric(make: Any, dataset: Any) -> Any:
    """The same by Fabric."""
    runner = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    runner.launch()
    epochs = []
    try:
        loader = runner.setup_dataloaders(make(dataset))
        for _ in range(EPOCHS):
            epochs.append([batch.index.tolist() for batch in loader])
        error = None
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    return {"epochs": epochs, "error": error, "warnings": []}


def main(path: str, out: str) -> None:
    logging.getLogger("lightning").setLevel(logging.ERROR)
    folder = Path(out).parent
    dataset = apt.AtpDataset(path)
    found: dict[str, Any] = {}
    for name, make in LOADERS.items():
        found[name] = train(folder, make(dataset))
        found[f"{name}, in a hook"] = train(folder, Data(make, dataset))
        found[f"{name}, own sampler"] = train(folder, make(dataset), use_distributed_sampler=False)
        options: dict[str, Any] = {"use_distributed_sampler": "Loader" in str(name)}
        found[f"{name}, overfit"] = train(
            folder, make(dataset), overfit_batches=2, use_distributed_sampler=name != "budget"
        )
        found[f"{name}, reload"] = train(
            folder,
            Data(make, dataset),
            reload_dataloaders_every_n_epochs=1,
            use_distributed_sampler=name != "budget",
        )
        found[f"{name}, fabric"] = fabric(make, dataset)
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
