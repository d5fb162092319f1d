"""Memory that conversions take: it does not grow with files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reference.foreign import peak_of_conversion


def parquet(path: Path, n: int) -> None:
    """Molecules of ten atoms, in many row groups."""
    places = pa.array(np.random.default_rng(n).normal(size=n * 30))
    rows = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(places, 3), 10)
    numbers = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(n * 10, np.uint8)), 10)
    pq.write_table(pa.table({"positions": rows, "numbers": numbers}), path, row_group_size=10_000)


def hdf5(path: Path, n: int) -> None:
    """A group of ANI-2x, of molecules of nine atoms."""
    rng = np.random.default_rng(n)
    with h5py.File(path, "w") as file:
        file["009/species"] = np.ones((n, 9), np.int64)
        file["009/coordinates"] = rng.normal(size=(n, 9, 3)).astype("f4")
        file["009/energies"], file["009/forces"] = rng.normal(size=n), rng.normal(size=(n, 9, 3))


def mptrj(path: Path, n: int) -> None:
    """Frames of twenty atoms, all of one material."""
    site = {"species": [{"element": "H", "occu": 1}], "xyz": [0.1, 0.2, 0.3]}
    structure = {"lattice": {"matrix": np.eye(3).tolist()}, "sites": [site] * 20}
    entry = json.dumps({"structure": structure, "force": [[0.123456789] * 3] * 20})
    with path.open("w") as file:
        file.write('{"mp-0": {')
        file.writelines(f'{", " * bool(i)}"{i}": {entry}' for i in range(n))
        file.write("}}")


# The limit, in kB, is far below the size of the additional values. Arrow reads ahead.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("write", "sizes", "limit"),
    [
        (parquet, (20_000, 220_000), 36_000),
        (hdf5, (20_000, 120_000), 14_000),
        (mptrj, (2_000, 16_000), 12_000),
    ],
)
def test_memory_is_flat(
    tmp_path: Path, write: Callable[[Path, int], None], sizes: tuple[int, int], limit: int
) -> None:
    peaks = []
    for n in sizes:
        path = tmp_path / f"{n}.{'json' if write is mptrj else write.__name__}"
        write(path, n)
        peaks.append(peak_of_conversion(path))
    assert path.stat().st_size > 30 << 20
    assert peaks[1] - peaks[0] < limit
