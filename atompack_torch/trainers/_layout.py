"""Base of the batches of all trainers: which tensors they have, and how these are made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.augment import Augment, rename_fields
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.options import Transform
from atompack_torch.datasets.outputs import Output, from_batch
from atompack_torch.datasets.request import declared_fields
from atompack_torch.datasets.transforms import LayoutTransform, transformed
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTINS, GEOMETRY, RESERVED, FieldSpec, public_names
from atompack_torch.formats.dispatch import open as open_path
from atompack_torch.formats.parsed_files import ParsedFiles
from atompack_torch.trainers._naming import renamed

Dataset = TypeVar("Dataset", bound=MoleculeDataset)

LABELS = BUILTINS.keys() - set(GEOMETRY)
ANY_EDGES = NeighborList(1.0)  # for a transform that looks at some

Data = MoleculeDataset | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Layout:
    """Base of the layouts of trainers: small picklable objects, usually frozen dataclasses.

    A subclass gives ``outputs``, ``cutoff`` or ``neighbors`` if it needs edges, and overrides
    ``assemble``.
    """

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Tensors that the trainer takes."""
        raise NotImplementedError

    @property
    def neighbors(self) -> NeighborList | None:
        """Edges that the outputs are made of; None if the trainer makes its own.

        Unless overridden, those within the ``cutoff`` of the layout, if it has one.
        """
        cutoff = getattr(self, "cutoff", None)
        return None if cutoff is None else NeighborList(cutoff)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of further fields of the dataset that ``assemble`` uses."""
        return ()

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """Labels to train on: groups of fields, of which one each must occur in the data."""
        return ()

    def assemble(self, batch: MoleculeBatch, made: dict[str, Tensor]) -> Any:
        """Returns the object of the trainer.

        Args:
            batch: the batch; only ``index``, ``ptr``, ``batch``, ``n_atoms``, the edges and
                ``fields`` are sure to be there. ``edge_shift`` may have a dtype other than the
                positions.
            made: name of each output → tensor. One that equals a field, or the edges, may share
                its memory.

        Returns:
            What the trainer takes, with views of these tensors.
        """
        raise NotImplementedError

    def batch(self, batch: MoleculeBatch) -> Any:
        """Converts a finished batch.

        Args:
            batch: a batch on the CPU, with edges if the layout has neighbors.

        Returns:
            Result of ``assemble``, whose tensors share one block of memory.

        Raises:
            TypeError: it is not a batch.
            FieldError: the batch lacks a field or the edges, or has an element that the model
                lacks.
        """
        check_batch(batch)
        if self.neighbors is not None and "edge_index" not in batch:
            raise FieldError(
                "expected a batch with edges: give the dataset "
                f"neighbors=NeighborList({self.neighbors.cutoff}) (field 'edge_index')"
            )
        return self.assemble(batch, from_batch(self.outputs, batch))

    def dataset(self, dataset: Dataset) -> Dataset:
        """Returns a copy of a dataset whose batches are those of the trainer.

        The tensors are made in the pass that makes the batch, from the values as stored: ``dtype``
        and ``neighbors`` of the dataset are replaced. Its ``transform`` is applied first; then the
        tensors are made from its result.

        Args:
            dataset: a dataset of molecules, a subset or a mixture.

        Returns:
            The copy, for any loader and sampler.
        """
        request = replace(dataset.request, neighbors=self.neighbors, dtype=None)
        if request.transform is None and not dataset.computes_features:
            named = [output.field for output in self.outputs if output.field is not None]
            absent = _absent_labels(dataset)
            labels = [name for name in (*named, *self.fields) if name not in absent]
            fields = tuple(dict.fromkeys((*labels, "cell", "pbc")))
            request = replace(
                request,
                fields=fields,
                optional=True,
                outputs=self.outputs,
                transform=_Assembling(self),
            )
        else:
            request = replace(request, transform=_Chained(request.transform, self))
        return dataset.with_request(request)


class _Assembling(LayoutTransform):
    """Transform of batches whose outputs are made already."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._names = [(output.name, output.listed_name) for output in layout.outputs]

    def __call__(self, batch: MoleculeBatch) -> Any:
        fields = contents_of(batch).fields
        made = {name: fields[listed] for name, listed in self._names}
        return self._layout.assemble(batch, cast("dict[str, Tensor]", made))


class _Chained(LayoutTransform):
    """Transform of the user, followed by the layout."""

    def __init__(self, transform: Transform | None, layout: Layout) -> None:
        self._transform, self._layout = transform, layout

    def __call__(self, batch: MoleculeBatch) -> Any:
        return self._layout.batch(transformed(self._transform, batch))


