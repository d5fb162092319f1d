"""
Native collation of atompack_torch; use the package, not this module.
"""

from __future__ import annotations
import atompack_torch._formats
import collections.abc
import numpy
import numpy.typing
import os
import torch
import typing

class ResidentSource(atompack_torch._formats.MoleculeSource):
    def __init__(
        self,
        tables: tuple[
            collections.abc.Sequence[
                tuple[
                    str,
                    collections.abc.Sequence[
                        tuple[
                            int,
                            str,
                            tuple[str, int, str, bool],
                            collections.abc.Sequence[int] | None,
                        ]
                    ],
                ]
            ],
            collections.abc.Sequence[
                tuple[
                    int,
                    int,
                    str,
                    tuple[str, int, str, bool],
                    collections.abc.Sequence[int] | None,
                    int,
                ]
            ],
            collections.abc.Sequence[tuple[int, str, str, collections.abc.Sequence[int]]],
            str,
        ],
        memory: torch.Tensor,
        n_molecules: int,
    ) -> None: ...
    def tables(
        self,
    ) -> tuple[
        list[tuple[str, list[tuple[int, str, tuple[str, int, str, bool], list[int] | None]]]],
        list[tuple[int, int, str, tuple[str, int, str, bool], list[int] | None, int]],
        list[tuple[int, str, str, list[int]]],
        str,
    ]: ...

class ResidentBuilder:
    def __init__(
        self,
        source: atompack_torch._formats.MoleculeSource,
        numbers: collections.abc.Sequence[int],
        requests: collections.abc.Sequence[atompack_torch._formats.BatchRequest],
        path: str,
    ) -> None: ...
    def __len__(self) -> int: ...
    def bytes(self) -> int: ...
    def copy(self, first: int, last: int, memory: torch.Tensor) -> None: ...
    def measure(self, first: int, last: int) -> None: ...
    def source(self, memory: torch.Tensor) -> ResidentSource: ...

class PrecomputedEdges:
    def __init__(
        self,
        *,
        request: atompack_torch._formats.BatchRequest,
        edge_ptr: torch.Tensor,
        index: torch.Tensor,
        shift: torch.Tensor,
        vector: torch.Tensor | None,
        triplet_ptr: torch.Tensor | None,
        triplet_edges: torch.Tensor | None,
    ) -> None: ...

class FieldTable:
    def fields(self) -> list[typing.Any]: ...

class Batcher:
    def collate(
        self,
        indices: typing.Any,
        selection: torch.Tensor | None,
        shared: bool,
        molecules: typing.Any | None = None,
    ) -> tuple[typing.Any, ...]: ...

class Prefetcher:
    def __init__(self, batcher: Batcher, n_threads: int, max_ready: int, pinned: bool) -> None: ...
    def __len__(self) -> int: ...
    def submit(self, indices: typing.Any, selection: torch.Tensor | None) -> bool: ...
    def take(self, molecules: typing.Any | None = None) -> tuple[typing.Any, ...]: ...

class MoleculeBatcher(Batcher):
    def __init__(
        self,
        source: atompack_torch._formats.MoleculeSource,
        request: atompack_torch._formats.BatchRequest,
        edges: PrecomputedEdges | None = None,
    ) -> None: ...
    def collate_one(
        self, index: typing.Any, selection: torch.Tensor | None
    ) -> tuple[typing.Any, ...]: ...
    @property
    def request(self) -> atompack_torch._formats.BatchRequest: ...
    @property
    def source(self) -> atompack_torch._formats.MoleculeSource: ...
    @property
    def table(self) -> FieldTable: ...

class ColumnBatcher(Batcher):
    def __init__(
        self,
        store: atompack_torch._formats.AtlasReader,
        variables: collections.abc.Sequence[int],
        *,
        start: collections.abc.Sequence[int] | None,
        count: collections.abc.Sequence[int] | None,
        layout: str,
        dtype: str | None,
        max_threads: int,
        max_unstored_bytes: int | None,
        missing: str = "nan",
    ) -> None: ...

class ExampleBatcher(Batcher):
    def __init__(
        self,
        reader: atompack_torch._formats.ShardReader,
        *,
        jagged: bool,
        levels: collections.abc.Mapping[str, bool],
        max_threads: int,
    ) -> None: ...
    def levels(self) -> dict[str, bool]: ...

