"""Lightning: a data module with samplers, epochs, ranks and resuming.

    data = DataModule("train.atp", "val.atp", max_atoms=4096)
    lightning.Trainer(devices=2, strategy="ddp").fit(model, datamodule=data)

Needs the package ``lightning``, or ``pytorch-lightning``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atompack_torch.trainers._data_module import DataHooks, Sets
from atompack_torch.trainers._layout import Data, Layout

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
    and each epoch has another order. Validation, tests and predictions use the stored order and
    are complete too; ``batch.index`` numbers the molecules of a prediction. A run that is resumed
    inside an epoch continues with the molecules that are left, also on another number of ranks or
    with another ``batch_size``. On a GPU, batches are copied from page-locked memory in one
    transfer while the previous step runs.

    In the model, use ``self.log(..., batch_size=len(batch))``: Lightning cannot find the number of
    molecules.

    Args:
        train: a data set of molecules, or anything that ``apt.open`` takes: a path, a URL, a list.
        val: likewise, but the entries of a list or a dict are separate sets, of which Lightning
            gets a list or a dict of loaders; None: no validation.
        test: likewise.
        predict: likewise.
        max_atoms: maximum number of atoms in a batch.
        batch_size: maximum number of molecules in a batch, in place of ``max_atoms``.
        layout: makes the batches of another trainer; None: ``MoleculeBatch``, or the result of the
            data set's ``transform``.
        key_map: name in the data → label or property here, as ``{"REF_energy": "energy"}``, in
            data of any format, also in a data set that is open already; every set must have the
            names. Other options use the names here. A label whose name another field gets stays
            as a property: ``energy`` as ``properties/energy``.
        shuffle: use a random order in every epoch of training.
        seed: seed of these orders.
        num_threads: threads of each rank that make batches; see ``Loader``.
        prefetch: batches made ahead.
        resident: keep the molecules and their edges in memory, on each rank all of them, so that
            edges are searched once instead of in every epoch; see ``ResidentDataset``.
        **options: of the data sets that are opened here: ``fields``, ``neighbors``, ``missing``,
            ``transform`` and so on.

    Raises:
        ValueError: neither or both of ``max_atoms`` and ``batch_size`` are given.
    """

    def __init__(
        self,
        train: Data | None = None,
        val: Sets | None = None,
        test: Sets | None = None,
        predict: Sets | None = None,
        *,
        max_atoms: float | None = None,
        batch_size: int | None = None,
        layout: Layout | None = None,
        key_map: Mapping[str, str] | None = None,
        shuffle: bool = True,
        seed: int = 0,
        num_threads: int | None = None,
        prefetch: int = 4,
        resident: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            train,
            val,
            test,
            predict,
            max_atoms=max_atoms,
            batch_size=batch_size,
            layout=layout,
            key_map=key_map,
            shuffle=shuffle,
            seed=seed,
            num_threads=num_threads,
            prefetch=prefetch,
            resident=resident,
            **options,
        )
