"""Labels that have different names in the data: ``key_map`` of all trainers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from atompack_torch.datasets.augment import rename_fields
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.mixture import MixtureDataset
from atompack_torch.datasets.request import declared_fields, place_of
from atompack_torch.datasets.resident.dataset import ResidentDataset
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    CANONICAL,
    GEOMETRY,
    MOLECULE_PROPERTY,
    PREFIXES,
    RESERVED,
    FieldId,
    FieldSpec,
    check_targets,
    checked_names,
    public_names,
    similar_names,
)


def renamed(dataset: MoleculeDataset, key_map: Mapping[str, str]) -> MoleculeDataset:
    """Returns a copy of a dataset whose fields have different names.

    A label whose name another field gets stays as a property: ``energy`` as ``properties/energy``.

    Args:
        dataset: molecules in files, a subset or a mixture.
        key_map: name in the data → label or property here.

    Returns:
        The copy, which renames as it reads.

    Raises:
        FieldError: there is no such field, or it does not suit the label.
        TypeError: the dataset is in memory, or ``key_map`` is not a mapping of names.
        ValueError: two fields would have one name, or the name is that of no label.
    """
    key_map = checked_names(key_map)
    check_targets(key_map)
    for key, name in key_map.items():
        if name in GEOMETRY or name in CANONICAL - BUILTINS.keys():
            raise ValueError(f"key_map: {key!r}: expected a label or a property, got {name!r}")
    schema = dataset.schema
    for key, name in key_map.items():
        if key not in schema:
            similar = " or ".join(map(repr, similar_names(key, schema)))
            hint = f": did you mean {similar}?" if similar else ""
            raise FieldError(f"{place_of(dataset)}: key_map: no molecule has a field {key!r}{hint}")
        _check_type(dataset, key, schema[key], name)
    return _renamed(dataset, key_map)


def _renamed(dataset: MoleculeDataset, key_map: Mapping[str, str]) -> MoleculeDataset:
    if isinstance(dataset, ResidentDataset):
        raise TypeError("key_map: expected a dataset in files, got a ResidentDataset")
    request = dataset.request
    if not isinstance(dataset, MixtureDataset):
        request = replace(request, renamed=_ids(dataset, key_map))
    fields, dtype, augment = request.fields, request.dtype, request.augment
    schema = dataset.schema
    labels = BUILTINS.keys() & key_map.values() & (schema.keys() - key_map.keys())
    here = {label: PREFIXES[_scope_of(label)] + label for label in labels} | dict(key_map)
    request = replace(
        request,
        fields=None if fields is None else tuple(key_map.get(name, name) for name in fields),
        exclude=tuple(here.get(name, name) for name in request.exclude),
        dtype={here.get(name, name): wanted for name, wanted in dtype.items()}
        if isinstance(dtype, Mapping)
        else dtype,
        augment=None if augment is None else rename_fields(augment, here),
    )
    part = dataset.with_request(request)
    if isinstance(part, MixtureDataset):
        part = part.with_sources(
            _renamed(each, {key: name for key, name in key_map.items() if key in each.schema})
            for each in part.sources
        )
    return part


def _ids(
    dataset: MoleculeDataset, key_map: Mapping[str, str]
) -> tuple[tuple[FieldId, FieldId], ...]:
    """Returns stored field → field here, including labels whose names others get."""
    declared = declared_fields(dataset.source())
    known = dict(zip(public_names(declared, RESERVED), declared, strict=True))
    before = {here: stored for stored, here in dataset.request.renamed}
    pairs = []
    for key, name in key_map.items():
        builtin = FieldId(BUILTIN, name)
        scope = known[key].scope
        if scope == BUILTIN:
            scope = _scope_of(key)
        pairs.append((known[key], builtin if name in BUILTINS else FieldId(scope, name)))
        if name in BUILTINS and name in known and name not in key_map:
            pairs.append((builtin, FieldId(_scope_of(name), name)))
    changed = dict(pairs)
    kept = [(stored, here) for here, stored in before.items() if here not in changed]
    return (*((before.get(stored, stored), here) for stored, here in pairs), *kept)


def _scope_of(label: str) -> int:
    return ATOM_PROPERTY if BUILTINS[label].level == "atom" else MOLECULE_PROPERTY


def _check_type(dataset: MoleculeDataset, key: str, spec: FieldSpec, name: str) -> None:
    """Raises an error if a field cannot be a label."""
    if name not in BUILTINS:
        return
    label = BUILTINS[name]
    is_floating = isinstance(spec.dtype, torch.dtype) and spec.dtype.is_floating_point
    if (spec.level, spec.shape, is_floating) != (label.level, tuple(label.shape), True):
        raise FieldError(
            f"{place_of(dataset)}: key_map: {key!r}: expected numbers of each {label.level} of "
            f"shape {tuple(label.shape)} for {name!r}, got {spec.dtype} of each {spec.level} of "
            f"shape {spec.shape}"
        )
