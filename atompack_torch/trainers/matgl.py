"""MatGL: batches for its models, and loaders for Lightning.

    from atompack_torch.trainers import matgl

    train = matgl.loader("train.atp", model.element_types, model.cutoff, batch_size=32)
    lightning.Trainer(inference_mode=False).fit(module, train)

Needs the package ``matgl``, 4.0 or newer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

try:
    import matgl
    from matgl.utils.constants import EV_PER_ANG3_TO_GPA
    from torch_geometric.data import Data as Graph
except ImportError as error:
    raise ImportError("atompack_torch.trainers.matgl: install matgl") from error

from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.errors import FieldError
from atompack_torch.loading.loader import Loader
from atompack_torch.options import with_options
from atompack_torch.trainers._graphs import graph_batch
from atompack_torch.trainers._labels import molecules_without
from atompack_torch.trainers._layout import Data, Layout, float_dtype, open_dataset
from atompack_torch.trainers._samplers import epoch_loader, loading_options

__all__ = ["MatGLLayout", "batch", "ignore_missing_labels", "layout", "loader"]

Module = TypeVar("Module")


class _OfLabels:
    """Loss of the values that have a label; 0 where none has."""

    def __init__(self, loss: Callable[..., Tensor]) -> None:
        self.loss = loss

    def __call__(self, labels: Tensor, predictions: Tensor, **options: Any) -> Tensor:
        has_label = ~labels.isnan()
        if not has_label.any():
            return 0 * predictions.sum()
        if has_label.all():
            return self.loss(labels, predictions, **options)
        return self.loss(labels[has_label], predictions[has_label], **options)


def ignore_missing_labels(module: Module) -> Module:
    """Makes a ``PotentialLightningModule`` skip labels that are NaN.

    Its own ``allow_missing_labels=True`` does so too, but the loss is NaN if a kind of label is
    missing in a whole batch, or a charge anywhere.

    Args:
        module: of class ``PotentialLightningModule``.

    Returns:
        The same module.
    """
    changed: Any = module
    changed.allow_missing_labels = True
    changed.loss = _OfLabels(changed.loss)
    return module


_OF_ATOMS = ("forces", "magmoms", "charges")


@dataclass(frozen=True)
class MatGLLayout(Layout):
    """Layout of batches for the Lightning modules of MatGL.

    Attributes:
        element_types: symbols of the elements.
        cutoff: of the edges, in Å.
        dtype: of all values.
        energy: field with the energies in eV.
        forces: field with the forces in eV/Å.
        stress: field with the stress in eV/Å³ and the sign of ASE, (3, 3), which becomes GPa; None:
            no stress, for ``stress_weight=0``.
        magmoms: field with a magnetic moment for each atom, often ``"magmoms"``.
        charges: field with a charge for each atom, often ``"charges"``; not with ``magmoms``.
        target: property of molecules to train a ``ModelLightningModule`` on, (B,) or (B, n),
            instead of energy, forces and stress.
        state: property of molecules that becomes the state attribute; None: two zeros.
        state_dtype: of the state attribute, int64 for numbers of fidelities.
        allow_missing: pass missing labels as NaN, for modules with ``ignore_missing_labels``;
            otherwise they are an error.
    """

    element_types: tuple[str, ...]
    cutoff: float
    dtype: torch.dtype
    energy: str = "energy"
    forces: str = "forces"
    stress: str | None = "stress"
    magmoms: str | None = None
    charges: str | None = None
    target: str | None = None
    state: str | None = None
    state_dtype: torch.dtype | None = None
    allow_missing: bool = False

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors of the batch."""
        return (*self._structure, *self._labels)

    @property
    def _structure(self) -> list[Output]:
        numbers = {SYMBOLS.index(name): column for column, name in enumerate(self.element_types)}
        columns = by_atomic_number(numbers, -1)
        made = [
            Output("node_type", "element_index", torch.int64, columns=columns),
            Output("lattice", "lattice", self.dtype, cutoff=self.cutoff),
            Output("frac_coords", "fractional_positions", self.dtype, cutoff=self.cutoff),
            Output("pbc_offset", "edge_shift", self.dtype),
        ]
        if self.state is not None:
            made.append(Output("state", "value", self.state_dtype or self.dtype, self.state))
            made.append(Output("has_state", "weight", self.dtype, self.state))
        return made

    @property
    def _labels(self) -> list[Output]:
        if self.target is not None:
            return [Output("target", "value", self.dtype, self.target)]
        made = [
            Output("energies", "value", self.dtype, self.energy),
            Output("forces", "value", self.dtype, self.forces),
        ]
        if self.stress is not None:
            factor = EV_PER_ANG3_TO_GPA
            made.append(Output("stresses", "value", self.dtype, self.stress, scale=factor))
        for name, field in (("magmoms", self.magmoms), ("charges", self.charges)):
            if field is not None:
                made.append(Output(name, "value", self.dtype, field))
        return made

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """All labels, or one of them with ``allow_missing``."""
        fields = tuple(output.field for output in self._labels if output.field is not None)
        return (fields,) if self.allow_missing else tuple((name,) for name in fields)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> tuple[Any, ...]:
        """Returns the tuple that MatGL's training steps take.

        Args:
            batch: the batch.
            made: name of each output → tensor.

        Returns:
            ``(graph, lattice, state, energies, forces, stresses)``, with magnetic moments or
            charges at the end; with ``target``: ``(graph, lattice, state, target)``.

        Raises:
            FieldError: a molecule lacks a label, without ``allow_missing``.
        """
        if not self.allow_missing:
            self._check_labels(batch, made)
        graphs = graph_batch(
            Graph,
            batch,
            atoms={name: made[name] for name in ("node_type", "frac_coords")},
            edges={"pbc_offset": made["pbc_offset"]},
            molecules={"sample_idx": batch.index},
        )
        graphs.num_nodes = len(made["node_type"])
        n = len(batch)
        device = made["lattice"].device
        state = torch.zeros((n, 2), dtype=self.dtype, device=device)
        if self.state is not None:
            _check_state(batch, made["has_state"], self.state)
            state = made["state"]
        head = (graphs, made["lattice"].squeeze(), state)
        if self.target is not None:
            return (*head, made["target"])
        if "stresses" in made:
            stresses = made["stresses"].view(-1, 3)
        else:
            stresses = torch.zeros(n, dtype=self.dtype, device=device)
        pes = (*head, made["energies"], made["forces"], stresses)
        if self.magmoms is not None:
            return (*pes, made["magmoms"].view(-1, 1))
        return pes if self.charges is None else (*pes, made["charges"].view(-1))

    def _check_labels(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> None:
        for output in self._labels:
            of_atoms = output.name in _OF_ATOMS
            if numbers := molecules_without(batch, made[output.name], of_atoms=of_atoms):
                raise FieldError(
                    f"molecules {numbers}: expected the label, got none: leave it out, or "
                    "pass NaN by allow_missing and train with ignore_missing_labels "
                    f"(field {output.field!r})"
                )


def _check_state(batch: MoleculeBatch, has_state: Tensor, field: str) -> None:
    if not has_state.all():
        numbers = batch.index[has_state == 0].tolist()
        raise FieldError(f"molecules {numbers}: expected a state, got none (field {field!r})")


@with_options(MatGLLayout)
def layout(
    element_types: Sequence[str],
    cutoff: float,
    *,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> MatGLLayout:
    """Describes batches of MatGL, for ``atompack_torch.trainers.lightning.DataModule(layout=)``.

    Args:
        element_types: ``model.element_types``; ``node_type`` is the index of an atom's symbol.
        cutoff: ``model.cutoff``, in Å.
        dtype: of all values; None: ``matgl.float_th``.
        **options: further fields of the layout.

    Returns:
        The layout.

    Raises:
        ValueError: an unknown symbol or dtype, or both ``magmoms`` and ``charges``.
    """
    for name in element_types:
        if name not in SYMBOLS:
            raise ValueError(f"element_types: expected symbols of elements, got {name!r}")
    if options.get("magmoms") is not None and options.get("charges") is not None:
        raise ValueError("magmoms: excludes charges: MatGL's batches have only one of the two")
    chosen = float_dtype(matgl.float_th if dtype is None else dtype)
    return MatGLLayout(tuple(element_types), float(cutoff), chosen, **options)


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
    loading = loading_options(options, layout)
    made = layout(element_types, cutoff, **options)
    return epoch_loader(open_dataset(data, key_map), made, **loading)
