"""graph-pes: batches for its models, loaders, and datasets for its configuration files.

    data:
      train:
        +atompack_torch.trainers.graphpes.dataset: {data: train.atp, cutoff: 5.0}

``graph-pes-train config.yaml`` then trains from anything that ``apt.open`` takes. Importing this
module makes the loaders of graph-pes pass on batches that are finished already. Needs the package
``graph-pes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

try:
    import graph_pes.data.loader as _loading
    from graph_pes.atomic_graph import ALL_PROPERTY_KEYS, AtomicGraph, is_batch
    from graph_pes.data.datasets import GraphDataset
    from graph_pes.utils.threebody import _cache_threebody_terms, triplet_edge_pairs
except ImportError as error:
    raise ImportError("atompack_torch.trainers.graphpes: install graph-pes") from error

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.outputs import Output
from atompack_torch.errors import FieldError
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._labels import with_labels
from atompack_torch.trainers._layout import (
    Data,
    Layout,
    fields_by_name,
    float_dtype,
    open_dataset,
    selected_schema,
)
from atompack_torch.trainers._samplers import epoch_loader, loading_options

__all__ = ["GraphPESLayout", "MoleculeGraphs", "batch", "dataset", "loader"]

_LABELS = ("energy", "forces")
_OF_MOLECULES = ("energy", "stress", "virial")  # properties
_STATES = ("total_charge", "total_spin")  # that models may use


@dataclass(frozen=True)
class GraphPESLayout(Layout):
    """Layout of the batches.

    Attributes:
        cutoff: of the neighbor lists, in Å.
        properties: name in graph-pes → field of the data.
        others: further fields, for ``AtomicGraph.other``.
        dtype: of all floating values.
    """

    cutoff: float
    properties: Mapping[str, str]
    others: tuple[str, ...] = ()
    dtype: torch.dtype = torch.float32

    @property
    def fields(self) -> tuple[str, ...]:
        """The further fields."""
        return self.others

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors from which the batch is made."""
        return (
            Output("Z", "value", torch.int64, "atomic_numbers"),
            Output("R", "value", self.dtype, "positions"),
            Output("cell", "cell", self.dtype),
            Output("shifts", "edge_shift", self.dtype),
            *(
                Output(f"property {name}", "value", self.dtype, stored)
                for name, stored in self.properties.items()
            ),
        )

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> AtomicGraph:
        """Returns the batch of graph-pes.

        Args:
            batch: gives edges, ``batch``, ``ptr`` and the further fields.
            made: the outputs.

        Returns:
            The batch; see ``atompack_torch.trainers.graphpes.batch``.

        Raises:
            FieldError: a molecule lacks a further field, or it has no numbers of one shape.
        """
        return AtomicGraph(
            Z=made["Z"],
            R=made["R"],
            cell=made["cell"],
            neighbour_list=batch.edge_index,
            neighbour_cell_offsets=made["shifts"],
            properties={name: made[f"property {name}"] for name in self.properties},
            cutoff=self.cutoff,
            other={name: self._other(batch, name) for name in self.others},
            batch=batch.batch,
            ptr=batch.ptr,
        )

    def _other(self, batch: MoleculeBatch, name: str) -> Tensor:
        value = batch[name]
        if not isinstance(value, Tensor) or not bool(batch.mask(name).all()):
            raise FieldError(
                f"graph-pes: expected numbers of one shape in all molecules (field {name!r})"
            )
        value = value.to(self.dtype) if value.is_floating_point() else value
        return value.view(-1, 1) if batch.level(name) == "molecule" and value.dim() == 1 else value


def make_layout(
    contents: Any,
    cutoff: float,
    *,
    properties: Mapping[str, str] | Sequence[str] = _LABELS,
    others: Sequence[str] | None = None,
    dtype: torch.dtype | None = None,
) -> GraphPESLayout:
    """Makes the layout for a batch, or for the schema of a dataset.

    Args:
        contents: the batch or schema.
        cutoff: of the model, in Å.
        properties: names of labels, or name in graph-pes → field: ``energy``, ``forces``,
            ``stress``, ``virial``, ``local_energies``, ``tensor``.
        others: further fields, for ``other``; None: ``total_charge`` and ``total_spin``, where the
            data have them.
        dtype: of floating values; None: torch's default one.

    Returns:
        The layout.

    Raises:
        ValueError: graph-pes has no such property, or another dtype.
    """
    named = fields_by_name(properties)
    if unknown := sorted(named.keys() - set(ALL_PROPERTY_KEYS)):
        expected = ", ".join(ALL_PROPERTY_KEYS)
        raise ValueError(f"properties: expected some of {expected}, got {unknown[0]!r}")
    if others is None:
        others = [name for name in _STATES if name in contents]
    return GraphPESLayout(float(cutoff), named, tuple(others), float_dtype(dtype))


