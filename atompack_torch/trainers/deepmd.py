"""DeePMD-kit: frame batches for its PyTorch models, and loaders of equally large molecules.

    for frames in loader("train.atp", batch_size=8, type_map=["H", "O"]):
        ...

Frames are plain dicts of tensors, so DeePMD-kit need not be installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.errors import FieldError
from atompack_torch.loading.loader import Loader
from atompack_torch.loading.samplers import EqualSizeBatchSampler
from atompack_torch.options import with_options
from atompack_torch.trainers._layout import Data, Layout, float_dtype, open_dataset
from atompack_torch.trainers._samplers import all_batches, epoch_loader, loading_options

Frames = dict[str, Any]
T = TypeVar("T")

_LABELS = {"energy": "energy", "force": "forces", "virial": "stress"}


@dataclass(frozen=True)
class FrameLayout(Layout):
    """Batches of frames with the same number of atoms.

    Attributes:
        type_map: symbols of the elements; the type of an atom is a position among them.
        dtype: of ``coord`` and ``force``.
    """

    type_map: tuple[str, ...]
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        unknown = [symbol for symbol in self.type_map if symbol not in SYMBOLS[1:]]
        if unknown or len(set(self.type_map)) < len(self.type_map):
            raise ValueError(f"type_map: expected different elements, got {list(self.type_map)}")

    @cached_property
    def _columns(self) -> tuple[int, ...]:
        types = {SYMBOLS.index(symbol): type_ for type_, symbol in enumerate(self.type_map)}
        columns: tuple[int, ...] = by_atomic_number(types, -1)
        return columns

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors from which a frame batch is made."""
        return (
            Output("coord", "value", self.dtype, "positions"),
            Output("atype", "element_index", torch.int32, columns=self._columns),
            Output("box", "cell", torch.float64),
            Output("energy", "value", torch.float64, "energy", fill=0.0),
            Output("force", "value", self.dtype, "forces", fill=0.0),
            Output("stress", "value", torch.float64, "stress", fill=0.0),
            *_STATES,
        )

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields besides those of the outputs."""
        return ("pbc",)

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """One of the labels."""
        return (tuple(_LABELS.values()),)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> Frames:
        """Returns a frame batch.

        Args:
            batch: the batch.
            made: the outputs.

        Returns:
            The frames; see ``batch``.

        Raises:
            FieldError: the molecules differ in their number of atoms, or only some have a cell.
        """
        n_frames, n = len(batch), len(made["coord"]) // max(len(batch), 1)
        states = _states(batch, made)
        has_box = states["box"]
        if not bool((batch.n_atoms == n).all()):
            raise FieldError(
                "expected as many atoms in all molecules of a batch, got "
                f"{sorted(set(batch.n_atoms.tolist()))}: use EqualSizeBatchSampler"
            )
        n_periodic = int(has_box.sum())
        if n_periodic not in (0, n_frames):
            raise FieldError(
                f"expected a cell in all {n_frames} molecules of a batch or in none, got "
                f"{n_periodic} (field 'cell')"
            )
        atype = made["atype"].view(n_frames, n)
        virial = -made["stress"] * made["volume"].abs().view(-1, 1, 1)
        frames: Frames = {
            "coord": made["coord"].view(n_frames, n, 3),
            "atype": atype,
            "box": made["box"].view(n_frames, 9) if n_periodic else None,
            "energy": made["energy"].view(n_frames, 1),
            "force": made["force"].view(n_frames, n, 3),
            "virial": virial.view(n_frames, 9),
            "natoms": _counts(atype, len(self.type_map)),
            "sid": 0,
            "fid": batch.index.tolist() if "index" in batch else list(range(n_frames)),
        }
        for name in _LABELS:
            frames[f"find_{name}"] = np.float32(bool(states[name].all()))
        return frames


# Which values a molecule has.
_STATES = (
    Output("has_energy", "weight", torch.float64, "energy"),
    Output("has_force", "weight", torch.float64, "forces"),
    Output("has_virial", "weight", torch.float64, "stress"),
    Output("volume", "volume", torch.float64),
)


def _states(batch: MoleculeBatch, made: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns (B,) bool of the labels, and of boxes: cells that are periodic or lack ``pbc``."""
    has_volume = made["volume"] != 0
    states = {name: made[f"has_{name}"] > 0 for name in _LABELS}
    states["box"] = has_volume
    if "pbc" in batch:
        states["box"] = has_volume & (batch.pbc.any(dim=1) | ~batch.mask("pbc"))
    states["virial"] = states["virial"] & states["box"]
    return states


def _counts(atype: Tensor, n_types: int) -> Tensor:
    """Returns (B, 2 + n_types) int32: the number of atoms twice, and of each type."""
    n_frames, n = atype.shape
    counts = torch.full((n_frames, 2 + n_types), n, dtype=torch.int32, device=atype.device)
    counts[:, 2:] = 0
    return counts.scatter_add_(1, atype.long() + 2, torch.ones_like(atype))


