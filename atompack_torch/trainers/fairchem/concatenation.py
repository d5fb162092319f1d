"""Concatenated datasets of fairchem as one dataset of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from fairchem.core.datasets.mt_concat_dataset import ConcatDataset

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.mixture import MixtureDataset
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.resident.dataset import ResidentDataset
from atompack_torch.trainers._labels import require_labels
from atompack_torch.trainers._layout import selected_schema
from atompack_torch.trainers.fairchem.config import Dataset
from atompack_torch.trainers.fairchem.layout import FairchemLayout, Part
from atompack_torch.trainers.fairchem.naming import References, properties_of, tables_of

_LEVELS = {"system": "molecule", "atom": "atom"}


def labels_of_tasks(tasks: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Returns level, shape and datasets of the labels of tasks, as ``MTCollater`` keeps them.

    Args:
        tasks: of fairchem.

    Returns:
        Name of a label → its options.
    """
    return {
        task.name: {
            "level": task.level,
            "out_spec": {"dim": list(task.out_spec.dim)},
            "datasets": task.datasets,
        }
        for task in tasks
        if not task.inference_only
    }


def layout_of(
    parts: Sequence[Part],
    sources: Sequence[MoleculeDataset],
    molecules: MoleculeDataset,
    tasks: Mapping[str, Mapping[str, Any]],
    *,
    references: References | None,
    **options: Any,
) -> FairchemLayout:
    """Returns the layout of datasets for tasks.

    Args:
        parts: the datasets, with all labels that they may have.
        sources: their molecules.
        molecules: all of them as one.
        tasks: name of a label → its options; none: all labels.
        references: energies of elements.
        **options: of the layout.

    Returns:
        The layout, with the labels of the tasks.

    Raises:
        FieldError: a task has a label that no molecule of its dataset has.
        ValueError: a dataset of a task has no label of its name.
    """
    schema = selected_schema(molecules)
    fitted = []
    for part, source in zip(parts, sources, strict=True):
        names = {name for name, _ in part.labels}
        for name, task in tasks.items():
            if _has(task, part) and name not in names:
                raise ValueError(
                    f"tasks: dataset {part.task!r} has no label {name!r}: rename one with "
                    "key_mapping (labels=)"
                )
        trained = [
            [kind] for name, kind in part.labels if name in tasks and _has(tasks[name], part)
        ]
        require_labels(source, trained)
        labels = tuple(
            (name, kind)
            for name, kind in part.labels
            if (_has(tasks[name], part) if name in tasks else not tasks and kind in schema)
        )
        fitted.append(replace(part, labels=labels))
    made = {name: kind for part in fitted for name, kind in part.labels}
    absent = tuple(
        (name, _LEVELS[task["level"]], _row_shape(task))
        for name, task in tasks.items()
        if name not in made
    )
    return FairchemLayout(
        parts=tuple(fitted),
        properties=properties_of(schema),
        references=tables_of(references, [name for name, kind in made.items() if kind == "energy"]),
        absent=absent,
        **options,
    )


def _has(task: Mapping[str, Any], part: Part) -> bool:
    return part.task in task["datasets"]


def _row_shape(task: Mapping[str, Any]) -> tuple[int, ...]:
    shape = tuple(task["out_spec"]["dim"])
    return shape[1:] if task["level"] == "system" else shape  # (1, ...) for a system


def concatenated(
    dataset: ConcatDataset,
    collate_fn: Any,
    references: References | None,
    *,
    resident: bool = False,
) -> tuple[MoleculeDataset, FairchemLayout]:
    """Returns the molecules of concatenated datasets in their order, and their layout.

    Args:
        dataset: of fairchem.
        collate_fn: of fairchem, with the tasks; or None.
        references: energies of elements.
        resident: keep all molecules and their edges in memory.

    Returns:
        One dataset of this package, and the layout of its batches.

    Raises:
        FieldError: a task has a label that no molecule of its dataset has.
        TypeError: an argument has the wrong type.
        ValueError: options of the datasets differ, or a task finds no label.
    """
    if not isinstance(dataset, ConcatDataset):
        raise TypeError(f"dataset: expected a ConcatDataset, got {type(dataset).__name__}")
    if collate_fn is not None and not hasattr(collate_fn, "task_config"):
        kind = type(collate_fn).__name__
        raise TypeError(f"collate_fn: expected the result of mt_collater_adapter, got {kind}")
    sources, chosen = zip(*(_unwrapped(part) for part in dataset.datasets), strict=True)
    parts = [part.part(name) for part, name in zip(sources, dataset.dataset_names, strict=True)]
    options = [(part.edges, part.dtype, part.flat_stress) for part in sources]
    for name, of_part in zip(dataset.dataset_names, options, strict=True):
        if of_part != options[0]:
            raise ValueError(
                f"dataset: expected the same edges, dtype and shape of stresses in all: "
                f"{options[0]} in {dataset.dataset_names[0]!r}, got {of_part} in {name!r}"
            )
    numbers = _numbers(dataset, chosen)
    whole = [
        in_memory(part.molecules, part.edges) if resident else part.molecules for part in sources
    ]
    if len(whole) == 1:
        molecules = whole[0].subset(numbers[0])
    else:
        mixture = MixtureDataset(whole)
        place = np.empty(len(mixture), np.int64)
        place[np.asarray(mixture.selection)] = np.arange(len(mixture))
        sizes = np.cumsum([0, *(len(part) for part in sources)])
        concatenated = [of_part + start for of_part, start in zip(numbers, sizes, strict=False)]
        molecules = mixture.subset(place[np.concatenate(concatenated)])
    edges, dtype, flat_stress = options[0]
    layout = layout_of(
        parts,
        [part.molecules for part in sources],
        molecules,
        {} if collate_fn is None else collate_fn.task_config,
        edges=edges,
        dtype=dtype,
        flat_stress=flat_stress,
        references=references,
    )
    return molecules, layout


def in_memory(molecules: MoleculeDataset, edges: NeighborList | None) -> ResidentDataset:
    """Loads molecules and their edges.

    Args:
        molecules: in files.
        edges: neighbor list, or None.

    Returns:
        The molecules, of the same numbers.
    """
    part = molecules.with_request(replace(molecules.request, neighbors=edges))
    return ResidentDataset(part)


def _unwrapped(part: Any) -> tuple[Dataset, Any]:
    """Returns a dataset of a configuration, and the indices of the molecules used."""
    indices: Any = None
    while not isinstance(part, Dataset):
        if not hasattr(part, "dataset"):
            raise TypeError(
                "dataset: expected format: atompack_torch.trainers.fairchem.Dataset in all "
                f"datasets, got {type(part).__name__}"
            )
        of_part = np.asarray(part.indices)
        indices = of_part if indices is None else of_part[indices]
        part = part.dataset
    return part, np.arange(len(part)) if indices is None else indices


def _numbers(dataset: ConcatDataset, chosen: Iterable[Any]) -> list[Any]:
    """Returns the indices of the molecules of each part, in the order of the concatenation."""
    starts = [0, *dataset.cumulative_sizes]
    counts = np.diff(starts)
    return [
        indices[np.arange(count) % len(indices)]
        for indices, count in zip(chosen, counts, strict=True)
    ]
