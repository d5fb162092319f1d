"""Other ways to keep the same molecules, each read as its users would."""

from __future__ import annotations

import functools
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from races.race import Contestant, Setting
from races.readers import AtompackDb, identity, make_loader, structures
from torch.utils.data import Dataset


def numbering(n_atoms: np.ndarray, indices: Sequence[int]) -> dict[str, torch.Tensor]:
    """Make batch, ptr, n_atoms and index."""
    ptr = np.zeros(len(n_atoms) + 1, np.int64)
    np.cumsum(n_atoms, out=ptr[1:])
    return {
        "batch": torch.from_numpy(np.repeat(np.arange(len(n_atoms)), n_atoms)),
        "ptr": torch.from_numpy(ptr),
        "n_atoms": torch.from_numpy(n_atoms),
        "index": torch.tensor(indices),
    }


class Peer(Dataset[Any], ABC):
    """A dataset that makes whole batches and opens its file where it reads."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.opened: Any = None

    def __len__(self) -> int:
        return self.setting.molecules

    @abstractmethod
    def _open(self) -> Any: ...

    @abstractmethod
    def _collate(self, indices: list[int]) -> dict[str, Any]: ...

    def __getitems__(self, indices: list[int]) -> dict[str, Any]:
        if self.opened is None:
            self.opened = self._open()
        return self._collate(indices)


def contestant(dataset: Peer | AtompackDb, setting: Setting) -> Contestant:
    """Put a dataset behind the DataLoader that all of them use."""
    return Contestant(make_loader(dataset, setting, identity), dataset.__getitems__)


# atompack-db, converted with torch's operators ----------------------------------------------------


def convert_by_torch(flat: dict[str, Any], indices: list[int]) -> dict[str, Any]:
    """Turn a flat read into the same batch by torch alone."""
    tensors = {key: torch.from_numpy(array) for key, array in flat.items()}
    n_atoms = tensors["n_atoms"].long()
    ptr = torch.zeros(len(indices) + 1, dtype=torch.int64)
    torch.cumsum(n_atoms, 0, out=ptr[1:])
    tensors["n_atoms"], tensors["ptr"] = n_atoms, ptr
    tensors["atomic_numbers"] = tensors["atomic_numbers"].long()
    tensors["batch"] = torch.repeat_interleave(n_atoms)
    tensors["index"] = torch.tensor(indices)
    return tensors


def atompack_by_torch(setting: Setting) -> Contestant:
    """Read with atompack-db and convert with torch instead of NumPy."""
    return contestant(AtompackDb(setting, convert_by_torch), setting)


# LMDB of pickles ----------------------------------------------------------------------------------


def make_lmdb(path: Path, count: int) -> None:
    """Write the molecules."""
    write_lmdb(path, structures(count))


def write_lmdb(path: Path, molecules: Iterable[dict[str, Any]]) -> None:
    """Write one pickled dict of arrays a molecule, keyed by its number."""
    import lmdb

    environment = lmdb.open(str(path), map_size=1 << 34, subdir=False)  # at most 16 GiB
    with environment, environment.begin(write=True) as transaction:
        for i, plain in enumerate(molecules):
            transaction.put(str(i).encode(), pickle.dumps(plain, protocol=5))


class LmdbPickles(Peer):
    """Unpickle each molecule, then join the arrays."""

    def _open(self) -> Any:
        import lmdb

        path = str(self.setting.path)
        environment = lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=False)
        return environment.begin(buffers=True)

    def _molecules(self, indices: list[int]) -> list[dict[str, Any]]:
        return [pickle.loads(self.opened.get(str(i).encode())) for i in indices]

    def _collate(self, indices: list[int]) -> dict[str, Any]:
        plain = self._molecules(indices)
        numbers = [molecule["atomic_numbers"] for molecule in plain]
        joined = {
            "positions": np.concatenate([molecule["positions"] for molecule in plain]),
            "forces": np.concatenate([molecule["forces"] for molecule in plain]),
            "atomic_numbers": np.concatenate(numbers, dtype=np.int64),
            "cell": np.stack([molecule["cell"] for molecule in plain]),
            "energy": np.array([molecule["energy"] for molecule in plain]),
        }
        tensors = {key: torch.from_numpy(array) for key, array in joined.items()}
        return tensors | numbering(np.array([len(z) for z in numbers]), indices)


# HDF5, one flat file with offsets -----------------------------------------------------------------

PER_ATOM = ("positions", "forces", "atomic_numbers")


def make_h5(path: Path, count: int) -> None:
    """Write every field as one dataset, molecules back to back, and their offsets."""
    import h5py

    plain = list(structures(count))
    with h5py.File(path, "w") as file:
        for key in PER_ATOM:
            file[key] = np.concatenate([molecule[key] for molecule in plain])
        for key in ("energy", "cell"):
            file[key] = np.stack([molecule[key] for molecule in plain])
        file["ptr"] = np.cumsum([0, *(len(molecule["atomic_numbers"]) for molecule in plain)])


class FlatH5(Peer):
    """Read slices straight into the batch's arrays; what is small per molecule stays in memory."""

    def _open(self) -> Any:
        import h5py

        file = h5py.File(self.setting.path, "r")
        kept = {key: file[key][:] for key in ("ptr", "energy", "cell")}
        return kept | {key: file[key] for key in PER_ATOM}

    def _collate(self, indices: list[int]) -> dict[str, Any]:
        columns = self.opened
        begin, end = columns["ptr"][indices], columns["ptr"][np.add(indices, 1)]
        small = numbering(end - begin, indices)
        small |= {key: torch.from_numpy(columns[key][indices]) for key in ("energy", "cell")}
        ptr = small["ptr"].tolist()
        for key in PER_ATOM:
            column = columns[key]
            dtype = np.int64 if key == "atomic_numbers" else column.dtype
            rows = np.empty((ptr[-1], *column.shape[1:]), dtype)
            for i, (a, b) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
                column.read_direct(rows, np.s_[a:b], np.s_[ptr[i] : ptr[i + 1]])
            small[key] = torch.from_numpy(rows)
        return small


