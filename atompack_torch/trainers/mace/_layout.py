"""Layout of batches for MACE, and the keys of its labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from mace.tools.torch_geometric import Batch
from torch import Tensor

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.errors import FieldError
from atompack_torch.fields import FieldSpec, Level, similar_names
from atompack_torch.options import checked_integer, checked_number
from atompack_torch.trainers._labels import STATES
from atompack_torch.trainers._layout import Layout

# Label -> names under which it is looked for: MACE's default key, then that of this package.
KEYS = {
    "energy": ("REF_energy", "energy"),
    "forces": ("REF_forces", "forces"),
    "stress": ("REF_stress", "stress"),
    "virials": ("REF_virials", "virials"),
    "dipole": ("dipole", "REF_dipole"),
    "charges": ("REF_charges", "charges"),
    "polarizability": ("polarizability",),
    "elec_temp": ("elec_temp",),
    "total_charge": ("total_charge", "charge", "properties/charge"),
    "total_spin": ("total_spin", "spin", "properties/spin"),
}


def labels_of(key_map: Mapping[str, str] | None) -> dict[str, str]:
    """Returns label → field, given field → label.

    Args:
        key_map: name in the data → label; None: no names.

    Returns:
        The inverse.
    """
    if key_map and len({*key_map.values()}) < len(key_map):
        raise ValueError("key_map: expected each name once, got one twice")
    return {label: name for name, label in (key_map or {}).items()}


def first_field(candidates: Sequence[str], schema: Mapping[str, FieldSpec]) -> str | None:
    """Returns the first name that is one of the fields.

    Args:
        candidates: names; ``charge`` and ``spin`` of atoms are other values than those of MACE.
        schema: name → type of each field.

    Returns:
        The name, or None.
    """
    for name in candidates:
        if name in schema and (name not in STATES or schema[name].level == "molecule"):
            return name
    return None


def found_keys(schema: Mapping[str, FieldSpec], named: Mapping[str, str]) -> dict[str, str]:
    """Finds the fields of all labels.

    Args:
        schema: name → type of each field.
        named: label → field, as given by the user.

    Returns:
        Label → field, of those that there are.

    Raises:
        FieldError: a named field does not exist.
    """
    for label, given in named.items():
        if given not in schema:
            similar = " or ".join(map(repr, similar_names(given, schema)))
            hint = f"did you mean {similar}?" if similar else f"expected one of {list(schema)}"
            raise FieldError(f"{label}: no field {given!r}: {hint} (field {given!r})")
    found = {}
    for label, candidates in KEYS.items():
        key = named.get(label) or first_field(candidates, schema)
        if key is not None:
            found[label] = key
    return found | dict(named)


class Label(NamedTuple):
    """A property that MACE trains on or gives to the model.

    Attributes:
        per_atom: one row for each atom, else for each molecule.
        shape: of a row.
        fill: value of molecules without it, which have weight 0.
        weight_shape: shape of a row of ``NAME_weight``; None: there is no weight.
    """

    per_atom: bool = False
    shape: tuple[int, ...] = ()
    fill: float = 0.0
    weight_shape: tuple[int, ...] | None = None


LABELS = {
    "energy": Label(weight_shape=()),
    "forces": Label(per_atom=True, shape=(3,), weight_shape=()),
    "stress": Label(shape=(3, 3), weight_shape=()),
    "virials": Label(shape=(3, 3), weight_shape=()),
    "dipole": Label(shape=(3,), weight_shape=(3,)),
    "charges": Label(per_atom=True, weight_shape=()),
    "polarizability": Label(shape=(3, 3), weight_shape=(3, 3)),
    "elec_temp": Label(),
    "total_charge": Label(),
    "total_spin": Label(fill=1.0),
    "fermi_level": Label(),
    "external_field": Label(shape=(3,)),
    "density_coefficients": Label(per_atom=True, shape=(1,)),
}
PREDICTED = ("energy", "forces", "stress", "virials", "dipole", "polarizability")
WEIGHT = "config_weight"
TYPE = "config_type"
_FULL = [0, 5, 4, 5, 1, 3, 4, 3, 2]  # elements of ASE's xx yy zz yz xz xy in a (3, 3) tensor
_SHAPES = {(3, 3): ((3, 3), (9,), (6,)), (1,): ((1,), ())}  # of a label: those of a field


class Stored(NamedTuple):
    """A field of the data that a label is made of."""

    name: str
    spec: FieldSpec


@dataclass(frozen=True)
class MaceLayout(Layout):
    """Layout of the batches.

    Attributes:
        numbers: atomic numbers of the model, in the order of its one-hot columns.
        cutoff: ``r_max`` of the model, in Å.
        dtype: of all values.
        labels: name of each label in MACE → field of the data.
        weights: name of each label → field with its weights (``config_NAME_weight``).
        weight: field with the weights of molecules, or None.
        types: field with the types of molecules, or None.
        type_weights: weight of each type.
        head: number of the head.
    """

    numbers: tuple[int, ...]
    cutoff: float
    dtype: torch.dtype
    labels: Mapping[str, Stored]
    weights: Mapping[str, str]
    weight: str | None = None
    types: str | None = None
    type_weights: Mapping[str, float] | None = None
    head: int = 0

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors of the batch, before views of other shapes are taken."""
        columns = by_atomic_number({z: i for i, z in enumerate(self.numbers)}, -1)
        made = [
            Output("positions", "value", self.dtype, "positions"),
            Output("node_attrs", "one_hot", self.dtype, columns=columns),
            Output("unit_shifts", "edge_shift", self.dtype),
            Output("shifts", "edge_offset", self.dtype),
            Output("cell", "cell", self.dtype, cutoff=self.cutoff),
            Output("rcell", "reciprocal_cell", self.dtype, cutoff=self.cutoff),
            Output("volume", "volume", self.dtype, cutoff=self.cutoff),
            Output("pbc", "value", torch.bool, "pbc"),
        ]
        for name, (field, spec) in self.labels.items():
            label = LABELS.get(name, Label(fill=math.nan))
            is_integer = name not in LABELS and not _is_floating(spec)
            dtype = torch.int64 if is_integer else self.dtype
            made.append(Output(name, "value", dtype, field, fill=label.fill))
            if label.weight_shape is not None:
                made.append(Output(f"{name}_weight", "weight", self.dtype, field))
        for name in LABELS.keys() - self.labels.keys():
            label = LABELS[name]
            level: Level = "atom" if label.per_atom else "molecule"
            options: dict[str, Any] = {"fill": label.fill, "level": level, "shape": label.shape}
            made.append(Output(name, "constant", self.dtype, **options))
            if label.weight_shape is not None:
                shape = label.weight_shape
                weight = Output(f"{name}_weight", "constant", self.dtype, fill=0.0, shape=shape)
                made.append(weight)
        made.append(Output("head", "constant", torch.int64, fill=float(self.head)))
        for name, field in self.weights.items():
            made.append(Output(f"{name}_factor", "value", self.dtype, field, fill=1.0))
        if self.weight is not None:
            made.append(Output("weight", "value", self.dtype, self.weight, fill=1.0))
        else:
            made.append(Output("weight", "constant", self.dtype, fill=1.0))
        return tuple(made)

    @property
    def fields(self) -> tuple[str, ...]:
        """Types of molecules, and the inputs of the model that may not be missing."""
        inputs = [stored.name for name, stored in self.labels.items() if name not in LABELS]
        return (*inputs, *([] if self.types is None else [self.types]))

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """One of the labels that MACE models predict."""
        stored = tuple(self.labels[name].name for name in PREDICTED if name in self.labels)
        return (stored or PREDICTED,)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> Batch:
        """Returns the batch of MACE.

        Args:
            batch: gives edges, ``batch``, ``ptr``, ``index`` and types.
            made: the outputs.

        Returns:
            The batch; see ``atompack_torch.trainers.mace.batch``.

        Raises:
            FieldError: a molecule lacks an input of the model.
        """
        made["edge_index"], made["index"] = batch.edge_index, batch.index
        for name in ("cell", "rcell"):
            made[name] = made[name].view(-1, 3)
        if self.types is not None:
            made["weight"] = made["weight"] * self._type_weights(batch)
        for name in self._to_finish:
            self._finish(name, made)
        for name, stored in self.labels.items():
            if name not in LABELS:
                made[name] = _input(name, stored, batch, made[name])
        return _new_batch(batch, made)

    @cached_property
    def _to_finish(self) -> list[str]:
        """Labels whose shape, or whose weight, is not the final one yet."""
        found = []
        for name, label in LABELS.items():
            stored = self.labels.get(name)
            if stored is None:
                continue
            if stored.spec.shape != label.shape or label.weight_shape or name in self.weights:
                found.append(name)
        return found

    def _finish(self, name: str, made: dict[str, Tensor]) -> None:
        """Gives a label and its weight their final shape."""
        label, value = LABELS[name], made[name]
        if value.shape[1:] == (6,) and label.shape == (3, 3):
            value = value[:, _FULL]
        made[name] = value.view(len(value), *label.shape)
        if label.weight_shape is None:
            return
        weight = made[f"{name}_weight"]
        if name in self.weights:
            weight = weight * made.pop(f"{name}_factor")
        ones = (1,) * len(label.weight_shape)
        made[f"{name}_weight"] = weight.view(-1, *ones).expand(-1, *label.weight_shape)

    def _type_weights(self, batch: MoleculeBatch) -> Tensor:
        """Returns the weight of the type of each structure."""
        assert self.types is not None
        assert self.type_weights is not None
        types: Sequence[Any] = batch[self.types]
        of_types = [self.type_weights.get(type_ or "Default", 1.0) for type_ in types]
        return torch.tensor(of_types, dtype=self.dtype, device=batch.ptr.device)


