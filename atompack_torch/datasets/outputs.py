"""Tensors that the native core makes for a trainer, in the pass that makes the batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from atompack_torch._core import make_outputs
from atompack_torch._native import BatchRequest
from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    STRUCTURE,
    FieldId,
    FieldInfo,
    Level,
    prefixed_id,
)

# Kind -> level of the rows; None: that of the field.
KINDS: Final[dict[str, Level | None]] = {
    "value": None,
    "weight": "molecule",
    "voigt": "molecule",
    "one_hot": "atom",
    "element_index": "atom",
    "edge_shift": "edge",
    "edge_offset": "edge",
    "edge_vector": "edge",
    "edge_reversed": "edge",
    "edge_pairs": "edge",
    "edge_count": "molecule",
    "wrapped_positions": "atom",
    "wrapped_shift": "edge",
    "cell": "molecule",
    "reciprocal_cell": "molecule",
    "volume": "molecule",
    "lattice": "molecule",
    "fractional_positions": "atom",
    "constant": None,
}
_PREFIX = "trainer/"  # of their names in a batch, which no field of a file has


class Output(NamedTuple):
    """A tensor in the form that a trainer takes, for B molecules, N atoms and E edges.

    Edges are those of ``neighbors=``: from i to j, with S of ``edge_shift``. All arithmetic is in
    float64, on the values as stored; ``dtype`` is that of the result.

    - ``value``: ``field``, (rows, ...) as in a batch; a floating value for an integer dtype must
      be whole.
    - ``weight``: (B,) ``scale`` where a molecule has ``field``, else 0.
    - ``voigt``: (B, 6) the elements ``order`` of ``field``, a (3, 3) label.
    - ``one_hot``: (N, columns) 1 in the column of the element, and ``element_index``: (N,) that
      column. An element without column is an error.
    - ``edge_shift``: (E, 3) S; ``edge_offset``: (E, 3) S·cell; ``edge_vector``: (E, 3)
      r_j - r_i + S·cell; ``edge_reversed``: (2, E) rows j and i; ``edge_pairs``: (E, 2) columns i
      and j; ``edge_count``: (B,).
    - ``wrapped_positions``: (N, 3) inside of the cell along periodic directions, atoms less than
      1e-7 of the cell below a face excepted, as in ASE; ``wrapped_shift``: (E, 3) the S between
      them.
    - ``cell``: (B, 3, 3); ``reciprocal_cell``: (B, 3, 3) 2π (cell⁻¹)ᵀ, 0 for a singular cell;
      ``volume``: (B,) determinant of the cell.
    - ``lattice``: (B, 3, 3) the cell, with the vectors of ``cutoff`` in open directions if it is
      singular, and the identity for molecules that are not periodic; ``fractional_positions``:
      (N, 3) in its vectors. A lattice that is singular even so is an error.
    - ``constant``: (B, ...) or (N, ...) ``fill`` everywhere.

    Attributes:
        name: key of the tensor among those of the trainer.
        kind: one of the above.
        dtype: of the tensor.
        field: name of a field of the dataset.
        fill: value of molecules without the field; NaN is 0 for integers, False for booleans.
        scale: factor of values; weight of molecules with the field.
        columns: column of each element, by atomic number; -1 for an element without.
        references: energy of each element, by atomic number, subtracted from a value for each atom
            before ``scale``; NaN for an element without, which is an error.
        order: six numbers of elements of the flattened (3, 3) tensor.
        level: of a ``constant``: ``"molecule"`` or ``"atom"``.
        shape: of a row of a ``constant``.
        cutoff: for what is made of the cell: open directions get vectors along
            the axes of length 5 · cutoff · (largest coordinate + 1), as MACE makes them, and a cell
            of zeros becomes the identity before; 0: the cell as stored.
    """

    name: str
    kind: str
    dtype: torch.dtype
    field: str | None = None
    fill: float = math.nan
    scale: float = 1.0
    columns: tuple[int, ...] = ()
    references: tuple[float, ...] = ()
    order: tuple[int, ...] = ()
    level: Level = "molecule"
    shape: tuple[int, ...] = ()
    cutoff: float = 0.0

    @property
    def listed_name(self) -> str:
        """Name of the tensor in a batch."""
        return _PREFIX + self.name

    def native(self, field: FieldId | None) -> tuple[Any, ...]:
        """Returns the output in the form that the native core takes.

        Args:
            field: identity of the field.

        Returns:
            The arguments of the native type, in order.
        """
        dtype = str(self.dtype).removeprefix("torch.")
        values = (self.fill, self.scale, self.columns, self.references, self.order)
        return (self.kind, dtype, field, *values, self.level, self.shape, self.cutoff)


def by_atomic_number(values: Mapping[int, Any], default: Any) -> tuple[Any, ...]:
    """Returns values by atomic number, from 0 to the largest one.

    Args:
        values: atomic number → value.
        default: for numbers without a value.

    Returns:
        The values, for ``Output.columns`` or ``Output.references``; none for no values.
    """
    if not values:
        return ()
    return tuple(values.get(number, default) for number in range(max(values) + 1))


def infos_of(outputs: Sequence[Output], levels: Mapping[str, Level]) -> dict[str, FieldInfo]:
    """Describes outputs as fields of a batch.

    Args:
        outputs: the outputs.
        levels: name of a field → its level.

    Returns:
        Listed name → description.
    """
    infos = {}
    for output in outputs:
        level = KINDS[output.kind]
        if level is None:
            level = output.level if output.field is None else _level(output.field, levels)
        infos[output.listed_name] = FieldInfo(BUILTIN, output.listed_name, level)
    return infos


def _level(field: str, levels: Mapping[str, Level]) -> Level:
    if field in levels:
        return levels[field]
    if (named := prefixed_id(field)) is not None:
        return "atom" if named.scope == ATOM_PROPERTY else "molecule"
    return STRUCTURE[field] if field in STRUCTURE else BUILTINS[field].level


def from_batch(outputs: Sequence[Output], batch: MoleculeBatch) -> dict[str, Tensor]:
    """Makes outputs of the fields of a batch.

    Args:
        outputs: the outputs.
        batch: on the CPU, with edges if an output needs them.

    Returns:
        Name of each output → tensor, in an arena of their own.

    Raises:
        FieldError: the batch lacks a field or edges, an element is not in the table of the model,
            or a value does not fit.
    """
    ids = [None if o.field is None else FieldId(BUILTIN, o.field) for o in outputs]
    request = BatchRequest(outputs=[o.native(i) for o, i in zip(outputs, ids, strict=True)])
    cell, pbc = _tensor(batch, "cell"), _tensor(batch, "pbc")
    edges = _tensor(batch, "edge_index"), _tensor(batch, "edge_shift")
    tensors = (batch.positions, batch.atomic_numbers, batch.ptr, cell, pbc, *edges)
    fields = [None if o.field is None else _described(batch, o.field) for o in outputs]
    made = make_outputs(request, tensors, fields)
    return {output.name: tensor for output, tensor in zip(outputs, made, strict=True)}


def _tensor(batch: MoleculeBatch, name: str) -> Tensor | None:
    value = contents_of(batch).fields.get(name)
    return value if isinstance(value, Tensor) else None


def _described(batch: MoleculeBatch, name: str) -> tuple[Level, Any, Tensor | None, Tensor | None]:
    """Returns level, shape of a row, values and mask of a field."""
    if name not in batch and name in BUILTINS:
        return BUILTINS[name].level, BUILTINS[name].shape, None, None
    value = batch[name]
    if not isinstance(value, Tensor):
        raise FieldError(f"expected numbers of one shape in all molecules (field {name!r})")
    mask = None if name in ("cell", "pbc") else batch.mask(name)
    return batch.level(name), tuple(value.shape[1:]), value, mask
