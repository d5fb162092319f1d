"""MatGL: batches for its models, loaders for Lightning, and its command on any data.

    from atompack_torch.trainers import matgl

    train = matgl.loader("train.atp", model.element_types, model.cutoff, batch_size=32)
    lightning.Trainer(inference_mode=False).fit(module, train)

``python -m atompack_torch.trainers.matgl train -i train.atp`` is ``mgl train`` whose ``-i`` takes
anything that ``apt.open`` takes. Needs the package ``matgl``, 4.0 or newer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

try:
    import matgl as _matgl
except ImportError as error:
    raise ImportError("atompack_torch.trainers.matgl: install matgl") from error

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._layout import Data, open_dataset
from atompack_torch.trainers._samplers import epoch_loader, loading_options
from atompack_torch.trainers.matgl._layout import MatGLLayout, ignore_missing_labels, layout

__all__ = ["MatGLLayout", "batch", "ignore_missing_labels", "layout", "loader"]

del _matgl


@with_options(layout)
def batch(
    molecules: MoleculeBatch, element_types: Sequence[str], cutoff: float, **options: Any
) -> tuple[Any, ...]:
    """Converts a batch with edges to the tuple that MatGL's training steps take.

    Args:
        molecules: a batch on the CPU, of a dataset with ``neighbors=NeighborList(cutoff)``.
        element_types: ``model.element_types``.
        cutoff: ``model.cutoff``, in Å.
        **options: of ``layout``.

    Returns:
        ``(graph, lattice, state, energies, forces, stresses)``, with magnetic moments or charges
        at the end; with ``target``: ``(graph, lattice, state, target)``. ``graph.sample_idx``
        has the indices of the molecules.

    Raises:
        FieldError: there are no edges, an element is not among ``element_types``, or a label is
            missing.
        ValueError: as for ``layout``.
    """
    return layout(element_types, cutoff, **options).batch(molecules)  # type: ignore[no-any-return]


@with_options(layout, epoch_loader)
def loader(
    data: Data,
    element_types: Sequence[str],
    cutoff: float,
    *,
    key_map: Mapping[str, str] | None = None,
    **options: Any,
) -> Loader[Any]:
    """Makes a loader for Lightning's ``Trainer`` with a module of MatGL.

    An epoch has every molecule once, and all ranks take the same number of steps. Lightning
    stores the position in its checkpoints and resumes in the middle of an epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        element_types: ``model.element_types``.
        cutoff: ``model.cutoff``, in Å.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: those of ``layout``, and options of every trainer.

    Returns:
        The loader, whose batches are those of ``batch``.

    Raises:
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``, or as
            for ``layout``.
        TypeError: the data are not molecules.
    """
    loading = loading_options(options)
    made = layout(element_types, cutoff, **options)
    return epoch_loader(open_dataset(data, key_map), made, **loading)