def open_dataset(
    data: Data, key_map: Mapping[str, str] | None = None, **options: Any
) -> MoleculeDataset:
    """Opens anything that holds molecules.

    Args:
        data: a dataset of molecules, or a path, a URL or a list of them.
        key_map: name in the data → label or property here, which other options name.
        **options: of the dataset, if it is opened here.

    Returns:
        The dataset.

    Raises:
        FieldError: the data have no field of a name in ``key_map``, or it does not suit the label.
        TypeError: it holds something else, or options are given for an open dataset.
        ValueError: two names in ``key_map`` are one label.
    """
    if key_map:
        return _open_renamed(data, dict(key_map), options)
    if isinstance(data, MoleculeDataset):
        if options:
            raise TypeError(f"{next(iter(options))}: expected a path to open, got a dataset")
        return data
    if not isinstance(data, (str, Path, os.PathLike, list, tuple)):
        raise TypeError(f"data: expected a dataset or a path, got {type(data).__name__}")
    opened = open_path(data, **options)
    if not isinstance(opened, MoleculeDataset):
        raise TypeError(f"{data}: expected molecules, got {type(opened).__name__}")
    return opened


def _open_renamed(data: Data, key_map: dict[str, str], options: dict[str, Any]) -> MoleculeDataset:
    """Opens data with other names of fields."""
    key_map = {key: name for key, name in key_map.items() if key != name}
    stored = {name: key for key, name in key_map.items()}
    asked = dict(options)
    for option in ("fields", "exclude"):
        if isinstance(names := asked.get(option), (list, tuple)):
            asked[option] = [stored.get(name, name) for name in names]
    if isinstance(augment := asked.get("augment"), Augment):
        asked["augment"] = rename_fields(augment, stored)
    if isinstance(casts := asked.get("dtype"), Mapping):
        asked["dtype"] = {stored.get(name, name): dtype for name, dtype in casts.items()}
    plain = open_dataset(data, **asked)
    if plain is not data and isinstance(plain, ParsedFiles):
        reader: Any = type(plain)  # which converts types too
        mapped: MoleculeDataset = reader(plain.path, key_map=key_map, **options)
        return mapped
    return renamed(plain, key_map) if key_map else plain


def selected_schema(dataset: MoleculeDataset) -> dict[str, FieldSpec]:
    """Describes the fields that batches have: without those that options omit.

    A ``transform`` is called with the first molecule, to see what it adds and removes.

    Args:
        dataset: the dataset.

    Returns:
        Name → dtype, level and shape of a row.
    """
    if dataset.request.transform is not None and len(dataset):
        return schema_of(_first_batch(dataset))
    return requested_schema(dataset)


def _first_batch(dataset: MoleculeDataset) -> MoleculeBatch:
    """Returns the first molecule as a batch with all fields, and with edges."""
    edges = dataset.request.neighbors or ANY_EDGES  # layouts replace them
    return dataset.with_request(replace(dataset.request, missing="nan", neighbors=edges)).batch([0])


def requested_schema(dataset: MoleculeDataset) -> dict[str, FieldSpec]:
    """Describes the fields of batches before a transform.

    Args:
        dataset: the dataset.

    Returns:
        Name → dtype, level and shape of a row.
    """
    schema = dataset.schema
    if not dataset.request.names_fields:
        return schema
    batcher = dataset.batcher()
    declared = declared_fields(batcher.source)
    names = public_names(declared, RESERVED)
    left_out = {
        name
        for field, name in zip(declared, names, strict=True)
        if not batcher.request.selects(field)
    }
    return {name: spec for name, spec in schema.items() if name not in left_out}


def _absent_labels(dataset: MoleculeDataset) -> set[str]:
    """Returns the labels that no batch has, so that they are not missing ones either."""
    request = dataset.request
    if not request.names_fields and request.missing == "nan":
        return set()
    return LABELS.difference(requested_schema(dataset))


def check_batch(batch: object) -> None:
    """Raises a TypeError for anything but a batch, such as the path of a dataset."""
    if not isinstance(batch, MoleculeBatch):
        kind = type(batch).__name__
        raise TypeError(
            f"expected a MoleculeBatch, got {kind}: `loader` makes the batches of a dataset"
        )


def schema_of(batch: MoleculeBatch) -> dict[str, FieldSpec]:
    """Describes the fields of a batch as the schema of a dataset does.

    Args:
        batch: the batch.

    Returns:
        Name → dtype, level and shape of a row; None where it differs between molecules.

    Raises:
        TypeError: it is not a batch.
    """
    check_batch(batch)
    found = {}
    for name, value in batch.items():
        level = batch.level(name)
        if isinstance(value, Tensor):
            found[name] = FieldSpec(value.dtype, level, tuple(value.shape[1:]))
            continue
        tensors = [entry for entry in value if isinstance(entry, Tensor)]
        if tensors:
            found[name] = FieldSpec(tensors[0].dtype, level, None)
        else:
            found[name] = FieldSpec("string", level, ())
    return found


def fields_by_name(properties: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Returns name in a trainer → field; of names alone, each stands for the field of that name.

    Args:
        properties: the names, or the mapping itself.

    Returns:
        The mapping.
    """
    if isinstance(properties, Mapping):
        return dict(properties)
    return {name: name for name in properties}


def float_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """Returns a floating dtype of a trainer; torch's default one for None.

    Args:
        dtype: float32, float64 or None.

    Returns:
        The dtype.

    Raises:
        ValueError: any other dtype.
    """
    chosen = torch.get_default_dtype() if dtype is None else dtype
    if chosen not in (torch.float32, torch.float64):
        raise ValueError(f"dtype: expected torch.float32 or torch.float64, got {dtype}")
    return chosen
