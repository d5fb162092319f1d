"""Building of feature caches ahead of training, whole or in parts."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from errno import ENOENT
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from atompack_torch._core import use_one_thread
from atompack_torch._native import CacheBuilder, EncodedEntries, encode_cache_entries
from atompack_torch.batch.collated_fields import first_rows
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import (
    AtompackError,
    CorruptFileError,
    FieldError,
    WriterLockedError,
    file_exists,
)
from atompack_torch.fields import DERIVATIVES, GEOMETRY, centers_of
from atompack_torch.formats.torch_cache.dataset import TorchCache
from atompack_torch.options import (
    absolute_path,
    check_choice,
    check_threads,
    checked_part,
    is_url,
    open_hint,
    part_range,
    redact_path,
    threads_or_cores,
)

_CONFIG = ("ang_cutoff", "ang_order", "min_cutoff", "rad_cutoff", "rad_order", "species")


class Descriptor(Protocol):
    """Interface of descriptors, such as ``ChebyshevDescriptor``.

    Two descriptors with equal ``compat`` have the same features; ``compute`` adds ``features`` and,
    if requested, the derivative fields to a batch.
    """

    @property
    def compat(self) -> Mapping[str, object]:
        """Settings, by their names in the format's compatibility JSON."""

    def compute(self, batch: MoleculeBatch, derivatives: bool = False) -> MoleculeBatch:
        """Returns the batch with ``features``, and derivatives if requested."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Options of ``build_cache``, which explains them."""

    features: bool
    force_derivatives: bool
    dtype: str
    num_threads: int | None
    progress: bool | OnProgress
    resume: bool

    def __post_init__(self) -> None:
        if not (self.features or self.force_derivatives):
            raise FieldError(
                "build_cache: expected features, force_derivatives or both, got neither"
            )
        check_choice("dtype", self.dtype, ("float32", "float64"))
        check_threads(self.num_threads)


class CacheHeader(NamedTuple):
    """Settings that a file states.

    Attributes:
        features: features are stored.
        force_derivatives: derivatives are stored.
        storage_dtype: dtype of both.
        n_features: columns of features.
        n_radial: radial ones of one species.
        n_angular: angular ones of one species.
        multi: the descriptor distinguishes species.
        compat_json: settings of the descriptor.
        compat_sha256: their digest.
        manifest: class of the descriptor, its configuration and the digest of that.
        source_id: where the molecules come from.
        source_kind: kind of this place.
    """

    features: bool
    force_derivatives: bool
    storage_dtype: str
    n_features: int
    n_radial: int
    n_angular: int
    multi: bool
    compat_json: str
    compat_sha256: str
    manifest: tuple[str, str, str]
    source_id: str
    source_kind: str


def header_of(
    descriptor: Descriptor, options: BuildOptions, source: tuple[str, str]
) -> CacheHeader:
    """Returns the settings that a file states.

    Args:
        descriptor: the descriptor.
        options: which sections are stored, and their dtype.
        source: where the molecules come from, and the kind of this place.

    Returns:
        The header.
    """
    compat: Mapping[str, Any] = descriptor.compat
    n_radial, n_angular = compat["rad_order"] + 1, compat["ang_order"] + 1
    n_features = (n_radial + n_angular) * (2 if compat["multi"] else 1)
    compat_json = canonical_json(compat)
    config = {
        **{key: compat[key] for key in _CONFIG},
        "device": "cpu",
        "dtype": options.dtype,
        "n_features": n_features,
    }
    config_json = canonical_json(config)
    return CacheHeader(
        features=options.features,
        force_derivatives=options.force_derivatives,
        storage_dtype=options.dtype,
        n_features=n_features,
        n_radial=n_radial,
        n_angular=n_angular,
        multi=compat["multi"],
        compat_json=compat_json,
        compat_sha256=_sha256(compat_json),
        manifest=(compat["descriptor_class"], config_json, _sha256(config_json)),
        source_id=source[0],
        source_kind=source[1],
    )


def canonical_json(value: Mapping[str, object]) -> str:
    """Encodes settings as JSON in the form of cache files: sorted keys, no spaces, ASCII."""
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def fingerprint_of(dataset: MoleculeDataset, descriptor: Descriptor, header: CacheHeader) -> str:
    """Returns a key of inputs and options.

    Args:
        dataset: the molecules.
        descriptor: computes the rows.
        header: settings of the file.

    Returns:
        A string, equal only if the work of an earlier build can be reused.
    """
    identity: Mapping[str, Any] = dataset.identity()
    selection = identity["selection"]
    facts = {
        "compat": header.compat_json,
        "descriptor": [type(descriptor).__qualname__, str(getattr(descriptor, "dtype", None))],
        "features": header.features,
        "force_derivatives": header.force_derivatives,
        "dtype": header.storage_dtype,
        **identity,
        "options": {
            name: _text_of(value)
            for name, value in identity["options"].items()
            if name not in ("access", "num_threads", "renamed")  # of reading only
        },
        "n_atoms": hashlib.sha256(np.asarray(dataset.n_atoms).tobytes()).hexdigest(),
        "selection": None
        if selection is None
        else hashlib.sha256(np.asarray(selection).tobytes()).hexdigest(),
    }
    return canonical_json(facts)


