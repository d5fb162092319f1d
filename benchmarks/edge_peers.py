"""Other ways to keep molecules whose batches need edges, each read as its users would."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import peers
import torch
import vesin
from races.race import Setting
from races.readers import identity
from torch import Tensor
from torch.utils.data import DataLoader

import atompack_torch as apt

CUTOFF = 5.0  # Å
NAMES = ("positions", "atomic_numbers", "energy", "forces", "edge_index", "edge_shift")

Batches = list[list[int]]
Pass = Iterator[Mapping[str, Any]]
Side = Callable[[Batches], Pass]  # makes these batches, each with at least NAMES
Plain = dict[str, Any]


def structures(count: int, volume: float = 12.0, periodic: bool = True) -> Iterator[Plain]:
    """Draw molecules of 10 to 60 atoms, by default 12 Å^3 an atom, as in a metal."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        n = int(rng.integers(10, 61))
        length = np.float32((volume * n) ** (1 / 3))
        plain = {
            "positions": (rng.random((n, 3)) * length).astype(np.float32),
            "atomic_numbers": rng.integers(1, 90, n),
            "energy": float(rng.normal(-4.0 * n)),
            "forces": rng.normal(size=(n, 3)).astype(np.float32),
        }
        if periodic:
            plain |= {"cell": np.eye(3) * float(length), "pbc": np.ones(3, dtype=bool)}
        yield plain


def make_atp(path: Path, count: int, volume: float = 12.0, periodic: bool = True) -> Path:
    """Write an .atp file, not compressed."""
    with apt.AtpWriter(path) as writer:
        for plain in structures(count, volume, periodic):
            writer.write(apt.Molecule(**plain))
    return path


def with_edges(atp: Path) -> apt.AtpDataset:
    """Read the file with the edges that all sides are to have."""
    return apt.AtpDataset(atp, neighbors=apt.NeighborList(CUTOFF))


def search(plain: Plain) -> tuple[np.ndarray, np.ndarray]:
    """Find one molecule's edges: (2, E) int64 and (E, 3) float32."""
    calculator = vesin.NeighborList(cutoff=CUTOFF, full_list=True, n_threads=1)
    positions = plain["positions"].astype(np.float64)
    pairs, shifts = calculator.compute(positions, plain["cell"], True, "PS")
    return pairs.astype(np.int64).T, shifts.astype(np.float32)


# Ours ---------------------------------------------------------------------------------------------


def our_loader(atp: Path, threads: int) -> Side:
    """``Loader``; edges made."""
    dataset = with_edges(atp)
    return lambda batches: iter(apt.Loader(dataset, batch_sampler=batches, num_threads=threads))


def our_dataloader(atp: Path) -> Side:
    """Torch's DataLoader over the same; edges made on one thread, between the steps."""
    dataset = apt.AtpDataset(atp, neighbors=apt.NeighborList(CUTOFF), num_threads=1)
    return lambda batches: iter(DataLoader(dataset, batch_sampler=batches))


# torch-geometric, all in memory -------------------------------------------------------------------


def pyg_in_memory(folder: Path, count: int) -> Side:
    """Keep Data objects without edges; vesin makes them in the transform, for each molecule."""
    from torch_geometric.data import Data, InMemoryDataset
    from torch_geometric.loader import DataLoader

    def find(molecule: Data) -> Data:
        plain = {"positions": molecule.pos.numpy(), "cell": molecule.cell[0].numpy()}
        index, shift = search(plain)
        molecule.edge_index, molecule.edge_shift = torch.from_numpy(index), torch.from_numpy(shift)
        return molecule

    path = str(folder / "molecules.pyg")
    InMemoryDataset.save([peers.pyg_data(plain) for plain in structures(count)], path)
    dataset = InMemoryDataset(None, transform=find)
    dataset.load(path)
    names = {"positions": "pos", "atomic_numbers": "z"}

    def batches_of(batches: Batches) -> Pass:
        for batch in DataLoader(dataset, batch_sampler=batches):
            yield {name: batch[names.get(name, name)] for name in NAMES}

    return batches_of


# LMDB of pickles ----------------------------------------------------------------------------------


class LmdbPickles(peers.LmdbPickles):
    """One pickled dict of arrays a molecule, with its edges or without; then join the arrays."""

    def _collate(self, indices: list[int]) -> dict[str, Tensor]:
        plain = self._molecules(indices)
        edges = [m["edges"] if "edges" in m else search(m) for m in plain]
        firsts = itertools.accumulate((len(m["positions"]) for m in plain[:-1]), initial=0)
        index = [pairs + np.int64(first) for (pairs, _), first in zip(edges, firsts, strict=True)]
        numbers = [molecule["atomic_numbers"] for molecule in plain]
        joined = {
            "positions": np.concatenate([molecule["positions"] for molecule in plain]),
            "atomic_numbers": np.concatenate(numbers, dtype=np.int64),
            "energy": np.array([molecule["energy"] for molecule in plain]),
            "forces": np.concatenate([molecule["forces"] for molecule in plain]),
            "edge_index": np.concatenate(index, axis=1),
            "edge_shift": np.concatenate([shift for _, shift in edges], dtype=np.float32),
        }
        return {key: torch.from_numpy(array) for key, array in joined.items()}


def lmdb_pickles(folder: Path, count: int, atp: Path | None) -> Side:
    """With ``atp`` its edges are stored, in small types; else they are made when read."""

    def stored() -> Iterator[Plain]:
        for i, plain in enumerate(structures(count)):
            if atp is not None:
                one = with_edges(atp)[i]
                plain["edges"] = (
                    one.edge_index.numpy().astype(np.int32),
                    one.edge_shift.numpy().astype(np.int8),
                )
            yield plain

    path = folder / f"{'made' if atp is None else 'stored'}.lmdb"
    peers.write_lmdb(path, stored())
    dataset = LmdbPickles(Setting(path, count))
    return lambda batches: iter(DataLoader(dataset, batch_sampler=batches, collate_fn=identity))


def sides(folder: Path, count: int) -> dict[str, Side]:
    """Write the molecules in every way, and open them; the first is what is compared to."""
    atp = make_atp(folder / "molecules.atp", count)
    return {
        "Loader, 1 thread": our_loader(atp, 1),
        "Loader, 2 threads": our_loader(atp, 2),
        "DataLoader(AtpDataset)": our_dataloader(atp),
        "torch-geometric in memory, vesin in its transform": pyg_in_memory(folder, count),
        "LMDB of pickles, vesin": lmdb_pickles(folder, count, None),
        "LMDB of pickles, edges stored": lmdb_pickles(folder, count, atp),
    }


def canonical(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Sort the edges, whose order is nobody's promise, and keep the tensors that are compared."""
    edges = torch.cat([batch["edge_index"].T.double(), batch["edge_shift"].double()], dim=1)
    order = np.lexsort(edges.T.flip(0).numpy())
    kept = {name: batch[name] for name in NAMES}
    kept["edge_index"], kept["edge_shift"] = kept["edge_index"][:, order], kept["edge_shift"][order]
    return kept


def check(opened: Mapping[str, Side], batches: Batches) -> None:
    """Make sure that all sides deliver the same tensors, else their speeds mean nothing."""
    (first, reference), *others = opened.items()
    expected = [canonical(batch) for batch in reference(batches)]
    for name, side in others:
        got = [canonical(batch) for batch in side(batches)]
        for mine, theirs in zip(expected, got, strict=True):
            for key in NAMES:
                if mine[key].dtype != theirs[key].dtype or not torch.equal(mine[key], theirs[key]):
                    raise AssertionError(f"{key}: {name} differs from {first}")
