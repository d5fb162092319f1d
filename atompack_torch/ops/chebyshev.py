"""Chebyshev descriptors of atomic environments, and their derivatives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from atompack_torch._core import Featurizer
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.batch.molecule_batch import MoleculeBatch, with_fields
from atompack_torch.batch.storage import Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import DERIVATIVES
from atompack_torch.ops.features import Structures, features_by_torch
from atompack_torch.ops.library import is_differentiated
from atompack_torch.options import check_choice, checked_integer, checked_number, utf8

_MIN_CUTOFF = 1e-3  # minimum cutoff of the neighbor search
_MAX_ORDER = 1000
_DTYPES = {"float32": torch.float32, "float64": torch.float64}


class ChebyshevDescriptor:
    """Species-weighted Chebyshev descriptor (Artrith, Urban, Ceder 2017), compatible with aenet.

        descriptor = apt.ChebyshevDescriptor(["O", "H"], 10, 4.0, 3, 1.5)
        batch = descriptor.compute(ds.batch([0, 1]), derivatives=True)
        batch.features, batch.radial_dG_drij

    Features, derivatives and ``compat_sha256`` are those of aenet-python's descriptor with the same
    settings, except for two errors there: here atoms outside their cell are used at their actual
    positions, and non-periodic directions of a cell are not periodic. Results are computed in
    float64 and rounded once; they are bitwise identical for any number of threads. Objects are
    immutable, may be shared between threads, and can be pickled.

    Args:
        species: element symbols; the order matters, as it determines their weights.
        rad_order: highest order of the radial functions; there are ``rad_order + 1``.
        rad_cutoff: cutoff radius in the unit of the positions (Å).
        ang_order: highest order of the angular functions.
        ang_cutoff: like ``rad_cutoff``; either may be the larger one.
        min_cutoff: neighbors at this distance or closer are omitted.
        dtype: dtype of the results, ``"float32"`` or ``"float64"``.

    Raises:
        TypeError: a setting has the wrong type.
        ValueError: no species or duplicates, an order or a cutoff is out of range, or a different
            dtype.
    """

    def __init__(
        self,
        species: Sequence[str],
        rad_order: int,
        rad_cutoff: float,
        ang_order: int,
        ang_cutoff: float,
        min_cutoff: float = 0.55,
        dtype: Literal["float32", "float64"] = "float64",
    ) -> None:
        self.species = _labels(species)
        self.rad_order = _order("rad_order", rad_order)
        self.rad_cutoff = checked_number("rad_cutoff", rad_cutoff, _MIN_CUTOFF)
        self.ang_order = _order("ang_order", ang_order)
        self.ang_cutoff = checked_number("ang_cutoff", ang_cutoff, _MIN_CUTOFF)
        self.min_cutoff = checked_number("min_cutoff", min_cutoff)
        check_choice("dtype", dtype, tuple(_DTYPES))
        self.dtype = dtype
        numbers = {symbol: number for number, symbol in enumerate(SYMBOLS)}
        self._atomic_numbers = [numbers.get(label, -1) for label in self.species]
        self._featurizer = Featurizer(
            species=list(self.species),
            atomic_numbers=self._atomic_numbers,
            radial=(self.rad_order, self.rad_cutoff),
            angular=(self.ang_order, self.ang_cutoff),
            min_cutoff=self.min_cutoff,
        )

    @property
    def multi(self) -> bool:
        """True if there are weighted features, as with more than one species."""
        return len(self.species) > 1

    @property
    def n_radial(self) -> int:
        """Number of radial functions."""
        return self.rad_order + 1

    @property
    def n_angular(self) -> int:
        """Number of angular functions."""
        return self.ang_order + 1

    @property
    def n_features(self) -> int:
        """Number F of features: radial and angular, and with several species the weighted ones."""
        return int(self._featurizer.n_features)

    @property
    def typespin(self) -> tuple[float, ...]:
        """The weight of each species."""
        return tuple(self._featurizer.typespin)

    @property
    def compat(self) -> dict[str, object]:
        """Settings that determine whether stored features belong to this descriptor."""
        return {
            "ang_cutoff": self.ang_cutoff,
            "ang_order": self.ang_order,
            "descriptor_class": "aenet.torch_featurize.featurize.ChebyshevDescriptor",
            "min_cutoff": self.min_cutoff,
            "multi": self.multi,
            "rad_cutoff": self.rad_cutoff,
            "rad_order": self.rad_order,
            "species": list(self.species),
        }

    @property
    def compat_json(self) -> str:
        """JSON of ``compat``, in the form of cache files."""
        return json.dumps(self.compat, sort_keys=True, separators=(",", ":"))

    @property
    def compat_sha256(self) -> str:
        """SHA-256 hash of ``compat_json``: 64 hexadecimal digits."""
        return hashlib.sha256(self.compat_json.encode("ascii")).hexdigest()

    def compute(self, batch: MoleculeBatch, derivatives: bool = False) -> MoleculeBatch:
        """Adds ``features`` and, if requested, their derivatives to a batch.

        Molecules and atoms are processed by torch's threads, without the GIL. A molecule without
        ``cell`` is not periodic; with a cell but without ``pbc`` it is periodic in all directions,
        as in aenet. The results are not differentiable: use ``contract_forces`` for forces, or
        ``features`` instead.

        Args:
            batch: a batch on the CPU; ``positions``, ``cell`` and the cutoffs in the same unit.
            derivatives: also compute the derivatives of each atom's features with respect to the
                positions of its neighbors (one edge each, E in all) and of its pairs of neighbors
                (T in all).

        Returns:
            A new batch with all fields of the old one, and ``features`` (N, F) of the descriptor's
            dtype; with derivatives ``radial_center_idx``, ``radial_neighbor_idx`` (E,) int64,
            ``radial_dG_drij`` (E, n_radial, 3), ``radial_neighbor_typespin`` (E,),
            ``angular_center_idx``, ``angular_neighbor_j_idx``, ``angular_neighbor_k_idx`` (T,)
            int64, ``angular_grads_i``, ``_j``, ``_k`` (T, n_angular, 3) and
            ``angular_triplet_typespin`` (T,). Atom indices refer to the batch. With a single
            species there are no typespins.

        Raises:
            TypeError: the argument is not a batch.
            FieldError: the batch is not on the CPU, the descriptor lacks the species of an atom,
                positions or cell are not finite, or an atom has infinitely many neighbors.
        """
        if not isinstance(batch, MoleculeBatch):
            raise TypeError(f"compute: expected a MoleculeBatch, got {type(batch).__name__}")
        if batch.positions.device.type != "cpu":
            raise FieldError(f"compute: expected a batch on cpu, got {batch.positions.device}")
        structures = (
            batch.positions.detach().double().contiguous(),
            batch.atomic_numbers.contiguous(),
            batch.ptr.contiguous(),
            batch.cell.detach().double().contiguous() if "cell" in batch else None,
            _periodic(batch),
        )
        features, rows = self._featurizer.compute(structures, derivatives, _DTYPES[self.dtype])
        names = [name for name in DERIVATIVES if self.multi or not name.endswith("typespin")]
        made: dict[str, Value] = {"features": features}
        made |= dict(zip(names, rows, strict=True)) if derivatives else {}
        return with_fields(batch, made, replaced=DERIVATIVES if derivatives else ())

    def features(
        self,
        positions: Tensor,
        atomic_numbers: Tensor,
        ptr: Tensor | None = None,
        cell: Tensor | None = None,
        pbc: Tensor | None = None,
    ) -> Tensor:
        """Computes features of tensors, differentiable in positions and cell.

            features = descriptor.features(positions.requires_grad_(), numbers)
            energy = model(features).sum()
            (gradient,) = torch.autograd.grad(energy, positions, create_graph=True)  # -forces

        It is the operator ``torch.ops.atompack_torch.chebyshev_features``, which
        ``torch.compile(fullgraph=True)`` and ``torch.export`` take. The gradient with respect to
        the positions is native. Second derivatives, and the gradient with respect to the cell, are
        computed by torch and take several times as long; a loss that depends on forces needs
        neither for the gradients of a model's parameters: ``loss.backward(inputs=parameters)``.

        Args:
            positions: (N, 3) float32 or float64, in the unit of the cutoffs.
            atomic_numbers: (N,) int64.
            ptr: (B + 1,) int64, the first atom of each molecule, ending with N; None: one
                molecule.
            cell: (B, 3, 3), or (3, 3) for one molecule, rows are the cell vectors; None: all
                molecules are open.
            pbc: (B, 3) bool, or (3,) for one molecule, periodic directions; None: all where there
                is a cell.

        Returns:
            Features (N, F) of the descriptor's dtype, computed in float64 and rounded once.

        Raises:
            FieldError: types or shapes differ from these, the descriptor lacks the species of an
                atom, or positions or cell are not finite.
        """
        if ptr is None:
            ptr = torch.tensor([0, len(positions)], device=positions.device)
            cell = cell if cell is None else cell.reshape(-1, 3, 3)
            pbc = pbc if pbc is None else pbc.reshape(-1, 3)
        try:
            features: Tensor = _features_of(
                Structures(
                    positions.double(),
                    atomic_numbers,
                    ptr,
                    cell if cell is None else cell.double(),
                    pbc,
                    self._atomic_numbers,
                    *self._settings()[1:-1],
                )
            )
        except ValueError as error:
            raise FieldError(str(error)) from None
        return features.to(_DTYPES[self.dtype])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChebyshevDescriptor):
            return NotImplemented
        return self._settings() == other._settings()

    def __hash__(self) -> int:
        return hash(self._settings())

    def _settings(self) -> tuple[Any, ...]:
        return (
            self.species,
            self.rad_order,
            self.rad_cutoff,
            self.ang_order,
            self.ang_cutoff,
            self.min_cutoff,
            self.dtype,
        )

    def with_dtype(self, dtype: str) -> ChebyshevDescriptor:
        """Returns the same descriptor in another dtype, ``"float32"`` or ``"float64"``.

        Args:
            dtype: ``"float32"`` or ``"float64"``.

        Returns:
            The descriptor.
        """
        settings = (*self._settings()[:-1], dtype)
        return ChebyshevDescriptor(*settings)

    def __reduce__(self) -> tuple[type[ChebyshevDescriptor], tuple[Any, ...]]:
        return ChebyshevDescriptor, self._settings()

    def __repr__(self) -> str:
        species, *others, dtype = self._settings()
        return f"ChebyshevDescriptor({[*species]}, {', '.join(map(repr, others))}, dtype={dtype!r})"


def _labels(species: Sequence[str]) -> tuple[str, ...]:
    if isinstance(species, str) or not all(isinstance(label, str) for label in species):
        raise TypeError(f"species: expected a list of labels, got {species!r}")
    for label in species:
        utf8("species", label)
    labels = tuple(map(str, species))
    if not labels:
        raise ValueError("species: expected at least one label, got none")
    if len({label.lower() for label in labels}) < len(labels):
        raise ValueError(f"species: expected different labels, got {list(labels)}")
    return labels


def _order(name: str, value: int) -> int:
    order = checked_integer(name, value, 0)
    if order > _MAX_ORDER:
        raise ValueError(f"{name}: expected 0 to {_MAX_ORDER}, got {order}")
    return order


def _periodic(batch: MoleculeBatch) -> Tensor:
    """Periodic directions (B, 3) bool of each molecule."""
    shape = (len(batch), 3)
    if "cell" not in batch:
        return torch.zeros(shape, dtype=torch.bool)
    has_cell = batch.mask("cell").unsqueeze(1).expand(shape)
    if "pbc" not in batch:
        return has_cell.contiguous()
    pbc: Tensor = batch.pbc | ~batch.mask("pbc").unsqueeze(1)
    return has_cell & pbc


def _features_of(given: Structures) -> Tensor:
    operator = torch.ops.atompack_torch.chebyshev_features
    if not is_differentiated():
        return operator(*given)  # type: ignore[no-any-return]
    cell = None if given.cell is None else given.cell.detach()
    operator(*given._replace(positions=given.positions.detach(), cell=cell))  # its errors
    return features_by_torch(given)
