import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from atompack_torch._formats import (
    AtlasReader,
    BatchRequest,
    MoleculeSource,
    ShardReader,
)

# Integers and what stands for one; refused where it is something else.
_Index = object
_Indices = Sequence[int] | Sequence[bool] | Tensor | np.ndarray[Any, Any]
_Made = tuple[Tensor, FieldTable, list[Any], Tensor, list[tuple[int, str]]]
_RingAddress = tuple[int, int, int]
_RingTicket = tuple[_RingAddress, int, int]
_MadeExamples = tuple[Tensor | None, Any, list[int] | None]
_Heads = list[tuple[int, str, Literal["molecule", "atom", "edge", "triplet"]]]
_MakeMolecules = Callable[[Tensor, _Heads, list[Any], Tensor], Any]
_Nested = Any  # str, bytes or lists of them in lists
_ScannedColumn = tuple[Tensor | list[Tensor | None] | list[_Nested], Tensor | None, Tensor]
_Columns = tuple[Tensor, list[_ScannedColumn], list[str]]
_Batch = TypeVar("_Batch")  # the form in which a kind of batch is handed over

def resolve_indices(
    indices: _Indices, size: int, selection: Tensor | None, item: str
) -> Tensor: ...
def resolve_index(index: _Index, size: int, selection: Tensor | None, item: str) -> int: ...

class FieldTable:
    described: Any
    def fields(self) -> _Heads: ...

class Batcher(Generic[_Batch]):
    def collate(
        self,
        indices: _Indices,
        selection: Tensor | None,
        shared: bool,
        molecules: _MakeMolecules | None = None,
    ) -> _Batch: ...

class ResidentSource(MoleculeSource):
    def __init__(self, tables: tuple[Any, ...], memory: Tensor, n_molecules: int) -> None: ...
    def tables(self) -> tuple[Any, ...]: ...

class ResidentBuilder:
    def __init__(
        self,
        source: MoleculeSource,
        numbers: Sequence[int],
        requests: Sequence[BatchRequest],
        path: str,
    ) -> None: ...
    def __len__(self) -> int: ...
    def measure(self, first: int, last: int) -> None: ...
    def bytes(self) -> int: ...
    def copy(self, first: int, last: int, memory: Tensor) -> None: ...
    def source(self, memory: Tensor) -> ResidentSource: ...

class PrecomputedEdges:
    def __init__(
        self,
        *,
        request: BatchRequest,
        edge_ptr: Tensor,
        index: Tensor,
        shift: Tensor,
        vector: Tensor | None,
        triplet_ptr: Tensor | None,
        triplet_edges: Tensor | None,
    ) -> None: ...

def count_stored_rows(source: MoleculeSource, numbers: Sequence[int]) -> Tensor: ...

class MoleculeBatcher(Batcher[_Made]):
    def __init__(
        self, source: MoleculeSource, request: BatchRequest, edges: PrecomputedEdges | None = None
    ) -> None: ...
    @property
    def request(self) -> BatchRequest: ...
    @property
    def table(self) -> FieldTable: ...
    @property
    def source(self) -> MoleculeSource: ...
    def collate_one(self, index: _Index, selection: Tensor | None) -> _Made: ...

class ColumnBatcher(Batcher[_Columns]):
    def __init__(
        self,
        store: AtlasReader,
        variables: Sequence[int],
        *,
        start: Sequence[int] | None,
        count: Sequence[int] | None,
        layout: str,
        dtype: str | None,
        max_threads: int,
        max_unstored_bytes: int | None,
        missing: Literal["nan", "error", "drop"] = "nan",
    ) -> None: ...

class ExampleBatcher(Batcher[_MadeExamples]):
    def __init__(
        self,
        reader: ShardReader,
        *,
        jagged: bool,
        levels: Mapping[str, bool],
        max_threads: int,
    ) -> None: ...
    def levels(self) -> dict[str, bool]: ...

