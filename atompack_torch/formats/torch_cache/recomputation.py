"""Comparison of stored features and derivatives with recomputed ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.torch_cache.dataset import TorchCache, TorchCacheDataset
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.ops.contraction import contract_forces

Array = np.ndarray[Any, Any]
Field = Literal["features", "force_derivatives"]
Cause = Literal["unwrapped", "open_axis"]

# Default for float32 files: the original library also computed in single precision.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}

# Fractional coordinates this close to the cell boundary may be rounded across it.
_BORDER = {"float64": 1e-9, "float32": 1e-6}

# In the original's single precision, such triplets lose their angle, hence their gradients.
_STRAIGHT = 1e-3  # rad
_STRAIGHT_ERROR = 2e-3  # per triplet, in a weighted derivative of a function

_BYTES_AT_ONCE = 32 << 20  # of computed rows, per thread
_BYTES_OF_EDGE = 64  # during the neighbor search
_MOST_UNSTORED_BYTES = 1 << 30  # of features, which are always computed along with derivatives


@dataclass(frozen=True)
class Difference:
    """An entry whose stored rows differ from those recomputed from its structure.

    Attributes:
        entry: index of the entry.
        field: ``"features"`` or ``"force_derivatives"``; derivatives are compared as forces.
        largest: the largest difference of any two numbers; infinite where one of them is NaN.
        allowed: the difference that would have been accepted.
        cause: ``"unwrapped"`` if an atom is outside its cell (or so close to the boundary that
            rounding decides) and the entry has forces, ``"open_axis"`` if it is outside in a
            non-periodic direction: the original library computes wrong rows in both cases. None:
            unknown.
        message: readable description, including the file.
    """

    entry: int
    field: Field
    largest: float
    allowed: float
    cause: Cause | None
    message: str


_CAUSES = {
    None: "",
    "unwrapped": ": computed wrongly by the original, which does not support atoms outside "
    "of their cell where there are forces",
    "open_axis": ": computed wrongly by the original, which moves atoms back into the cell "
    "where it is open",
}


class RowCounts(NamedTuple):
    """Numbers of derivative rows of one entry."""

    edges: int
    triplets: int

    def bytes(self, descriptor: ChebyshevDescriptor) -> int:
        """Size of these rows in double precision."""
        of_edge = 16 + 8 * (3 * descriptor.n_radial + 1)
        of_triplet = 24 + 8 * (9 * descriptor.n_angular + 1)
        return self.edges * of_edge + self.triplets * of_triplet


class Recomputation:
    """Recomputes the rows of a cache file with the descriptor that it names.

    Thread-safe.

    Args:
        cache: the file.
        tolerance: allowed difference, relative to the largest number of an entry or to 1, whichever
            is larger; None: chosen by the precision of the file.
    """

    def __init__(self, cache: TorchCache, tolerance: float | None) -> None:
        stored = cache.descriptor
        if stored is None:
            raise AssertionError("a file with rows names its descriptor")
        self._path = str(cache.path)
        self._reader = cache._reader()
        self._descriptor = stored._of_dtype("float64")
        self._precision = _precision(cache, stored)
        self._tolerance = TOLERANCES[self._precision] if tolerance is None else tolerance
        cutoff = max(stored.rad_cutoff, stored.ang_cutoff)
        self._edges = TorchCacheDataset(
            cache, fields=[], neighbors=NeighborList(cutoff, vectors=True)
        )

    def shares(self, entries: Sequence[int]) -> Iterator[list[int]]:
        """Groups entries that may be computed together; those with derivatives are kept apart."""
        for with_rows in (False, True) if self._reader.has_features else (True,):
            share: list[int] = []
            n_bytes = 0
            for entry in entries:
                stored = self._stored(entry)
                if (stored is not None) != with_rows:
                    continue
                found = self._count(entry, stored)
                if n_bytes and n_bytes + found > _BYTES_AT_ONCE:
                    yield share
                    share, n_bytes = [], 0
                share.append(entry)
                n_bytes += found
            if share:
                yield share

    def _stored(self, entry: int) -> RowCounts | None:
        if not self._reader.has_force_derivatives:
            return None
        try:
            sizes = self._reader.derivative_sizes(entry)
        except AtompackError:  # reading the row will report it
            return RowCounts(0, 0)
        return None if sizes is None else RowCounts(*sizes)

    def _count(self, entry: int, stored: RowCounts | None) -> int:
        """Estimates the bytes that computing takes; effectively infinite if unknown."""
        try:
            found = self._rows_of(entry)
        except AtompackError:  # so it is processed alone, and its error affects no other entry
            return _BYTES_AT_ONCE
        rows = 0 if stored is None else found.bytes(self._descriptor)
        return _BYTES_OF_EDGE * found.edges + self._feature_bytes(entry) + rows

    def _feature_bytes(self, entry: int) -> int:
        return 8 * self._descriptor.n_features * self._reader.n_atoms(entry)

    def _rows_of(self, entry: int) -> RowCounts:
        edges = self._edges.batch([entry])
        distances = np.linalg.norm(edges.edge_vector.numpy(), axis=1)
        near = distances > self._descriptor.min_cutoff
        angular = near & (distances <= self._descriptor.ang_cutoff)
        n = np.bincount(edges.edge_index[0].numpy()[angular])
        return RowCounts(int(near.sum()), int((n * (n - 1) // 2).sum()))

    def check_size(self, entry: int) -> None:
        """Checks that recomputing an entry takes no more memory than its stored rows justify.

        Args:
            entry: number of the entry.

        Raises:
            CorruptFileError: it stores far fewer rows than its structure has, beyond the optional
                ones at a cutoff.
            UnsupportedFormatError: it has many atoms and a descriptor with many features, none of
                which are stored.
        """
        stored = self._stored(entry)
        if stored is None:
            return
        if not self._reader.has_features and self._feature_bytes(entry) > _MOST_UNSTORED_BYTES:
            raise UnsupportedFormatError(
                f"{self._path}: features: expected at most {_MOST_UNSTORED_BYTES} bytes to compute "
                f"of an entry that stores none, got {self._feature_bytes(entry)} (molecule {entry})"
            )
        found = self._rows_of(entry)
        most = max(_BYTES_AT_ONCE, 2 * stored.bytes(self._descriptor))
        if found.bytes(self._descriptor) > most:
            raise CorruptFileError(
                f"{self._path}: force_derivatives: expected about {found.edges} edges and "
                f"{found.triplets} triplets, got {stored.edges} and {stored.triplets} "
                f"(molecule {entry}, field 'force_derivatives')"
            )

    def compare(self, batch: MoleculeBatch) -> Iterator[Difference]:
        """Yields the differences in a batch.

        Args:
            batch: entries of one share, all floating fields in float64.

        Yields:
            Rows that differ by more than the tolerance, in order of the entries.

        Raises:
            FieldError: the descriptor cannot compute an entry.
        """
        has_rows = "radial_dG_drij" in batch and bool(batch.mask("radial_dG_drij").any())
        made = self._descriptor.compute(batch, derivatives=has_rows)
        if "features" in batch:
            pairs = (batch.features.numpy(), made.features.numpy())
            for i in np.flatnonzero(batch.mask("features").numpy()).tolist():
                yield from self._difference(batch, i, "features", pairs, None)
        if has_rows:
            weights = _weights(batch, self._descriptor.n_features)
            pairs = (
                contract_forces(batch, weights).numpy(),
                contract_forces(made, weights).numpy(),
            )
            for i in np.flatnonzero(batch.mask("radial_dG_drij").numpy()).tolist():
                yield from self._difference(batch, i, "force_derivatives", pairs, made)

    def _difference(
        self,
        batch: MoleculeBatch,
        i: int,
        field: Field,
        pairs: tuple[Array, Array],
        rows: MoleculeBatch | None,
    ) -> Iterator[Difference]:
        first, last = batch.ptr[i : i + 2].tolist()
        if first == last:
            return
        stored, expected = (values[first:last] for values in pairs)
        with np.errstate(invalid="ignore"):
            largest = float(np.abs(stored - expected).max(initial=0.0))
        allowed = self._tolerance * max(1.0, float(np.abs(expected).max(initial=0.0)))
        if not largest <= allowed and rows is not None and self._precision == "float32":
            allowed += self._straight_error(rows, first, last)
        if largest <= allowed:
            return
        entry, cause = int(batch.index[i]), self._cause(batch, i)
        yield Difference(
            entry,
            field,
            largest if np.isfinite(largest) else float("inf"),
            allowed,
            cause,
            f"{self._path}: {field}: expected what the structure gives within {allowed:.1e}, "
            f"got a difference of {largest:.3g} (molecule {entry}, field {field!r})"
            f"{_CAUSES[cause]}",
        )

    def _straight_error(self, rows: MoleculeBatch, first: int, last: int) -> float:
        """Estimates the error from nearly straight triplets: errors of any sign, on one atom."""
        centers = rows.angular_center_idx.numpy()
        of_entry = (centers >= first) & (centers < last)
        # Gradients of the function of order 0 point along the legs.
        leg_j, leg_k = (rows[f"angular_grads_{x}"].numpy()[of_entry, 0] for x in "jk")
        lengths = np.linalg.norm(leg_j, axis=1) * np.linalg.norm(leg_k, axis=1)
        sines = np.linalg.norm(np.cross(leg_j, leg_k), axis=1)
        straight = (sines < _STRAIGHT * lengths) & (lengths > 0)
        touched = np.concatenate(
            [
                rows[name].numpy()[of_entry][straight] - first
                for name in (
                    "angular_center_idx",
                    "angular_neighbor_j_idx",
                    "angular_neighbor_k_idx",
                )
            ]
        )
        most = int(np.bincount(touched).max(initial=0))
        heaviest = max(map(abs, self._descriptor.typespin)) if self._descriptor.multi else 0.0
        return _STRAIGHT_ERROR * (1.0 + heaviest**2) * float(np.sqrt(most))

    def _cause(self, batch: MoleculeBatch, i: int) -> Cause | None:
        if "cell" not in batch or not batch.mask("cell")[i]:
            return None
        first, last = batch.ptr[i : i + 2].tolist()
        try:
            inverse = np.linalg.inv(batch.cell[i].numpy())
        except np.linalg.LinAlgError:
            return None
        places = batch.positions[first:last].numpy() @ inverse
        border = _BORDER[self._precision]
        if batch.mask("forces")[i] and bool(((places < border) | (places > 1 - border)).any()):
            return "unwrapped"
        beyond = ((places < -border) | (places > 1 + border)).any(0)
        return "open_axis" if bool((beyond & ~batch.pbc[i].numpy()).any()) else None


def _precision(cache: TorchCache, stored: ChebyshevDescriptor) -> str:
    """Returns the lowest precision among those of descriptor, attribute and columns."""
    specs = TorchCacheDataset(cache).schema
    held = [spec for name, spec in specs.items() if name == "features" or spec.level != "molecule"]
    single = any(spec.dtype == torch.float32 for spec in held)
    single |= "float32" in (stored.dtype, cache.info.get("storage_dtype"))
    return "float32" if single else "float64"


def _weights(batch: MoleculeBatch, n_features: int) -> torch.Tensor:
    """Derivatives of an arbitrary energy by the features: asymmetric, deterministic per entry."""
    atoms = np.arange(len(batch.positions)) - batch.ptr.numpy()[batch.batch.numpy()]
    return torch.from_numpy(np.sin(0.5 + 0.37 * atoms[:, None] + 0.11 * np.arange(n_features)))
