"""Verification of feature caches: reads all entries with all checks and recomputes their rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from atompack_torch._native import TorchCacheReader
from atompack_torch.batch.collated_fields import first_rows
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError
from atompack_torch.fields import DERIVATIVES, centers_of
from atompack_torch.formats.torch_cache.building import ordered_map
from atompack_torch.formats.torch_cache.dataset import TorchCache, TorchCacheDataset
from atompack_torch.formats.verification import Fault, Verification
from atompack_torch.ops.chebyshev import ChebyshevDescriptor
from atompack_torch.ops.contraction import contract_forces
from atompack_torch.options import check_threads, checked_integer, threads_or_cores

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

_BYTES_AT_ONCE = 32 << 20  # of stored and of computed rows, per thread, unless one entry is larger
_BYTES_OF_EDGE = 64  # during the neighbor search
_MOST_UNSTORED_BYTES = 1 << 30  # of features, which are always computed along with derivatives


@dataclass(frozen=True)
class Difference:
    """An entry whose stored rows differ from those recomputed from its molecule.

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

    def bytes(self, functions: ChebyshevDescriptor | TorchCacheReader) -> int:
        """Size of these rows in double precision, for the functions of a descriptor or a file."""
        of_edge = 16 + 8 * (3 * functions.n_radial + 1)
        of_triplet = 24 + 8 * (9 * functions.n_angular + 1)
        return self.edges * of_edge + self.triplets * of_triplet


