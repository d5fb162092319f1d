"""One rank of runs of MatGL's module by Lightning: writes which molecules came."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lightning
from matgl_cases import BATCH, ELEMENTS, Noting, new_module
from structures import CUTOFF

from atompack_torch.trainers import matgl
from atompack_torch.trainers.lightning import DataModule


def main(path: str, out: str) -> None:
    loader = matgl.loader(path, ELEMENTS, CUTOFF, batch_size=BATCH)
    data = DataModule(path, batch_size=BATCH, layout=matgl.layout(ELEMENTS, CUTOFF))
    found: dict[str, object] = {}
    for name, given in (("loader", {"train_dataloaders": loader}), ("data module", None)):
        noting, module = Noting(), new_module()
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=2,
            strategy="ddp",
            max_epochs=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[noting],
        )
        trainer.fit(module, **(given or {"datamodule": data}))
        found[name] = list(noting.epochs.values())
        found["weights"] = [float(weight.detach().sum()) for weight in module.parameters()]
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
