"""Conversions between ``.atp`` and other formats, and of NetCDF and Zarr to ATLAS stores.

from atompack_torch.convert import convert, convert_datasets

print(convert("train.traj", "train.atp", codec="zstd"))
print(convert_datasets("profiles/", "profiles.atlas"))
"""

from atompack_torch.convert.changes import Changes
from atompack_torch.convert.pipeline import convert
from atompack_torch.convert.report import Report
from atompack_torch.convert.xarray_files import StoreReport, convert_datasets

__all__ = ["Changes", "Report", "StoreReport", "convert", "convert_datasets"]
