"""Orb: batches for its models, and loaders.

    from atompack_torch.trainers import orb

    model, adapter = pretrained.orb_v3_conservative_inf_omat(train=True)
    train = orb.loader("train.atp", adapter.radius, adapter.max_num_neighbors, batch_size=16)
    for batch in train:
        model.loss(batch).loss.backward()

Needs the package ``orb-models``, and Python 3.12 for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

try:
    from orb_models.common.atoms.batch.graph_batch import AtomGraphs
except ImportError as error:
    raise ImportError("atompack_torch.trainers.orb: install orb-models") from error

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.outputs import Output
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._labels import molecules_without, property_name, with_labels
from atompack_torch.trainers._layout import (
    Data,
    Layout,
    fields_by_name,
    float_dtype,
    open_dataset,
    selected_schema,
)
from atompack_torch.trainers._samplers import epoch_loader, loading_options

__all__ = ["OrbLayout", "batch", "loader"]

_LABELS = ("energy", "forces")
_VOIGT = (0, 4, 8, 5, 2, 1)  # xx yy zz yz xz xy
_N_ELEMENTS = 118  # columns of the embedding, by atomic number
# Name in Orb → property of molecules.
_STATES = {"total_charge": "charge", "spin_multiplicity": "spin"}


@dataclass(frozen=True)
class OrbLayout(Layout):
    """Layout of the batches.

    Attributes:
        radius: of the neighbor lists, in Å.
        max_num_neighbors: of an atom, the nearest ones; -1: all.
        properties: name in Orb → field of the data.
        states: name in Orb → field of the data, inputs of the model.
        tags: field of the tags of atoms; None: all are 0.
        dtype: of all floating values.
    """

    radius: float
    max_num_neighbors: int
    properties: Mapping[str, str]
    states: Mapping[str, str]
    tags: str | None = None
    dtype: torch.dtype = torch.float32

    @property
    def neighbors(self) -> NeighborList:
        """All pairs within the radius, in both directions."""
        return NeighborList(self.radius)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors from which the batch is made."""
        made = [
            Output("positions", "wrapped_positions", self.dtype),
            Output("atomic_numbers", "value", torch.int64, "atomic_numbers"),
            Output("embedding", "one_hot", self.dtype, columns=tuple(range(_N_ELEMENTS))),
            Output("vectors", "edge_vector", self.dtype),
            Output("unit_shifts", "wrapped_shift", self.dtype),
            Output("cell", "cell", self.dtype),
            Output("pbc", "value", torch.bool, "pbc"),
        ]
        if self.tags is not None:
            made.append(Output("tags", "value", self.dtype, self.tags, fill=0.0))
        for name, stored in self.states.items():
            made.append(Output(name, "value", self.dtype, stored))
        for name, stored in self.properties.items():
            kind = "voigt" if name == "stress" else "value"
            order = _VOIGT if name == "stress" else ()
            made.append(Output(f"target {name}", kind, self.dtype, stored, order=order))
        return tuple(made)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> AtomGraphs:
        """Returns the batch of Orb.

        Args:
            batch: gives edges, ``batch``, ``ptr``, ``n_atoms`` and ``index``.
            made: the outputs.

        Returns:
            The batch; see ``atompack_torch.trainers.orb.batch``.

        Raises:
            FieldError: a molecule is periodic in some directions only, or lacks a charge or spin.
        """
        pbc = made["pbc"]
        self._check(batch, pbc, made)
        n_atoms, atoms = batch.n_atoms, torch.arange(len(batch.batch), device=batch.ptr.device)
        (senders, receivers), edges = batch.edge_index, [made["vectors"], made["unit_shifts"]]
        if (kept := self._nearest(senders, made["vectors"], len(atoms))) is not None:
            senders, receivers, *edges = (rows[kept] for rows in (senders, receivers, *edges))
        labels = {name: made[f"target {name}"] for name in self.properties}
        of_atoms = {name: label for name, label in labels.items() if name == "forces"}
        tags = made["tags"] if self.tags is not None else torch.zeros_like(made["positions"][:, 0])
        return AtomGraphs(
            senders=senders,
            receivers=receivers,
            n_node=n_atoms,
            n_edge=torch.bincount(batch.batch[senders], minlength=len(batch)),
            node_features={
                "positions": made["positions"],
                "atomic_numbers": made["atomic_numbers"],
                "atomic_numbers_embedding": made["embedding"],
                "atom_identity": atoms - batch.ptr[batch.batch],
            },
            edge_features=dict(zip(("vectors", "unit_shifts"), edges, strict=True)),
            system_features={
                "cell": made["cell"],
                "pbc": pbc,
                **{name: made[name] for name in self.states},
            },
            node_targets=of_atoms,
            edge_targets={},
            system_targets={n: label for n, label in labels.items() if n not in of_atoms},
            system_id=batch.index,
            fix_atoms=None,
            tags=tags,
            radius=self.radius,
            max_num_neighbors=torch.full_like(n_atoms, self.max_num_neighbors),
        )

    def _check(self, batch: MoleculeBatch, pbc: Tensor, made: Mapping[str, Tensor]) -> None:
        partly = pbc.any(1) != pbc.all(1)
        if bool(partly.any()):
            raise FieldError(
                f"molecules {batch.index[partly].tolist()}: Orb expects all directions periodic or "
                "none (field 'pbc')"
            )
        for name, stored in self.states.items():
            if numbers := molecules_without(batch, made[name], of_atoms=False):
                raise FieldError(f"molecules {numbers}: no value (field {stored!r})")

    def _nearest(self, senders: Tensor, vectors: Tensor, n_atoms: int) -> Tensor | None:
        """Returns the numbers of the edges to the nearest neighbors; None for all edges."""
        counts = torch.bincount(senders, minlength=n_atoms)
        if self.max_num_neighbors < 0 or not bool((counts > self.max_num_neighbors).any()):
            return None
        order = vectors.norm(dim=1).argsort(stable=True)
        order = order[senders[order].argsort(stable=True)]
        first = counts.cumsum(0) - counts
        rank = torch.arange(len(order), device=order.device) - first[senders[order]]
        kept: Tensor = order[rank < self.max_num_neighbors].sort().values
        return kept


