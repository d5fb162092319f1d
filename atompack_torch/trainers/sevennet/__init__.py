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
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

try:
    from sevenn.atom_graph_data import AtomGraphData
except ImportError as error:
    raise ImportError("atompack_torch.trainers.sevennet: install sevenn") from error

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.errors import FieldError
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._graphs import graph_batch
from atompack_torch.trainers._labels import molecules_without
from atompack_torch.trainers._layout import Data, Layout, float_dtype, open_dataset, selected_schema
from atompack_torch.trainers._samplers import epoch_loader, loading_options

__all__ = ["SevenNetLayout", "batch", "loader"]

FREE_ENERGY = "free_energy"
LABELS = ("energy", "force", "stress")  # as in data_weight

_VOIGT = (0, 4, 8, 1, 5, 2)  # xx yy zz xy yz zx


@dataclass(frozen=True)
class SevenNetLayout(Layout):
    """Layout of batches for SevenNet models; the options are those of ``loader``."""

    type_map: tuple[tuple[int, int], ...]
    cutoff: float
    dtype: torch.dtype = torch.float32
    energy: str = "energy"
    other_energy: str | None = None  # of molecules without the first one
    forces: str = "forces"
    stress: str = "stress"
    shifts: bool = False
    allow_unlabeled: bool = False
    weights: tuple[float, ...] | None = None  # as LABELS
    modality: str | None = None

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors of the batch."""
        dtype = self.dtype
        columns = by_atomic_number(dict(self.type_map), -1)
        made = [
            Output("x", "element_index", torch.int64, columns=columns),
            Output("atomic_numbers", "value", torch.int64, "atomic_numbers"),
            Output("pos", "value", dtype, "positions"),
            Output("force_of_atoms", "value", dtype, self.forces),
            Output("edge_vec", "edge_vector", dtype),
            Output("total_energy", "value", dtype, self.energy),
            Output("stress", "voigt", dtype, self.stress, scale=-1.0, order=_VOIGT),
            Output("cell_volume", "volume", dtype),
        ]
        if self.other_energy is not None:
            made.append(Output("other_energy", "value", dtype, self.other_energy))
        if self.shifts:
            made.append(Output("pbc_shift", "edge_shift", dtype))
            made.append(Output("cell_lattice_vectors", "cell", dtype, cutoff=self.cutoff))
        return tuple(made)

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """Energy and forces, or any label with ``allow_unlabeled``."""
        energies = tuple(name for name in (self.energy, self.other_energy) if name is not None)
        if self.allow_unlabeled:
            return ((*energies, self.forces, self.stress),)
        return (energies, (self.forces,))

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> Any:
        """Returns the batch of SevenNet.

        Args:
            batch: the batch.
            made: name of each output → tensor.

        Returns:
            A torch-geometric batch of ``AtomGraphData``.

        Raises:
            FieldError: a molecule lacks energy or forces, without ``allow_unlabeled``.
        """
        energy, forces = made["total_energy"], made["force_of_atoms"]
        if self.other_energy is not None:
            energy = torch.where(energy.isnan(), made["other_energy"], energy)
        if not self.allow_unlabeled:
            self._check_labels(batch, energy, forces)
        molecules = {
            "total_energy": energy,
            "stress": made["stress"],
            "cell_volume": made["cell_volume"].abs_(),
            "num_atoms": batch.n_atoms,
            "per_atom_energy": energy / batch.n_atoms,
        }
        edges = {"edge_vec": made["edge_vec"]}
        if self.shifts:
            edges["pbc_shift"] = made["pbc_shift"]
            molecules["cell_lattice_vectors"] = made["cell_lattice_vectors"].view(-1, 3)
        atoms = {name: made[name] for name in ("x", "atomic_numbers", "pos")}
        atoms["force_of_atoms"] = forces
        graphs = graph_batch(AtomGraphData, batch, atoms=atoms, edges=edges, molecules=molecules)
        graphs._slice_dict["node_attr"], graphs._inc_dict["node_attr"] = (
            graphs._slice_dict["x"],
            graphs._inc_dict["x"],
        )
        if self.weights is not None:
            rows = zip(LABELS, self.weights, strict=True)
            graphs.data_weight = {name: torch.full((len(batch),), value) for name, value in rows}
        if self.modality is not None:
            graphs.data_modality = [self.modality] * len(batch)
        return graphs

    def _check_labels(self, batch: MoleculeBatch, energy: Tensor, forces: Tensor) -> None:
        numbers = molecules_without(batch, energy, of_atoms=False)
        if numbers := sorted({*numbers, *molecules_without(batch, forces, of_atoms=True)}):
            raise FieldError(
                f"molecules {numbers}: expected energy and forces; with allow_unlabeled they are "
                "NaN, which the losses of SevenNet ignore"
            )


def make_layout(
    type_map: Mapping[int, int],
    cutoff: float,
    has_free_energy: bool = False,
    *,
    dtype: torch.dtype = torch.float32,
    energy: str | None = None,
    forces: str = "forces",
    stress: str = "stress",
    shifts: bool = False,
    allow_unlabeled: bool = False,
    weights: Mapping[str, float] | None = None,
    modality: str | None = None,
) -> SevenNetLayout:
    """Checks the options of ``batch`` and ``loader``.

    Args:
        type_map: atomic number → index.
        cutoff: in Å.
        has_free_energy: the data has free energies.
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

    Returns:
        The layout.

    Raises:
        ValueError: an unknown weight or dtype.
    """
    factors = None
    if weights is not None:
        if unknown := sorted(set(weights) - set(LABELS)):
            raise ValueError(f"weights: expected {', '.join(LABELS)}, got {unknown[0]!r}")
        factors = tuple(float(weights.get(name, 1.0)) for name in LABELS)
    has_two_energies = energy is None and has_free_energy
    return SevenNetLayout(
        tuple((int(number), int(index)) for number, index in type_map.items()),
        float(cutoff),
        float_dtype(dtype),
        FREE_ENERGY if has_two_energies else energy or "energy",
        "energy" if has_two_energies else None,
        forces,
        stress,
        shifts,
        allow_unlabeled,
        factors,
        modality,
    )


@with_options(make_layout)
def batch(
    molecules: MoleculeBatch, type_map: Mapping[int, int], cutoff: float, **options: Any
) -> Any:
    """Converts a batch with edges to that of SevenNet.

    Args:
        molecules: a batch on the CPU, of a dataset with ``neighbors=NeighborList(cutoff)``.
        type_map: ``model.type_map``: atomic number → index.
        cutoff: ``model.cutoff``, in Å.
        **options: of the layout.

    Returns:
        A torch-geometric batch of ``AtomGraphData`` with ``index``, the indices of the molecules.

    Raises:
        FieldError: there are no edges, an element is not in ``type_map``, or a molecule lacks
            energy or forces.
        ValueError: an unknown weight or dtype.
    """
    return make_layout(type_map, cutoff, FREE_ENERGY in molecules, **options).batch(molecules)


@with_options(make_layout, epoch_loader)
def loader(
    data: Data,
    type_map: Mapping[int, int],
    cutoff: float,
    *,
    key_map: Mapping[str, str] | None = None,
    **options: Any,
) -> Loader[Any]:
    """Makes a loader for the ``Trainer`` of SevenNet.

    An epoch has every molecule once; all ranks take the same number of steps, and
    ``state_dict`` resumes in the middle of an epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        type_map: ``model.type_map``: atomic number → index.
        cutoff: ``model.cutoff``, in Å.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: those of ``batch``, and options of every trainer.

    Returns:
        The loader, whose batches are those of ``batch``.

    Raises:
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``, or an
            unknown weight or dtype.
        TypeError: the data are not molecules.
    """
    loading = loading_options(options, make_layout)
    dataset = open_dataset(data, key_map)
    has_free_energy = FREE_ENERGY in selected_schema(dataset)
    layout = make_layout(type_map, cutoff, has_free_energy, **options)
    return epoch_loader(dataset, layout, **loading)
