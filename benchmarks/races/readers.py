"""The standard data and the two ways of reading it that are compared: ours and atompack-db."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from atompack_torch import AtpDataset
from races.race import Build, Contestant, Setting

CODECS = ("none", "lz4", "zstd")
ELEMENTS = np.array([1, 6, 7, 8, 13, 14, 22, 26, 29, 78], np.uint8)
LOADER_TIMEOUT = 120  # s; a worker that hangs becomes an error


def structures(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Draw molecules of 10 to 60 atoms with energy, forces and cell, 958 bytes each on average."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n_atoms = int(rng.integers(10, 61))
        edge = (15.0 * n_atoms) ** (1 / 3)  # Å, for 15 Å^3 an atom
        yield {
            "positions": rng.uniform(0.0, edge, (n_atoms, 3)).astype(np.float32),
            "atomic_numbers": rng.choice(ELEMENTS, n_atoms),
            "energy": float(rng.normal(-4.0 * n_atoms, 1.0)),
            "forces": rng.normal(0.0, 1.0, (n_atoms, 3)).astype(np.float32),
            "cell": np.diag(rng.normal(edge, 0.1, 3)),
        }


def make_atp(folder: Path, count: int, codecs: Sequence[str] = CODECS) -> dict[str, Path]:
    """Write the molecules with atompack-db, one file per codec (zstd at level 3)."""
    import atompack

    molecules = [atompack.Molecule.from_arrays(**plain) for plain in structures(count)]
    paths = {codec: folder / f"{codec}.atp" for codec in codecs}
    for codec, path in paths.items():
        database = atompack.Database(str(path), compression=codec, level=3, overwrite=True)
        database.add_molecules(molecules)
        database.flush()
    return paths


def identity(batch: Any) -> Any:
    """Return the batch unchanged: the dataset makes whole batches itself."""
    return batch


def make_loader(
    dataset: Dataset[Any], setting: Setting, collate_fn: Callable[[Any], Any] | None = None
) -> DataLoader[Any]:
    """Make the DataLoader used for all contestants: shuffled, with persistent workers."""
    return DataLoader(
        dataset,
        batch_size=setting.batch_size,
        sampler=RandomSampler(range(setting.molecules), num_samples=setting.epoch),
        num_workers=setting.workers,
        persistent_workers=setting.workers > 0,
        timeout=LOADER_TIMEOUT if setting.workers else 0,
        collate_fn=collate_fn,
    )


def ours(setting: Setting) -> Contestant:
    """Build the contestant of ``DataLoader(AtpDataset(path))`` and ``AtpDataset(path).batch``."""
    dataset = AtpDataset(setting.path)
    return Contestant(make_loader(dataset, setting), dataset.batch)


def torch_batch(flat: Mapping[str, Any], indices: list[int]) -> dict[str, Any]:
    """Turn a flat read into the complete torch batch.

    NumPy does the conversions: at these sizes it is faster than torch's operators, which also use a
    thread pool for ``repeat_interleave``.
    """
    n_atoms = flat["n_atoms"].astype(np.int64)
    ptr = np.zeros(len(indices) + 1, np.int64)
    np.cumsum(n_atoms, out=ptr[1:])
    arrays = {
        "atomic_numbers": flat["atomic_numbers"].astype(np.int64),
        "batch": np.repeat(np.arange(len(indices)), n_atoms),
        "ptr": ptr,
        "n_atoms": n_atoms,
        "index": np.array(indices),
    }
    batch = {key: torch.from_numpy(array) for key, array in arrays.items()}
    rest = {key: torch.from_numpy(array) for key, array in flat.items() if key not in arrays}
    return batch | rest


class AtompackDb(Dataset[Any]):
    """atompack-db behind a DataLoader; opens lazily in the reading process, to survive a fork."""

    def __init__(self, setting: Setting, convert: Callable[..., Any] = torch_batch) -> None:
        self._setting = setting
        self._convert = convert
        self._database: Any = None

    def __len__(self) -> int:
        return self._setting.molecules

    def __getitems__(self, indices: list[int]) -> Any:
        if self._database is None:
            import atompack

            self._database = atompack.Database.open(str(self._setting.path))
        return self._convert(self._database.get_molecules_flat(indices), indices)


def atompack_db(setting: Setting) -> Contestant:
    """Build the contestant of atompack-db, whose readers make complete torch batches."""
    dataset = AtompackDb(setting)
    return Contestant(make_loader(dataset, setting, identity), dataset.__getitems__)


def fingerprint(build: Build, setting: Setting, indices: list[int]) -> dict[str, Any]:
    """Return dtype, shape and sum of every tensor in a batch."""
    batch = build(setting).batch(indices)
    keys = sorted(batch.keys())
    return {
        key: (str(batch[key].dtype), tuple(batch[key].shape), float(batch[key].double().sum()))
        for key in keys
    }