@dataclass(frozen=True)
class _GroupLayout(Layout):
    """Batches of numbers that say which molecules may share a batch of frames."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        return _STATES

    @property
    def fields(self) -> tuple[str, ...]:
        return ("pbc",)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> tuple[Tensor, int]:
        states = _states(batch, made)
        group = batch.n_atoms.clone()
        for state in states.values():
            group = 2 * group + state
        if "pbc" not in batch:
            return group, 0
        partly = states["box"] & ~batch.pbc.all(dim=1) & batch.mask("pbc")
        return group, int(partly.sum())


def frame_groups(data: Data, *, key_map: Mapping[str, str] | None = None) -> Tensor:
    """Numbers the kinds of molecules that can share a batch of frames.

    DeePMD's ``find_*`` hold for all labels of a batch, and its boxes are periodic in all
    directions or absent. Molecules of a group have as many atoms, the same ones of energy, forces
    and stress, and all of them a cell or none. This takes one pass over the dataset; the result
    may be kept with ``torch.save``.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.

    Returns:
        (number of molecules,) int64.
    """
    found: list[Tensor] = []
    n_partly = 0
    for groups, partly in all_batches(_GroupLayout(), open_dataset(data, key_map)):
        found.append(groups)
        n_partly += partly
    if n_partly:
        warnings.warn(
            f"{n_partly} molecules are periodic in some directions only; frames of DeePMD are "
            "periodic in all",
            stacklevel=2,
        )
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64)


def layout(type_map: Sequence[str], *, dtype: torch.dtype | None = torch.float64) -> FrameLayout:
    """Returns the layout of frame batches.

    Args:
        type_map: symbols of the elements, as in DeePMD's input.
        dtype: of coordinates and forces; None: torch's default.

    Returns:
        The layout.

    Raises:
        ValueError: an element is unknown or repeated, or the dtype is another.
    """
    return FrameLayout(tuple(type_map), float_dtype(dtype))


@with_options(layout)
def batch(molecule_batch: MoleculeBatch, type_map: Sequence[str], **options: Any) -> Frames:
    """Converts a batch of molecules with the same number n of atoms.

    Args:
        molecule_batch: the batch, on the CPU; units Å and eV.
        type_map: symbols of the elements.
        **options: of ``layout``.

    Returns:
        ``coord`` (B, n, 3), ``atype`` (B, n) int32, ``box`` (B, 9) float64 or None, ``energy``
        (B, 1) float64, ``force`` (B, n, 3), ``virial`` (B, 9) float64 = -stress · volume,
        ``natoms`` (B, 2 + number of types) int32, ``find_energy``, ``find_force`` and
        ``find_virial`` (1.0 if all molecules have it, else 0.0), ``sid`` 0 and ``fid``, the
        indices of the molecules in the dataset.

    Raises:
        FieldError: the molecules differ in their number of atoms, only some have a cell, or an
            element is not in ``type_map``.
    """
    frames: Frames = layout(type_map, **options).batch(molecule_batch)
    return frames


@with_options(layout, epoch_loader, skip=("max_atoms", "batch_sampler"))
def loader(
    data: Data,
    batch_size: int,
    type_map: Sequence[str],
    *,
    groups: Tensor | None = None,
    key_map: Mapping[str, str] | None = None,
    **options: Any,
) -> Loader[Any]:
    """Returns a loader of frame batches, each of molecules with the same number of atoms.

    An epoch has every molecule once. Ranks of torch.distributed share it, in equally many steps,
    and ``state_dict`` is the position inside the epoch.

    Args:
        data: a dataset of molecules, or anything that ``apt.open`` takes.
        batch_size: maximum number of frames in a batch.
        type_map: symbols of the elements.
        groups: result of ``frame_groups``; None: it is called here, which takes a pass.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        **options: of ``layout``, and options of every trainer.

    Returns:
        The loader; batches are dicts as in ``batch``.

    Raises:
        FieldError: no molecule has any label; without ``shuffle``, a warning.
        ValueError: an option is invalid, or ``groups`` are of another dataset.
    """
    loading = loading_options(options, layout)
    made = layout(type_map, **options)
    dataset = open_dataset(data, key_map)
    kinds = frame_groups(dataset) if groups is None else groups
    if len(kinds) != len(dataset):
        raise ValueError(f"groups: expected {len(dataset)} numbers, got {len(kinds)}")
    make_sampler = partial(EqualSizeBatchSampler, kinds, batch_size)
    return epoch_loader(dataset, made, make_sampler, **loading)


def endless(batches: Iterable[T]) -> Iterator[T]:
    """Repeats a loader, one epoch after the other, as DeePMD's ``Trainer`` takes batches.

        trainer = get_trainer(config)
        trainer.training_data = endless(loader("train.atp", 8, config["model"]["type_map"]))

    Args:
        batches: the loader.

    Yields:
        The batches.
    """
    while True:
        yield from batches