# torch-geometric, all in memory -------------------------------------------------------------------

PYG_NAMES = {"pos": "positions", "z": "atomic_numbers", "number": "index"}


def pyg_data(plain: dict[str, Any], **more: torch.Tensor) -> Any:
    """Make a Data object of a molecule."""
    from torch_geometric.data import Data

    return Data(
        pos=torch.from_numpy(plain["positions"]),
        z=torch.from_numpy(plain["atomic_numbers"]).long(),
        forces=torch.from_numpy(plain["forces"]),
        energy=torch.tensor([plain["energy"]], dtype=torch.float64),
        cell=torch.from_numpy(plain["cell"])[None],
        **more,
    )


def make_pyg(path: Path, count: int) -> None:
    """Save a list of Data objects the way InMemoryDataset keeps it."""
    from torch_geometric.data import InMemoryDataset

    molecules = []
    for i, plain in enumerate(structures(count)):
        n_atoms = torch.tensor([len(plain["atomic_numbers"])])
        number = torch.tensor([i])  # collating shifts what is called an index
        molecules.append(pyg_data(plain, n_atoms=n_atoms, number=number))
    InMemoryDataset.save(molecules, str(path))


def pyg_in_memory(setting: Setting) -> Contestant:
    """Read through torch-geometric's own DataLoader."""
    from torch.utils.data import RandomSampler
    from torch_geometric.data import Batch, InMemoryDataset
    from torch_geometric.loader import DataLoader

    dataset = InMemoryDataset(None)
    dataset.load(str(setting.path))
    sampler = RandomSampler(range(setting.molecules), num_samples=setting.epoch)
    loader = DataLoader(dataset, batch_size=setting.batch_size, sampler=sampler)

    def batch(indices: list[int]) -> Any:
        tensors = Batch.from_data_list([dataset[i] for i in indices]).to_dict()
        return {PYG_NAMES.get(key, key): tensor for key, tensor in tensors.items()}

    return Contestant(loader, batch)


# The floor ----------------------------------------------------------------------------------------

BATCH_BYTES = 1504  # of tensors per molecule of the standard data, in every complete batch


class Memcpy(Peer):
    """Copy as many bytes as a batch has, in one piece: nothing that fills a batch does less."""

    def _open(self) -> Any:
        return np.fromfile(self.setting.path, np.uint8)

    def _collate(self, indices: list[int]) -> dict[str, Any]:
        n_bytes = BATCH_BYTES * len(indices)
        start = indices[0] * (len(self.opened) - n_bytes) // self.setting.molecules
        return {"bytes": torch.from_numpy(self.opened[start : start + n_bytes].copy())}


class BareNumber(Peer):
    """One number in place of a batch: what the queue between processes takes."""

    def _open(self) -> Any:
        return None

    def _collate(self, indices: list[int]) -> dict[str, Any]:
        return {"number": indices[0]}


def _build(kind: Callable[[Setting], Peer], setting: Setting) -> Contestant:
    return contestant(kind(setting), setting)


lmdb_pickles = functools.partial(_build, LmdbPickles)
flat_h5 = functools.partial(_build, FlatH5)
memcpy = functools.partial(_build, Memcpy)
bare_number = functools.partial(_build, BareNumber)

MAKERS: dict[str, Callable[[Path, int], None]] = {
    "molecules.lmdb": make_lmdb,
    "molecules.h5": make_h5,
    "molecules.pyg": make_pyg,
}