def _text_of(option: Any) -> str:
    """Returns a string that is equal in every process, unlike the repr of a function."""
    return f"{option.__module__}.{option.__qualname__}" if callable(option) else repr(option)


Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int, ahead: int
) -> Generator[Result, None, None]:
    """Calls ``function`` on threads and yields the results in the order of the items.

    An item is drawn only when fewer than ``ahead`` results are outstanding. Closing the generator
    cancels the calls that have not begun and waits for the others.

    Args:
        function: must be thread-safe; torch runs single-threaded inside of it.
        items: drawn on the caller's thread.
        n_threads: at least 1.
        ahead: results that are computed and not yet yielded, at least 1.

    Yields:
        Results, in the order of the items.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_threads, initializer=use_one_thread) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) == ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


# A thread computes one chunk per call: enough work for a call, little memory. Derivatives of an
# atom may take hundreds of kilobytes, so the first chunk is small and calibrates the others.
_FIRST_ATOMS = 128
_MOST_ATOMS = 4096
_MOST_MOLECULES = 256
_CHUNK_BYTES = 8 << 20

# Bytes written but not yet durable: lost in a system crash.
_CHECKPOINT_BYTES = 256 << 20


def build_cache(
    dataset: MoleculeDataset,
    descriptor: Descriptor,
    path: str | os.PathLike[str],
    *,
    features: bool = True,
    force_derivatives: bool = False,
    dtype: Literal["float32", "float64"] = "float64",
    num_threads: int | None = None,
    progress: bool | OnProgress = True,
    resume: bool = True,
) -> TorchCache:
    """Computes features of all molecules and writes them to an HDF5 file that aenet-python reads.

    Molecules are computed by several threads and written in order, in bounded memory. Every entry
    gets a row of features, those with forces a row of derivatives; an absent energy is NaN. The
    file appears under its name when it is complete. An interrupted build leaves two hidden files
    next to it, and resumes from them when it is called again with the same molecules, descriptor
    and options.

    If ``torch.distributed`` is initialized, all ranks must call this, and each computes a part.

    Args:
        dataset: the molecules; entry i of the file is ``dataset[i]``.
        descriptor: a ``ChebyshevDescriptor``, or an object with ``compat`` and ``compute``.
        path: path of the new file.
        features: store features.
        force_derivatives: also store local derivatives.
        dtype: dtype of the stored values.
        num_threads: number of chunks of molecules computed in parallel; None: one per core.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.
        resume: False: discard the files of an interrupted build.

    Returns:
        The new cache, open.

    Raises:
        FileExistsError: the path exists.
        OSError: the file cannot be written.
        WriterLockedError: another process is building this file.
        AtompackError: another rank failed.
        FieldError: nothing to store was requested, or the descriptor does not know an element.
        TypeError, ValueError: an option does not have one of its values, or the path is a URL.
    """
    if not isinstance(dataset, MoleculeDataset):
        got = f"{type(dataset).__name__}{open_hint(dataset)}"
        raise TypeError(f"dataset: expected a dataset of molecules, got {got}")
    if not hasattr(descriptor, "compat") or not hasattr(descriptor, "compute"):
        kind = type(descriptor).__name__
        raise TypeError(f"descriptor: expected one such as ChebyshevDescriptor(...), got {kind}")
    options = BuildOptions(
        features=features,
        force_derivatives=force_derivatives,
        dtype=dtype,
        num_threads=num_threads,
        progress=progress,
        resume=resume,
    )
    target = _target(path)
    if target.exists():
        raise file_exists(
            target, "remove it, or choose another path: nothing can be appended to a cache"
        )
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        part = distributed.get_rank(), distributed.get_world_size()
        if part[0] > 0:
            options = replace(options, progress=False)
        with _all_ranks():
            build_part(dataset, descriptor, target, part, options)
        if not target.exists():
            raise FileNotFoundError(ENOENT, "all ranks must see the same folder", str(target))
    else:
        BuildJob.of(dataset, descriptor, options, target).run()
    return TorchCache(target)


@contextmanager
def _all_ranks() -> Iterator[None]:
    """Makes a failure on one rank fail on all, which would otherwise wait forever."""
    failures: list[str | None] = [None] * torch.distributed.get_world_size()
    try:
        yield
    except Exception as error:
        torch.distributed.all_gather_object(failures, f"{type(error).__name__}: {error}")
        raise
    torch.distributed.all_gather_object(failures, None)
    for rank, failure in enumerate(failures):
        if failure is not None:
            raise AtompackError(f"build_cache: rank {rank} failed: {failure}")


def _target(path: str | os.PathLike[str]) -> Path:
    if is_url(path):
        raise ValueError("path: expected a local path, got a URL: build here, then upload the file")
    return Path(absolute_path(path))


@dataclass
class BuildJob:
    """Build of one file.

    Attributes:
        dataset: the molecules.
        descriptor: computes the rows.
        header: settings of the file.
        fingerprint: key of inputs and options.
        options: options of ``build_cache``.
        target: path of the new file.
    """

    dataset: MoleculeDataset
    descriptor: Descriptor
    header: CacheHeader
    fingerprint: str
    options: BuildOptions
    target: Path

    @classmethod
    def of(
        cls,
        dataset: MoleculeDataset,
        descriptor: Descriptor,
        options: BuildOptions,
        target: Path,
    ) -> BuildJob:
        """Returns a build that reads only what it needs."""
        request = dataset.request.with_geometry()  # else crystals would be computed as open
        exclude = tuple(name for name in request.exclude if name not in GEOMETRY)
        dataset = dataset.with_request(replace(request, exclude=exclude, augment=None))
        path = dataset.given_path
        # Without secrets, for the file may be given away.
        source = redact_path(path) if isinstance(path, (str, os.PathLike)) else ""
        header = header_of(descriptor, options, (source, "file"))
        fingerprint = fingerprint_of(dataset, descriptor, header)
        return cls(dataset, descriptor, header, fingerprint, options, target)

    def run(self) -> None:
        """Builds the whole file."""
        with self.open(self.target, self.options.resume) as builder:
            self.fill(builder, range(len(self.dataset)))
            builder.finish()
        self.sweep()

    def part(self, number: int, n_parts: int) -> CachePart:
        """Returns one of the parts, by its number from 0."""
        path = self.target.with_name(f"{self.target.name}.part{number}of{n_parts}")
        return CachePart(path, part_range((number, n_parts), len(self.dataset)))

    @contextmanager
    def open(self, path: Path, resume: bool, patience: float = 0.0) -> Iterator[CacheBuilder]:
        """Opens a builder and closes it at the end, even if a traceback still refers to it.

        Waits for other processes that have it open, up to ``patience`` seconds.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                builder = CacheBuilder(path, self.header, self.fingerprint, _CHECKPOINT_BYTES)
            except WriterLockedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE)
                continue
            if resume or not len(builder):
                break
            builder.discard()
            builder.close()
        try:
            yield builder
        except BaseException:
            if not len(builder):  # nothing to resume
                builder.discard()
            raise
        finally:
            builder.close()

    def fill(self, builder: CacheBuilder, entries: range) -> None:
        """Appends the missing ones of these entries; entries already built survive any failure."""
        threads = threads_or_cores(self.options.num_threads)
        with reporting(self.options.progress, len(entries), "build_cache") as report:
            report(len(builder))
            try:
                left = entries[len(builder) :]
                chunks = _Chunks(self.dataset.n_atoms[left.start : left.stop], left.start)
                ahead = 2 * threads if threads > 1 else 1
                with closing(ordered_map(self._encode, chunks, threads, ahead)) as made:
                    for chunk, encoded in made:
                        chunks.record(len(chunk), encoded.n_bytes)
                        builder.append(encoded)
                        report(len(chunk))
            except OSError:
                raise  # written data may be incomplete: keep the last checkpoint
            except BaseException:
                builder.checkpoint()
                raise
            builder.checkpoint()

    def join(self, parts: Sequence[CachePart], whole: CacheBuilder) -> None:
        """Moves all parts into the whole file, which may hold some of them, and completes it."""
        for path, entries in parts:
            if entries.stop <= len(whole):
                continue
            whole.absorb(path, self.fingerprint, max(len(whole) - entries.start, 0))
            if len(whole) != entries.stop:
                got = len(whole) - entries.start
                raise CorruptFileError(
                    f"{path}: expected {len(entries)} entries, got {got}: build this part again"
                )
        whole.finish()

    def sweep(self) -> None:
        """Removes parts left by an earlier build, or begun after all were joined."""
        for part in unfinished_parts(self.target):
            with suppress(WriterLockedError), self.open(part, resume=True) as builder:
                builder.discard()

    def _encode(self, chunk: range) -> tuple[range, EncodedEntries]:
        batch = self.dataset.batch(chunk)
        _check_whole(batch, len(chunk), "the dataset")
        made = self.descriptor.compute(batch, derivatives=self.header.force_derivatives)
        _check_whole(made, len(chunk), "compute()")
        return chunk, _encode(made, self.header)


