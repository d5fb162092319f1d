"""Batches for nvalchemi-toolkit: its ``Batch``, made natively.

train_loader = loader("data.atp", max_atoms=4096, cutoff=5.0)
strategy.run(train_loader)  # nvalchemi.training.TrainingStrategy
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import torch
import torch.distributed
from torch import Tensor

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.fields import BUILTINS, MOLECULE_PROPERTY
from atompack_torch.options import with_options
from atompack_torch.trainers._labels import property_name, require_labels
from atompack_torch.trainers._layout import (
    Data,
    Layout,
    float_dtype,
    open_dataset,
    selected_schema,
)
from atompack_torch.trainers._samplers import SteppedLoader, stepped_loader

try:
    import periodictable
    from nvalchemi.data import Batch
    from nvalchemi.data.level_storage import (
        LevelSchema,
        MultiLevelStorage,
        SegmentedLevelStorage,
        UniformLevelStorage,
    )
    from tensordict import TensorDict
except ModuleNotFoundError as error:
    raise ImportError("install nvalchemi-toolkit to make batches for it") from error

_PREDICTED: Final = ("energy", "forces", "stress", "charges", "dipole", "virial")
_LABELS: Final = tuple(key for key, builtin in BUILTINS.items() if builtin.dtype != "string")

# Custom properties with a place in nvalchemi's AtomicData -> shape of a row there.
_PROPERTIES: Final[dict[str, tuple[int, ...]]] = {
    "charge": (1,),
    "spin": (1,),
    "dipole": (3,),
    "virial": (3, 3),
}
_COLUMNS: Final[dict[str, tuple[int, ...]]] = {"energy": (1,), **_PROPERTIES}
_CPU = torch.device("cpu")
_OF_EDGES = ("neighbor_list", "neighbor_list_shifts")
_OF_ATOMS = ("positions", "atomic_numbers", "atomic_masses", "forces", "charges", "velocities")


@dataclass(frozen=True)
class NvalchemiLayout(Layout):
    """Tensors of nvalchemi's ``Batch``.

    Attributes:
        fields_of: pairs of a name in the batch and the field of the dataset.
        edges: neighbor list; None: no edges, because nvalchemi's hook makes them.
        dtype: of positions, cells and labels.
        references: energies of elements by atomic number.
    """

    fields_of: tuple[tuple[str, str], ...]
    edges: NeighborList | None
    dtype: torch.dtype
    references: tuple[float, ...] = ()

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors that are made natively."""
        made = [
            Output("positions", "value", self.dtype, "positions"),
            Output("atomic_numbers", "value", torch.int64, "atomic_numbers"),
        ]
        for name, field in self.fields_of:
            if name == "cell":
                made.append(Output(name, "cell", self.dtype))
            elif name == "pbc":
                made.append(Output(name, "value", torch.bool, field, fill=0))
            else:
                references = self.references if name == "energy" else ()
                made.append(Output(name, "value", self.dtype, field, references=references))
        if self.edges is not None:
            made.append(Output("neighbor_list", "edge_pairs", torch.int64))
            made.append(Output("neighbor_list_shifts", "edge_shift", self.dtype))
            made.append(Output("n_edges", "edge_count", torch.int32))
        return tuple(made)

    @property
    def neighbors(self) -> NeighborList | None:
        """Edges, unless nvalchemi makes them."""
        return self.edges

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """One of the labels that models predict."""
        stored = tuple(field for name, field in self.fields_of if name in _PREDICTED)
        return (stored or _PREDICTED,)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> Batch:
        """Builds the batch of nvalchemi.

        Args:
            batch: the batch.
            made: name of each output → tensor.

        Returns:
            The batch, whose tensors are views, except for the masses.
        """
        schema = LevelSchema()
        for name, shape in _COLUMNS.items():
            if name in made:
                made[name] = made[name].view(len(batch), *shape)
        made["atomic_masses"] = _masses(self.dtype)[made["atomic_numbers"]]
        atoms = {name: made[name] for name in _OF_ATOMS if name in made}
        edges = {name: made[name] for name in _OF_EDGES if name in made}
        system = {name: made[name] for name in made if name not in (*atoms, *edges, "n_edges")}
        system["molecule_number"] = batch.index
        groups: dict[str, Any] = {
            "atoms": SegmentedLevelStorage(
                _rows(atoms), attr_map=schema, segment_lengths=batch.n_atoms.int(), validate=False
            )
        }
        if edges:
            groups["edges"] = SegmentedLevelStorage(
                _rows(edges), attr_map=schema, segment_lengths=made["n_edges"], validate=False
            )
        groups["system"] = UniformLevelStorage(_rows(system), attr_map=schema, validate=False)
        storage = MultiLevelStorage(groups, attr_map=schema, validate=False)
        keys = {"node": set(atoms), "edge": set(edges), "system": set(system)}
        return Batch(device=_CPU, storage=storage, keys=keys)


def _rows(tensors: dict[str, Tensor]) -> TensorDict:
    """Returns tensors with as many rows each, without nvalchemi's checks of each."""
    n_rows = len(next(iter(tensors.values())))
    return TensorDict(tensors, [n_rows], device=_CPU, non_blocking=False)


