"""MACE: batches for its models, a loader for its training loop, and its command on any data.

    python -m atompack_torch.trainers.mace --train_file train.atp --valid_file val.atp ...

is ``mace_run_train`` with the same arguments, whose file options take anything that ``apt.open``
takes. Needs the package ``mace-torch``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch

try:
    import mace as _mace
except ImportError as error:
    raise ImportError("atompack_torch.trainers.mace: install mace-torch") from error

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.fields import FieldSpec, check_key_map
from atompack_torch.loading.loader import Loader
from atompack_torch.options import checked_integer, with_options
from atompack_torch.trainers._labels import absent_labels, similar_keys
from atompack_torch.trainers._layout import (
    Data,
    float_dtype,
    open_dataset,
    schema_of,
    selected_schema,
)
from atompack_torch.trainers._samplers import epoch_loader, loading_options
from atompack_torch.trainers.mace._layout import MaceLayout, found_keys, labels_of, make_layout

__all__ = ["MaceLayout", "batch", "loader"]

del _mace


def layout_of(
    schema: Mapping[str, FieldSpec],
    z_table: Any,
    cutoff: float,
    *,
    head: int = 0,
    key_map: Mapping[str, str] | None = None,
    config_type_weights: Mapping[str, float] | None = None,
    dtype: torch.dtype | None = None,
) -> MaceLayout:
    """Makes the layout for a schema.

    Args:
        schema: name → type of each field.
        z_table: ``AtomicNumberTable`` of the model, or its atomic numbers.
        cutoff: ``r_max`` of the model, in Å.
        head: number of the head, the same for all molecules.
        key_map: name in the data → name of a label in MACE, as ``{"REF_energy": "energy"}``;
            labels that are not named are found under the names of MACE and of this package;
            ``total_charge`` and ``total_spin`` also as ``charge`` and ``spin``.
        config_type_weights: weight of each ``config_type``; others have weight 1.
        dtype: of all values, float32 or float64; None: torch's default one.

    Returns:
        The layout.
    """
    return make_layout(
        schema,
        [checked_integer("z_table", z) for z in getattr(z_table, "zs", z_table)],
        cutoff,
        dtype=float_dtype(dtype),
        keys=found_keys(schema, labels_of(key_map)),
        type_weights=config_type_weights,
        head=head,
    )


@with_options(layout_of)
def batch(molecules: MoleculeBatch, z_table: Any, cutoff: float, **options: Any) -> Any:
    """Converts a batch with edges to that of MACE.

    Labels that a molecule lacks are 0 with weight 0. Every loss of MACE then ignores them; with
    weight 1 it would train on zeros, and a NaN with weight 0 would make it NaN.

    Args:
        molecules: a batch on the CPU, of a dataset with ``neighbors=NeighborList(cutoff)``.
        z_table: ``AtomicNumberTable`` of the model, or its atomic numbers.
        cutoff: ``r_max`` of the model, in Å.
        **options: of the layout.

    Returns:
        A ``mace.tools.torch_geometric.Batch`` of B molecules, N atoms and E edges:
        ``positions`` (N, 3) in Å, ``node_attrs`` (N, elements), ``edge_index`` (2, E) int64 from
        sender to receiver, ``unit_shifts`` and ``shifts`` (E, 3), ``cell`` and ``rcell`` (3B, 3),
        ``volume`` (B,), ``pbc`` (B, 3) bool, ``batch`` (N,), ``ptr`` (B + 1,), ``head`` (B,),
        ``weight`` (B,), the labels ``energy`` (B,) in eV, ``forces`` (N, 3) in eV/Å, ``stress`` and
        ``virials`` (B, 3, 3) in eV/Å³ and eV, ``dipole`` (B, 3) and so on with their
        ``NAME_weight``, and ``index`` (B,) int64, the indices of the molecules. Open directions
        have the long cell vectors that MACE makes up.

    Raises:
        FieldError: there are no edges, an element is not in ``z_table``, or a field has a different
            shape than its label.
        ValueError: any other dtype.
    """
    return layout_of(schema_of(molecules), z_table, cutoff, **options).batch(molecules)


@with_options(layout_of, epoch_loader)
def loader(data: Data, z_table: Any, cutoff: float, **options: Any) -> Loader[Any]:
    """Makes a loader for ``mace.tools.train``.

        train = mace.loader("train.atp", z_table, r_max, batch_size=16)
        valid = mace.loader("val.atp", z_table, r_max, batch_size=16, shuffle=False)
        tools.train(train_loader=train, valid_loaders={"Default": valid}, ...)

    An epoch has every molecule once; all ranks take the same number of steps, and
    ``state_dict`` resumes in the middle of an epoch. Each pass is the next epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        z_table: ``AtomicNumberTable`` of the model, or its atomic numbers.
        cutoff: ``r_max`` of the model, in Å.
        **options: those of ``batch``, and options of every trainer.

    Returns:
        The loader, whose batches are those of ``batch``.

    Raises:
        FieldError: a field has a different shape than its label, a named one does not exist, or no
            molecule has a label; without ``shuffle``, the latter is a warning.
        TypeError: the data are not molecules.
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``, or
            a different dtype.
    """
    check_key_map(options)
    loading = loading_options(options, layout_of)
    dataset = open_dataset(data)
    layout = layout_of(selected_schema(dataset), z_table, cutoff, **options)
    for label in ("energy", "forces"):
        if label not in layout.labels and (maps := similar_keys(dataset, [label])):
            absent = absent_labels(dataset, [[label]])
            warnings.warn(f"{absent}: weight 0; give key_map={maps} to train on it", stacklevel=2)
    return epoch_loader(dataset, layout, **loading)
