"""metatrain and other metatomic models: systems with neighbor lists, and target tensor maps.

    for systems, targets in loader("train.atp", 8, model.requested_neighbor_lists()):
        ...

``mtt train`` itself reads a folder that ``atompack-torch convert SRC DST --to metatrain`` writes;
this is for loops of one's own. Needs the package ``metatomic-torch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.outputs import Output
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._layout import Data, Layout, float_dtype, open_dataset
from atompack_torch.trainers._samplers import epoch_loader, loading_options

try:
    from metatensor.torch import Labels, TensorBlock, TensorMap
    from metatomic.torch import NeighborListOptions, System, register_autograd_neighbors
except ImportError as error:
    raise ImportError("atompack_torch.trainers.metatrain: install metatomic-torch") from error

if TYPE_CHECKING:
    Systems = list[System]
    Targets = dict[str, TensorMap]

_SAMPLE_NAMES = ["first_atom", "second_atom", "cell_shift_a", "cell_shift_b", "cell_shift_c"]


@dataclass(frozen=True)
class Cutoff:
    """Options of a neighbor list, as plain data.

    Attributes:
        cutoff: in the unit of the positions (Å).
        full: list each pair in both directions.
        strict: without pairs beyond the cutoff, which our lists never have.
    """

    cutoff: float
    full: bool
    strict: bool

    def options(self) -> NeighborListOptions:
        """Returns the options as metatomic's class."""
        return NeighborListOptions(cutoff=self.cutoff, full_list=self.full, strict=self.strict)


