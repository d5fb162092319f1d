"""Conversions between ``.atp`` and other formats.

from atompack_torch.convert import convert

print(convert("train.traj", "train.atp", codec="zstd"))
"""

from atompack_torch.convert.changes import Changes
from atompack_torch.convert.pipeline import convert
from atompack_torch.convert.report import Report

__all__ = ["Changes", "Report", "convert"]
