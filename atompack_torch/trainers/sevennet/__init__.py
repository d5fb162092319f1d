"""SevenNet: batches for its models, a loader for its Trainer, and its command on any data.

    from atompack_torch.trainers import sevennet

    train = sevennet.loader("train.atp", model.type_map, model.cutoff, batch_size=16)
    trainer.run_one_epoch(train, is_train=True)

``python -m atompack_torch.trainers.sevennet input.yaml`` is ``sevenn input.yaml`` whose
``load_trainset_path`` and other paths take anything that ``apt.open`` takes. Needs the package
``sevenn``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

try:
    import sevenn as _sevenn
except ImportError as error:
    raise ImportError("atompack_torch.trainers.sevennet: install sevenn") from error

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._layout import Data, open_dataset, selected_schema
from atompack_torch.trainers._samplers import LoaderOptions, epoch_loader
from atompack_torch.trainers.sevennet._layout import FREE_ENERGY, SevenNetLayout, make_layout

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["SevenNetLayout", "batch", "loader"]

del _sevenn


def batch(
    molecules: MoleculeBatch, type_map: Mapping[int, int], cutoff: float, **options: Any
) -> Any:
    """Converts a batch with edges to that of SevenNet.

    Args:
        molecules: a batch on the CPU, of a dataset with ``neighbors=NeighborList(cutoff)``.
        type_map: ``model.type_map``: atomic number → index.
        cutoff: ``model.cutoff``, in Å.
        **options: ``dtype``, ``energy``, ``forces``, ``stress``, ``shifts``, ``allow_unlabeled``,
            ``weights`` and ``modality`` of ``loader``.

    Returns:
        A torch-geometric batch of ``AtomGraphData`` with ``index``, the indices of the molecules.

    Raises:
        FieldError: there are no edges, an element is not in ``type_map``, or a molecule lacks
            energy or forces.
        ValueError: an unknown weight or dtype.
    """
    has_free_energy = FREE_ENERGY in molecules
    layout = make_layout(type_map, cutoff, has_free_energy=has_free_energy, **options)
    return layout.batch(molecules)


@with_options(epoch_loader)
def loader(
    data: Data,
    type_map: Mapping[int, int],
    cutoff: float,
    *,
    key_map: Mapping[str, str] | None = None,
    dtype: torch.dtype = torch.float32,
    energy: str | None = None,
    forces: str = "forces",
    stress: str = "stress",
    shifts: bool = False,
    allow_unlabeled: bool = False,
    weights: Mapping[str, float] | None = None,
    modality: str | None = None,
    **options: Unpack[LoaderOptions],
) -> Loader[Any]:
    """Makes a loader for the ``Trainer`` of SevenNet.

    An epoch has every molecule once; all ranks take the same number of steps, and
    ``state_dict`` resumes in the middle of an epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        type_map: ``model.type_map``: atomic number → index.
        cutoff: ``model.cutoff``, in Å.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        dtype: of all values; models of SevenNet are float32.
        energy: field with the energies in eV; None: ``free_energy`` where a molecule has it, else
            ``energy``, as SevenNet reads files.
        forces: field with the forces in eV/Å.
        stress: field with the stress in eV/Å³ and the sign of ASE, (3, 3).
        shifts: add ``pbc_shift`` and ``cell_lattice_vectors``, for models with ``EdgePreprocess``.
        allow_unlabeled: pass molecules without energy or forces, as NaN; otherwise they are an
            error. Stress may always be missing.
        weights: factors of ``energy``, ``force`` and ``stress`` for ``use_weight: True``.
        modality: name of the modality, for ``use_modality: True``.
        **options: options of every trainer.

    Returns:
        The loader, whose batches are those of ``batch``.

    Raises:
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``, or an
            unknown weight or dtype.
        TypeError: the data are not molecules.
    """
    dataset = open_dataset(data, key_map)
    layout = make_layout(
        type_map,
        cutoff,
        dtype=dtype,
        weights=weights,
        has_free_energy=FREE_ENERGY in selected_schema(dataset),
        energy=energy,
        forces=forces,
        stress=stress,
        shifts=shifts,
        allow_unlabeled=allow_unlabeled,
        modality=modality,
    )
    return epoch_loader(dataset, layout, **options)