def unfinished_parts(target: Path) -> list[Path]:
    """Lists the parts of a cache that have files.

    Args:
        target: path of the cache.

    Returns:
        Their paths, which are those of unfinished builds.
    """
    pattern = f".{glob.escape(target.name)}.part*of*[0-9].new"
    files = target.parent.glob(pattern)
    return [target.with_name(file.name[1 : -len(".new")]) for file in files]


class CachePart(NamedTuple):
    """The part of a build that one process computes.

    Attributes:
        path: path of the unfinished build of this part.
        entries: the entries in it.
    """

    path: Path
    entries: range


def _check_whole(batch: Any, n_molecules: int, source: str) -> None:
    if not isinstance(batch, MoleculeBatch):
        raise TypeError(f"{source}: expected a MoleculeBatch, got {type(batch).__name__}")
    if len(batch) != n_molecules:
        raise FieldError(f"{source}: expected a batch of {n_molecules} molecules, got {len(batch)}")


class _Chunks(Iterator[range]):
    """Ranges of at least one molecule, each of about ``_CHUNK_BYTES`` when encoded."""

    def __init__(self, n_atoms: Tensor, first: int) -> None:
        self._first = first
        self._ends = n_atoms.cumsum(0)
        self._taken = self._done = 0
        self._most = _FIRST_ATOMS

    def __next__(self) -> range:
        begin = self._taken
        if begin == len(self._ends):
            raise StopIteration
        end = int(torch.searchsorted(self._ends, self._atoms(begin) + self._most, right=True))
        self._taken = min(max(end, begin + 1), begin + _MOST_MOLECULES, len(self._ends))
        return range(self._first + begin, self._first + self._taken)

    def record(self, n_molecules: int, n_bytes: int) -> None:
        """Records the encoded size of the oldest chunk still unaccounted for."""
        n_atoms = self._atoms(self._done + n_molecules) - self._atoms(self._done)
        self._done += n_molecules
        self._most = min(_MOST_ATOMS, max(1, _CHUNK_BYTES * n_atoms // max(n_bytes, 1)))

    def _atoms(self, n_molecules: int) -> int:
        return int(self._ends[n_molecules - 1]) if n_molecules else 0


def _check_made(batch: MoleculeBatch, header: CacheHeader) -> None:
    """Rejects fields whose shapes contradict ``compat``."""
    for name, shape in _shapes(batch, header).items():
        expected = (torch.int64,) if name.endswith("_idx") else (torch.float32, torch.float64)
        value = batch[name]
        if tuple(value.shape) != shape or value.dtype not in expected:
            raise FieldError(
                f"compute: expected {expected[-1]} of shape {shape}, got {value.dtype} of "
                f"{tuple(value.shape)} (field {name!r})"
            )
        if name.endswith("_idx"):
            _check_atoms(batch, name)


def _shapes(batch: MoleculeBatch, header: CacheHeader) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    if header.features:
        shapes["features"] = (len(batch.positions), header.n_features)
    for name in DERIVATIVES if header.force_derivatives else ():
        rows = len(batch[centers_of(name)])
        if name.endswith("_idx"):
            shapes[name] = (rows,)
        elif not name.endswith("typespin"):
            n = header.n_radial if name.startswith("radial") else header.n_angular
            shapes[name] = (rows, n, 3)
        elif header.multi:
            shapes[name] = (rows,)
    return shapes


def _check_atoms(batch: MoleculeBatch, name: str) -> None:
    """Checks that rows are ordered by molecule and refer only to atoms of their own molecule."""
    atoms, centers = batch[name], batch[centers_of(name)]
    inside = bool(((atoms >= 0) & (atoms < len(batch.positions))).all())
    if not inside or not torch.equal(batch.batch[atoms], batch.batch[centers]):
        raise FieldError(f"compute: expected atoms of one molecule in a row (field {name!r})")
    if name == centers_of(name) and bool((batch.batch[atoms].diff() < 0).any()):
        raise FieldError(f"compute: expected rows molecule by molecule (field {name!r})")


def _encode(batch: MoleculeBatch, header: CacheHeader) -> EncodedEntries:
    """Encodes a batch, which must have all fields that the header declares."""
    _check_made(batch, header)
    derivatives = None
    if header.force_derivatives:
        columns = [_array(batch[name]) if name in batch else None for name in DERIVATIVES]
        centers = ("radial_center_idx", "angular_center_idx")
        edge_ptr, triplet_ptr = (_array(first_rows(batch, name)) for name in centers)
        derivatives = edge_ptr, triplet_ptr, columns
    return encode_cache_entries(
        (
            _array(batch.ptr),
            _array(batch.positions.double()),
            _array(batch.atomic_numbers),
            _label(batch, "energy", torch.float64),
            _label(batch, "forces", torch.float64),
            _label(batch, "cell", torch.float64),
            _label(batch, "pbc", torch.bool),
            list(batch["name"]) if "name" in batch else [],
            _array(batch.features) if header.features else None,
            derivatives,
            header.storage_dtype,
        )
    )


def _label(
    batch: MoleculeBatch, name: str, dtype: torch.dtype
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Returns the values of a label, and flags of the molecules that have one; None: none has."""
    if name not in batch:
        return None
    return _array(batch[name].to(dtype)), _array(batch.mask(name))


def _array(tensor: Tensor) -> NDArray[Any]:
    """Returns the values of a tensor as the native core reads them."""
    return np.ascontiguousarray(tensor.numpy(force=True))


_PATIENCE = 10.0  # seconds for which others may look at a part
_PAUSE = 0.2


def build_part(
    dataset: MoleculeDataset,
    descriptor: Descriptor,
    path: str | os.PathLike[str],
    part: tuple[int, int],
    options: BuildOptions,
) -> TorchCache | list[int]:
    """Builds one part of a cache; the process that completes the last one joins them.

    Parts are hidden files next to the path. They may be built in any order, in parallel and
    repeatedly: an interrupted part resumes, a complete one takes no time. Joining moves them into
    the new file, which equals one that was built by a single process and appears when it is
    complete; an interrupted join is resumed by any part that is built again.

    Args:
        dataset: all molecules of the cache.
        descriptor: as for ``build_cache``.
        path: path of the cache, on storage that all processes share.
        part: number of the part, from 0, and number of parts.
        options: options of ``build_cache``.

    Returns:
        The cache if it is complete; otherwise the numbers of the parts that are not.

    Raises:
        ValueError: there is no such part, or the path is a URL.
        WriterLockedError: another process is building this part.
        OSError: a file cannot be written.
    """
    number, n_parts = checked_part(part)
    target = _target(path)
    if target.exists() and not unfinished_parts(target):
        return TorchCache(target)
    job = BuildJob.of(dataset, descriptor, options, target)
    parts = [job.part(k, n_parts) for k in range(n_parts)]
    own, entries = parts[number]
    # An interrupted join may have moved the part into the new file already.
    if not target.exists() and entries.stop > _length(job, target):
        with job.open(own, options.resume, _PATIENCE) as builder:
            job.fill(builder, entries)
    missing = _join_if_complete(job, parts)
    return missing or TorchCache(target)


def _join_if_complete(job: BuildJob, parts: list[CachePart]) -> list[int]:
    """Joins the parts if all are complete; returns the numbers of those that are not.

    Of processes that end at the same time, each waits until it has looked by itself, so that the
    last one sees all parts.
    """
    while not job.target.exists():
        try:
            with job.open(job.target, resume=True) as whole:
                missing = _missing(job, parts, len(whole))
                if not missing:
                    job.join(parts, whole)
                elif not len(whole):
                    whole.discard()
        except WriterLockedError:  # another process looks, or joins
            time.sleep(_PAUSE)
            continue
        except FileExistsError:  # it has just joined
            break
        if missing:
            return missing
    job.sweep()
    return []


def _missing(job: BuildJob, parts: list[CachePart], n_joined: int) -> list[int]:
    """Returns the numbers of the parts that are neither complete nor joined."""
    wanted = [k for k, part in enumerate(parts) if part.entries.stop > n_joined and part.entries]
    absent = [k for k in wanted if not _is_there(parts[k].path)]
    return absent or [k for k in wanted if _length(job, parts[k].path) != len(parts[k].entries)]


def _is_there(path: Path) -> bool:
    """True if there is an unfinished build of a path."""
    return path.with_name(f".{path.name}.new").exists()


def _length(job: BuildJob, path: Path) -> int:
    """Counts the entries of an unfinished build; 0 if another process has it open."""
    if _is_there(path):
        with suppress(WriterLockedError), job.open(path, resume=True) as builder:
            return len(builder)
    return 0
