"""Ray Data: ``.atp`` files as a source and as a target of its datasets.

    dataset = apt.ray.read_atp("train/", fields=["energy", "forces"])
    dataset.filter(lambda row: row["energy"] is not None).write_datasink(
        apt.ray.AtpDatasink("labelled/")
    )

Needs Ray (``pip install "ray[data]"``), which is imported on first use.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atompack_torch.formats.atp.dataset import AtpDataset

if TYPE_CHECKING:
    from ray.data import Dataset

    from atompack_torch.ray.datasink import AtpDatasink

__all__ = ["AtpDatasink", "read_atp"]

_Path = str | os.PathLike[str]
# Options of AtpDataset whose result is not a column of values that are stored.
_OTHERS = (
    "features",
    "force_subset",
    "neighbors",
    "transform",
)


def read_atp(
    paths: _Path | Sequence[_Path],
    fields: Sequence[str] | None = None,
    *,
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
    **options: Any,
) -> Dataset:
    """Reads ``.atp`` files as a dataset of Ray, one row for each molecule.

    Blocks are Arrow tables. Columns have the names and dtypes of ``AtpDataset(paths).schema``:
    numbers and strings as such, arrays of a molecule as lists of fixed size, values of atoms as
    lists with a row for each atom, tensors whose shape varies as structs of ``data`` and ``shape``;
    and ``index``, the number of the molecule. A value that a molecule does not have is null,
    integers too. The files are read as of this call, even if molecules are appended in the
    meantime.

    Args:
        paths: a file, a list of files or a folder, as for ``AtpDataset``.
        fields: labels to read; None: all.
        override_num_blocks: number of read tasks; None: chosen by Ray.
        concurrency: maximum number of read tasks at a time.
        ray_remote_args: arguments of ``ray.remote`` for read tasks.
        **options: options of ``AtpDataset`` on what is read and from where: ``exclude``, ``dtype``,
            ``missing``, ``nan_is_missing``, ``access``, ``num_threads`` (default: 1),
            ``storage_options``.

    Returns:
        The dataset, which reads when it is used.

    Raises:
        ImportError: Ray is not installed.
        TypeError: an option is not supported.
        FieldError: no file has one of the fields.
        OSError, CorruptFileError: a file cannot be opened.
    """
    datasource = _module("datasource")
    for name in _OTHERS:
        if name in options:
            raise TypeError(f"{name}: expected an option on what is stored; use map_batches")
    given = {"num_threads": 1, "access": "sequential", **options}
    dataset = AtpDataset(paths, fields=fields, **given)
    made: Dataset = importlib.import_module("ray.data").read_datasource(
        datasource.AtpDatasource(dataset),
        override_num_blocks=override_num_blocks,
        concurrency=concurrency,
        ray_remote_args=dict(ray_remote_args or {}),
    )
    return made


def _module(name: str) -> Any:
    """Imports a module of this package that needs Ray."""
    try:
        importlib.import_module("ray.data")
    except ImportError as error:
        raise ImportError(f"apt.ray needs Ray Data (pip install 'ray[data]'): {error}") from error
    return importlib.import_module(f"{__name__}.{name}")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "AtpDatasink":
            return _module("datasink").AtpDatasink
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
