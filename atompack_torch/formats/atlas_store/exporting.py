"""Copies of stores and collections: as a store that can be written to, or as a collection."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from atompack_torch._native import write_collection
from atompack_torch.errors import FieldError, file_exists
from atompack_torch.formats import COLLECTION, STORE_METADATA
from atompack_torch.formats.atlas_store.xarray_datasets import encoded
from atompack_torch.options import (
    check_choice,
    check_level,
    checked_path,
    redact_path,
    threads_or_cores,
)
from atompack_torch.publishing import published

if TYPE_CHECKING:
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore

Kind = Literal["collection", "store"]
_STEP_BYTES = 64 << 20  # copied together
_PENDING_BYTES = 256 << 20  # pending until a flush


def export(
    store: AtlasStore,
    path: str | os.PathLike[str],
    to: Kind,
    datasets: Sequence[str] | None,
    mode: Literal["x", "w"],
    codec: Literal["zstd", "lz4", "none"],
    level: int,
) -> None:
    """Writes a copy; see ``AtlasStore.export``."""
    check_choice("to", to, ("collection", "store"))
    check_choice("mode", mode, ("x", "w"))
    check_level(codec, level)
    names = store.datasets if datasets is None else list(datasets)
    numbers = store._handle.reader().find_datasets(names)
    if len(set(names)) < len(names):
        raise FieldError(f"{redact_path(store.path)}: datasets: expected each name once")
    target = Path(checked_path(path))
    is_file = target.name == COLLECTION
    if is_file:
        _check_container(target, to)
    if mode == "x" and target.exists():
        raise file_exists(target, "mode='w' replaces it")
    with published(target) as made:
        if not is_file:
            made.mkdir()
        if to == "collection":
            place = os.fspath(made if is_file else made / COLLECTION)
            reader = store._handle.reader()
            write_collection(reader, numbers, place, codec, level, threads_or_cores(None))
            return
        with type(store)(made, "x", codec, level=level) as new:
            _copy(store, new, names)


def _check_container(target: Path, to: Kind) -> None:
    """Checks that nothing in its folder would be taken for a part of a collection."""
    if to == "store":
        raise ValueError(f"{target}: expected a folder for a store, got the file of a collection")
    for name in (*STORE_METADATA, "deleted.mask"):
        if (target.parent / name).exists():
            raise file_exists(target.parent / name, "a collection needs a folder without it")


def _copy(store: AtlasStore, new: AtlasStore, names: Sequence[str]) -> None:
    pending = 0
    for name in names:
        new.create_dataset(name)
        for key, value in _attributes(store, name).items():
            new.set_attr(name, key, encoded(key, value))
        for array in store.arrays_of(name):
            schema = store.schema(array, name)
            rank = len(schema.shape)
            dims = schema.dimension_names if len(schema.dimension_names) == rank else None
            chunks = schema.chunk_shape if len(schema.chunk_shape) == rank else None
            new.define_array(
                name, array, schema.dtype, schema.shape, dims, chunks, schema.fill_value
            )
            for start, count in _slabs(schema.shape, schema.chunk_shape):
                values = store.read(name, array, start, count)
                new.write(name, array, values, start)
                pending += values.nbytes if hasattr(values, "nbytes") else _STEP_BYTES // 64
        if pending > _PENDING_BYTES:
            new.flush()
            pending = 0


def _attributes(store: AtlasStore, name: str) -> dict[str, Any]:
    """Returns all attributes by the keys that they have in a store."""
    found: dict[str, Any] = store.attrs(name)
    for array in store.arrays_of(name):
        for key, value in store.array_attrs(name, array).items():
            found[f"{array}.{key}"] = value
    return found


def _slabs(shape: Sequence[int], chunk: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yields start and shape of parts that consist of whole chunks along the first axis."""
    if 0 in shape:
        return
    if not shape:
        yield [], []
        return
    row_bytes = 8 * math.prod(shape[1:])
    along = max(chunk[0], 1) if len(chunk) == len(shape) else shape[0]
    step = max(_STEP_BYTES // row_bytes // along, 1) * along
    for first in range(0, shape[0], step):
        start = [first, *(0 for _ in shape[1:])]
        yield start, [min(step, shape[0] - first), *shape[1:]]