def _open(
    data: Data, cutoff: float, key_map: Mapping[str, str] | None, options: Mapping[str, Any]
) -> tuple[MoleculeDataset, GraphPESLayout]:
    opened = open_dataset(data, key_map)
    layout = make_layout(selected_schema(opened), cutoff, **options)
    return with_labels(opened, list(layout.properties.values())), layout


@with_options(make_layout)
def batch(molecules: MoleculeBatch, cutoff: float, **options: Any) -> AtomicGraph:
    """Converts a batch with edges to that of graph-pes.

    Args:
        molecules: a batch on the CPU, of a dataset with ``neighbors=NeighborList(cutoff)``.
        cutoff: of the model, in Å.
        **options: of the layout.

    Returns:
        An ``AtomicGraph`` of B molecules with N atoms and E edges: ``Z`` (N,) int64, ``R`` (N, 3),
        ``cell`` (B, 3, 3), zeros for a missing one, ``neighbour_list`` (2, E) int64,
        ``neighbour_cell_offsets`` (E, 3), ``properties``, ``other``, ``batch`` (N,), ``ptr``
        (B + 1,). A missing label is NaN.

    Raises:
        FieldError: there are no edges or no such field.
        ValueError: graph-pes has no such property, or another dtype.
    """
    made: AtomicGraph = make_layout(molecules, cutoff, **options).batch(molecules)
    return made


@with_options(make_layout, epoch_loader)
def loader(
    data: Data, cutoff: float, *, key_map: Mapping[str, str] | None = None, **options: Any
) -> Loader[Any]:
    """Makes a loader of batches for ``TrainingTask``, or a loop of your own.

    Molecules that lack one of the properties are dropped, with a warning: the losses of graph-pes
    do not support missing labels. An epoch has every other molecule once, shared by all ranks;
    ``state_dict`` resumes in the middle of an epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        cutoff: of the model, in Å.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: those of ``batch``, and options of every trainer.

    Returns:
        The loader.

    Raises:
        FieldError: no molecule has all properties.
        TypeError: the data are not molecules.
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``, or as
            for ``batch``.
    """
    loading = loading_options(options, make_layout)
    return epoch_loader(*_open(data, cutoff, key_map, options), **loading)


@with_options(make_layout)
def dataset(
    data: Data, cutoff: float, *, key_map: Mapping[str, str] | None = None, **options: Any
) -> MoleculeGraphs:
    """Opens data for ``data: {train: ..., valid: ..., test: ...}`` of a config of graph-pes.

    Molecules that lack one of the properties are dropped, with a warning.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        cutoff: of the model, in Å.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: those of ``batch``.

    Returns:
        The dataset.

    Raises:
        FieldError: no molecule has all properties.
        TypeError: the data are not molecules.
        ValueError: as for ``batch``.
    """
    opened, layout = _open(data, cutoff, key_map, options)
    return MoleculeGraphs(layout.dataset(opened))


class MoleculeGraphs(GraphDataset):  # type: ignore[misc]
    """Dataset of graph-pes, whose loader gets whole batches from native code.

    Args:
        molecules: a dataset whose batches are those of a layout.
    """

    def __init__(self, molecules: MoleculeDataset) -> None:
        self._molecules = molecules
        self._of_atoms = {name for name, spec in molecules.schema.items() if spec.level == "atom"}
        super().__init__(graphs=self)

    def __len__(self) -> int:
        """Number of molecules."""
        return len(self._molecules)

    def __getitem__(self, index: int) -> AtomicGraph:
        """Returns the graph of one molecule, which is not a batch.

        Args:
            index: number of the molecule.

        Returns:
            The graph.
        """
        graph: Any = self._molecules.batch([index])
        return graph._replace(
            cell=graph.cell[0],
            properties={
                name: value[0] if name in _OF_MOLECULES else value
                for name, value in graph.properties.items()
            },
            other={
                name: value if name in self._of_atoms or len(value) > 1 else value[0]
                for name, value in graph.other.items()
            },
            batch=None,
            ptr=None,
        )

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Returns a batch, as the only entry of a list.

        Args:
            indices: numbers of the molecules.

        Returns:
            A list with the batch.
        """
        return [self._molecules.batch(indices)]


_to_batch = _loading.to_batch


def _pass_on(graphs: Sequence[AtomicGraph], three_body_cutoff: float | None = None) -> AtomicGraph:
    """Does the same as ``to_batch`` of graph-pes, and returns a finished batch unchanged."""
    if len(graphs) != 1 or not is_batch(graphs[0]):
        return _to_batch(graphs, three_body_cutoff)
    if three_body_cutoff and get_worker_info() is not None:
        pairs = triplet_edge_pairs(graphs[0], three_body_cutoff)
        _cache_threebody_terms(graphs[0], three_body_cutoff, *pairs)
    return graphs[0]


_loading.to_batch = _pass_on
