"""Stored features and derivatives held against those that their structures give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.torch_cache import TorchCache, TorchCacheDataset
from atompack_torch.descriptors.chebyshev import ChebyshevDescriptor
from atompack_torch.descriptors.contraction import contract_forces
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError

Array = np.ndarray[Any, Any]
Field = Literal["features", "force_derivatives"]
Cause = Literal["unwrapped", "open_axis"]

# Of single precision too: the original has not only stored such files in it but computed them.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}

# Fractional coordinates that are this near to the border of the cell may be rounded to beyond it.
_BORDER = {"float64": 1e-9, "float32": 1e-6}

# The original's single precision loses the angle of such triplets, and their gradients with it.
_STRAIGHT = 1e-3  # rad
_STRAIGHT_ERROR = 2e-3  # of one triplet, in the derivative of a function times its weight

_BYTES_AT_ONCE = 32 << 20  # of what is computed, by each thread
_BYTES_OF_EDGE = 64  # while neighbors are searched
_MOST_UNSTORED_BYTES = 1 << 30  # of features that come with derivatives, whether wanted or not


@dataclass(frozen=True)
class Difference:
    """An entry whose stored rows are not those of its structure.

    Attributes:
        entry: its number.
        field: ``"features"`` or ``"force_derivatives"``; of derivatives, forces are compared.
        largest: the largest difference of any two numbers; infinite where one of them is no number.
        allowed: the difference that would have passed.
        cause: ``"unwrapped"`` if an atom lies outside of its cell (or so near to the border that
            rounding decides) and the entry has forces, ``"open_axis"`` if it lies outside in a
            direction that is not periodic: the original computes wrong rows then. None: not known.
        message: all of it in words, with the file.
    """

    entry: int
    field: Field
    largest: float
    allowed: float
    cause: Cause | None
    message: str


_CAUSES = {
    None: "",
    "unwrapped": ": spoiled by the original, which gets atoms outside of their cell wrong where "
    "there are forces",
    "open_axis": ": spoiled by the original, which moves atoms back into the cell where it is open",
}


class RowCounts(NamedTuple):
    """Rows of derivatives of one entry."""

    edges: int
    triplets: int

    def bytes(self, descriptor: ChebyshevDescriptor) -> int:
        """Of these rows in double precision."""
        of_edge = 16 + 8 * (3 * descriptor.n_radial + 1)
        of_triplet = 24 + 8 * (9 * descriptor.n_angular + 1)
        return self.edges * of_edge + self.triplets * of_triplet


class Recomputation:
    """Computes the rows of a cache file again, by the descriptor that it names.

    Thread-safe. ``tolerance``: differences that pass, in parts of the largest number of an entry,
    or of 1 if that is more; None: by the precision of the file.
    """

    def __init__(self, cache: TorchCache, tolerance: float | None) -> None:
        stored = cache.descriptor
        if stored is None:
            raise AssertionError("a file with rows names its descriptor")
        self._path = cache.path
        self._reader = cache._reader()
        self._descriptor = stored._of_dtype("float64")
        self._precision = _precision(cache, stored)
        self._tolerance = TOLERANCES[self._precision] if tolerance is None else tolerance
        cutoff = max(stored.rad_cutoff, stored.ang_cutoff)
        self._edges = TorchCacheDataset(
            cache, fields=[], neighbors=NeighborList(cutoff, vectors=True)
        )

    def shares(self, entries: Sequence[int]) -> Iterator[list[int]]:
        """Entries with rows that may be computed at once, those with derivatives by themselves."""
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
        except AtompackError:  # reading the row will tell
            return RowCounts(0, 0)
        return None if sizes is None else RowCounts(*sizes)

    def _count(self, entry: int, stored: RowCounts | None) -> int:
        """Bytes that computing takes; as good as endless if they cannot be told."""
        try:
            found = self._rows_of(entry)
        except AtompackError:  # so it is looked at alone, and its error is that of no other
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
        """Whether what is computed of an entry is no more than a file of its size justifies.

        Raises:
            CorruptFileError: it stores far fewer rows than its structure has; those at a cutoff
                may be there or not.
            UnsupportedFormatError: it has many atoms, and a descriptor of many features, of which
                none are stored.
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
        """What differs in a batch of entries of one share, all floating fields in float64.

        Raises:
            FieldError: an entry that the descriptor cannot compute.
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
        """What triplets that are nearly straight add: errors of any sign, on one atom."""
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
    """The lower one, where descriptor, attribute and columns do not say the same."""
    specs = TorchCacheDataset(cache).schema
    held = [spec for name, spec in specs.items() if name == "features" or spec.level != "molecule"]
    single = any(spec.dtype == torch.float32 for spec in held)
    single |= "float32" in (stored.dtype, cache.info.get("storage_dtype"))
    return "float32" if single else "float64"


def _weights(batch: MoleculeBatch, n_features: int) -> torch.Tensor:
    """Some energy's derivatives by the features: of no symmetry, the same for an entry always."""
    atoms = np.arange(len(batch.positions)) - batch.ptr.numpy()[batch.batch.numpy()]
    return torch.from_numpy(np.sin(0.5 + 0.37 * atoms[:, None] + 0.11 * np.arange(n_features)))