def _stored_rows(reader: TorchCacheReader, entry: int) -> RowCounts | None:
    """Returns the numbers of rows that an entry stores; None if it stores none."""
    if not reader.has_force_derivatives:
        return None
    try:
        sizes = reader.derivative_sizes(entry)
    except AtompackError:  # reading the row will report it
        return RowCounts(0, 0)
    return None if sizes is None else RowCounts(*sizes)


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
        assert stored is not None, "a file with rows names its descriptor"
        self._path = cache._shown
        self._reader = cache._reader()
        self._descriptor = stored.with_dtype("float64")
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
                stored = _stored_rows(self._reader, entry)
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
            CorruptFileError: it stores far fewer rows than its molecule has, beyond the optional
                ones at a cutoff.
            UnsupportedFormatError: it has many atoms and a descriptor with many features, none of
                which are stored.
        """
        stored = _stored_rows(self._reader, entry)
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


_ENTRIES_AT_ONCE = 64

# Irregularities that readers tolerate, by number of entries.
_NO_FEATURES = "have no features, where others have"
_NO_DERIVATIVES = "have forces but no derivatives, where others have both"
_NO_FORCES = "have derivatives but no forces"
_NON_FINITE = "store NaN or infinite values"


def verify_cache(
    path: str | os.PathLike[str],
    *,
    recompute: bool = True,
    tolerance: float | None = None,
    max_faults: int = 100_000,
    num_threads: int | None = None,
    progress: bool | OnProgress = False,
) -> Verification:
    """Reads every entry of a cache file with all checks, and recomputes its rows.

    Attributes with their hashes, indexes, molecules, and every row with the range of its indices
    are checked against the format and each other. Then features and derivatives are computed from
    the molecules with the file's own descriptor. Features are compared number by number.
    Derivative rows may be in any order, and rows exactly at a cutoff are optional, so they are
    contracted with fixed weights and the resulting forces compared. Entries that differ are listed;
    those that the original library computes wrongly (atoms outside their cell in entries with
    forces, and atoms outside in a non-periodic direction) are marked as such.

    Entries are processed in order, by several threads, in memory independent of the file size.

    Args:
        path: path of the file, schema 2 or legacy 1, or without a cache.
        recompute: False: only read.
        tolerance: allowed difference, relative to the largest number of an entry or to 1, whichever
            is larger. None: 1e-9 for float64; 1e-4 for float32, and more where triplets are
            straight, whose gradients are lost in single precision.
        max_faults: list at most this many faults and this many differences; count the rest.
        num_threads: number of parts processed in parallel; None: one per core.
        progress: show a bar, or a function called with the number of entries done since the last
            call.

    Returns:
        What was found, with counts of all and the first ``max_faults`` of each kind.

    Raises:
        OSError: the file cannot be opened.
        TypeError, ValueError: an option does not have one of its values.
    """
    check_threads(num_threads)
    checked_integer("max_faults", max_faults, 0)
    opened = partial(TorchCache, path)
    return check_rows(
        opened, os.fspath(path), recompute, tolerance, max_faults, num_threads, progress
    )


def check_rows(
    opened: Callable[[], TorchCache],
    file: str,
    recompute: bool,
    tolerance: float | None,
    max_faults: int,
    num_threads: int | None,
    progress: bool | OnProgress,
) -> Verification:
    """Does what ``verify_cache`` does with a file that ``opened`` opens, or downloads."""
    counts = Counter(entries=0, feature_rows=0, derivative_rows=0, recomputed=0)
    result = Verification([file], counts, differences=[])
    try:
        cache = opened().without_mapping()
        again = _recomputation(cache, tolerance, result) if recompute else None
        examiner = _Examiner(cache, again)
    except AtompackError as error:
        result.add_fault(Fault(file, None, str(error)), max_faults)
        return result
    unusual: Counter[str] = Counter()
    threads = threads_or_cores(num_threads)
    with reporting(progress, len(cache), "verifying") as report:
        for found in ordered_map(examiner.examine, examiner.parts(), threads, 2 * threads):
            _add(found, result, max_faults)
            unusual += found.unusual
            report(found.counts["entries"])
    result.warnings += [f"{file}: {n} entries {what}" for what, n in sorted(unusual.items())]
    return result


def _recomputation(
    cache: TorchCache, tolerance: float | None, result: Verification
) -> Recomputation | None:
    if not (cache.has_features or cache.has_force_derivatives):
        return None
    try:
        return Recomputation(cache, tolerance)
    except UnsupportedFormatError as error:
        result.warnings.append(f"nothing is computed again: {error}")
        return None


@dataclass
class _Findings:
    """Findings in a part of the entries."""

    counts: Counter[str]
    faults: list[Fault] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    unusual: Counter[str] = field(default_factory=Counter)


def _add(found: _Findings, result: Verification, max_faults: int) -> None:
    assert result.differences is not None
    result.counts.update(found.counts)
    result.n_differences += len(found.differences)
    for fault in sorted(found.faults, key=lambda fault: fault.molecule or 0):
        result.add_fault(fault, max_faults)
    result.differences += found.differences[: max(0, max_faults - len(result.differences))]


class _Examiner:
    """Examines entries; thread-safe."""

    def __init__(self, cache: TorchCache, again: Recomputation | None) -> None:
        self._path = cache._shown
        self._reader = cache._reader()
        self._again = again
        self._dataset = TorchCacheDataset(cache, dtype=torch.float64, num_threads=1)
        self._n_atoms = self._dataset.n_atoms.tolist()
        self._atom_bytes = 96 + 8 * (self._reader.n_features if cache.has_features else 0)

    def parts(self) -> Iterator[range]:
        """Yields all entries in parts of bounded size."""
        first = n_bytes = 0
        for entry, n_atoms in enumerate(self._n_atoms):
            rows = _stored_rows(self._reader, entry)
            row_bytes = 0 if rows is None else rows.bytes(self._reader)
            more = self._atom_bytes * max(n_atoms, 0) + row_bytes
            is_full = entry - first == _ENTRIES_AT_ONCE or n_bytes + more > _BYTES_AT_ONCE
            if is_full and entry > first:
                yield range(first, entry)
                first, n_bytes = entry, 0
            n_bytes += more
        if first < len(self._n_atoms):
            yield range(first, len(self._n_atoms))

    def examine(self, part: range) -> _Findings:
        """Reads the entries, and recomputes them if requested."""
        findings = _Findings(Counter(entries=len(part)))
        sound = list(self._read(list(part), findings))
        if self._again is not None:
            for share in self._again.shares(sound):
                self._recompute(self._again, share, findings)
        return findings

    def _read(self, entries: list[int], findings: _Findings) -> Iterator[int]:
        """Yields the entries that can be read."""
        try:
            batch = self._dataset.batch(entries)
            self._survey(batch, findings)
        except AtompackError as error:
            if len(entries) == 1:
                findings.faults.append(Fault(self._path, entries[0], str(error)))
                return
            half = len(entries) // 2
            yield from self._read(entries[:half], findings)
            yield from self._read(entries[half:], findings)
            return
        yield from entries

    def _survey(self, batch: MoleculeBatch, findings: _Findings) -> None:
        forces = batch.mask("forces").numpy()
        claimed = np.array([self._reader.has_forces(entry) for entry in batch.index.tolist()], bool)
        for i in np.flatnonzero(forces != claimed):
            entry, words = int(batch.index[i]), ("none", "forces")
            message = (
                f"{self._path}: structure: expected {words[int(claimed[i])]} as /entries/meta "
                f"says, got {words[int(forces[i])]} (molecule {entry}, field 'forces')"
            )
            findings.faults.append(Fault(self._path, entry, message))
        if "features" in batch:
            rows = batch.mask("features").numpy()
            findings.counts["feature_rows"] += int(rows.sum())
            findings.unusual[_NO_FEATURES] += int((~rows).sum())
        if "radial_dG_drij" in batch:
            rows = batch.mask("radial_dG_drij").numpy()
            findings.counts["derivative_rows"] += int(rows.sum())
            findings.unusual[_NO_DERIVATIVES] += int((forces & ~rows).sum())
            findings.unusual[_NO_FORCES] += int((rows & ~forces).sum())
        findings.unusual[_NON_FINITE] += _n_non_finite(batch)
        findings.unusual = +findings.unusual  # drops zero counts

    def _recompute(self, again: Recomputation, entries: list[int], findings: _Findings) -> None:
        try:
            if len(entries) == 1:
                again.check_size(entries[0])
            found = list(again.compare(self._dataset.batch(entries)))
        except AtompackError as error:
            if len(entries) == 1:
                message = _with_entry(str(error), self._path, entries[0])
                findings.faults.append(Fault(self._path, entries[0], message))
                return
            for entry in entries:
                self._recompute(again, [entry], findings)
            return
        findings.counts["recomputed"] += len(entries)
        findings.differences += found


def _n_non_finite(batch: MoleculeBatch) -> int:
    """Number of entries with a non-finite value in any present row."""
    bad = np.zeros(len(batch), bool)
    for name in ("features", *DERIVATIVES):
        if name not in batch or not batch[name].is_floating_point():
            continue
        values = batch[name].numpy()
        rows = np.unique(np.nonzero(~np.isfinite(values))[0])
        begins = batch.ptr if name == "features" else first_rows(batch, centers_of(name))
        owners = np.searchsorted(begins.numpy(), rows, side="right") - 1
        present = batch.mask(name).numpy()
        bad[owners[present[owners]]] = True
    return int(bad.sum())


def _with_entry(message: str, path: str, entry: int) -> str:
    """Rewrites a message about a batch of one so that it names the entry."""
    if message.startswith(path):
        return message
    return f"{path}: {message.replace('molecule 0', f'molecule {entry}', 1)}"
