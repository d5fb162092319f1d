"""All writers that are killed."""

from __future__ import annotations

from soak.cache_writers import CacheBuilding
from soak.growing_writers import GROWING
from soak.killing import KilledWriter
from soak.publishing_writers import PUBLISHING

WRITERS: list[type[KilledWriter]] = [*GROWING, *PUBLISHING, CacheBuilding]
# Modules whose import would take most of a script's time.
PRELOADED = (
    *(
        "torch",
        "atompack_torch",
        "soak.writers",
        "ase.db",
        "ase.io",
        "h5py",
        "lmdb",
        "netCDF4",
        "pyarrow.parquet",
    ),
    *("xarray", "zarr"),
)
