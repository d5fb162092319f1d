from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

class AtpSnapshot:
    @staticmethod
    def take(path: str) -> AtpSnapshot: ...
    @property
    def generation(self) -> int: ...
    @property
    def n_molecules(self) -> int: ...
    @property
    def codec(self) -> str: ...
    @property
    def level(self) -> int: ...
    @property
    def record_format(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def committed_bytes(self) -> int: ...
    def __getstate__(self) -> tuple[int, ...]: ...

_Declared = tuple[int, str, Literal["molecule", "atom"], str, tuple[int, ...] | None]

class MoleculeSource:
    def __len__(self) -> int: ...
    def schemas(self) -> list[tuple[str, list[_Declared]]]: ...

class AtpReader(MoleculeSource):
    def __init__(self, path: str, snapshot: AtpSnapshot, access: str, populate: bool) -> None: ...

class ConcatSource(MoleculeSource):
    def __init__(self, parts: Sequence[MoleculeSource]) -> None: ...

class FieldTable:
    described: Any
    def fields(self) -> list[tuple[int, str, Literal["molecule", "atom"]]]: ...

_Made = tuple[Tensor, FieldTable, list[Any], Tensor, list[tuple[int, str]]]

class Collator:
    def __init__(
        self,
        source: MoleculeSource,
        *,
        fields: Sequence[tuple[int, str]] | None,
        excluded: Sequence[tuple[int, str]],
        defaults: Sequence[tuple[int, str, str, str, Sequence[int]]],
        floating: str | None,
        casts: Sequence[tuple[tuple[int, str], str]],
        missing: str,
        max_threads: int,
    ) -> None: ...
    @property
    def table(self) -> FieldTable: ...
    @property
    def source(self) -> MoleculeSource: ...
    def collate(self, indices: Sequence[int], selection: Tensor | None, shared: bool) -> _Made: ...
    def collate_one(self, index: int, selection: Tensor | None) -> _Made: ...

_Array = np.ndarray[Any, Any]
_ExtxyzLevel = Literal["molecule", "atom"]
_ExtxyzKind = Literal["flag", "integer", "real", "text"]
# One array over the block; or one entry a frame: an array, str, list of str, None where absent.
_ExtxyzValues = _Array | list[Any]

class ExtxyzReader:
    def __init__(self, path: str) -> None: ...
    def widen(self, level: _ExtxyzLevel, key: str, kind: _ExtxyzKind) -> None: ...
    def next_block(
        self, max_frames: int, max_bytes: int
    ) -> (
        tuple[
            int,
            _Array,
            _Array,
            _Array,
            _Array,
            _Array,
            _Array,
            list[tuple[_ExtxyzLevel, str, _ExtxyzValues, _Array]],
            int,
            int,
        ]
        | None
    ): ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def ends_open(self) -> bool: ...

def survey_extxyz(
    path: str,
) -> tuple[int, list[tuple[_ExtxyzLevel, str, _ExtxyzKind, tuple[int, ...] | None]]]: ...
def format_extxyz(
    ptr: _Array,
    positions: _Array,
    numbers: _Array,
    cell: tuple[_Array, _Array],
    pbc: tuple[_Array, _Array],
    fields: Sequence[tuple[_ExtxyzLevel, str, _ExtxyzValues, _Array]],
) -> bytes: ...
def allocate_arena(bytes: int, shared: bool) -> Tensor: ...
def view_arena(
    arena: Tensor, places: Sequence[tuple[torch.dtype, int, Sequence[int]]]
) -> list[Tensor]: ...
def read_atom_counts(path: str, snapshot: AtpSnapshot, address: int) -> None: ...
def parallel_thread_ids() -> list[int]: ...