_EMPTY = Batch()


def _new_batch(batch: MoleculeBatch, values: Mapping[str, Tensor]) -> Batch:
    """Makes a batch without its constructor, which takes as long as all else."""
    made = Batch.__new__(Batch)
    made.__dict__ |= _EMPTY.__dict__ | values
    made.batch, made.ptr = batch.batch, batch.ptr
    made.__num_nodes__ = len(values["positions"])
    return made


def _is_floating(spec: FieldSpec) -> bool:
    return isinstance(spec.dtype, torch.dtype) and spec.dtype.is_floating_point


def _input(name: str, stored: Stored, batch: MoleculeBatch, value: Tensor) -> Tensor:
    """Returns an input of the model that has no weight, so that none may be missing."""
    if not bool(batch.mask(stored.name).all()):
        row = int((~batch.mask(stored.name)).nonzero()[0])
        number = int(batch.index[row])
        raise FieldError(f"{name}: missing (molecule {number}, field {stored.name!r})")
    return value.unsqueeze(-1) if stored.spec.level == "atom" and value.dim() == 1 else value


def make_layout(
    schema: Mapping[str, FieldSpec],
    numbers: Sequence[int],
    cutoff: float,
    *,
    dtype: torch.dtype,
    keys: Mapping[str, str],
    type_weights: Mapping[str, float] | None = None,
    head: int = 0,
) -> MaceLayout:
    """Finds the labels in the fields of a dataset.

    Args:
        schema: name → type of each field.
        numbers: atomic numbers of the model, in the order of its one-hot columns.
        cutoff: ``r_max`` of the model, in Å.
        dtype: of all values.
        keys: name of a label in MACE → name of the field.
        type_weights: ``config_type`` → weight.
        head: number of the head.

    Returns:
        The layout.

    Raises:
        FieldError: a field has a different level or shape than its label.
        TypeError: the head is not an integer, or weights are not numbers by type.
        ValueError: an atomic number occurs twice, or the head or a weight is negative.
    """
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"z_table: expected different atomic numbers, got {list(numbers)}")
    given: object = type_weights
    if not isinstance(given, Mapping | None):
        kind = type(given).__name__
        raise TypeError(f"config_type_weights: expected a dict of weights by type, got {kind}")
    for type_, weight in (type_weights or {}).items():
        checked_number(f"config_type_weights: {type_!r}", weight)
    labels = {}
    for name, key in keys.items():
        spec = schema.get(key)
        if spec is None or not isinstance(spec.dtype, torch.dtype):
            continue
        _check(name, key, spec)
        labels[name] = Stored(key, spec)
    weights = {name: f"config_{name}_weight" for name in LABELS}
    is_weighted = type_weights is not None and any(w != 1.0 for w in type_weights.values())
    return MaceLayout(
        numbers=tuple(int(z) for z in numbers),
        cutoff=float(cutoff),
        dtype=dtype,
        labels=labels,
        weights={name: key for name, key in weights.items() if key in schema},
        weight=WEIGHT if WEIGHT in schema else None,
        types=TYPE if is_weighted and TYPE in schema else None,
        type_weights=dict(type_weights) if is_weighted and type_weights else None,
        head=checked_integer("head", head, 0),
    )


def _check(name: str, key: str, spec: FieldSpec) -> None:
    label = LABELS.get(name)
    if label is None:
        return
    level = "atom" if label.per_atom else "molecule"
    shapes = _SHAPES.get(label.shape, (label.shape,))
    if spec.level == level and (spec.shape is None or spec.shape in shapes):
        return
    expected = " or ".join(str(shape) for shape in shapes)
    raise FieldError(
        f"{name}: expected rows of shape {expected} at level {level!r}, got {spec.shape} at level "
        f"{spec.level!r} (field {key!r})"
    )
