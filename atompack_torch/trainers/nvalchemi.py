"""Batches for nvalchemi-toolkit: its ``Batch``, made natively.

train_loader = loader("data.atp", max_atoms=4096, cutoff=5.0)
strategy.run(train_loader)  # nvalchemi.training.TrainingStrategy
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed
from torch import Tensor

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.fields import ATOM_PROPERTY, BUILTINS, MOLECULE_PROPERTY, PREFIXES
from atompack_torch.loading.samplers import AtomBudgetBatchSampler
from atompack_torch.options import with_options
from atompack_torch.trainers._labels import STATES, require_labels
from atompack_torch.trainers._layout import (
    Data,
    Layout,
    float_dtype,
    open_dataset,
    selected_schema,
)
from atompack_torch.trainers._samplers import SteppedLoader, SteppedOptions, stepped_loader

if TYPE_CHECKING:
    from typing_extensions import Unpack

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

# Custom properties with a place in nvalchemi's AtomicData -> scope, and shape of a row there.
_PROPERTIES: Final[dict[str, tuple[int, tuple[int, ...]]]] = {
    "charge": (MOLECULE_PROPERTY, (1,)),
    "spin": (MOLECULE_PROPERTY, (1,)),
    "dipole": (MOLECULE_PROPERTY, (3,)),
    "virial": (MOLECULE_PROPERTY, (3, 3)),
}
_COLUMNS: Final[dict[str, tuple[int, ...]]] = {
    "energy": (1,),
    **{name: shape for name, (_, shape) in _PROPERTIES.items()},
}
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

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors that are made natively."""
        return _outputs(self)

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


@lru_cache(maxsize=8)
def _outputs(layout: NvalchemiLayout) -> tuple[Output, ...]:
    made = [
        Output("positions", "value", layout.dtype, "positions"),
        Output("atomic_numbers", "value", torch.int64, "atomic_numbers"),
    ]
    for name, field in layout.fields_of:
        if name == "cell":
            made.append(Output(name, "cell", layout.dtype))
        elif name == "pbc":
            made.append(Output(name, "value", torch.bool, field, fill=0))
        else:
            references = layout.references if name == "energy" else ()
            made.append(Output(name, "value", layout.dtype, field, references=references))
    if layout.edges is not None:
        made.append(Output("neighbor_list", "edge_pairs", torch.int64))
        made.append(Output("neighbor_list_shifts", "edge_shift", layout.dtype))
        made.append(Output("n_edges", "edge_count", torch.int32))
    return tuple(made)


@lru_cache(maxsize=2)
def _masses(dtype: torch.dtype) -> Tensor:
    """Masses of the elements by atomic number, as nvalchemi fills them in."""
    masses = [periodictable.elements[number].mass for number in range(119)]
    return torch.tensor(masses, dtype=torch.float64).to(dtype)


def _fields_of(contents: Any) -> tuple[tuple[str, str], ...]:
    """Returns pairs of a name in nvalchemi and a field; ``contents``: a batch, or a schema."""
    found = [(name, name) for name in _LABELS if name in contents]
    for name, (scope, _) in _PROPERTIES.items():
        if (name, name) in found:
            continue
        for stored in STATES.get(name, (name,)):
            if (field := _field_of(contents, stored, scope)) is not None:
                found.append((name, field))
                break
    return tuple(found)


def _field_of(contents: Any, name: str, scope: int) -> str | None:
    """Returns the name of a property of molecules in a batch or a schema, if present."""
    other = PREFIXES[ATOM_PROPERTY if scope == MOLECULE_PROPERTY else MOLECULE_PROPERTY] + name
    if (prefixed := PREFIXES[scope] + name) in contents:
        return prefixed
    if name in contents and other not in contents and _is_of_molecules(contents, name):
        return name
    return None


def _is_of_molecules(contents: Any, name: str) -> bool:
    if isinstance(contents, MoleculeBatch):
        return contents.level(name) == "molecule"
    return bool(contents[name].level == "molecule")


def _references(references: Mapping[int, float] | None) -> tuple[float, ...]:
    energies = {int(number): float(energy) for number, energy in (references or {}).items()}
    return by_atomic_number(energies, math.nan) if energies else ()


def batch(
    molecules: MoleculeBatch,
    *,
    references: Mapping[int, float] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Batch:
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
        references: atomic number → energy in eV, subtracted for each atom in float64.
        dtype: of all floating tensors.

    Returns:
        The batch of nvalchemi, on the CPU.

    Raises:
        FieldError: an element has no reference energy.
        ValueError: a dtype other than float32 and float64.
    """
    layout = NvalchemiLayout(
        fields_of=_fields_of(molecules),
        edges=NeighborList(1.0) if "edge_index" in molecules else None,
        dtype=float_dtype(dtype),
        references=_references(references),
    )
    return layout.batch(molecules)


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
    """

    def __init__(
        self,
        dataset: MoleculeDataset,
        batch_sampler: AtomBudgetBatchSampler,
        num_threads: int | None = None,
        prefetch: int = 4,
    ) -> None:
        super().__init__(dataset, dataset, batch_sampler, num_threads, prefetch)

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
    **options: Unpack[SteppedOptions],
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
    layout = NvalchemiLayout(
        fields_of=_fields_of(selected_schema(molecules)),
        edges=None if cutoff is None else NeighborList(cutoff, max_neighbors=max_neighbors),
        dtype=float_dtype(dtype),
        references=_references(references),
    )
    require_labels(molecules, layout.wanted, trains=options.get("shuffle", True))
    make = partial(Loader, layout.dataset(molecules))
    return stepped_loader(make, molecules, batch_size, **options)