@dataclass(frozen=True)
class SystemLayout(Layout):
    """Batches of systems and targets.

    Attributes:
        cutoffs: the neighbor lists of each system.
        energy: name of the energy target; None: none.
        forces: add the gradients of the energy with respect to positions.
        stress: add its gradients with respect to strain.
        targets: names of further targets, and the fields that hold them.
        dtype: of all floating tensors.
    """

    cutoffs: tuple[Cutoff, ...] = ()
    energy: str | None = "energy"
    forces: bool = True
    stress: bool = False
    targets: tuple[tuple[str, str], ...] = ()
    dtype: torch.dtype = torch.float64

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors from which systems and targets are made."""
        made = [
            Output("positions", "value", self.dtype, "positions"),
            Output("types", "value", torch.int32, "atomic_numbers"),
            Output("cell", "cell", self.dtype),
            Output("pbc", "value", torch.bool, "pbc"),
        ]
        if self.energy is not None:
            made.append(Output("energy", "value", self.dtype, "energy"))
        if self.forces:
            made.append(Output("gradient", "value", self.dtype, "forces", scale=-1.0))
        if self.stress:
            made += [
                Output("stress", "value", torch.float64, "stress"),
                Output("volume", "volume", torch.float64),
            ]
        if self.cutoffs:
            made += [
                Output("edge_shift", "edge_shift", torch.int32),
                Output("edge_vector", "edge_vector", self.dtype),
            ]
        made += [Output(f"target {f}", "value", self.dtype, f) for _, f in self.targets]
        return tuple(made)

    @property
    def neighbors(self) -> NeighborList | None:
        """The edges of the largest cutoff, in both directions if any list needs that."""
        if not self.cutoffs:
            return None
        full = any(cutoff.full for cutoff in self.cutoffs)
        return NeighborList(max(cutoff.cutoff for cutoff in self.cutoffs), full=full)

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """All targets and gradients."""
        named = {"energy": self.energy is not None, "forces": self.forces, "stress": self.stress}
        names = [name for name, is_wanted in named.items() if is_wanted]
        return tuple((name,) for name in (*names, *(field for _, field in self.targets)))

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> tuple[Systems, Targets]:
        """Returns systems and targets.

        Args:
            batch: the batch.
            made: the outputs.

        Returns:
            The B systems, and the targets by name.
        """
        systems = self._systems(batch, made)
        for cutoff in self.cutoffs:
            _add_neighbors(systems, cutoff, self.neighbors, batch, made)
        index = batch.index if "index" in batch else torch.arange(len(batch))
        numbers = index.to(torch.int32).to(made["positions"].device)
        targets: Targets = {}
        if self.energy is not None:
            targets[self.energy] = _map(self._energy(numbers, batch, made))
        for name, field in self.targets:
            values = made[f"target {field}"]
            targets[name] = _map(
                _target(name, values, self._is_of_atoms(field, batch), numbers, batch)
            )
        return systems, targets

    def _systems(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> Systems:
        sizes = batch.n_atoms.tolist()
        # A System wants zeros for the vectors of open directions.
        cells = made["cell"] * made["pbc"].unsqueeze(-1)
        parts = zip(
            torch.split(made["types"], sizes),
            torch.split(made["positions"], sizes),
            cells.unbind(),
            (cells != 0).any(dim=-1).unbind(),
            strict=True,
        )
        return [System(types, positions, cell, pbc) for types, positions, cell, pbc in parts]

    def _energy(
        self, numbers: Tensor, batch: MoleculeBatch, made: dict[str, Tensor]
    ) -> TensorBlock:
        """Returns the block of the energy with its gradients."""
        properties = _range("energy", 1, numbers)
        block = TensorBlock(
            made["energy"].unsqueeze(1), _labels(["system"], numbers[:, None]), [], properties
        )
        if self.forces:
            block.add_gradient(
                "positions",
                TensorBlock(
                    made["gradient"].unsqueeze(-1),
                    _labels(["sample", "atom"], _atoms(batch, batch.batch.to(torch.int32))),
                    [_range("xyz", 3, numbers)],
                    properties,
                ),
            )
        if self.stress:
            volume = made["volume"].abs().view(-1, 1, 1)
            strain = torch.where(volume > 0, made["stress"] * volume, torch.nan).to(self.dtype)
            rows = torch.arange(len(batch), dtype=torch.int32, device=numbers.device)
            block.add_gradient(
                "strain",
                TensorBlock(
                    strain.unsqueeze(-1),
                    _labels(["sample"], rows[:, None]),
                    [_range("xyz_1", 3, numbers), _range("xyz_2", 3, numbers)],
                    properties,
                ),
            )
        return block

    def _is_of_atoms(self, field: str, batch: MoleculeBatch) -> bool:
        output = next(output for output in self.outputs if output.name == f"target {field}")
        name = output.listed_name if output.listed_name in batch else field
        return batch.level(name) == "atom"


def _add_neighbors(
    systems: Systems,
    cutoff: Cutoff,
    edges: NeighborList | None,
    batch: MoleculeBatch,
    made: dict[str, Tensor],
) -> None:
    """Adds one neighbor list to each system."""
    assert edges is not None
    i, j = batch.edge_index
    shift, vector = made["edge_shift"], made["edge_vector"]
    molecule = batch.batch[i]
    keep = None
    if edges.full and not cutoff.full:
        a, b, c = shift.unbind(1)
        image = (a > 0) | ((a == 0) & ((b > 0) | ((b == 0) & (c > 0))))
        keep = (i < j) | ((i == j) & image)
    if cutoff.cutoff < edges.cutoff:
        near = vector.norm(dim=1) < cutoff.cutoff
        keep = near if keep is None else keep & near
    if keep is not None:
        i, j, shift, vector, molecule = (t[keep] for t in (i, j, shift, vector, molecule))
    start = batch.ptr[molecule]
    pairs = torch.stack([i - start, j - start], dim=1).to(torch.int32)
    samples = torch.cat([pairs, shift], dim=1)
    counts = torch.bincount(molecule, minlength=len(systems)).tolist()
    options = cutoff.options()
    components = [_range("xyz", 3, samples)]
    properties = _range("distance", 1, samples)
    vectors = torch.split(vector.unsqueeze(-1), counts)
    parts = zip(systems, torch.split(samples, counts), vectors, strict=True)
    for system, own, values in parts:
        block = TensorBlock(values, _labels(_SAMPLE_NAMES, own), components, properties)
        register_autograd_neighbors(system, block)
        system.add_neighbor_list(options, block)


def _atoms(batch: MoleculeBatch, molecules: Tensor) -> Tensor:
    """Returns (N, 2) int32: a number for the molecule of each atom, and the atom within it."""
    atoms = torch.arange(len(batch.batch), device=molecules.device)
    own = (atoms - batch.ptr[batch.batch]).to(torch.int32)
    return torch.stack([molecules, own], dim=1)


def _target(
    name: str, values: Tensor, is_of_atoms: bool, numbers: Tensor, batch: MoleculeBatch
) -> TensorBlock:
    """Returns the block of a target without gradients, as metatrain reads it from its folders."""
    if is_of_atoms:
        samples = _labels(["system", "atom"], _atoms(batch, numbers[batch.batch]))
    else:
        samples = _labels(["system"], numbers[:, None])
    shape = tuple(values.shape[1:])
    is_cartesian = len(shape) > 0 and set(shape) == {3}
    if not is_cartesian:
        values = values.reshape(len(values), -1)
        components = []
    else:
        values = values.unsqueeze(-1)
        axes = ["xyz"] if len(shape) == 1 else [f"xyz_{axis + 1}" for axis in range(len(shape))]
        components = [_range(axis, 3, numbers) for axis in axes]
    properties = _range(name.replace("mtt::", ""), values.shape[-1], numbers)
    return TensorBlock(values, samples, components, properties)


def _map(block: TensorBlock) -> TensorMap:
    return TensorMap(Labels.single().to(block.values.device), [block])


def _labels(names: list[str], values: Tensor) -> Labels:
    return Labels(names, values.contiguous(), assume_unique=True)


def _range(name: str, count: int, like: Tensor) -> Labels:
    return Labels.range(name, count).to(like.device)


def layout(
    neighbor_lists: Iterable[NeighborListOptions] = (),
    *,
    energy: str | None = "energy",
    forces: bool = True,
    stress: bool = False,
    targets: Mapping[str, str] | None = None,
    dtype: torch.dtype | None = torch.float64,
) -> SystemLayout:
    """Returns the layout of batches of systems and targets.

    Args:
        neighbor_lists: those that the systems get: ``model.requested_neighbor_lists()``, or
            metatrain's ``get_requested_neighbor_lists(model)``. Cutoffs are in Å.
        energy: name of the energy target; None: none.
        forces: add the gradients of the energy with respect to positions.
        stress: add its gradients with respect to strain.
        targets: further targets: name → field. Rows of shape (3,), (3, 3), ... are Cartesian.
        dtype: of all floating tensors; None: torch's default.

    Returns:
        The layout.

    Raises:
        ValueError: gradients without an energy, or a different dtype.
    """
    if energy is None and (forces or stress):
        raise ValueError("forces and stress: expected False without an energy, got True")
    cutoffs = (Cutoff(each.cutoff, each.full_list, each.strict) for each in neighbor_lists)
    return SystemLayout(
        cutoffs=tuple(dict.fromkeys(cutoffs)),
        energy=energy,
        forces=forces,
        stress=stress,
        targets=tuple((targets or {}).items()),
        dtype=float_dtype(dtype),
    )


@with_options(layout)
def batch(
    molecule_batch: MoleculeBatch,
    neighbor_lists: Iterable[NeighborListOptions] = (),
    **options: Any,
) -> tuple[Systems, Targets]:
    """Converts a batch of molecules.

    Args:
        molecule_batch: the batch, on the CPU, with the edges of ``layout(...).neighbors``.
        neighbor_lists: those that the systems get.
        **options: of ``layout``.

    Returns:
        B systems with neighbor lists, and the targets by name: tensor maps of one block with the
        sample names of metatrain; ``system`` is the number of the molecule in the dataset. The
        gradients of the energy are -forces (N, 3, 1) and stress · volume (B, 3, 3, 1). NaN is a
        missing value, which metatrain's losses and metrics ignore.

    Raises:
        FieldError: the batch lacks the edges, or a field of a target.
        ValueError: gradients without an energy.
    """
    made: tuple[Systems, Targets] = layout(neighbor_lists, **options).batch(molecule_batch)
    return made


@with_options(layout, epoch_loader)
def loader(
    data: Data,
    batch_size: int | None = None,
    neighbor_lists: Iterable[NeighborListOptions] = (),
    *,
    key_map: Mapping[str, str] | None = None,
    **options: Any,
) -> Loader[Any]:
    """Returns a loader of systems and targets.

    Ranks share an epoch of every molecule once; ``state_dict`` is the position inside of it.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        batch_size: maximum number of molecules in a batch.
        neighbor_lists: those that the systems get.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: of ``layout``, and options of every trainer.

    Returns:
        The loader; batches are pairs as in ``batch``.

    Raises:
        FieldError: no molecule has a target or gradient; without ``shuffle``, a warning.
        ValueError: none or several of ``batch_size``, ``max_atoms`` and ``batch_sampler``.
    """
    loading = loading_options(options, layout)
    made = layout(neighbor_lists, **options)
    return epoch_loader(open_dataset(data, key_map), made, batch_size=batch_size, **loading)
