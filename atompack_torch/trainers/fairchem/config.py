"""Datasets of fairchem's configuration files."""

from __future__ import annotations

import glob
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch
from fairchem.core.datasets.atomic_data import AtomicData
from fairchem.core.datasets.base_dataset import BaseDataset

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.trainers._labels import STATES
from atompack_torch.trainers._layout import float_dtype, open_dataset, selected_schema
from atompack_torch.trainers.fairchem.layout import FairchemLayout, Part
from atompack_torch.trainers.fairchem.naming import INTEGERS, pairs_of, properties_of

_OMOL_VACUUM = 120.0  # Å

# Transforms of fairchem that are done natively -> vacuum around molecules.
_TRANSFORMS: Final = {
    "common_transform": 0.0,
    "asedb_transform": 0.0,
    "qmof_transform": 0.0,
    "stress_reshape_transform": 0.0,
    "ani1x_transform": _OMOL_VACUUM,
    "trans1x_transform": _OMOL_VACUUM,
    "qm9_transform": _OMOL_VACUUM,
    "omol_transform": _OMOL_VACUUM,
}
_KEYS: Final = (
    *("src", "format", "splits", "a2g_args", "key_mapping", "key_map", "transforms"),
    *("first_n", "sample_n", "no_shuffle", "max_atoms", "subset_to", "seed"),  # of fairchem itself
    *("metadata_path", "keep_in_memory", "connect_args"),  # not needed here
)
_OPTIONS = (
    "r_edges",
    "radius",
    "max_neigh",
    "molecule_cell_size",
    "r_energy",
    "r_forces",
    "r_stress",
    "r_data_keys",
    "task_name",
    "target_dtype",
    "external_graph_method",
)


