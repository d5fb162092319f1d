"""Conversions between ``.atp`` and other formats, and between NetCDF or Zarr and ATLAS stores.

from atompack_torch.conversion import convert, convert_datasets, export_datasets

print(convert("train.traj", "train.atp", codec="zstd"))
print(convert_datasets("profiles/", "profiles.atlas"))
print(export_datasets("profiles.atlas", "profiles.nc"))
"""

from atompack_torch.conversion.changes import Changes
from atompack_torch.conversion.comparing import Difference, FieldDifference, diff
from atompack_torch.conversion.pipeline import convert
from atompack_torch.conversion.selecting import drop, rename, sample, split
from atompack_torch.conversion.selecting import filter as filter  # noqa: A004
from atompack_torch.conversion.xarray_files import StoreReport, convert_datasets, export_datasets
from atompack_torch.formats.conversion_report import Report

__all__ = [
    "Changes",
    "Difference",
    "FieldDifference",
    "Report",
    "StoreReport",
    "convert",
    "convert_datasets",
    "diff",
    "drop",
    "export_datasets",
    "rename",
    "sample",
    "split",
]
