"""How a stored array is laid out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.exact_values import check_unmasked
from atompack_torch.batch.host_arrays import host_array
from atompack_torch.errors import FieldError
from atompack_torch.options import utf8
from atompack_torch.stores.stored_values import TEXTS, extents, numbers, texts


class ArraySchema(NamedTuple):
    """How an array is stored.

    Attributes:
        dtype: NumPy's name, or ``"timestamp_ns"`` (int64 nanoseconds since 1970, UTC),
            ``"string"``, ``"binary"``.
        shape: extents, () for a scalar.
        chunk_shape: elements that are stored as one piece.
        dimension_names: as whoever defined the array gave them; not always one an axis.
        fill_value: what elements hold that were never written; None: 0 (strings: ``""``).
    """

    dtype: str
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dimension_names: tuple[str, ...]
    fill_value: int | float | str | None

    @classmethod
    def of(cls, stored: tuple[str, Any, Any, Any, Any]) -> ArraySchema:
        """As the native core tells it."""
        dtype, shape, chunk_shape, names, fill = stored
        return cls(dtype, tuple(shape), tuple(chunk_shape), tuple(names), fill)

    def start(self, given: Sequence[int] | None) -> list[int]:
        """Where a box begins: at the first element unless it is said."""
        return [0] * len(self.shape) if given is None else extents("start", given) or []

    def box(
        self, start: Sequence[int] | None, shape: Sequence[int] | None
    ) -> tuple[list[int], list[int]]:
        """Where a slice begins, and its extents: both clamped to the array.

        Raises:
            FieldError: another number of axes.
        """
        first, counts = self.start(start), extents("shape", shape)
        for given in (first, counts):
            if given is not None and len(given) != len(self.shape):
                raise FieldError(f"axes of the slice: expected {len(self.shape)}, got {len(given)}")
        first = [min(i, n) for i, n in zip(first, self.shape, strict=True)]
        rest = [n - i for i, n in zip(first, self.shape, strict=True)]
        return first, rest if counts is None else list(map(min, counts, rest))

    def loaded(self, values: Any, shape: Sequence[int]) -> Any:
        """What the native core read, as a tensor; texts as they are."""
        if self.dtype in TEXTS:
            return values
        name = "int64" if self.dtype == "timestamp_ns" else self.dtype
        dtype = getattr(torch, name)
        if len(values) == 0:  # such bytes have no stride that a view of wider items could take
            return torch.empty(list(shape), dtype=dtype)
        return torch.from_numpy(values).view(dtype).reshape(list(shape))


def put(writer: Any, values: Any, start: Sequence[int] | None, *place: str) -> None:
    """Writes a box of values through a native writer.

    Args:
        writer: an ``AtlasWriter`` or an ``ArrayFileWriter``.
        values: see ``AtlasStore.write``.
        start: where the box begins; None: at the first element.
        place: what the writer calls the array.

    Raises:
        FieldError: values that the dtype does not hold; a box that does not lie in the array.
    """
    for name in place:
        utf8("name", name)
    given = host_array("values", values) if isinstance(values, Tensor) else values
    check_unmasked("values", given)
    # Most arrays are written as a whole and need no conversion.
    as_it_is = start is None and isinstance(given, np.ndarray)
    if as_it_is and writer.write_as_they_lie(*place, given):
        return
    schema = ArraySchema.of(writer.definition(*place))
    if schema.dtype in TEXTS:
        flat, shape = texts(schema.dtype, given)
        writer.write_texts(*place, schema.start(start), list(shape), flat)
    else:
        stored = numbers(schema.dtype, given)
        writer.write(*place, schema.start(start), list(stored.shape), stored)