class Featurizer:
    def __init__(
        self,
        *,
        species: collections.abc.Sequence[str],
        atomic_numbers: collections.abc.Sequence[int],
        radial: tuple[int, float],
        angular: tuple[int, float],
        min_cutoff: float,
    ) -> None: ...
    def compute(
        self,
        structures: tuple[
            torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor
        ],
        derivatives: bool,
        dtype: torch.dtype,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]: ...
    @property
    def n_features(self) -> int: ...
    @property
    def typespin(self) -> list[float]: ...

class FarthestPoints:
    def __init__(self, points: torch.Tensor, first: int) -> None: ...
    def choose(self, n: int) -> None: ...
    def chosen(self) -> list[int]: ...

class NativeOrder:
    def __init__(
        self,
        n: int,
        n_left: int,
        n_right: int,
        keys: typing.Annotated[collections.abc.Sequence[int], "FixedSize(8)"],
    ) -> None: ...
    def at(
        self, positions: typing.Annotated[numpy.typing.ArrayLike, numpy.int64]
    ) -> numpy.typing.NDArray[numpy.int64]: ...
    def between(self, first: int, last: int) -> numpy.typing.NDArray[numpy.int64]: ...

class PickleReader:
    def __init__(self) -> None: ...
    def read(self, pickle: bytes) -> typing.Any: ...

class ShardFileWriter:
    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        shard_size: int,
        block_size: int,
        strategy: int | None,
        level: int,
        dictionary: float,
        n_threads: int,
        mode: str,
    ) -> None: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...
    def copy(
        self,
        reader: atompack_torch._formats.ShardReader,
        examples: numpy.ndarray[typing.Any, typing.Any],
    ) -> None: ...
    def discard(self) -> None: ...
    def write(self, example: typing.Any, tensors_as_arrays: bool) -> None: ...
    def write_pickled(self, pickle: bytes) -> None: ...
    @property
    def is_open(self) -> bool: ...

def attach_ring(address: tuple[int, int, int]) -> bool: ...
def common_dtype(dtypes: collections.abc.Sequence[torch.dtype]) -> torch.dtype | None: ...
def count_stored_rows(
    source: atompack_torch._formats.MoleculeSource, numbers: numpy.ndarray[typing.Any, typing.Any]
) -> torch.Tensor: ...
def make_outputs(
    request: atompack_torch._formats.BatchRequest,
    tensors: tuple[
        torch.Tensor,
        torch.Tensor,
        torch.Tensor,
        torch.Tensor | None,
        torch.Tensor | None,
        torch.Tensor | None,
        torch.Tensor | None,
    ],
    fields: collections.abc.Sequence[
        tuple[str, collections.abc.Sequence[int], torch.Tensor | None, torch.Tensor | None] | None
    ],
) -> list[torch.Tensor]: ...
def pack_tensors(
    tensors: collections.abc.Sequence[torch.Tensor],
) -> tuple[torch.Tensor, list[torch.Tensor]]: ...
def parallel_thread_ids() -> list[int]: ...
def places_of(
    tensors: collections.abc.Sequence[torch.Tensor], arena: torch.Tensor
) -> list[tuple[torch.dtype, int, list[int]] | None]: ...
def read_example(reader: atompack_torch._formats.ShardReader, example: int) -> typing.Any: ...
def read_held(
    store: atompack_torch._formats.AtlasReader, dataset: str, array: str
) -> typing.Any: ...
def receive_tensors(
    message: bytes, outside: list[typing.Any] = [], arena: torch.Tensor | None = None
) -> tuple[typing.Any, ...]: ...
def resolve_index(
    index: typing.Any, size: int, selection: torch.Tensor | None, item: str
) -> int: ...
def resolve_indices(
    indices: typing.Any, size: int, selection: torch.Tensor | None, item: str
) -> typing.Any: ...
def ring_to_attach() -> tuple[int, int, int] | None: ...
def scan_columns(
    store: atompack_torch._formats.AtlasReader,
    variables: collections.abc.Sequence[int],
    datasets: typing.Any,
    names: collections.abc.Sequence[str] | None,
    *,
    start: collections.abc.Sequence[int] | None,
    count: collections.abc.Sequence[int] | None,
    layout: str,
    dtype: str | None,
    max_threads: int,
    max_unstored_bytes: int | None,
) -> tuple[typing.Any, ...]: ...
def send_tensors(
    arena: torch.Tensor, tensors: collections.abc.Sequence[torch.Tensor]
) -> tuple[typing.Any, ...]: ...
def use_one_thread() -> None: ...
def view_arena(
    arena: torch.Tensor,
    places: collections.abc.Sequence[tuple[torch.dtype, int, collections.abc.Sequence[int]]],
) -> list[torch.Tensor]: ...
