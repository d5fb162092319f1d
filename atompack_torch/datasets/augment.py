"""Random rotation, strain and displacement of molecules before their edges are found."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from atompack_torch.fields import ATOM_PROPERTY, BUILTINS, DERIVED, STRUCTURE, FieldId, FieldSpec
from atompack_torch.options import check_choice, check_flags, checked_integer, checked_number

NOISE = FieldId(ATOM_PROPERTY, "noise")  # field of `keep_noise`

_MAX_STRAIN = 1 / 3  # from here on, a cell might be turned inside out


@dataclass(frozen=True)
class Augment:
    """Random changes of molecules, made in each epoch before their edges are found.

        apt.AtpDataset("train.atp", augment=apt.Augment(rotate="proper", noise=0.02),
                       neighbors=apt.NeighborList(5.0))

    A position r becomes R (1 + e) r + n, with a rotation R, a symmetric strain e and noise n that
    depend on ``seed``, the epoch and the number of the molecule in the files alone, not on threads,
    workers, ranks or batches. Cell vectors become R (1 + e) c. ``forces``, ``velocities``,
    ``dipole`` and ``stress``, and the properties named in ``vectors`` and ``tensors``, turn with
    R. Values are computed in float64 and keep the dtype in which they are stored. Edges and
    computed features are those of the changed molecule.

    Nothing else changes: under noise and strain, energies, forces and stresses are no longer those
    of the molecule in the batch, and properties that depend on the orientation stay as they are
    unless they are named; opening a dataset warns of those in its batches that are not named and
    whose last axis has 3 components, as far as its first molecule shows.

    ``Loader`` and the samplers of this package choose the epoch by themselves; with others call
    ``set_epoch`` of the dataset. Statistics, ``filter``, ``split``, columns and counts of edges are
    of the molecules as stored.

    Args:
        rotate: ``"proper"``: rotations, all equally likely; ``"all"``: in half of the molecules
            followed by an inversion, so that reflections occur too.
        noise: standard deviation of the noise of each coordinate, in the unit of the positions
            (Å).
        strain: largest component of the strain, below 1/3; the six components are uniform between
            -strain and strain.
        keep_noise: add the atom field ``noise`` (N, 3), the noise n of each atom, in the dtype of
            the positions.
        vectors: atom or molecule properties v that become R v; their last axis has 3 components.
            They are polar vectors: an inversion changes their sign.
        tensors: atom or molecule properties T that become R T R^T; their last axes are (3, 3).
        seed: seed of all draws.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option is out of range.
    """

    rotate: Literal[False, "proper", "all"] = False
    noise: float = 0.0
    strain: float = 0.0
    keep_noise: bool = False
    vectors: Sequence[str] = ()
    tensors: Sequence[str] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rotate is not False:
            check_choice("rotate", self.rotate, ("proper", "all"))
        checked_number("noise", self.noise)
        checked_number("strain", self.strain, below=_MAX_STRAIN)
        check_flags(keep_noise=self.keep_noise)
        for name in ("vectors", "tensors"):
            names = getattr(self, name)
            is_list = isinstance(names, Iterable) and not isinstance(names, str)
            if not (is_list and all(isinstance(each, str) for each in names)):
                raise TypeError(f"{name}: expected a list of names, got {names!r}")
            object.__setattr__(self, name, tuple(names))
        if twice := set(self.vectors) & set(self.tensors):
            raise ValueError(
                f"vectors and tensors: expected each name once, got {min(twice)!r} twice"
            )
        # NumPy's integers cannot be masked to 64 bits.
        object.__setattr__(self, "seed", checked_integer("seed", self.seed, 0))


def rename_fields(augment: Augment, names: Mapping[str, str]) -> Augment:
    """Returns the same options for fields that have different names.

    Args:
        augment: the options.
        names: name of a field here → its other name.

    Returns:
        The options.
    """
    fields = {"vectors": augment.vectors, "tensors": augment.tensors}
    changed = {option: [names.get(key, key) for key in keys] for option, keys in fields.items()}
    return replace(augment, **changed)  # type: ignore[arg-type]


def warn_of_fields(
    augment: Augment, place: str, schema: Mapping[str, FieldSpec], first: Mapping[str, Any]
) -> None:
    """Warns of properties that may be vectors or tensors and do not turn.

    Args:
        augment: the options.
        place: path of the dataset.
        schema: its fields.
        first: the fields of a batch of its first molecule; a list where that one has none.
    """
    known = {"noise", *STRUCTURE, *BUILTINS, *DERIVED, *augment.vectors, *augment.tensors}
    others = [
        name
        for name, value in first.items()
        if name not in known
        and isinstance(dtype := schema[name].dtype, torch.dtype)
        and dtype.is_floating_point
        and (isinstance(value, list) or value.shape[1:][-1:] == (3,))
    ]
    if others:
        warnings.warn(
            f"{place}: augment: {', '.join(map(repr, others))} stay as they are when molecules "
            "turn: name them in vectors= or tensors= of Augment if they turn too, or in exclude=",
            stacklevel=6,
        )