class Prefetcher(Generic[_Batch]):
    def __init__(
        self, batcher: Batcher[_Batch], n_threads: int, max_ready: int, pinned: bool
    ) -> None: ...
    def submit(self, indices: _Indices, selection: Tensor | None) -> bool: ...
    def take(self, molecules: _MakeMolecules | None = None) -> _Batch: ...
    def __len__(self) -> int: ...

def scan_columns(
    store: AtlasReader,
    variables: Sequence[int],
    datasets: _Indices | None,
    names: Sequence[str] | None,
    *,
    start: Sequence[int] | None,
    count: Sequence[int] | None,
    layout: str,
    dtype: str | None,
    max_threads: int,
    max_unstored_bytes: int | None,
) -> _Columns: ...
def read_held(store: AtlasReader, dataset: str, array: str) -> Tensor | None: ...

class PickleReader:
    def __init__(self) -> None: ...
    def read(self, pickle: bytes) -> Any: ...

class Featurizer:
    def __init__(
        self,
        *,
        species: Sequence[str],
        atomic_numbers: Sequence[int],
        radial: tuple[int, float],
        angular: tuple[int, float],
        min_cutoff: float,
    ) -> None: ...
    @property
    def n_features(self) -> int: ...
    @property
    def typespin(self) -> list[float]: ...
    def compute(
        self,
        structures: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor],
        derivatives: bool,
        dtype: torch.dtype,
    ) -> tuple[Tensor, list[Tensor]]: ...

def make_outputs(
    request: BatchRequest,
    tensors: tuple[Tensor | None, ...],
    fields: Sequence[tuple[str, Sequence[int], Tensor | None, Tensor | None] | None],
) -> list[Tensor]: ...
def common_dtype(dtypes: Sequence[torch.dtype]) -> torch.dtype | None: ...
def pack_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]: ...
def ring_to_attach() -> _RingAddress | None: ...
def attach_ring(address: _RingAddress) -> bool: ...
def send_arena(arena: Tensor) -> _RingTicket | None: ...
def receive_arena(ticket: _RingTicket, bytes: int) -> Tensor: ...
def view_arena(
    arena: Tensor, places: Sequence[tuple[torch.dtype, int, Sequence[int]]]
) -> list[Tensor]: ...
def parallel_thread_ids() -> list[int]: ...

class CacheHeader:
    features: bool
    force_derivatives: bool
    storage_dtype: str
    n_features: int
    n_radial: int
    n_angular: int
    multi: bool
    compat_json: str
    compat_sha256: str
    source_id: str
    source_kind: str
    def set_manifest(self, descriptor_class: str, config_json: str, config_sha256: str) -> None: ...

class EncodedEntries:
    @property
    def n_bytes(self) -> int: ...

def encode_cache_entries(
    columns: Mapping[str, Tensor | None],
    names: Sequence[str | None],
    symbols: Sequence[str],
    header: CacheHeader,
) -> EncodedEntries: ...

class CacheBuilder:
    def __init__(
        self,
        path: str | os.PathLike[str],
        header: CacheHeader,
        fingerprint: str,
        checkpoint_bytes: int,
    ) -> None: ...
    def __len__(self) -> int: ...
    def append(self, entries: EncodedEntries) -> None: ...
    def absorb(self, part: str | os.PathLike[str], fingerprint: str, n_known: int = 0) -> None: ...
    def checkpoint(self) -> None: ...
    def finish(self) -> None: ...
    def discard(self) -> None: ...
    def close(self) -> None: ...

class ShardFileWriter:
    def __init__(
        self,
        root: str,
        *,
        shard_size: int,
        block_size: int,
        strategy: int | None,
        level: int,
        dictionary: float,
        n_threads: int,
        tensors_as_arrays: bool,
        mode: Literal["x", "w", "a"],
    ) -> None: ...
    def write(self, example: object) -> None: ...
    def write_pickled(self, pickle: bytes) -> None: ...
    def copy(self, reader: ShardReader, examples: list[int]) -> None: ...
    def close(self) -> None: ...
    def discard(self) -> None: ...
    @property
    def is_open(self) -> bool: ...
    def __len__(self) -> int: ...

def read_example(reader: ShardReader, example: int) -> Any: ...
def use_one_thread() -> None: ...
