"""Engine of xarray that opens ATLAS stores: ``xarray.open_dataset(path, engine="atlas")``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import xarray
from xarray.backends import BackendEntrypoint

from atompack_torch.errors import FieldError
from atompack_torch.formats.atlas_store import xarray_datasets
from atompack_torch.formats.atlas_store.atlas_store import AtlasStore
from atompack_torch.options import redact_path


class AtlasBackendEntrypoint(BackendEntrypoint):
    """Opens datasets of ATLAS stores lazily; ``group`` names one, or several to be stacked."""

    description = "Open datasets of ATLAS stores"
    open_dataset_parameters: ClassVar[tuple[str, ...]] = (
        "filename_or_obj",
        "drop_variables",
        "group",
        "arrays",
        "concat_dim",
        "storage_options",
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | Sequence[str] | None = None,
        arrays: Sequence[str] | None = None,
        concat_dim: str = "dataset",
        storage_options: Mapping[str, object] | None = None,
    ) -> xarray.Dataset:
        """Opens one dataset, or several stacked along a new dimension.

        Args:
            filename_or_obj: path or URL of the store, or an ``AtlasStore``.
            drop_variables: names of arrays to omit.
            group: name of the dataset, or a list of names; None: the only one.
            arrays: names of the arrays; None: all.
            concat_dim: name of the new dimension where ``group`` is a list.
            storage_options: options of a remote store; see ``AtpDataset``.

        Returns:
            The dataset, whose values are read when they are used.

        Raises:
            FieldError: no such dataset or array, several datasets and no ``group``, or layouts
                that differ between the datasets of a list.
        """
        store = filename_or_obj
        if not isinstance(store, AtlasStore):
            store = AtlasStore(store, storage_options=storage_options)
        if group is None:
            if len(store) != 1:
                raise FieldError(
                    f"{redact_path(store.path)}: group: expected the name of one of {len(store)} "
                    "datasets, or a list of names"
                )
            group = store.datasets[0]
        dropped = [drop_variables] if isinstance(drop_variables, str) else drop_variables or []
        if isinstance(group, str):
            made = xarray_datasets.read(store, group, arrays)
        else:
            made = xarray_datasets.read_stacked(store, group, arrays, concat_dim)
        return made.drop_vars([*dropped], errors="ignore") if dropped else made

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """True for a local folder that is a store, and for the file of a collection."""
        from atompack_torch.formats import recognize

        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        if not Path(filename_or_obj).exists():
            return False
        found = recognize(filename_or_obj)
        return found is not None and found.name == "atlas-store"
