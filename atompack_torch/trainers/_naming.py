"""Labels that are stored under names of their own."""

from __future__ import annotations

from collections.abc import Mapping

from atompack_torch.datasets._base import MoleculeDataset
from atompack_torch.datasets.aselmdb import AseLmdbDataset
from atompack_torch.datasets.extxyz import ExtxyzDataset
from atompack_torch.trainers._layout import Data, open_dataset


def open_with_names(data: Data, names: Mapping[str, str]) -> tuple[MoleculeDataset, dict[str, str]]:
    """Opens data in which labels have other names.

    Args:
        data: a data set, or anything that ``apt.open`` takes.
        names: builtin label → its name in the data.

    Returns:
        The data set, and builtin label → name of the field in its batches: files of text and
        databases are read with ``key_map``, so that it is the label's own.
    """
    dataset = open_dataset(data)
    renamed = {name: label for label, name in names.items() if name != label}
    is_opened_here = dataset is not data
    if not renamed or not is_opened_here:
        return dataset, dict(names)
    if not isinstance(dataset, (ExtxyzDataset, AseLmdbDataset)):
        return dataset, dict(names)
    return type(dataset)(dataset.path, key_map=renamed), {label: label for label in names}