@lru_cache(maxsize=2)
def _masses(dtype: torch.dtype) -> Tensor:
    """Masses of the elements by atomic number, as nvalchemi fills them in."""
    masses = [periodictable.elements[number].mass for number in range(119)]
    return torch.tensor(masses, dtype=torch.float64).to(dtype)


def make_layout(
    contents: Any,
    edges: NeighborList | None,
    *,
    references: Mapping[int, float] | None = None,
    dtype: torch.dtype = torch.float32,
) -> NvalchemiLayout:
    """Makes the layout for a batch, or for the schema of a dataset.

    Args:
        contents: the batch or schema.
        edges: neighbor list; None: no edges.
        references: atomic number → energy in eV, subtracted for each atom in float64.
        dtype: of all floating tensors.

    Returns:
        The layout.

    Raises:
        ValueError: a dtype other than float32 and float64.
    """
    fields: dict[str, str] = {name: name for name in _LABELS if name in contents}
    for name in _PROPERTIES:
        field = property_name(contents, name, MOLECULE_PROPERTY)
        if name not in fields and field is not None:
            fields[name] = field
    energies = {int(number): float(energy) for number, energy in (references or {}).items()}
    tables = by_atomic_number(energies, math.nan)
    return NvalchemiLayout(tuple(fields.items()), edges, float_dtype(dtype), tables)


@with_options(make_layout)
def batch(molecules: MoleculeBatch, **options: Any) -> Batch:
    """Converts a batch to nvalchemi's ``Batch``.

    For B molecules, N atoms and E edges: ``positions`` (N, 3), ``atomic_numbers`` (N,) int64,
    ``atomic_masses`` (N,); of the labels that the batch has, ``energy`` (B, 1), ``forces`` (N, 3),
    ``stress`` (B, 3, 3), ``charges`` (N,), ``velocities`` (N, 3), ``cell`` (B, 3, 3), ``pbc``
    (B, 3) bool; of its custom properties, ``charge`` and ``spin`` (B, 1), ``dipole`` (B, 3),
    ``virial`` (B, 3, 3). A label that a molecule lacks is NaN. ``molecule_number`` (B,) int64 is
    its number in the dataset. With the edges of the batch, ``neighbor_list`` (E, 2), atoms i and
    j, and ``neighbor_list_shifts`` (E, 3): vectors are r_j - r_i + S cell.

    Args:
        molecules: a batch on the CPU.
        **options: of the layout.

    Returns:
        The batch of nvalchemi, on the CPU.

    Raises:
        FieldError: an element has no reference energy.
        ValueError: a dtype other than float32 and float64.
    """
    edges = NeighborList(1.0) if "edge_index" in molecules else None
    return make_layout(molecules, edges, **options).batch(molecules)


class Loader(SteppedLoader):
    """Loader for ``TrainingStrategy.run``, or for a loop of one's own.

    The strategy sets the epoch on ``batch_sampler``, and with ``set_epoch_step`` the first batch
    of an epoch that is resumed. It has no ``sampler``, so that ``DDPHook`` leaves it alone: the
    batch sampler knows the ranks.

    Args:
        dataset: a dataset whose batches are those of nvalchemi.
        batch_sampler: of this package.
        num_threads: as for ``atompack_torch.Loader``.
        prefetch: as for ``atompack_torch.Loader``.
        shown: what nvalchemi finds as ``dataset``; None: the same.
    """

    def set_epoch_step(self, step: int) -> None:
        """Lets the next pass begin within its epoch.

        Args:
            step: number of the first batch, of this rank.
        """
        self.batches.first = step


@with_options(stepped_loader)
def loader(
    data: Data,
    batch_size: int | None = None,
    *,
    cutoff: float | None = None,
    max_neighbors: int | None = None,
    references: Mapping[int, float] | None = None,
    dtype: torch.dtype = torch.float32,
    key_map: Mapping[str, str] | None = None,
    **options: Any,
) -> Loader:
    """Returns a loader of a dataset for nvalchemi's ``TrainingStrategy``.

    Ranks get equal numbers of batches and every molecule once.

    Args:
        data: a dataset of molecules, or what ``atompack_torch.open`` takes.
        batch_size: maximum number of molecules in a batch.
        cutoff: of the edges, in Å; None: no edges, because nvalchemi's hook makes them.
        max_neighbors: maximum number of edges of an atom, the shortest ones; None: all.
        references: atomic number → energy in eV, subtracted for each atom in float64.
        dtype: of all floating tensors.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: of batches, ranks and threads.

    Returns:
        The loader.

    Raises:
        FieldError: no molecule has any label; without ``shuffle``, a warning.
        ValueError: not one of ``batch_size`` and ``max_atoms`` is given.
        TypeError: the data holds no molecules.
    """
    molecules = open_dataset(data, key_map)
    edges = None if cutoff is None else NeighborList(cutoff, max_neighbors=max_neighbors)
    layout = make_layout(selected_schema(molecules), edges, references=references, dtype=dtype)
    require_labels(molecules, layout.wanted, trains=options.get("shuffle", True))
    make = partial(Loader, layout.dataset(molecules))
    return stepped_loader(make, molecules, batch_size, **options)
