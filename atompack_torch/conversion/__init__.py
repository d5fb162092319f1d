"""Conversions between ``.atp`` and other formats, and of NetCDF and Zarr to ATLAS stores.

from atompack_torch.conversion import convert, convert_datasets

print(convert("train.traj", "train.atp", codec="zstd"))
print(convert_datasets("profiles/", "profiles.atlas"))
"""

from atompack_torch.conversion.changes import Changes
from atompack_torch.conversion.pipeline import convert
from atompack_torch.conversion.report import Report
from atompack_torch.conversion.xarray_files import StoreReport, convert_datasets

__all__ = ["Changes", "Report", "StoreReport", "convert", "convert_datasets"]
