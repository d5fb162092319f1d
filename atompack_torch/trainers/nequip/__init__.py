"""NequIP and Allegro: batches for their models, a loader, and a data module for config files.

    data:
      _target_: atompack_torch.trainers.nequip.DataModule
      train: train.atp
      val: val.atp
      batch_size: 8
      model_type_names: ${model_type_names}
      cutoff: ${cutoff_radius}

``nequip-train`` does the rest. Needs the package ``nequip``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    import nequip as _nequip
except ImportError as error:
    raise ImportError("atompack_torch.trainers.nequip: install nequip") from error

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._layout import Data, open_dataset
from atompack_torch.trainers._samplers import epoch_loader, loading_options
from atompack_torch.trainers.nequip._data_module import DataModule, MeanSquaredError
from atompack_torch.trainers.nequip._layout import NequipLayout, make_layout

__all__ = ["DataModule", "MeanSquaredError", "NequipLayout", "batch", "loader"]

del _nequip


@with_options(make_layout)
def batch(
    molecules: MoleculeBatch, model_type_names: Sequence[str], cutoff: float, **options: Any
) -> Any:
    """Converts a batch with edges to an ``AtomicDataDict``.

    Args:
        molecules: a batch on the CPU, of a dataset with ``neighbors=NeighborList(cutoff)``.
        model_type_names: types of the model, in its order.
        cutoff: ``r_max`` of the model, in Å.
        **options: of the layout.

    Returns:
        Key of NequIP → tensor, in float64; ``molecule_index`` (B, 1) int64 numbers the molecules.

    Raises:
        FieldError: there are no edges, or an element has no type.
        ValueError: an option does not fit the types or keys of NequIP.
    """
    return make_layout(model_type_names, cutoff, **options).batch(molecules)


@with_options(make_layout, epoch_loader)
def loader(
    data: Data, model_type_names: Sequence[str], cutoff: float, **options: Any
) -> Loader[Any]:
    """Makes a loader for training loops of your own.

    An epoch has every molecule once; all ranks take the same number of steps, and
    ``state_dict`` resumes in the middle of an epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        model_type_names: types of the model, in its order.
        cutoff: ``r_max`` of the model, in Å.
        **options: those of ``batch``, and options of every trainer.

    Returns:
        The loader, whose batches are those of ``batch``.

    Raises:
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``, or an
            option does not fit the types or keys of NequIP.
        TypeError: the data are not molecules.
    """
    loading = loading_options(options, make_layout)
    layout = make_layout(model_type_names, cutoff, **options)
    return epoch_loader(open_dataset(data), layout, **loading)