class Dataset(BaseDataset):  # type: ignore[misc]
    """Dataset of fairchem's configuration, over anything that holds molecules.

        dataset_configs:
          omol:
            format: atompack_torch.trainers.fairchem.Dataset
            splits: {train: {src: omol.atp}}
            a2g_args: {r_edges: true, radius: 6.0, r_data_keys: [charge, spin]}
            key_mapping: {energy: omol_energy}
            transforms: {omol_transform: {dataset_name: omol}}

    Options of ``AseDBDataset`` mean what they mean there: ``a2g_args``, ``key_mapping``,
    ``first_n``, ``sample_n``, ``no_shuffle``, ``max_atoms``, ``subset_to`` and ``seed``, and of
    ``transforms`` those that
    name the dataset, put molecules in boxes or reshape the stress. ``key_map`` is that of
    ``atompack_torch.trainers.lightning.DataModule``. Numbers of atoms come from the index of the
    file; ``metadata.npz`` is not needed.

    Items are ``AtomicData`` of single molecules; ``Loader`` makes whole batches.

    Args:
        config: of fairchem; ``src`` is a path, a pattern, a URL or a list of paths.

    Raises:
        FieldError: the data have no field of a name in ``key_map``.
        ValueError: an option or transform has no counterpart.
        TypeError: the source holds no molecules.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(dict(config))
        source = config["src"]
        paths = _matching(source) if isinstance(source, str) else list(source)
        _checked("dataset_configs", config, _KEYS)
        self.molecules = open_dataset(paths, config.get("key_map"))
        self.num_samples = len(self.molecules)
        self._graph = _checked("a2g_args", config.get("a2g_args"), _OPTIONS)
        self._transforms = _checked("transforms", config.get("transforms"), _TRANSFORMS)
        self._warn_of_states()

    def _warn_of_states(self) -> None:
        """Says that charges and spins of the file become 0, as in fairchem."""
        there = properties_of(selected_schema(self.molecules))
        listed = self._graph.get("r_data_keys") or ()
        if unread := [key for key, _ in there if key in STATES and key not in listed]:
            warnings.warn(
                f"{self.config['src']}: a2g_args: {', '.join(unread)} of all molecules are 0: add "
                f"r_data_keys: {unread} to read the stored values",
                stacklevel=3,
            )

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        return {"natoms": self.molecules.n_atoms.numpy()}

    def part(self, name: str | None = None) -> Part:
        """Describes the dataset as a part of a batch.

        Args:
            name: of the dataset with its split.

        Returns:
            The description.
        """
        tasks = [
            options["dataset_name"]
            for options in self._transforms.values()
            if "dataset_name" in (options or {})
        ]
        kinds = ["energy", "forces"] + ["stress"] * self._graph.get("r_stress", True)
        size = self._graph.get("molecule_cell_size")
        listed = self._graph.get("r_data_keys") or ()
        return Part(
            task=tasks[-1] if tasks else self._graph.get("task_name"),
            name=name,
            labels=pairs_of(self.config.get("key_mapping"), kinds),
            vacuum=max((_TRANSFORMS[name] for name in self._transforms), default=0.0)
            or size
            or 0.0,
            is_periodic=size is not None,
            integers=tuple(
                key for key in INTEGERS if key in listed or key not in ("charge", "spin")
            ),
        )

    @property
    def dtype(self) -> torch.dtype:
        """Floating dtype of positions and labels."""
        dtype = self._graph.get("target_dtype", torch.float32)
        if isinstance(dtype, str):
            dtype = getattr(torch, dtype.removeprefix("torch."))
        return float_dtype(dtype)

    @property
    def edges(self) -> NeighborList | None:
        """Neighbor list, if the dataset makes edges."""
        if not self._graph.get("r_edges", False):
            return None
        return neighbor_list(self._graph.get("radius", 6.0), self._graph.get("max_neigh"))

    @property
    def flat_stress(self) -> bool:
        """True for stresses of shape (B, 9)."""
        return "stress_reshape_transform" in self._transforms

    @cached_property
    def _single(self) -> MoleculeDataset:
        """Dataset whose batches are those of fairchem."""
        schema = selected_schema(self.molecules)
        part = self.part()
        labels = tuple((name, kind) for name, kind in part.labels if kind in schema)
        layout = FairchemLayout(
            parts=(replace(part, labels=labels),),
            properties=properties_of(schema),
            edges=self.edges,
            dtype=self.dtype,
            flat_stress=self.flat_stress,
            references=(),
        )
        return layout.dataset(self.molecules)

    def __getitem__(self, idx: int | slice) -> Any:
        """Returns one molecule as ``AtomicData``, or a list of them.

        Args:
            idx: number of the molecule, or a slice.

        Returns:
            The molecule, whose ``dataset`` is a string as in ``AseDBDataset``.
        """
        if isinstance(idx, slice):
            return [self[number] for number in range(*idx.indices(len(self)))]
        data: AtomicData = self._single.batch([idx])
        if "dataset" in data:
            data.dataset = data.dataset[0]
        return data


def neighbor_list(cutoff: float | None, max_neighbors: int | None) -> NeighborList | None:
    """Returns the neighbor list of a graph.

    Args:
        cutoff: in Å; None: no edges.
        max_neighbors: of an atom, the nearest ones; None: all.

    Returns:
        The neighbor list, or None.
    """
    if cutoff is None:
        return None
    most = None if max_neighbors is None else int(max_neighbors)
    return NeighborList(float(cutoff), max_neighbors=most)


def _matching(path: str) -> str | list[str]:
    """Returns the path, or the files that match it if it is a pattern."""
    if Path(path).exists():
        return path
    return sorted(glob.glob(path, recursive=True)) or path  # noqa: PTH207  # no hidden files


def _checked(option: str, given: Mapping[str, Any] | None, known: Any) -> dict[str, Any]:
    for name in given or {}:
        if name not in known:
            raise ValueError(f"{option}: expected one of {', '.join(known)}, got {name!r}")
    return dict(given or {})
