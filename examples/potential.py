"""A small message-passing potential in plain PyTorch, and the table of neighbors that it reads."""

import math

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from vesin import NeighborList

from atompack_torch import AtpDataset, MoleculeBatch


class NeighborTable:
    """Every structure's neighbors within the cutoff, found once and looked up for each batch.

    The edges of all structures lie one after the other, ``count[k]`` of them from ``first[k]`` on
    for structure k; their atoms count from 0 within the structure.
    """

    def __init__(self, dataset: AtpDataset, cutoff: float) -> None:
        pairs, shifts, counts = [], [], []
        for batch in DataLoader(dataset, batch_size=256):
            for k, positions in enumerate(batch.positions.split(batch.n_atoms.tolist())):
                search = NeighborList(cutoff=cutoff, full_list=True, sorted=True, n_threads=1)
                pair, shift = search.compute(
                    positions.double(), batch.cell[k].double(), batch.pbc[k], "PS"
                )
                pairs.append(pair.long())
                shifts.append(shift)
                counts.append(len(pair))
        self.pair = torch.cat(pairs).T.contiguous()  # (2, E)
        self.shift = torch.cat(shifts).float()  # (E, 3), in whole cells
        self.count = torch.tensor(counts)
        self.first = self.count.cumsum(0) - self.count

    def edges(self, batch: MoleculeBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Return (i, j, shift) of the batch's edges: its atoms i and j, and j's shift in Å."""
        first, count = self.first[batch.index], self.count[batch.index]
        molecule = torch.repeat_interleave(
            count
        )  # (E,) the place in the batch each edge belongs to
        edge = torch.arange(len(molecule)) + (first - (count.cumsum(0) - count))[molecule]
        i, j = self.pair[:, edge] + batch.ptr[molecule]
        cell = batch.cell.to(self.shift.dtype)[molecule]
        return i, j, torch.einsum("ea,eax->ex", self.shift[edge], cell)


class Potential(nn.Module):
    """Energies as sums over atoms, each seen through two rounds of messages from its neighbors.

    A message depends on the distance and on the sender alone, so the energy does not change when
    the structure is moved or turned; forces are its exact derivative.

    Args:
        reference: (119,) energy of one atom by atomic number, in eV; the network learns the rest.
        cutoff: in Å; messages fade to nothing there.
    """

    reference: Tensor
    frequencies: Tensor

    def __init__(
        self,
        reference: Tensor,
        cutoff: float,
        channels: int = 32,
        n_radial: int = 12,
        rounds: int = 2,
    ) -> None:
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("reference", reference)
        self.register_buffer("frequencies", torch.arange(1, n_radial + 1) * math.pi / cutoff)
        self.embedding = nn.Embedding(len(reference), channels)
        self.filters = nn.ModuleList(
            nn.Linear(n_radial, channels, bias=False) for _ in range(rounds)
        )
        self.gates = nn.ModuleList(nn.Linear(channels, channels) for _ in range(rounds))
        self.updates = nn.ModuleList(perceptron(channels, channels) for _ in range(rounds))
        self.readout = perceptron(channels, 1)

    def radial_basis(self, distance: Tensor) -> Tensor:
        """Expand distances (E,) in sine waves (E, n_radial) that end smoothly at the cutoff."""
        x = (distance / self.cutoff).unsqueeze(-1)
        switch = (1 - x**2) ** 2 * (x < 1)
        return switch * torch.sin(self.frequencies * distance.unsqueeze(-1)) / x

    def atom_energies(self, numbers: Tensor, i: Tensor, j: Tensor, distance: Tensor) -> Tensor:
        """Return (N,) what each atom adds to the energy, besides its reference."""
        basis = self.radial_basis(distance)
        state = self.embedding(numbers)
        for filter_, gate, update in zip(self.filters, self.gates, self.updates, strict=True):
            messages = filter_(basis) * state[j]
            received = torch.zeros_like(state).index_add_(0, i, messages)
            state = state + update(received * gate(state))
        return self.readout(state).squeeze(-1)

    def forward(self, batch: MoleculeBatch, neighbors: NeighborTable) -> tuple[Tensor, Tensor]:
        """Return energies (B,) in eV as float64, and forces (N, 3) in eV/Å."""
        positions = batch.positions.detach().requires_grad_()
        i, j, shift = neighbors.edges(batch)
        distance = (positions[j] - positions[i] + shift).norm(dim=-1)
        atoms = self.atom_energies(batch.atomic_numbers, i, j, distance)
        (gradient,) = torch.autograd.grad(atoms.sum(), positions, create_graph=self.training)
        # Totals in float64: they may be large, and the differences that matter are small.
        energy = self.reference_energy(batch).index_add(0, batch.batch, atoms.double())
        return energy, -gradient

    def reference_energy(self, batch: MoleculeBatch) -> Tensor:
        """Return (B,) float64, the sum of the reference energies of each molecule's atoms."""
        energy = torch.zeros(len(batch), dtype=torch.float64)
        return energy.index_add_(0, batch.batch, self.reference[batch.atomic_numbers])


def perceptron(n_in: int, n_out: int) -> nn.Sequential:
    """Two layers; SiLU, because forces need a smooth derivative."""
    return nn.Sequential(nn.Linear(n_in, n_in), nn.SiLU(), nn.Linear(n_in, n_out))
