"""Batches of NequIP: keys, shapes and dtypes of its ``AtomicDataDict``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch
from nequip.data import _key_registry as registry
from nequip.data import _keys as keys
from torch import Tensor

from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.outputs import Output, by_atomic_number
from atompack_torch.errors import FieldError
from atompack_torch.trainers._labels import molecules_without
from atompack_torch.trainers._layout import Layout

INDEX: Final = "molecule_index"
registry.register_fields(graph_fields=[INDEX], long_fields=[INDEX])

_LABELS: Final = {
    "energy": keys.TOTAL_ENERGY_KEY,
    "forces": keys.FORCE_KEY,
    "stress": keys.STRESS_KEY,
}
_STRUCTURE: Final = (
    keys.POSITIONS_KEY,
    keys.ATOMIC_NUMBERS_KEY,
    keys.ATOM_TYPE_KEY,
    keys.CELL_KEY,
    keys.PBC_KEY,
    keys.BATCH_KEY,
    keys.NUM_NODES_KEY,
    INDEX,
)


@dataclass(frozen=True)
class NequipLayout(Layout):
    """Tensors of an ``AtomicDataDict``, all in float64.

    Attributes:
        types: pairs of atomic number and index of the type.
        cutoff: in Å.
        labels: pairs of the key of NequIP and the name of the field.
        transforms: of NequIP, applied to whole batches in turn.
        complete: keys that every molecule must have, because the loss would be NaN.
        present: keys that a molecule of every batch must have, for the same reason.
    """

    types: tuple[tuple[int, int], ...]
    cutoff: float
    labels: tuple[tuple[str, str], ...]
    transforms: tuple[Callable[[Any], Any], ...] = ()
    complete: tuple[str, ...] = ()
    present: tuple[str, ...] = ()

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors of NequIP."""
        columns = by_atomic_number(dict(self.types), -1)
        floats = torch.float64
        return (
            Output(keys.POSITIONS_KEY, "value", floats, "positions"),
            Output(keys.ATOMIC_NUMBERS_KEY, "value", torch.int64, "atomic_numbers"),
            Output(keys.ATOM_TYPE_KEY, "element_index", torch.int64, columns=columns),
            Output(keys.CELL_KEY, "cell", floats),
            Output(keys.PBC_KEY, "value", torch.bool, "pbc"),
            Output(keys.EDGE_CELL_SHIFT_KEY, "edge_shift", floats),
            *(Output(key, "value", floats, name) for key, name in self.labels),
        )

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """Any of the labels: which ones the loss needs is not known here."""
        return (tuple(name for _, name in self.labels),)

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> Any:
        """Returns the batch of NequIP.

        Args:
            batch: the batch.
            made: name of each output → tensor.

        Returns:
            Key → tensor, after the transforms.

        Raises:
            FieldError: a molecule lacks a label that the loss needs, or an integer.
        """
        data = dict(made)
        for key, name in self.labels:
            if data[key].ndim == 1:
                data[key] = data[key].unsqueeze(1)
            if key in registry._LONG_FIELDS:
                _check_labels(batch, key, name, data[key], "integers have no NaN")
                data[key] = data[key].long()
        data[keys.EDGE_INDEX_KEY] = batch.edge_index
        data[keys.BATCH_KEY] = batch.batch
        data[keys.NUM_NODES_KEY] = batch.n_atoms
        data[INDEX] = batch.index.unsqueeze(1)
        for transform in self.transforms:
            data = transform(data)
        fields = dict(self.labels)
        for key in self.complete:
            _check_labels(batch, key, fields.get(key, key), data[key], _ADVICE)
        for key in self.present:
            if data[key].isnan().all():
                raise FieldError(
                    f"molecules {batch.index.tolist()}: expected one with a label, got none in the "
                    f"batch, for which the loss of NequIP is NaN; use {_METRIC} as the metric "
                    f"(field '{fields.get(key, key)}')"
                )
        return data


_METRIC: Final = "atompack_torch.trainers.nequip.MeanSquaredError"
_ADVICE: Final = (
    "without them the loss is NaN; to train on the others, use nequip.train.MetricsManager with "
    f"ignore_nan and metric {_METRIC}"
)


def _check_labels(batch: MoleculeBatch, key: str, field: str, values: Tensor, advice: str) -> None:
    of_atoms = registry.get_field_type(key) == "node"
    if numbers := molecules_without(batch, values, of_atoms=of_atoms):
        raise FieldError(
            f"molecules {numbers}: expected labels for {key!r}; {advice} (field '{field}')"
        )


def make_layout(
    model_type_names: Sequence[str],
    cutoff: float,
    *,
    chemical_species_to_atom_type_map: Mapping[str, str] | None = None,
    key_map: Mapping[str, str] | None = None,
    transforms: Sequence[Callable[[Any], Any]] = (),
) -> NequipLayout:
    """Checks the options of ``batch`` and ``loader``.

    Args:
        model_type_names: types of the model, in its order.
        cutoff: in Å.
        chemical_species_to_atom_type_map: symbol of an element → type; None: types are symbols.
        key_map: name in the data → ``energy``, ``forces``, ``stress`` or another key of NequIP.
        transforms: of NequIP, applied to whole batches in turn.

    Returns:
        The layout.

    Raises:
        ValueError: an unknown element, type or key.
    """
    types = chemical_species_to_atom_type_map or {name: name for name in model_type_names}
    indices = {name: index for index, name in enumerate(model_type_names)}
    for symbol, name in types.items():
        if symbol not in SYMBOLS[1:]:
            raise ValueError(
                f"chemical_species_to_atom_type_map: expected symbols of elements, got {symbol!r}"
            )
        if name not in indices:
            raise ValueError(
                f"chemical_species_to_atom_type_map: expected one of {', '.join(indices)} for "
                f"{symbol}, got {name!r}"
            )
    named = {field: _LABELS.get(key, key) for field, key in (key_map or {}).items()}
    for key in named.values():
        if key in _STRUCTURE or registry.get_field_type(key, False) not in ("graph", "node"):
            raise ValueError(
                "key_map: expected keys of labels, registered with "
                f"nequip.data.register_fields, got {key!r}"
            )
    labels = {key: field for field, key in _LABELS.items()}
    labels |= {key: field for field, key in named.items()}
    return NequipLayout(
        tuple((SYMBOLS.index(symbol), indices[name]) for symbol, name in types.items()),
        float(cutoff),
        tuple(labels.items()),
        tuple(transforms),
    )
