"""Lightning: a data module with samplers, epochs, ranks and resuming.

    data = DataModule("train.atp", "val.atp", max_atoms=4096)
    lightning.Trainer(devices=2, strategy="ddp").fit(model, datamodule=data)

Needs the package ``lightning``, or ``pytorch-lightning``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atompack_torch.trainers._data_module import DataHooks

if TYPE_CHECKING:
    from lightning import LightningDataModule
else:
    try:
        from lightning import LightningDataModule
    except ImportError:
        try:
            from pytorch_lightning import LightningDataModule
        except ImportError as error:
            raise ImportError("atompack_torch.trainers.lightning: install lightning") from error


class DataModule(DataHooks, LightningDataModule):  # type: ignore[misc]
    """Data module for molecules: nothing else has to be set in the ``Trainer``.

        data = DataModule("train.atp", "val.atp", max_atoms=4096, fields=["energy", "forces"])
        Trainer(devices=2, strategy="ddp").fit(model, datamodule=data, ckpt_path="last")

    An epoch yields every molecule once, shared by all ranks, which take the same number of steps,
    and each epoch has a different order. Validation, tests and predictions use the stored order and
    are complete too; ``batch.index`` numbers the molecules of a prediction. A run that is resumed
    in the middle of an epoch continues with the molecules that are left, even on a different number
    of ranks or with another ``batch_size``. On a GPU, batches are copied from page-locked memory in
    one transfer while the previous step runs.

    In the model, use ``self.log(..., batch_size=len(batch))``: Lightning cannot find the number of
    molecules.
    """