def make_layout(
    contents: Any,
    radius: float,
    max_num_neighbors: int,
    *,
    properties: Mapping[str, str] | Sequence[str] = _LABELS,
    dtype: torch.dtype | None = None,
) -> OrbLayout:
    """Makes the layout for a batch, or for the schema of a dataset.

    Args:
        contents: the batch or schema.
        radius: of the neighbor lists, in Å.
        max_num_neighbors: of an atom.
        properties: names of labels, or name in Orb → field; ``stress`` is one of them.
        dtype: of floating values; None: torch's default one.

    Returns:
        The layout.

    Raises:
        ValueError: another dtype.
    """
    states = {
        name: field
        for name, key in _STATES.items()
        if (field := property_name(contents, key, MOLECULE_PROPERTY)) is not None
    }
    return OrbLayout(
        float(radius),
        int(max_num_neighbors),
        fields_by_name(properties),
        states if len(states) == len(_STATES) else {},
        property_name(contents, "tags", ATOM_PROPERTY),
        float_dtype(dtype),
    )


@with_options(make_layout)
def batch(
    molecules: MoleculeBatch, radius: float, max_num_neighbors: int, **options: Any
) -> AtomGraphs:
    """Converts a batch with edges to that of Orb.

    Args:
        molecules: a batch on the CPU, of a dataset with ``neighbors=NeighborList(radius)``.
        radius: ``radius`` of the model's adapter, in Å.
        max_num_neighbors: ``max_num_neighbors`` of the adapter: an atom with more neighbors keeps
            the nearest; -1: all.
        **options: of the layout.

    Returns:
        ``AtomGraphs`` of B molecules with N atoms and E edges. ``senders`` and ``receivers`` (E,)
        are the rows of ``edge_index``, in its order; ``node_features``: ``positions`` (N, 3)
        inside the cell, ``atomic_numbers`` (N,) int64, ``atomic_numbers_embedding`` (N, 118) and
        ``atom_identity`` (N,) int64; ``edge_features``: ``vectors`` and ``unit_shifts`` (E, 3);
        ``system_features``: ``cell`` (B, 3, 3), ``pbc`` (B, 3) and, where molecules have ``charge``
        and ``spin``, ``total_charge`` and ``spin_multiplicity`` (B,); ``node_targets``: ``forces``
        (N, 3); ``system_targets``: ``energy`` (B,), ``stress`` (B, 6) in the order of ASE;
        ``system_id`` (B,) the numbers of the molecules; ``tags`` (N,), 0 where the data have none.
        A missing label is NaN.

    Raises:
        FieldError: there are no edges or no such field, an element is above 117, a molecule is
            periodic in some directions only, or some have a charge or spin and others none.
        ValueError: another dtype.
    """
    return make_layout(molecules, radius, max_num_neighbors, **options).batch(molecules)


@with_options(make_layout, epoch_loader)
def loader(
    data: Data,
    radius: float,
    max_num_neighbors: int,
    *,
    key_map: Mapping[str, str] | None = None,
    **options: Any,
) -> Loader[Any]:
    """Makes a loader of batches for Orb.

    Molecules that lack one of the properties are dropped, with a warning: Orb's losses do not
    support missing labels. An epoch has every other molecule once, shared by all ranks;
    ``state_dict`` resumes in the middle of an epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        radius: as for ``batch``.
        max_num_neighbors: as for ``batch``.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: those of ``batch``, and options of every trainer.

    Returns:
        The loader.

    Raises:
        FieldError: no molecule has all properties.
        TypeError: the data are not molecules.
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``, or
            another dtype.
    """
    loading = loading_options(options, make_layout)
    opened = open_dataset(data, key_map)
    layout = make_layout(selected_schema(opened), radius, max_num_neighbors, **options)
    dataset = with_labels(opened, list(layout.properties.values()))
    return epoch_loader(dataset, layout, **loading)
